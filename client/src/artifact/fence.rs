//! Confinement of the process that fetches artifacts: removes every right that downloading and unpacking do not need.
//!
//! The process parses untrusted input (HTTP, TLS, archives). A flaw in such a parser must not reach the node: the
//! process runs as no user of the node, cannot regain privileges, writes only below its staging directory, and reads
//! only what name resolution and TLS need.

use std::io;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use rustix::thread::{Gid, Uid};

use crate::beneath::Dir;

/// User and group of the fetching process of an agent that runs as root. No distribution and no service manager
/// assigns this number (systemd's table of users has 65520 to 65533 as unused), and tasks run as other users:
/// `nobody` is 65534.
pub(super) const FETCH_ID: u32 = 65533;
/// The Landlock version whose rights are asked for; an older kernel enforces those that it knows.
const LANDLOCK: ABI = ABI::V6;
/// The files that resolving names, checking certificates and loading the C library's resolver read. Absent ones are
/// skipped.
const READABLE: [&str; 18] = [
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/run/systemd/resolve",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
];

/// Failure to confine the process. Nothing may be fetched after it.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {source}")]
pub(super) struct FenceError {
    doing: &'static str,
    source: io::Error,
}

fn failed<E: Into<Box<dyn std::error::Error + Send + Sync>>>(doing: &'static str) -> impl Fn(E) -> FenceError {
    move |source| FenceError { doing, source: io::Error::other(source) }
}

/// Confines this process, which must have one thread only, to `staging`, and makes that its working directory. Returns
/// the open directory.
///
/// The order matters. The directory is entered while this process may still pass its parents. Privileges are dropped
/// before Landlock, because a process without them may restrict itself only after `no_new_privs`. Threads are started
/// last, because they inherit the fence.
pub(super) fn enter(staging: &Path, file_bytes_max: u64) -> Result<Dir, FenceError> {
    rustix::process::chdir(staging).map_err(failed("entering the staging directory"))?;
    let limit = |resource, most| {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        rustix::process::setrlimit(resource, limit).map_err(failed("limiting resources"))
    };
    limit(Resource::Core, 0)?;
    limit(Resource::Fsize, file_bytes_max)?;
    rustix::thread::set_no_new_privs(true).map_err(failed("giving up new privileges"))?;
    if rustix::process::geteuid().is_root() {
        drop_user()?;
    }
    // Another process of the same user must not look into this one's memory, which may hold headers with passwords.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(failed("hiding memory"))?;
    let dir = Dir::open(Path::new(".")).map_err(failed("opening the staging directory"))?;
    restrict()?;
    Ok(dir)
}

fn drop_user() -> Result<(), FenceError> {
    let (uid, gid) = (Uid::from_raw(FETCH_ID), Gid::from_raw(FETCH_ID));
    rustix::thread::set_thread_groups(&[]).map_err(failed("leaving all groups"))?;
    rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(failed("becoming a group without rights"))?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(failed("becoming a user without rights"))
}

/// Restricts this process with Landlock. A kernel without Landlock leaves the process with the rights of a user that
/// owns nothing.
fn restrict() -> Result<(), FenceError> {
    let all = AccessFs::from_all(LANDLOCK);
    // Fetched files need no sockets, devices or FIFOs.
    let staged =
        all & !(AccessFs::MakeSock | AccessFs::MakeFifo | AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::Execute);
    let rules = || -> Result<_, Box<dyn std::error::Error + Send + Sync>> {
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(all)?
            .handle_access(AccessNet::BindTcp)?
            .scope(Scope::from_all(LANDLOCK))?
            .create()?
            .add_rule(PathBeneath::new(PathFd::new(".")?, staged))?;
        for path in READABLE {
            // Most machines have only some of these files.
            if let Ok(file) = PathFd::new(path) {
                // `execute` lets the C library map its resolver modules.
                let read = AccessFs::from_read(LANDLOCK);
                rules = rules.add_rule(PathBeneath::new(file, read))?;
            }
        }
        Ok(rules.restrict_self()?)
    };
    let status = rules().map_err(failed("restricting itself with Landlock"))?;
    if status.ruleset == RulesetStatus::NotEnforced {
        tracing::debug!("this kernel has no Landlock; artifacts are fetched without it");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Names the staging directory to a run of this test in a process of its own.
    const STAGING: &str = "SONGLINE_TEST_STAGING";

    /// Confinement cannot be undone, so this test starts itself again as a separate process and confines that one.
    #[test]
    fn confined_fetcher_writes_only_in_staging_and_reads_no_host_file() {
        if let Some(staging) = std::env::var_os(STAGING) {
            return look_from_inside(Path::new(&staging));
        }
        let dir = tempfile::tempdir().expect("a directory");
        let staging = dir.path().join("staging");
        std::fs::create_dir(&staging).expect("makes");
        // Every user may enter and write here, so that only the confinement can refuse it.
        for open in [dir.path(), &staging] {
            std::fs::set_permissions(open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("opens");
        }
        std::fs::write(dir.path().join("readable"), "of the host").expect("writes");
        let own = std::env::current_exe().expect("is known");
        let name = "artifact::fence::tests::confined_fetcher_writes_only_in_staging_and_reads_no_host_file";
        let run =
            Command::new(own).args(["--exact", name, "--nocapture"]).env(STAGING, &staging).output().expect("runs");
        let said = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{said}");
        assert!(said.contains("1 passed"), "{said}");
        assert_eq!(std::fs::read_to_string(staging.join("inside")).expect("is there"), "written");
        assert!(!dir.path().join("outside").exists());
    }

    fn look_from_inside(staging: &Path) {
        let dir = enter(staging, 1 << 20).expect("puts up the fence");
        dir.create("inside", 0o644)
            .and_then(|mut file| std::io::Write::write_all(&mut file, b"written"))
            .expect("may write inside");
        let refused = |error: io::Error| assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        if rustix::process::geteuid().as_raw() == FETCH_ID {
            refused(std::fs::read("/etc/shadow").expect_err("is not readable"));
        }
        if !std::fs::read_to_string("/sys/kernel/security/lsm").is_ok_and(|all| !all.contains("landlock")) {
            refused(std::fs::write(staging.join("../outside"), "x").expect_err("may not write outside"));
            refused(std::fs::read(staging.join("../readable")).expect_err("may not read outside"));
            refused(std::fs::read("/etc/passwd").expect_err("may not read the host's users"));
            refused(std::net::TcpListener::bind("127.0.0.1:0").expect_err("may not listen"));
        }
        std::fs::read("/etc/hosts").expect("may read what resolving needs");
    }
}
