//! Differences as people read them: one line per thing that is not the same.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::{
    Constraint, DesiredUpdates, Dur, Multiregion, MultiregionStrategy, NetworkResource, PeriodicConfig, PlanAnnotations, Port,
    RequestedDevice, Resources, ScalingPolicy, Service, ServiceCheck, Task, TaskArtifact, TaskGroup, Template, WaitConfig,
};

fn job() -> Job {
    let task = Task {
        name: "t".into(),
        driver: "exec".into(),
        config: Some(BTreeMap::from([("command".into(), json!("sleep")), ("args".into(), json!(["1", 2.5, 3_000_000, null]))])),
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
    let service = Service { name: "web".into(), port_label: "http".into(), tags: Some(vec!["a".into()]), ..Default::default() };
    let group = TaskGroup {
        name: "g".into(),
        count: 2,
        tasks: Some(vec![task]),
        networks: Some(vec![network]),
        services: Some(vec![service]),
        ..Default::default()
    };
    Job { id: "j".into(), name: "j".into(), datacenters: Some(vec!["dc1".into()]), task_groups: Some(vec![group]), ..Default::default() }
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
        desired_tg_updates: BTreeMap::from([("g".into(), DesiredUpdates { ignore: 1, place: 1, ..Default::default() })]),
    }));
    let mut out = format!("{:?} job {}\n", diff.kind, diff.id);
    show(&mut out, 1, &diff.fields, &diff.objects);
    for group in diff.task_groups.iter().flatten() {
        out.push_str(&format!("  {:?} group {} {:?}\n", group.kind, group.name, group.updates.clone().unwrap_or_default()));
        show(&mut out, 2, &group.fields, &group.objects);
        for task in group.tasks.iter().flatten() {
            out.push_str(&format!("    {:?} task {} {:?}\n", task.kind, task.name, task.annotations.clone().unwrap_or_default()));
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
fn the_same_job_has_no_difference() {
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
fn a_count_says_where_it_goes() {
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
fn the_configuration_of_a_task_is_shown_in_full() {
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
fn a_kill_timeout_changes_in_place() {
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
fn context_shows_the_fields_that_stay() {
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
fn maps_spans_that_may_be_absent_and_lists_of_texts_have_their_forms() {
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
fn a_changed_network_is_one_that_goes_and_one_that_comes() {
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
fn tasks_come_and_go_by_name() {
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
                Deleted task t ["forces destroy"]
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
                Added task u ["forces create"]
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
fn different_jobs_have_no_difference_to_show() {
    let other = Job { id: "k".into(), ..Default::default() };
    let refusal = JobDiff::between(Some(&job()), Some(&other), true).unwrap_err();
    assert_eq!(refusal.to_string(), "can not diff jobs with different IDs: \"j\" and \"k\"");
}

#[test]
fn spreads_are_never_shown() {
    let spread = || Some(vec![crate::Spread { attribute: "${node.datacenter}".into(), weight: 50, ..Default::default() }]);
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
fn a_job_that_stops_says_so_and_its_groups_stay() {
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

/// The same, from one task to another in an otherwise equal job.
fn check_tasks(old: Task, new: Task, expected: Expect) {
    let with = |task: Task| {
        let mut job = job();
        *self::task(&mut job) = task;
        job
    };
    let diff = JobDiff::between(Some(&with(old)), Some(&with(new)), false).unwrap();
    let mut out = String::new();
    for task in diff.task_groups.iter().flatten().flat_map(|group| group.tasks.iter().flatten()) {
        out.push_str(&format!("{:?} task {}\n", task.kind, task.name));
        show(&mut out, 1, &task.fields, &task.objects);
    }
    expected.assert_eq(&out);
}

#[test]
fn a_template_is_known_by_its_destination_and_the_only_one_without_it() {
    let template = |dest: &str, text: &str| Template { dest_path: dest.into(), embedded_tmpl: text.into(), ..Default::default() };
    let with = |templates: Vec<Template>| Task { name: "t".into(), templates: Some(templates), ..Default::default() };
    check_tasks(
        with(vec![template("a", "one")]),
        with(vec![Template { uid: Some(5), wait: Some(WaitConfig { min: Some(Dur::from_secs(1)), max: None }), ..template("b", "two") }]),
        expect![[r#"
            Edited task t
              Edited Template
                Edited DestPath: "a" -> "b"
                Edited EmbeddedTmpl: "one" -> "two"
                Added Uid: "" -> "5"
                Added Template
                  Added Max: "" -> "nil"
                  Added Min: "" -> "1000000000"
        "#]],
    );
    check_tasks(
        with(vec![template("a", "one"), template("b", "two")]),
        with(vec![template("b", "zwei"), template("c", "three"), template("a", "one")]),
        expect![[r#"
            Edited task t
              Edited Template
                Edited EmbeddedTmpl: "two" -> "zwei"
              Added Template
                Added DestPath: "" -> "c"
                Added EmbeddedTmpl: "" -> "three"
                Added Envvars: "" -> "false"
                Added ErrMissingKey: "" -> "false"
                Added Splay: "" -> "0"
                Added VaultGrace: "" -> "0"
        "#]],
    );
}

#[test]
fn an_artifact_is_known_by_its_destination() {
    let artifact =
        |dest: &str, source: &str| TaskArtifact { relative_dest: dest.into(), getter_source: source.into(), ..Default::default() };
    let with = |artifacts: Vec<TaskArtifact>| Task { name: "t".into(), artifacts: Some(artifacts), ..Default::default() };
    check_tasks(
        with(vec![artifact("local/", "http://a"), artifact("local/b", "http://b")]),
        with(vec![artifact("local/", "http://c"), artifact("local/d", "http://b")]),
        expect![[r#"
            Edited task t
              Edited Artifact
                Edited GetterSource: "http://a" -> "http://c"
              Added Artifact
                Added GetterSource: "" -> "http://b"
                Added RelativeDest: "" -> "local/d"
              Deleted Artifact
                Deleted GetterSource: "http://b" -> ""
                Deleted RelativeDest: "local/b" -> ""
        "#]],
    );
}

#[test]
fn a_device_shows_how_many_and_not_what_it_has_to_be() {
    let with = |count: u64, constraints: Option<Vec<Constraint>>| Task {
        name: "t".into(),
        resources: Some(Resources {
            devices: Some(vec![RequestedDevice { name: "gpu".into(), count, constraints, ..Default::default() }]),
            ..Default::default()
        }),
        ..Default::default()
    };
    check_tasks(
        with(1, None),
        with(2, Some(vec![Constraint::default()])),
        expect![[r#"
        Edited task t
          Edited Resources
            Edited Device
              Edited Count: "1" -> "2"
    "#]],
    );
}

#[test]
fn a_scaling_block_shows_its_limits_and_its_policy() {
    let scaling = |max: i64, cooldown: &str| ScalingPolicy {
        target: Some(BTreeMap::from([("Job".into(), "j".into())])),
        policy: Some(BTreeMap::from([("cooldown".into(), json!(cooldown)), ("same".into(), json!(1))])),
        max,
        ..Default::default()
    };
    let between = |old: Option<ScalingPolicy>, new: Option<ScalingPolicy>, expected: Expect| {
        let (mut before, mut after) = (job(), job());
        group(&mut before).scaling = old;
        group(&mut after).scaling = new;
        let diff = JobDiff::between(Some(&before), Some(&after), true).unwrap();
        let mut out = String::new();
        for group in diff.task_groups.iter().flatten() {
            out.push_str(&format!("{:?} group\n", group.kind));
            show(&mut out, 1, &group.fields, &group.objects);
        }
        expected.assert_eq(&out);
    };
    between(
        None,
        Some(scaling(5, "1m")),
        expect![[r#"
        Edited group
          Added Scaling
            Added Enabled: "" -> "false"
            Added Max: "" -> "5"
            Added Min: "" -> "0"
            Added Policy
              Added cooldown: "" -> "1m"
              Added same: "" -> "1"
    "#]],
    );
    between(
        Some(scaling(5, "1m")),
        Some(scaling(6, "2m")),
        expect![[r#"
        Edited group
          Edited Scaling
            Edited Max: "5" -> "6"
            Edited Policy
              Edited cooldown: "1m" -> "2m"
    "#]],
    );
    // The row has an id and indexes.
    let row = ScalingPolicy { id: "x".into(), create_index: 7, ..scaling(5, "1m") };
    between(
        Some(row),
        Some(scaling(5, "1m")),
        expect![[r#"
        Edited group
          Edited Scaling
    "#]],
    );
}

#[test]
fn a_check_is_known_by_its_name_and_its_headers_are_listed_one_by_one() {
    let check_of = |name: &str, values: &[&str]| ServiceCheck {
        name: name.into(),
        header: Some(BTreeMap::from([("H".into(), Some(values.iter().map(|value| (*value).into()).collect()))])),
        ..Default::default()
    };
    check(
        false,
        |job| {
            let service = &mut group(job).services.as_mut().unwrap()[0];
            service.checks = Some(vec![check_of("a", &["x", "y"]), check_of("b", &["x"])]);
        },
        expect![[r#"
            Edited job j
              Edited group g {"create": 1, "ignore": 1}
                Edited Service
                  Added Check
                    Added Expose: "" -> "false"
                    Added FailuresBeforeCritical: "" -> "0"
                    Added GRPCUseTLS: "" -> "false"
                    Added Interval: "" -> "0"
                    Added Name: "" -> "a"
                    Added SuccessBeforePassing: "" -> "0"
                    Added TLSSkipVerify: "" -> "false"
                    Added Timeout: "" -> "0"
                    Added Header
                      Added H[0]: "" -> "x"
                      Added H[1]: "" -> "y"
                  Added Check
                    Added Expose: "" -> "false"
                    Added FailuresBeforeCritical: "" -> "0"
                    Added GRPCUseTLS: "" -> "false"
                    Added Interval: "" -> "0"
                    Added Name: "" -> "b"
                    Added SuccessBeforePassing: "" -> "0"
                    Added TLSSkipVerify: "" -> "false"
                    Added Timeout: "" -> "0"
                    Added Header
                      Added H[0]: "" -> "x"
                None task t []
        "#]],
    );
    let (mut before, mut after) = (job(), job());
    let checks_of = |job: &mut Job, checks: Vec<ServiceCheck>| group(job).services.as_mut().unwrap()[0].checks = Some(checks);
    checks_of(&mut before, vec![check_of("a", &["x"])]);
    checks_of(&mut after, vec![check_of("b", &["x"])]);
    let diff = JobDiff::between(Some(&before), Some(&after), false).unwrap();
    let mut out = String::new();
    for group in diff.task_groups.iter().flatten() {
        show(&mut out, 0, &group.fields, &group.objects);
    }
    expect![[r#"
        Edited Service
          Added Check
            Added Expose: "" -> "false"
            Added FailuresBeforeCritical: "" -> "0"
            Added GRPCUseTLS: "" -> "false"
            Added Interval: "" -> "0"
            Added Name: "" -> "b"
            Added SuccessBeforePassing: "" -> "0"
            Added TLSSkipVerify: "" -> "false"
            Added Timeout: "" -> "0"
            Added Header
              Added H[0]: "" -> "x"
          Deleted Check
            Deleted Expose: "false" -> ""
            Deleted FailuresBeforeCritical: "0" -> ""
            Deleted GRPCUseTLS: "false" -> ""
            Deleted Interval: "0" -> ""
            Deleted Name: "a" -> ""
            Deleted SuccessBeforePassing: "0" -> ""
            Deleted TLSSkipVerify: "false" -> ""
            Deleted Timeout: "0" -> ""
            Deleted Header
              Deleted H[0]: "x" -> ""
    "#]]
    .assert_eq(&out);
}

#[test]
fn a_group_that_comes_does_not_show_the_spans_that_may_be_absent() {
    check(
        false,
        |job| {
            let other = TaskGroup { name: "h".into(), count: 1, shutdown_delay: Some(Dur::from_secs(1)), ..Default::default() };
            job.task_groups.as_mut().unwrap().push(other);
            group(job).shutdown_delay = Some(Dur::from_secs(2));
        },
        expect![[r#"
            Edited job j
              Edited group g {"create": 1, "ignore": 1}
                Added ShutdownDelay: "" -> "2000000000"
                None task t []
              Added group h {}
                Added Count: "" -> "1" (forces create)
        "#]],
    );
}

#[test]
fn other_times_of_a_periodic_job_are_no_difference_and_an_empty_multiregion_block_is_one_without_content() {
    let mut before = job();
    before.periodic = Some(PeriodicConfig { specs: Some(vec!["@daily".into()]), ..Default::default() });
    let mut after = before.clone();
    after.periodic.as_mut().unwrap().specs = Some(vec!["@hourly".into()]);
    assert_eq!(JobDiff::between(Some(&before), Some(&after), true).unwrap().kind, DiffType::None);
    check(
        true,
        |job| job.multiregion = Some(Multiregion { strategy: Some(MultiregionStrategy::default()), regions: Some(Vec::new()) }),
        expect![[r#"
            Edited job j
              Added Multiregion
              None group g {"create": 1, "ignore": 1}
                None task t []
        "#]],
    );
}
