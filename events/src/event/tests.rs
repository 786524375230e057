//! Form of events: payloads of full streams, and dropped rows.

mod acl;

use std::collections::BTreeSet;
use std::sync::Arc;

use expect_test::{Expect, expect};
use songline_commands::Kind;
use songline_model::{
    AllocId, Allocation, CsiPlugin, CsiVolume, Deployment, EvalId, Evaluation, EventSink, Job, JobStatus, Namespace,
    Node, RootKey, SchedulerConfiguration, Sealed, Secret, Time, Variable, VariableData, VariableMetadata, WrappedKey,
};
use songline_projections::{Change, ClusterMetadata};

use super::{Audience, Right, Topic, events};

fn check(kind: Kind, change: Change, expected: Expect) {
    let mut out = String::new();
    for event in events(kind, &[change]) {
        let audience = match event.audience {
            Audience::Everyone => "everyone",
            Audience::Plain => "plain",
            Audience::Full => "full",
        };
        let view = serde_json::to_value(event.view(9)).expect("JSON");
        let payload = view["Payload"].as_object().expect("a map");
        let shown = payload.iter().map(|(name, row)| match row.as_object() {
            Some(row) if row.contains_key("ID") && row.len() > 8 => format!("{name}: {{ID: {}, ..}}", row["ID"]),
            Some(_) | None => format!("{name}: {row}"),
        });
        out.push_str(&format!(
            "{audience}: {} {} {} {} {}\n  {}\n",
            view["Topic"],
            view["Type"],
            view["Key"],
            view["Namespace"],
            view["FilterKeys"],
            shown.collect::<Vec<_>>().join(", ")
        ));
    }
    expected.assert_eq(&out);
}

#[test]
fn each_topic_has_its_own_name() {
    let words: Vec<&str> = Topic::all().map(|topic| topic.word).collect();
    assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), words.len(), "{words:?}");
}

#[test]
fn topics_without_a_named_right_need_a_management_token() {
    let named = Topic::all().filter(|topic| topic.right != Right::Management);
    let named: Vec<_> = named.map(|topic| format!("{} {:?}\n", topic.word, topic.right)).collect();
    expect![[r#"
        Node ReadNode
        Job ReadJob
        Deployment ReadJob
        Evaluation ReadJob
        Allocation ReadJob
        Service ReadJob
    "#]]
    .assert_eq(&named.concat());
}

/// Plain events of an entry: the frame, topic and status of each.
fn plain(kind: Kind, changes: &[Change]) -> String {
    let shown = events(kind, changes).into_iter().filter(|event| event.audience != Audience::Full);
    let line = |event: super::Event| {
        let view = serde_json::to_value(event.view(9)).expect("JSON");
        let topic = view["Topic"].as_str().expect("is text");
        format!("{}: {topic} {}\n", event.step, view["Payload"][topic]["Status"])
    };
    shown.map(line).collect()
}

fn job(status: JobStatus) -> Arc<Job> {
    Arc::new(Job { id: "web".into(), namespace: "default".into(), status, ..Job::default() })
}

fn new_eval() -> Change {
    let eval = Evaluation {
        id: EvalId::from_bytes([1; 16]),
        job_id: "web".into(),
        namespace: "default".into(),
        ..Evaluation::default()
    };
    Change::Eval { before: None, after: Some(Arc::new(eval)) }
}

#[test]
fn job_whose_last_allocation_fails_is_dead_and_then_pending_by_its_evaluation() {
    let revived = Change::Job { before: Some(job(JobStatus::Running)), after: Some(job(JobStatus::Pending)) };
    expect![[r#"
        0: Job "dead"
        1: Job "pending"
        1: Evaluation "pending"
    "#]]
    .assert_eq(&plain(Kind::AllocClientUpdate, &[revived.clone(), new_eval()]));
    expect![[r#"
        0: Job "pending"
    "#]]
    .assert_eq(&plain(Kind::AllocClientUpdate, &[revived]));
}

#[test]
fn job_registered_after_its_purge_is_dead_by_its_old_evaluations_and_then_pending() {
    let version = Change::JobVersion { before: None, after: Some(job(JobStatus::Dead)) };
    let fresh = Change::Job { before: None, after: Some(job(JobStatus::Pending)) };
    expect![[r#"
        0: Job "dead"
        1: Job "pending"
        1: Evaluation "pending"
    "#]]
    .assert_eq(&plain(Kind::JobRegister, &[version, fresh.clone(), new_eval()]));
    expect![[r#"
        0: Job "pending"
        1: Evaluation "pending"
    "#]]
    .assert_eq(&plain(Kind::JobRegister, &[fresh, new_eval()]));
}

#[test]
fn deployment_of_a_registration_is_in_full_streams_only() {
    let deployment = Change::Deployment { before: None, after: Some(Arc::new(Deployment::default())) };
    assert_eq!(plain(Kind::JobRegister, std::slice::from_ref(&deployment)), "");
    assert_eq!(events(Kind::JobRegister, std::slice::from_ref(&deployment)).len(), 1);
    assert_eq!(plain(Kind::ApplyPlanResults, &[deployment]), "0: Deployment \"running\"\n");
}

#[test]
fn purged_job_event_shows_the_job_before_its_purge() {
    let job = Arc::new(Job { id: "web".into(), namespace: "default".into(), ..Job::default() });
    check(
        Kind::JobDeregister,
        Change::Job { before: Some(job), after: None },
        expect![[r#"
        full: "Job" "JobDeregistered" "web" "default" null
          Job: {ID: "web", ..}, Deleted: true
    "#]],
    );
}

#[test]
fn deregistered_node_event_is_marked_deleted_in_full_streams() {
    let node = Node { secret_id: Secret::new("hush"), ..Node::default() };
    let change = Change::Node { before: Some(Arc::new(node)), after: None };
    let all = events(Kind::NodeDeregister, std::slice::from_ref(&change));
    assert!(all.iter().all(|event| !serde_json::to_string(&event.view(1)).expect("JSON").contains("hush")));
    check(
        Kind::NodeDeregister,
        change,
        expect![[r#"
        plain: "Node" "NodeDeregistration" "" "" null
          Node: {ID: "", ..}
        full: "Node" "NodeDeregistration" "" "" null
          Node: {ID: "", ..}, Deleted: true
    "#]],
    );
}

#[test]
fn eligibility_event_is_named_node_eligibility_in_full_streams() {
    let node = Some(Arc::new(Node::default()));
    check(
        Kind::NodeUpdateEligibility,
        Change::Node { before: node.clone(), after: node },
        expect![[r#"
        plain: "Node" "NodeDrain" "" "" null
          Node: {ID: "", ..}
        full: "Node" "NodeEligibility" "" "" null
          Node: {ID: "", ..}
    "#]],
    );
}

#[test]
fn garbage_collected_evals_and_allocs_have_short_events() {
    let eval = Evaluation {
        id: EvalId::from_bytes([1; 16]),
        namespace: "default".into(),
        job_id: "web".into(),
        ..Evaluation::default()
    };
    check(
        Kind::EvalReap,
        Change::Eval { before: Some(Arc::new(eval)), after: None },
        expect![[r#"
        full: "Evaluation" "EvaluationDeleted" "01010101-0101-0101-0101-010101010101" "default" ["web",""]
          Evaluation: {"ID":"01010101-0101-0101-0101-010101010101","JobID":"web","Namespace":"default"}, Deleted: true
    "#]],
    );
    let alloc = Allocation {
        id: AllocId::from_bytes([2; 16]),
        namespace: "default".into(),
        job_id: "web".into(),
        ..Allocation::default()
    };
    check(
        Kind::EvalReap,
        Change::Alloc { before: Some(Arc::new(alloc)), after: None },
        expect![[r#"
        full: "Allocation" "EvaluationDeleted" "02020202-0202-0202-0202-020202020202" "default" ["web",""]
          Allocation: {"ID":"02020202-0202-0202-0202-020202020202","JobID":"web","Namespace":"default"}, Deleted: true
    "#]],
    );
}

#[test]
fn events_of_an_event_sink_have_no_secret_and_its_progress_has_no_events() {
    let sink = EventSink {
        id: "hook".into(),
        secret: Secret::new("s3cret"),
        headers: [("Authorization".into(), Secret::new("s3cret"))].into(),
        ..EventSink::default()
    };
    let upserted = Change::EventSink { before: None, after: Some(Arc::new(sink.clone())) };
    let told = serde_json::to_string(&events(Kind::EventSinkUpsert, std::slice::from_ref(&upserted))[0].view(9));
    let told = told.expect("JSON");
    assert!(!told.contains("s3cret") && told.contains(r#""Headers":{"Authorization":"redacted"}"#), "{told}");
    check(
        Kind::EventSinkUpsert,
        upserted,
        expect![[r#"
            full: "EventSink" "EventSinkUpserted" "hook" "" null
              EventSink: {ID: "hook", ..}
        "#]],
    );
    check(
        Kind::EventSinkDelete,
        Change::EventSink { before: Some(Arc::new(sink)), after: None },
        expect![[r#"
        full: "EventSink" "EventSinkDeleted" "hook" "" null
          EventSink: {ID: "hook", ..}, Deleted: true
    "#]],
    );
    check(
        Kind::EventSinkProgress,
        Change::EventSinkProgress { before: None, after: Some(Arc::default()) },
        expect![[""]],
    );
}

#[test]
fn tables_without_a_reference_topic_have_one_in_full_streams() {
    let namespace = Some(Arc::new(Namespace { name: "team".into(), ..Namespace::default() }));
    check(
        Kind::NamespaceUpsert,
        Change::Namespace { before: None, after: namespace },
        expect![[r#"
        full: "Namespace" "NamespaceUpserted" "team" "" null
          Namespace: {"Name":"team","Description":"","Quota":"","Capabilities":null,"NodePoolConfiguration":null,"Meta":null,"Hash":null,"CreateIndex":0,"ModifyIndex":0}
    "#]],
    );
    let cluster = Some(Arc::new(ClusterMetadata { cluster_id: "c".into(), create_time: Time::from_nanos(5) }));
    check(
        Kind::ClusterMetadata,
        Change::ClusterMeta { before: None, after: cluster },
        expect![[r#"
        full: "ClusterMetadata" "ClusterMetadataUpdated" "cluster" "" null
          ClusterMetadata: {"ClusterID":"c","CreateTime":5}
    "#]],
    );
    let config = Some(Arc::new(SchedulerConfiguration::default()));
    check(
        Kind::SchedulerConfig,
        Change::SchedulerConfig { before: None, after: config },
        expect![[r#"
        full: "SchedulerConfiguration" "SchedulerConfigurationUpdated" "scheduler" "" null
          SchedulerConfiguration: {"SchedulerAlgorithm":"binpack","PreemptionConfig":{"SystemSchedulerEnabled":false,"SysBatchSchedulerEnabled":false,"BatchSchedulerEnabled":false,"ServiceSchedulerEnabled":false},"MemoryOversubscriptionEnabled":false,"RejectJobRegistration":false,"PauseEvalBroker":false,"CreateIndex":0,"ModifyIndex":0}
    "#]],
    );
}

#[test]
fn variable_and_root_key_events_show_metadata_only() {
    let meta = VariableMetadata {
        namespace: "default".into(),
        path: "a/b".into(),
        modify_index: 9,
        ..VariableMetadata::default()
    };
    let data = VariableData { data: Sealed(b"sealed".to_vec()), ..VariableData::default() };
    let variable = Some(Arc::new(Variable { meta, encrypted: data }));
    check(
        Kind::VarApplyState,
        Change::Variable { before: None, after: variable.clone() },
        expect![[r#"
        full: "Variable" "VariableApplied" "a/b" "default" null
          Variable: {"Namespace":"default","Path":"a/b","CreateIndex":0,"CreateTime":0,"ModifyIndex":9,"ModifyTime":0}
    "#]],
    );
    check(
        Kind::VarApplyState,
        Change::Variable { before: variable, after: None },
        expect![[r#"
        full: "Variable" "VariableApplied" "a/b" "default" null
          Variable: {"Namespace":"default","Path":"a/b","CreateIndex":0,"CreateTime":0,"ModifyIndex":9,"ModifyTime":0}, Deleted: true
    "#]],
    );
    let wrapped = WrappedKey { material: Sealed(b"sealed".to_vec()), ..WrappedKey::default() };
    let key = Some(Arc::new(RootKey { wrapped, ..RootKey::default() }));
    check(
        Kind::RootKeyMetaUpsert,
        Change::RootKey { before: None, after: key },
        expect![[r#"
        full: "RootKey" "RootKeyUpserted" "" "" null
          RootKey: {"KeyID":"","Algorithm":"","CreateTime":0,"CreateIndex":0,"ModifyIndex":0,"State":"inactive"}
    "#]],
    );
}

#[test]
fn volume_and_plugin_events_are_in_full_streams_only() {
    let volume =
        CsiVolume { id: "disk".into(), namespace: "default".into(), plugin_id: "ebs".into(), ..CsiVolume::default() };
    let volume = Some(Arc::new(volume));
    check(
        Kind::CSIVolumeRegister,
        Change::CsiVolume { before: None, after: volume.clone() },
        expect![[r#"
        full: "CSIVolume" "CSIVolumeRegistered" "disk" "default" ["ebs"]
          CSIVolume: {ID: "disk", ..}
    "#]],
    );
    check(
        Kind::CSIVolumeClaim,
        Change::CsiVolume { before: volume.clone(), after: volume.clone() },
        expect![[r#"
        full: "CSIVolume" "CSIVolumeClaim" "disk" "default" ["ebs"]
          CSIVolume: {ID: "disk", ..}
    "#]],
    );
    check(
        Kind::CSIVolumeDeregister,
        Change::CsiVolume { before: volume, after: None },
        expect![[r#"
        full: "CSIVolume" "CSIVolumeDeregistered" "disk" "default" ["ebs"]
          CSIVolume: {ID: "disk", ..}, Deleted: true
    "#]],
    );
    let plugin = Some(Arc::new(CsiPlugin { id: "ebs".into(), ..CsiPlugin::default() }));
    check(
        Kind::JobRegister,
        Change::CsiPlugin { before: None, after: plugin },
        expect![[r#"
        full: "CSIPlugin" "JobRegistered" "ebs" "" null
          CSIPlugin: {ID: "ebs", ..}
    "#]],
    );
}
