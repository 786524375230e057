//! Mounts of tasks from the volumes of their group and of the node.

use std::sync::Arc;

use expect_test::{Expect, expect};
use songline_model::{Job, TaskGroup};

use super::*;

fn check(mounts_of_task: &[(&str, &str, &str)], driver_mounts: bool, expected: Expect) {
    let volume = |path: &str, read_only| ClientHostVolumeConfig { path: path.into(), read_only, ..Default::default() };
    let known = BTreeMap::from([
        ("data".into(), volume("/srv/data", false)),
        ("fixed".into(), volume("/srv/fixed", true)),
        ("disk[3]".into(), volume("/srv/disk3", false)),
    ]);
    let request = |kind: &str, source: &str| VolumeRequest {
        kind: kind.into(),
        source: source.into(),
        ..VolumeRequest::default()
    };
    let requests = BTreeMap::from([
        ("d".into(), request("host", "data")),
        ("r".into(), VolumeRequest { read_only: true, ..request("host", "data") }),
        ("f".into(), request("host", "fixed")),
        ("i".into(), VolumeRequest { per_alloc: true, ..request("host", "disk") }),
        ("gone".into(), request("host", "gone")),
        ("c".into(), VolumeRequest { read_only: true, ..request("csi", "c") }),
        ("unclaimed".into(), request("csi", "u")),
    ]);
    let volume_mounts = mounts_of_task.iter().map(|(volume, destination, mode)| VolumeMount {
        volume: (*volume).into(),
        destination: (*destination).into(),
        propagation_mode: (*mode).into(),
        read_only: false,
    });
    let task = Task {
        name: "t".into(),
        driver: "exec".into(),
        volume_mounts: Some(volume_mounts.collect()),
        ..Task::default()
    };
    let group = TaskGroup { name: "g".into(), volumes: Some(requests), ..TaskGroup::default() };
    let alloc = Allocation {
        name: "job.g[3]".into(),
        task_group: "g".into(),
        job: Some(Arc::new(Job { task_groups: Some(vec![group]), ..Job::default() })),
        ..Allocation::default()
    };
    let mut env = TaskEnv::default();
    env.vars.insert("NOMAD_TASK_NAME".to_owned(), "t".to_owned());
    let csi = BTreeMap::from([("c".into(), "/state/csi/c".into())]);
    let known = Known { host: &known, csi: &csi };
    let told = match mounts(known, &alloc, &task, driver_mounts, &env) {
        Ok(mounts) => mounts
            .iter()
            .map(|mount| {
                let how = if mount.read_only { "read-only" } else { "writable" };
                format!("{} at {} {how} {:?}", mount.from.display(), mount.to.display(), mount.propagation)
            })
            .collect::<Vec<_>>()
            .join("\n"),
        Err(error) => error,
    };
    expected.assert_eq(&told);
}

#[test]
fn volume_is_read_only_if_the_node_the_group_or_the_mount_says_so() {
    check(
        &[("d", "/d", "private"), ("r", "/${NOMAD_TASK_NAME}-r", "host-to-task"), ("f", "f", "bidirectional")],
        true,
        expect![[r#"
            /srv/data at /d writable Private
            /srv/data at /t-r read-only HostToTask
            /srv/fixed at f read-only Bidirectional"#]],
    );
}

#[test]
fn volume_of_each_alloc_has_the_index_of_the_alloc_in_its_name() {
    check(&[("i", "/i", "")], true, expect![[r#"/srv/disk3 at /i writable Private"#]]);
}

#[test]
fn csi_volume_is_mounted_from_its_place_on_this_machine() {
    check(&[("c", "/c", "host-to-task")], true, expect![[r#"/state/csi/c at /c read-only HostToTask"#]]);
}

#[test]
fn volume_that_cannot_be_mounted_is_refused_with_its_reason() {
    check(&[("gone", "/g", "")], true, expect![[r#"host volume validation error: missing gone"#]]);
    check(&[("unclaimed", "/u", "")], true, expect![[r#"No CSI Mount Point found for volume: unclaimed"#]]);
    check(&[("c", "/c", "")], false, expect![[r#"task driver "exec" for "t" does not support CSI volumes"#]]);
    check(&[("none", "/n", "")], true, expect![[r#"volume "none" is not one of the group's volumes"#]]);
    check(&[("d", "/d", "odd")], true, expect![[r#"volume mount has an invalid propagation mode: "odd""#]]);
    check(&[("d", "/d", "")], false, expect![[r#"task driver "exec" for "t" does not support host volumes"#]]);
}
