//! Layouts that lists of mounts mean, and the names of a task's limits in them.

use expect_test::{Expect, expect};

use super::*;

const V1: &str = "tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
cgroup /sys/fs/cgroup/devices cgroup rw,relatime,devices 0 0
cgroup /sys/fs/cgroup/freezer cgroup rw,relatime,freezer 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,relatime,name=systemd 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0";
const V2: &str = "cgroup2 /nowhere/cgroup cgroup2 rw,nosuid 0 0";

/// Shows a machine's layout and the cgroups of a task of 100 MHz with a limit of 64 MiB, of which 32 are protected.
fn check(mounts: &str, parent: &str, expected: Expect) {
    let shown = match Hierarchy::read(mounts, parent) {
        None => "no cgroups\n".to_owned(),
        Some(found) => {
            let limits = Limits {
                memory_bytes: 64 << 20,
                memory_kept_bytes: 32 << 20,
                cpu_shares: 100,
                cores: &[],
                devices: &["c 1:3 rw"],
            };
            let (limited, unlimited) = (found.limited("a.web.scope", &limits), found.unlimited("a.web.scope"));
            let head = format!("{} at {}, tasks below {}\n", found.version(), found.mount().display(), found.parent());
            let named =
                unlimited.at.dirs().into_iter().map(|dir| format!("unlimited {}\n", dir.display())).collect::<String>();
            let made =
                limited.at.dirs().into_iter().map(|dir| format!("limited {}\n", dir.display())).collect::<String>();
            let set = limited.settings.iter().map(|set| {
                let need = if set.needed { "" } else { " if it can" };
                format!("{} = {}{need}\n", set.file.display(), set.value)
            });
            // In version 2 the check creates the parent, which needs a real mount.
            let lacks = if found.version() == "v1" { format!("lacks {:?}\n", found.lacks()) } else { String::new() };
            head + &named + &made + &set.collect::<String>() + &lacks
        }
    };
    expected.assert_eq(&shown);
}

#[test]
fn controllers_mounted_apart_are_version_1_also_beside_a_unified_mount() {
    check(
        V1,
        "",
        expect![[r#"
        v1 at /sys/fs/cgroup, tasks below /nomad
        unlimited /sys/fs/cgroup/freezer/nomad/a.web.scope
        limited /sys/fs/cgroup/cpu,cpuacct/nomad/a.web.scope
        limited /sys/fs/cgroup/devices/nomad/a.web.scope
        limited /sys/fs/cgroup/freezer/nomad/a.web.scope
        limited /sys/fs/cgroup/memory/nomad/a.web.scope
        /sys/fs/cgroup/memory/nomad/a.web.scope/memory.limit_in_bytes = 67108864
        /sys/fs/cgroup/memory/nomad/a.web.scope/memory.memsw.limit_in_bytes = 67108864 if it can
        /sys/fs/cgroup/memory/nomad/a.web.scope/memory.swappiness = 0 if it can
        /sys/fs/cgroup/memory/nomad/a.web.scope/memory.soft_limit_in_bytes = 33554432 if it can
        /sys/fs/cgroup/cpu,cpuacct/nomad/a.web.scope/cpu.shares = 100
        /sys/fs/cgroup/devices/nomad/a.web.scope/devices.deny = a
        /sys/fs/cgroup/devices/nomad/a.web.scope/devices.allow = c 1:3 rw
        lacks None
    "#]],
    );
}

#[test]
fn the_unified_layout_has_one_directory() {
    check(
        V2,
        "",
        expect![[r#"
        v2 at /nowhere/cgroup, tasks below nomad.slice
        unlimited /nowhere/cgroup/nomad.slice/a.web.scope
        limited /nowhere/cgroup/nomad.slice/a.web.scope
        /nowhere/cgroup/nomad.slice/a.web.scope/memory.max = 67108864
        /nowhere/cgroup/nomad.slice/a.web.scope/memory.swap.max = 0 if it can
        /nowhere/cgroup/nomad.slice/a.web.scope/memory.low = 33554432
        /nowhere/cgroup/nomad.slice/a.web.scope/cpu.weight = 4
    "#]],
    );
}

#[test]
fn configured_cgroup_parent_stays_below_the_mount() {
    check(
        V2,
        "../our/tasks.slice",
        expect![[r#"
        v2 at /nowhere/cgroup, tasks below our/tasks.slice
        unlimited /nowhere/cgroup/our/tasks.slice/a.web.scope
        limited /nowhere/cgroup/our/tasks.slice/a.web.scope
        /nowhere/cgroup/our/tasks.slice/a.web.scope/memory.max = 67108864
        /nowhere/cgroup/our/tasks.slice/a.web.scope/memory.swap.max = 0 if it can
        /nowhere/cgroup/our/tasks.slice/a.web.scope/memory.low = 33554432
        /nowhere/cgroup/our/tasks.slice/a.web.scope/cpu.weight = 4
    "#]],
    );
}

#[test]
fn unmounted_cgroup_controller_is_reported_as_lacking() {
    check(
        "cgroup /cg/cpu cgroup rw,cpu 0 0",
        "/x",
        expect![[r#"
        v1 at /cg, tasks below /x
        limited /cg/cpu/x/a.web.scope
        /cg/cpu/x/a.web.scope/cpu.shares = 100
        lacks Some("memory")
    "#]],
    );
}

#[test]
fn host_without_cgroup_mounts_has_no_hierarchy() {
    check(
        "tmpfs /sys/fs/cgroup tmpfs rw 0 0",
        "",
        expect![[r#"
        no cgroups
    "#]],
    );
}

#[test]
fn shares_become_weights_from_1_to_10000() {
    assert_eq!([2, 100, 1024, 262_144].map(weight), [1, 4, 39, 10_000]);
}
