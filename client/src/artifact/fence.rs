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
use rustix::mount::MountPropagationFlags;
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use rustix::thread::{Gid, Uid, UnshareFlags};

use crate::beneath::Dir;

/// User and group of the fetching process of an agent that runs as root. No distribution and no service manager
/// assigns this number (systemd's table of users has 65520 to 65533 as unused), and tasks run as other users:
/// `nobody` is 65534.
pub(super) const FETCH_ID: u32 = 65533;
/// Directory that the staging directory is mounted at for programs: it exists everywhere, and every user may enter it.
const PROGRAMS_STAGING: &str = "/tmp";
/// Users that programs see: `ssh` refuses to work for a user that it does not find.
const PROGRAMS_USERS: &str = "root:x:0:0:root:/:/bin/false\nfetch:x:65533:65533:fetch:/tmp:/bin/false\n";
/// Most memory of a process that runs no programs, in bytes. Headers of archives ask for memory.
const MEMORY_MAX: u64 = 4 << 30;
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

/// Further files that programs need to run. Nothing below the staging directory may be executed.
const PROGRAMS: [&str; 13] = [
    "/bin",
    "/usr/bin",
    "/usr/libexec",
    "/usr/local/bin",
    "/usr/local/lib",
    "/usr/local/libexec",
    "/usr/share/git-core",
    "/usr/share/mercurial",
    "/etc/mercurial",
    "/etc/passwd",
    "/etc/ssh/ssh_config",
    "/etc/ssh/ssh_config.d",
    "/dev/urandom",
];
/// File that programs read and write.
const NULL: &str = "/dev/null";

/// Wanted confinement.
pub(super) struct Fence {
    /// Largest file that may be written, in bytes.
    pub file_bytes_max: u64,
    /// Whether programs of this machine may run.
    pub runs_programs: bool,
    /// Whether Landlock is used.
    pub landlock: bool,
}

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
pub(super) fn enter(staging: &Path, wanted: &Fence) -> Result<Dir, FenceError> {
    rustix::process::chdir(staging).map_err(failed("entering the staging directory"))?;
    let is_root = rustix::process::geteuid().is_root();
    if wanted.runs_programs && is_root {
        move_staging()?;
    }
    let limit = |resource, most| {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        rustix::process::setrlimit(resource, limit).map_err(failed("limiting resources"))
    };
    limit(Resource::Core, 0)?;
    limit(Resource::Fsize, wanted.file_bytes_max)?;
    if !wanted.runs_programs {
        limit(Resource::As, MEMORY_MAX)?;
    }
    rustix::thread::set_no_new_privs(true).map_err(failed("giving up new privileges"))?;
    if is_root {
        drop_user()?;
    }
    // Another process of the same user must not look into this one's memory, which may hold headers with passwords.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(failed("hiding memory"))?;
    let dir = Dir::open(Path::new(".")).map_err(failed("opening the staging directory"))?;
    if wanted.landlock {
        restrict(wanted.runs_programs)?;
    }
    Ok(dir)
}

/// Mounts the staging directory at a path whose parents every user may pass, in a mount namespace of this process:
/// programs name files by whole paths. Hides the machine's users.
fn move_staging() -> Result<(), FenceError> {
    let told = failed("mounting the staging directory");
    let users = Path::new("users");
    std::fs::write(users, PROGRAMS_USERS).map_err(failed("writing the users of programs"))?;
    #[allow(unsafe_code)]
    // SAFETY: the flag does not unshare the table of file descriptors, which is what the function warns of.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.map_err(&told)?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).map_err(&told)?;
    rustix::mount::mount_bind(users, "/etc/passwd").map_err(&told)?;
    rustix::mount::mount_bind(".", PROGRAMS_STAGING).map_err(&told)?;
    rustix::process::chdir(PROGRAMS_STAGING).map_err(told)
}

fn drop_user() -> Result<(), FenceError> {
    let (uid, gid) = (Uid::from_raw(FETCH_ID), Gid::from_raw(FETCH_ID));
    rustix::thread::set_thread_groups(&[]).map_err(failed("leaving all groups"))?;
    rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(failed("becoming a group without rights"))?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(failed("becoming a user without rights"))
}

/// Restricts this process with Landlock. A kernel without Landlock leaves the process with the rights of a user that
/// owns nothing.
fn restrict(runs_programs: bool) -> Result<(), FenceError> {
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
        let of_programs = PROGRAMS.iter().filter(|_| runs_programs);
        if runs_programs && let Ok(null) = PathFd::new(NULL) {
            rules = rules.add_rule(PathBeneath::new(null, AccessFs::ReadFile | AccessFs::WriteFile))?;
        }
        for path in READABLE.iter().chain(of_programs) {
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
        let fence = Fence { file_bytes_max: 1 << 20, runs_programs: false, landlock: true };
        let dir = enter(staging, &fence).expect("puts up the fence");
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
