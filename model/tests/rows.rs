//! Rows keep everything they hold in JSON and in the log's msgpack: null, empty and absent are three things.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use expect_test::expect;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use songline_model::*;

/// Writes the row in both forms and reads it again.
fn survives<T: Serialize + DeserializeOwned + PartialEq + Debug>(row: &T) {
    let text = serde_json::to_string(row).unwrap();
    assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), row, "JSON: {text}");
    let bytes = rmp_serde::to_vec_named(row).unwrap();
    assert_eq!(&rmp_serde::from_slice::<T>(&bytes).unwrap(), row, "msgpack");
    assert_eq!(rmp_serde::to_vec_named(&rmp_serde::from_slice::<T>(&bytes).unwrap()).unwrap(), bytes, "msgpack again");
}

fn job() -> Job {
    let task = Task {
        name: "t".into(),
        config: Some(BTreeMap::from([("list".into(), json!([1, 2.5, null, "x", {"a": true}]))])),
        env: Some(BTreeMap::new()),
        services: Some(Vec::new()),
        kill_timeout: Dur::from_millis(1500),
        ..Default::default()
    };
    let group = TaskGroup {
        name: "g".into(),
        tasks: Some(vec![task]),
        shutdown_delay: Some(Dur::ZERO),
        max_client_disconnect: None,
        volumes: Some(BTreeMap::from([("v".into(), VolumeRequest::default())])),
        ..Default::default()
    };
    Job {
        id: "j".into(),
        kind: JobType::Other("strange".into()),
        meta: Some(BTreeMap::from([("ключ".into(), "значение".into())])),
        datacenters: Some(Vec::new()),
        payload: Some(Blob(vec![0, 255, 10])),
        task_groups: Some(vec![group]),
        version: u64::MAX,
        submit_time: Time::from_nanos(i64::MAX),
        ..Default::default()
    }
}

#[test]
fn job_survives_json_and_msgpack() {
    survives(&job());
    survives(&Job::default());
}

#[test]
fn alloc_survives_json_and_msgpack() {
    let alloc = Allocation {
        id: AllocId::from_bytes([1; 16]),
        node_id: Some(NodeId::from_bytes([2; 16])),
        job: Some(Arc::new(job())),
        client_status: AllocClientStatus::Unknown,
        desired_transition: DesiredTransition { migrate: Some(false), ..Default::default() },
        task_states: Some(Arc::new(FlatMap::from([(
            "t".into(),
            TaskState { started_at: Some(Time::from_nanos(1)), ..Default::default() },
        )]))),
        alloc_states: Some(vec![AllocState {
            value: "unknown".into(),
            time: Time::from_secs(1_700_000_000),
            ..Default::default()
        }]),
        deployment_status: Some(Arc::new(AllocDeploymentStatus { healthy: Some(false), ..Default::default() })),
        modify_time: Time::from_nanos(7),
        ..Default::default()
    };
    survives(&alloc);
    survives(&Allocation::default());
}

#[test]
fn eval_survives_json_and_msgpack() {
    let eval = Evaluation {
        id: EvalId::from_bytes([3; 16]),
        triggered_by: EvalTrigger::Reconnect,
        status: EvalStatus::Blocked,
        wait_until: Some(Time::from_nanos(1_234_567_890)),
        class_eligibility: Some(Arc::new(BTreeMap::from([("v1:1".into(), false)]))),
        ..Default::default()
    };
    survives(&eval);
    survives(&Evaluation::default());
}

#[test]
fn node_survives_json_and_msgpack_and_its_secret_only_msgpack() {
    let node = Node {
        id: NodeId::from_bytes([4; 16]),
        attributes: Some(Arc::new(BTreeMap::from([("kernel.name".into(), "linux".into())]))),
        meta: Some(BTreeMap::new()),
        links: None,
        drain_strategy: Some(DrainStrategy { deadline: Dur(-1), ..Default::default() }),
        status: NodeStatus::Disconnected,
        ..Default::default()
    };
    survives(&node);
    survives(&Node::default());
    let with_secret = Node { secret_id: Secret::new("s3cret"), ..node };
    assert!(!serde_json::to_string(&with_secret).unwrap().contains("s3cret"));
    assert!(!format!("{with_secret:?}").contains("s3cret"));
    let bytes = rmp_serde::to_vec_named(&with_secret).unwrap();
    assert_eq!(rmp_serde::from_slice::<Node>(&bytes).unwrap(), with_secret);
}

#[test]
fn null_and_empty_lists_differ_and_an_absent_list_reads_as_null() {
    let text = |row: &DnsConfig| serde_json::to_string(row).unwrap();
    let mut row = DnsConfig { servers: None, searches: Some(Vec::new()), options: Some(vec!["a".into()]) };
    expect![[r#"{"Servers":null,"Searches":[],"Options":["a"]}"#]].assert_eq(&text(&row));
    survives(&row);
    row = serde_json::from_str(r#"{"Searches":[]}"#).unwrap();
    assert_eq!(
        (row.servers.as_ref(), row.searches.as_deref()),
        (None, Some([].as_slice())),
        "absent reads as null, empty stays empty"
    );
}

#[test]
fn alloc_and_eval_json_omits_empty_fields_and_other_rows_do_not() {
    expect![[r#"{"Type":"service","Status":"pending"}"#]]
        .assert_eq(&serde_json::to_string(&Evaluation::default()).unwrap());
    expect![[r#"{"DesiredStatus":"run","ClientStatus":"pending"}"#]]
        .assert_eq(&serde_json::to_string(&Allocation::default()).unwrap());
    expect![[r#"{"Hook":"","Sidecar":false}"#]]
        .assert_eq(&serde_json::to_string(&TaskLifecycleConfig::default()).unwrap());
}

#[test]
fn times_and_ids_are_texts_in_json_and_ids_are_bytes_in_the_log() {
    let state = AllocState { time: Time::from_nanos(1_500_000_000), ..Default::default() };
    expect![[r#"{"Field":0,"Value":"","Time":"1970-01-01T00:00:01.5Z"}"#]]
        .assert_eq(&serde_json::to_string(&state).unwrap());
    let id = AllocId::from_bytes([0xab; 16]);
    expect![[r#""abababab-abab-abab-abab-abababababab""#]].assert_eq(&serde_json::to_string(&id).unwrap());
    let bytes = rmp_serde::to_vec_named(&id).unwrap();
    assert_eq!((bytes[0], bytes[1], bytes.len()), (0xc4, 16, 18), "bin8 of 16 bytes");
}

#[test]
fn task_identity_is_kept_in_the_log_and_hidden_in_json_and_debug() {
    let identity = TaskIdentity { task: "t".into(), signature: Signature([7; SIGNATURE_BYTES]) };
    let alloc = Allocation {
        id: AllocId::from_bytes([1; 16]),
        signing_key_id: Some(RootKeyId::from_bytes([2; 16])),
        signed_identities: Some([identity].into()),
        ..Default::default()
    };
    let token = alloc.identity_token("t").expect("the task was signed");
    let signature = token.reveal().rsplit('.').next().unwrap();
    assert!(!serde_json::to_string(&alloc).unwrap().contains(signature));
    assert!(!format!("{alloc:?} {token:?}").contains(signature));
    assert_eq!(alloc.identity_token("other"), None);
    let bytes = rmp_serde::to_vec_named(&alloc).unwrap();
    assert_eq!(rmp_serde::from_slice::<Allocation>(&bytes).unwrap(), alloc);
}

#[test]
fn identity_claims_have_a_fixed_order_and_name_the_parent_of_a_child_job() {
    let mut alloc = Allocation {
        id: "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee".parse().unwrap(),
        namespace: "default".into(),
        job_id: "example".into(),
        create_time: Time::from_nanos(1_700_000_000_999_999_999),
        ..Default::default()
    };
    let key = "11111111-2222-3333-4444-555555555555".parse().unwrap();
    let expected = "eyJhbGciOiJFZERTQSIsImtpZCI6IjExMTExMTExLTIyMjItMzMzMy00NDQ0LTU1NTU1NTU1NTU1NSIsInR5cCI6IkpXVCJ9.\
        eyJub21hZF9uYW1lc3BhY2UiOiJkZWZhdWx0Iiwibm9tYWRfam9iX2lkIjoiZXhhbXBsZSIsIm5vbWFkX2FsbG9jYXRpb25faWQiOiJhYWFhYWFhYS1iYmJiLWNjY2MtZGRkZC1lZWVlZWVlZWVlZWUiLCJub21hZF90YXNrIjoid2ViIiwibmJmIjoxNzAwMDAwMDAwLCJpYXQiOjE3MDAwMDAwMDB9";
    assert_eq!(alloc.identity_claims("web").signing_input(key), expected);
    alloc.job = Some(Arc::new(Job { parent_id: "parent".into(), ..Job::default() }));
    assert_eq!(alloc.identity_claims("web").job_id, "parent");
}
