//! The cgroups of real processes on this machine: killed while they fork, removed with all cgroups below, limited.
//! Only root may create cgroups: without root these tests pass with a message, or fail where the environment variable
//! `CI` is set.

use std::process::{Child, Command, Stdio};

use expect_test::expect;

use super::hierarchy::{Hierarchy, Limits};
use super::*;
use crate::executor::tests::{is_root, skip};

/// This machine's cgroups below a parent of the test's own; `None` when there are none, with a message.
fn machine(story: &str) -> Option<Hierarchy> {
    if !is_root("only root may make cgroups") {
        return None;
    }
    let found = Hierarchy::find(&format!("songline-test-{}-{story}", std::process::id()));
    let usable = found.filter(|found| found.lacks().is_none());
    if usable.is_none() {
        skip("this machine has no cgroups that limit");
    }
    usable
}

/// A shell in the cgroups. Its script begins once the shell is in.
fn shell(cgroups: &Cgroups, script: &str) -> Child {
    let mut child = Command::new("/bin/sh")
        .args(["-c", &format!("read go; {script}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("runs");
    cgroups.join(child.id()).expect("joins");
    drop(child.stdin.take());
    child
}

/// Removes the parents as well: they belong to the test.
fn clean(cgroups: &Cgroups) {
    cgroups.end();
    let left: Vec<_> = cgroups.dirs().into_iter().filter(|dir| dir.exists()).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    for parent in cgroups.dirs().into_iter().filter_map(Path::parent) {
        let _ = fs::remove_dir(parent);
    }
}

#[test]
fn cgroup_kill_reaches_processes_that_fork_and_change_session() {
    let Some(machine) = machine("kill") else { return };
    let new = machine.unlimited("task.scope");
    new.make().expect("made");
    let mut child = shell(
        &new.at,
        "i=0; while [ $i -lt 40 ]; do setsid sh -c 'while :; do sleep 0.01 & done' & i=$((i+1)); done; echo; wait",
    );
    let mut said = [0];
    io::Read::read_exact(child.stdout.as_mut().expect("piped"), &mut said).expect("all have begun");
    assert!(new.at.members().len() > 20);
    new.at.kill();
    assert_eq!(new.at.members(), BTreeSet::new());
    child.wait().expect("ended");
    clean(&new.at);
}

#[test]
fn cgroups_created_by_a_task_are_removed_at_its_end() {
    let Some(machine) = machine("nested") else { return };
    let new = machine.unlimited("task.scope");
    new.make().expect("made");
    let own = new.at.of("freezer").expect("is there").to_owned();
    fs::create_dir_all(own.join("its/own")).expect("made");
    let mut child = shell(&new.at, "exec sleep 1000");
    fs::write(own.join("its/own/cgroup.procs"), child.id().to_string()).expect("moves");
    assert_eq!(new.at.members().into_iter().collect::<Vec<_>>(), [i32::try_from(child.id()).expect("small")]);
    // No wait for its end is needed: a killed process leaves its cgroup by itself.
    new.at.end();
    assert!(!own.exists());
    child.wait().expect("ended");
    clean(&new.at);
}

#[test]
fn process_above_its_memory_limit_is_killed_and_counted() {
    let Some(machine) = machine("limits") else { return };
    let limits =
        Limits { memory_bytes: 16 << 20, memory_kept_bytes: 8 << 20, cpu_shares: 250, cores: &[0], devices: &[] };
    let new = machine.limited("task.scope", &limits);
    new.make().expect("made");
    for Setting { file, value, needed } in &new.settings {
        if *needed {
            assert_eq!(fs::read_to_string(file).expect("readable").trim(), value, "{}", file.display());
        }
    }
    // `tail` keeps a line of 64 MiB in memory.
    let mut child = shell(&new.at, "head -c 67108864 /dev/zero | tr '\\0' x | tail -n 1 > /dev/null");
    assert!(!child.wait().expect("ended").success());
    assert!(new.at.oom_kills() > 0);
    let usage = new.at.usage().expect("counted");
    assert!(usage.usage_max_bytes <= 16 << 20 && usage.usage_max_bytes > 12 << 20, "{usage:?}");
    // Created anew, the cgroup has a new counter.
    new.make().expect("made again");
    assert_eq!(new.at.oom_kills(), 0);
    clean(&new.at);
}

#[test]
fn a_limit_that_the_kernel_refuses_is_an_error_that_names_it() {
    let Some(machine) = machine("refused") else { return };
    let new = machine.limited("task.scope", &Limits { cores: &[99_999], ..Limits::default() });
    let error = new.make().expect_err("no machine has so many").to_string();
    let (head, file) = error.split_once(" to ").expect("says where");
    expect!["writing 99999"].assert_eq(head);
    assert!(file.contains("cpuset.cpus: "), "{error}");
    clean(&new.at);
}
