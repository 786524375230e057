//! The node agent reaches files below an allocation's directory only through `client/src/beneath`, which follows no
//! link out of it. Modules that access other files of the host by path are listed here, each with the reason. Not here:
//! the opened files, which the attacks of `client/tests/agent/escapes.rs` check.

use anyhow::Result;

use crate::tree;

/// Texts of code that accesses files by path.
const BY_PATH: &[&str] = &[
    "std::fs",
    "tokio::fs",
    " fs::",
    "(fs::",
    "!fs::",
    "File::open(",
    "File::create(",
    "OpenOptions",
    "DirBuilder",
    "set_permissions(",
    ".canonicalize(",
    ".read_link(",
    ".read_dir(",
    ".symlink_metadata(",
    ".exists(",
    ".is_dir()",
    ".is_file()",
    "rustix::fs::open(",
    "rustix::fs::CWD",
];
/// Texts of code that uses open files only.
const OPEN_ALREADY: &[&str] = &["use std::fs::File;", "std::fs::Metadata", "tokio::fs::File::from_std("];

/// Modules that may access files by path, and the files they access.
const MAY: &[(&str, &str)] = &[
    ("client/src/beneath.rs", "the one way to files of allocations"),
    ("client/src/beneath/", "the one way to files of allocations"),
    ("client/src/agent.rs", "makes the agent's own directories, and looks for the operator's host volumes"),
    ("client/src/agent/machine.rs", "the machine's own id"),
    ("client/src/cgroup.rs", "files of the cgroup file system"),
    ("client/src/cgroup/", "files of the cgroup file system"),
    (
        "client/src/artifact/fence.rs",
        "opens the files of the host that the fetching process may read, before it can open no others",
    ),
    ("client/src/driver/docker.rs", "notes about runs, in the agent's own state"),
    ("client/src/driver/docker/auth.rs", "the operator's file with credentials of registries"),
    ("client/src/driver/docker/dangling.rs", "looks which allocations have a directory"),
    ("client/src/driver/docker/logs.rs", "cursors of output, in the agent's own state"),
    (
        "client/src/driver/docker/start.rs",
        "notes about runs and files for containers, in the agent's own state, and profiles of system calls of the host",
    ),
    ("client/src/driver/isolated.rs", "looks which directories and devices of the host there are"),
    ("client/src/driver/programs.rs", "looks for programs of the host"),
    ("client/src/driver/raw_exec.rs", "looks for programs of the host"),
    ("client/src/driver/session.rs", "reports of sessions, in the agent's own state"),
    ("client/src/executor.rs", "the pipe of orders, in the agent's own state"),
    ("client/src/executor/", "mounts, users, namespaces, and the directory of a run, in the agent's own state"),
    ("client/src/fingerprint.rs", "files of /proc, /sys and /etc"),
    ("client/src/network.rs", "the host's settings of name resolution"),
    (
        "client/src/network/",
        "namespaces, plugins and their configurations, /proc and /sys, and records in the agent's own state",
    ),
    ("client/src/procfs.rs", "files of /proc"),
    ("client/src/state/shown.rs", "the agent's own database, and a copy of it"),
    ("client/src/stats.rs", "files of /proc"),
];

#[test]
fn files_of_allocations_are_reached_through_one_module() -> Result<()> {
    let mut complaints = Vec::new();
    let files = tree::files(&[".rs"])?;
    for file in files.iter().filter(|file| file.path.starts_with("client/src/")) {
        let allowed = MAY
            .iter()
            .any(|(path, _)| if path.ends_with('/') { file.path.starts_with(path) } else { file.path == *path });
        if allowed {
            continue;
        }
        for (at, line) in file.code() {
            let open = OPEN_ALREADY.iter().fold(line.to_owned(), |line, word| line.replace(word, ""));
            for word in BY_PATH.iter().filter(|word| open.contains(**word)) {
                complaints.push(format!(
                    "{}:{at}: {word}: use crate::beneath::Dir, or say here what else it touches",
                    file.path
                ));
            }
        }
    }
    for (path, _) in MAY {
        if !files.iter().any(|file| file.path.starts_with(path)) {
            complaints.push(format!("{path} is not there any more"));
        }
    }
    tree::no_complaints(complaints)
}
