//! Tests of diffs in a readable form: one line per difference.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::{
    DesiredUpdates, Dur, NetworkResource, PlanAnnotations, Port, Resources, ScalingPolicy, Service, Task, TaskGroup,
    Template,
};

fn job() -> Job {
    let task = Task {
        name: "t".into(),
        driver: "exec".into(),
        config: Some(BTreeMap::from([
            ("command".into(), json!("sleep")),
            ("args".into(), json!(["1", 2.5, 3_000_000, null])),
        ])),
        env: Some(BTreeMap::from([("A".into(), "1".into())])),
        resources: Some(Resources { cpu: 100, memory_mb: 300, ..Default::default() }),
        kill_timeout: Dur::from_secs(5),
        ..Default::default()
    };
    let network = NetworkResource {
        mode: "bridge".into(),
        dynamic_ports: Some(vec![Port { label: "http".into(), host_network: "default".into(), ..Default::default() }]),
        ..Default::default()
    };
    let service =
        Service { name: "web".into(), port_label: "http".into(), tags: Some(vec!["a".into()]), ..Default::default() };
    let group = TaskGroup {
        name: "g".into(),
        count: 2,
        tasks: Some(vec![task]),
        networks: Some(vec![network]),
        services: Some(vec![service]),
        ..Default::default()
    };
    Job {
        id: "j".into(),
        name: "j".into(),
        datacenters: Some(vec!["dc1".into()]),
        task_groups: Some(vec![group]),
        ..Default::default()
    }
}

fn group(job: &mut Job) -> &mut TaskGroup {
    &mut job.task_groups.as_mut().unwrap()[0]
}

fn task(job: &mut Job) -> &mut Task {
    &mut group(job).tasks.as_mut().unwrap()[0]
}

/// Changes the job and shows the difference, with what each object is made of below it.
fn check(contextual: bool, change: impl FnOnce(&mut Job), expected: Expect) {
    let mut new = job();
    change(&mut new);
    let mut diff = JobDiff::between(Some(&job()), Some(&new), contextual).unwrap();
    diff.annotate(Some(&PlanAnnotations {
        desired_tg_updates: BTreeMap::from([(
            "g".into(),
            DesiredUpdates { ignore: 1, place: 1, ..Default::default() },
        )]),
    }));
    let mut out = format!("{:?} job {}\n", diff.kind, diff.id);
    show(&mut out, 1, &diff.fields, &diff.objects);
    for group in diff.task_groups.iter().flatten() {
        out.push_str(&format!(
            "  {:?} group {} {:?}\n",
            group.kind,
            group.name,
            group.updates.clone().unwrap_or_default()
        ));
        show(&mut out, 2, &group.fields, &group.objects);
        for task in group.tasks.iter().flatten() {
            out.push_str(&format!(
                "    {:?} task {} {:?}\n",
                task.kind,
                task.name,
                task.annotations.clone().unwrap_or_default()
            ));
            show(&mut out, 3, &task.fields, &task.objects);
        }
    }
    expected.assert_eq(&out);
}

fn show(out: &mut String, depth: usize, fields: &Option<Vec<FieldDiff>>, objects: &Option<Vec<ObjectDiff>>) {
    let indent = "  ".repeat(depth);
    for field in fields.iter().flatten() {
        let notes = field.annotations.as_ref().map(|notes| format!(" ({})", notes.join(", "))).unwrap_or_default();
        out.push_str(&format!("{indent}{:?} {}: {:?} -> {:?}{notes}\n", field.kind, field.name, field.old, field.new));
    }
    for object in objects.iter().flatten() {
        out.push_str(&format!("{indent}{:?} {}\n", object.kind, object.name));
        show(out, depth + 1, &object.fields, &object.objects);
    }
}

#[test]
fn job_diff_of_equal_jobs_is_empty() {
    check(
        true,
        |_| {},
        expect![[r#"
            None job j
              None group g {"create": 1, "ignore": 1}
                None task t []
        "#]],
    );
}

#[test]
fn count_change_is_annotated_with_forces_create() {
    check(
        true,
        |job| group(job).count = 3,
        expect![[r#"
            Edited job j
              Edited group g {"create": 1, "ignore": 1}
                Edited Count: "2" -> "3" (forces create)
                None task t []
        "#]],
    );
}

#[test]
fn task_config_diff_shows_unchanged_keys_too() {
    check(
        true,
        |job| {
            task(job).config.as_mut().unwrap().insert("args".into(), json!(["9"]));
        },
        expect![[r#"
            Edited job j
              Edited group g {"create": 1, "ignore": 1}
                Edited task t ["forces create/destroy update"]
                  Edited Config
                    Edited args[0]: "1" -> "9"
                    Deleted args[1]: "2.5" -> ""
                    Deleted args[2]: "3e+06" -> ""
                    Deleted args[3]: "nil" -> ""
                    None command: "sleep" -> "sleep"
        "#]],
    );
}

#[test]
fn kill_timeout_change_forces_an_in_place_update() {
    check(
        false,
        |job| task(job).kill_timeout = Dur::from_secs(6),
        expect![[r#"
            Edited job j
              Edited group g {"create": 1, "ignore": 1}
                Edited task t ["forces in-place update"]
                  Edited KillTimeout: "5000000000" -> "6000000000"
        "#]],
    );
}

#[test]
fn contextual_job_diff_shows_unchanged_fields() {
    let more_memory = |job: &mut Job| task(job).resources.as_mut().unwrap().memory_mb = 400;
    check(
        true,
        more_memory,
        expect![[r#"
            Edited job j
              Edited group g {"create": 1, "ignore": 1}
                Edited task t ["forces create/destroy update"]
                  Edited Resources
                    None CPU: "100" -> "100"
                    None Cores: "0" -> "0"
                    None DiskMB: "0" -> "0"
                    None IOPS: "0" -> "0"
                    Edited MemoryMB: "300" -> "400"
                    None MemoryMaxMB: "0" -> "0"
        "#]],
    );
    check(
        false,
        more_memory,
        expect![[r#"
            Edited job j
              Edited group g {"create": 1, "ignore": 1}
                Edited task t ["forces create/destroy update"]
                  Edited Resources
                    Edited MemoryMB: "300" -> "400"
        "#]],
    );
}

#[test]
fn job_diff_shows_maps_optional_durations_and_text_lists_in_their_own_forms() {
    check(
        false,
        |job| {
            job.datacenters = Some(vec!["dc1".into(), "dc2".into()]);
            group(job).shutdown_delay = Some(Dur::ZERO);
            task(job).env = Some(BTreeMap::from([("A".into(), "2".into()), ("B".into(), "".into())]));
            let service = &mut group(job).services.as_mut().unwrap()[0];
            (service.name, service.tags) = ("www".into(), Some(vec!["b".into()]));
        },
        expect![[r#"
            Edited job j
              Added Datacenters
                Added Datacenters: "" -> "dc2"
              Edited group g {"create": 1, "ignore": 1}
                Added ShutdownDelay: "" -> "0"
                Edited Service
                  Edited Name: "web" -> "www"
                  Edited Tags
                    Added Tags: "" -> "b"
                    Deleted Tags: "a" -> ""
                Edited task t ["forces create/destroy update"]
                  Edited Env[A]: "1" -> "2"
        "#]],
    );
}

#[test]
fn changed_network_is_shown_as_deleted_and_added() {
    check(
        false,
        |job| group(job).networks.as_mut().unwrap()[0].mode = "host".into(),
        expect![[r#"
            Edited job j
              Edited group g {"create": 1, "ignore": 1}
                Added Network
                  Added MBits: "" -> "0"
                  Added Mode: "" -> "host"
                  Added Dynamic Port
                    Added HostNetwork: "" -> "default"
                    Added Label: "" -> "http"
                    Added To: "" -> "0"
                Deleted Network
                  Deleted MBits: "0" -> ""
                  Deleted Mode: "bridge" -> ""
                  Deleted Dynamic Port
                    Deleted HostNetwork: "default" -> ""
                    Deleted Label: "http" -> ""
                    Deleted To: "0" -> ""
                None task t []
        "#]],
    );
}

#[test]
fn renamed_task_is_shown_as_deleted_and_added() {
    check(
        false,
        |job| {
            let mut other = task(job).clone();
            other.name = "u".into();
            group(job).tasks = Some(vec![other]);
        },
        expect![[r#"
            Edited job j
              Edited group g {"create": 1, "ignore": 1}
                Deleted task t ["forces create/destroy update"]
                  Deleted Driver: "exec" -> ""
                  Deleted Env[A]: "1" -> ""
                  Deleted KillTimeout: "5000000000" -> ""
                  Deleted Leader: "false" -> ""
                  Deleted ShutdownDelay: "0" -> ""
                  Deleted Config
                    Deleted args[0]: "1" -> ""
                    Deleted args[1]: "2.5" -> ""
                    Deleted args[2]: "3e+06" -> ""
                    Deleted args[3]: "nil" -> ""
                    Deleted command: "sleep" -> ""
                  Deleted Resources
                    Deleted CPU: "100" -> ""
                    Deleted Cores: "0" -> ""
                    Deleted DiskMB: "0" -> ""
                    Deleted IOPS: "0" -> ""
                    Deleted MemoryMB: "300" -> ""
                    Deleted MemoryMaxMB: "0" -> ""
                Added task u ["forces create/destroy update"]
                  Added Driver: "" -> "exec"
                  Added Env[A]: "" -> "1"
                  Added KillTimeout: "" -> "5000000000"
                  Added Leader: "" -> "false"
                  Added ShutdownDelay: "" -> "0"
                  Added Config
                    Added args[0]: "" -> "1"
                    Added args[1]: "" -> "2.5"
                    Added args[2]: "" -> "3e+06"
                    Added args[3]: "" -> "nil"
                    Added command: "" -> "sleep"
                  Added Resources
                    Added CPU: "" -> "100"
                    Added Cores: "" -> "0"
                    Added DiskMB: "" -> "0"
                    Added IOPS: "" -> "0"
                    Added MemoryMB: "" -> "300"
                    Added MemoryMaxMB: "" -> "0"
        "#]],
    );
}

#[test]
fn diff_of_jobs_with_different_ids_is_refused() {
    let other = Job { id: "k".into(), ..Default::default() };
    let refusal = JobDiff::between(Some(&job()), Some(&other), true).unwrap_err();
    assert_eq!(refusal.to_string(), "can not diff jobs with different IDs: \"j\" and \"k\"");
}

#[test]
fn job_diff_never_shows_spreads() {
    let spread =
        || Some(vec![crate::Spread { attribute: "${node.datacenter}".into(), weight: 50, ..Default::default() }]);
    check(
        true,
        |job| job.spreads = spread(),
        expect![[r#"
        None job j
          None group g {"create": 1, "ignore": 1}
            None task t []
    "#]],
    );
    check(
        true,
        |job| group(job).spreads = spread(),
        expect![[r#"
        Edited job j
          Edited group g {"create": 1, "ignore": 1}
            None task t []
    "#]],
    );
}

#[test]
fn diff_of_a_stopped_job_shows_stop_and_unchanged_groups() {
    check(
        false,
        |job| job.stop = true,
        expect![[r#"
        Edited job j
          Edited Stop: "false" -> "true"
          None group g {"create": 1, "ignore": 1}
            None task t []
    "#]],
    );
}

#[test]
fn changed_template_is_shown_as_edited() {
    let with = |template: Template| {
        let mut job = job();
        task(&mut job).templates = Some(vec![template]);
        job
    };
    let template =
        |text: &str, to: &str| Template { embedded_tmpl: text.into(), dest_path: to.into(), ..Template::default() };
    let told = |old: &Job, new: &Job| {
        let diff = JobDiff::between(Some(old), Some(new), false).unwrap();
        let task = &diff.task_groups.unwrap()[0].tasks.clone().unwrap()[0];
        let mut told = String::new();
        show(&mut told, 0, &None, &task.objects);
        told
    };
    expect![[r#"
        Edited Template
          Edited EmbeddedTmpl: "a" -> "b"
    "#]]
    .assert_eq(&told(&with(template("a", "local/x")), &with(template("b", "local/x"))));
    // Several are matched by their destinations.
    let (mut old, mut new) = (with(template("a", "local/x")), with(template("a", "local/x")));
    task(&mut old).templates.as_mut().unwrap().extend([template("b", "local/y"), template("c", "local/z")]);
    let owned = Template { uid: Some(7), ..template("d", "local/y") };
    task(&mut new).templates.as_mut().unwrap().extend([owned, template("c", "local/w")]);
    expect![[r#"
        Edited Template
          Edited EmbeddedTmpl: "b" -> "d"
          Added Uid: "" -> "7"
        Added Template
          Added DestPath: "" -> "local/w"
          Added EmbeddedTmpl: "" -> "c"
          Added Envvars: "" -> "false"
          Added ErrMissingKey: "" -> "false"
          Added Splay: "" -> "0"
          Added VaultGrace: "" -> "0"
        Deleted Template
          Deleted DestPath: "local/z" -> ""
          Deleted EmbeddedTmpl: "c" -> ""
          Deleted Envvars: "false" -> ""
          Deleted ErrMissingKey: "false" -> ""
          Deleted Splay: "0" -> ""
          Deleted VaultGrace: "0" -> ""
    "#]]
    .assert_eq(&told(&old, &new));
}

#[test]
fn scaling_block_of_a_group_has_a_diff() {
    check(
        false,
        |job| {
            group(job).scaling = Some(ScalingPolicy {
                id: "p".into(),
                max: 10,
                min: 2,
                enabled: true,
                policy: Some(BTreeMap::from([("cooldown".into(), json!("1m")), ("check".into(), json!([{"a": 20}]))])),
                ..ScalingPolicy::default()
            });
        },
        expect![[r#"
            Edited job j
              Edited group g {"create": 1, "ignore": 1}
                Added Scaling
                  Added Enabled: "" -> "true"
                  Added Max: "" -> "10"
                  Added Min: "" -> "2"
                  Added Policy
                    Added check[0][a]: "" -> "20"
                    Added cooldown: "" -> "1m"
                None task t []
        "#]],
    );
}
