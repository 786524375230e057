//! Step "seccomp": the filter of system calls of an isolated task.
//!
//! Attack that it stops: a task that reaches a fault of the kernel through a call that ordinary programs never make
//! (`bpf`, `io_uring`, `userfaultfd`, new namespaces, kernel keys), or that makes a device node with `mknod` on a disk
//! of the host. The filter stays for the life of the task, and everything that the task starts has it. Programs for
//! another architecture (32-bit ones on a 64-bit machine) are killed.

mod profile;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use super::capabilities::Set;
use profile::{ALWAYS, ALWAYS_HERE, Calls, FIRST_UNKNOWN, WITH_CAPABILITY};

/// The last number that is answered with `ENOSYS`. No kernel has calls with higher numbers yet.
const LAST_UNKNOWN: c_long = 511;
/// The flags of `clone` that make namespaces.
const NAMESPACE_FLAGS: u64 = 0x7E02_0000;
/// Values that `personality` may be called with: Linux, with or without an old `uname`, and the value that only asks.
const PERSONALITIES: [u64; 5] = [0x0, 0x8, 0x2_0000, 0x2_0008, 0xFFFF_FFFF];
/// Address family of sockets to the hypervisor, which are refused. Other families are left to the kernel's own checks.
const AF_VSOCK: u64 = 40;
/// The bits of a mode that say what kind of file `mknod` makes.
const FILE_KIND: u64 = 0o170_000;
/// Kinds of files that are no devices: unspecified, regular, FIFO, socket.
const HARMLESS_KINDS: [u64; 4] = [0, 0o100_000, 0o010_000, 0o140_000];

/// Loads the filter for the calling thread and everything that it starts. `bounding`: the task's bounding set, on which
/// some calls depend. Sets `no_new_privs`, without which loading a filter needs privileges.
pub(super) fn load(bounding: Set) -> io::Result<()> {
    let programs =
        programs(bounding).map_err(|error| io::Error::other(format!("compiling the seccomp filter: {error}")))?;
    for program in programs {
        seccompiler::apply_filter(&program)
            .map_err(|error| io::Error::other(format!("loading the seccomp filter: {error}")))?;
    }
    Ok(())
}

/// The filters in the order in which they are loaded. Of two filters that refuse a call, the later one decides the
/// error.
fn programs(bounding: Set) -> Result<[BpfProgram; 2], BackendError> {
    let errno = |number: i32| SeccompAction::Errno(number.unsigned_abs());
    let arch = std::env::consts::ARCH.try_into()?;
    let allowed = SeccompFilter::new(allowed(bounding)?, errno(libc::EPERM), SeccompAction::Allow, arch)?;
    let absent = SeccompFilter::new(absent(bounding), SeccompAction::Allow, errno(libc::ENOSYS), arch)?;
    Ok([allowed.try_into()?, absent.try_into()?])
}

/// System calls that are allowed, with their conditions. A call without conditions is always allowed.
fn allowed(bounding: Set) -> Result<BTreeMap<c_long, Vec<SeccompRule>>, BackendError> {
    let mut rules = BTreeMap::new();
    let mut always = |calls: Calls| rules.extend(calls.iter().map(|call| (*call, Vec::new())));
    always(ALWAYS);
    always(ALWAYS_HERE);
    for (capability, calls) in WITH_CAPABILITY {
        if bounding.has(capability) {
            always(calls);
        }
    }
    let free = bounding.has("sys_admin");
    rules.insert(libc::SYS_clone, if free { Vec::new() } else { vec![rule(0, MaskedEq(NAMESPACE_FLAGS), 0)?] });
    rules.insert(libc::SYS_socket, vec![rule(0, Ne, AF_VSOCK)?]);
    rules.insert(
        libc::SYS_personality,
        PERSONALITIES.into_iter().map(|which| rule(0, Eq, which)).collect::<Result<_, _>>()?,
    );
    // The engines' profile allows device nodes to tasks with the capability and lets the device cgroup refuse their
    // use. A node on a disk of the host could be used from outside the task, where that cgroup does not reach, so it is
    // refused here.
    let harmless = |mode: u8| {
        HARMLESS_KINDS.into_iter().map(|kind| rule(mode, MaskedEq(FILE_KIND), kind)).collect::<Result<Vec<_>, _>>()
    };
    rules.insert(libc::SYS_mknodat, harmless(2)?);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_mknod, harmless(1)?);
    Ok(rules)
}

/// System calls that are answered with `ENOSYS`, as by a kernel that does not know them.
fn absent(bounding: Set) -> BTreeMap<c_long, Vec<SeccompRule>> {
    // The flags of `clone3` are behind a pointer, where no filter sees them. Programs fall back to `clone`.
    let clone3 = (!bounding.has("sys_admin")).then_some(libc::SYS_clone3);
    clone3.into_iter().chain(FIRST_UNKNOWN..=LAST_UNKNOWN).map(|call| (call, Vec::new())).collect()
}

/// Makes a rule that holds when the argument `at` compares with `value` as `how` says. Arguments of these calls are 32
/// bits wide.
fn rule(at: u8, how: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(at, SeccompCmpArgLen::Dword, how, value)?])
}
