//! Environments of tasks and interpolation.

use std::sync::Arc;

use expect_test::{Expect, expect};
use songline_model::{
    AllocatedPortMapping, AllocatedResources, AllocatedSharedResources, AllocatedTaskResources, Job, TaskGroup,
};

use super::*;

fn env(task: Task, label: &str) -> TaskEnv {
    let task_resources = AllocatedTaskResources::default();
    let ports = vec![AllocatedPortMapping { label: label.into(), value: 21000, to: 8080, host_ip: "10.0.0.5".into() }];
    let group = TaskGroup {
        name: "web".into(),
        tasks: Some(vec![task.clone()]),
        meta: Some([("a-b".into(), "group".into())].into()),
        ..TaskGroup::default()
    };
    let alloc = Allocation {
        id: "aaaaaaaa-0000-0000-0000-000000000001".parse().expect("an id"),
        name: "shop.web[3]".into(),
        namespace: "default".into(),
        job_id: "shop".into(),
        task_group: "web".into(),
        job: Some(Arc::new(Job { name: "shop".into(), task_groups: Some(vec![group]), ..Job::default() })),
        allocated_resources: Some(Arc::new(AllocatedResources {
            tasks: Some([(task.name.clone(), task_resources)].into()),
            task_lifecycles: None,
            shared: AllocatedSharedResources { ports: Some(ports), ..AllocatedSharedResources::default() },
        })),
        ..Allocation::default()
    };
    let node = Node {
        datacenter: "dc1".into(),
        attributes: Some(Arc::new([("kernel.name".into(), "linux".into())].into())),
        ..Node::default()
    };
    let paths = TaskPaths { alloc: "/a/alloc".into(), local: "/a/web/local".into(), secrets: "/a/web/secrets".into() };
    TaskEnv::build(&Sources {
        alloc: &alloc,
        task: &task,
        node: &node,
        region: "global",
        paths: &paths,
        host: &[("PATH".to_owned(), "/bin".to_owned())].into(),
        token: None,
        vault: None,
    })
}

fn check(env: &TaskEnv, expected: Expect) {
    let lines: Vec<String> = env.vars.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    expected.assert_eq(&lines.concat());
}

#[test]
fn task_environment_names_the_task_and_its_addresses() {
    let own = [
        ("GREETING".into(), "on ${attr.kernel.name} at ${NOMAD_ADDR_http} ${unknown.x}".into()),
        ("PATH".into(), "/opt".into()),
    ];
    let task = Task { name: "web".into(), env: Some(own.into()), ..Task::default() };
    check(
        &env(task, "http"),
        expect![[r#"
            GREETING=on linux at 10.0.0.5:21000 ${unknown.x}
            NOMAD_ADDR_http=10.0.0.5:21000
            NOMAD_ALLOC_DIR=/a/alloc
            NOMAD_ALLOC_ID=aaaaaaaa-0000-0000-0000-000000000001
            NOMAD_ALLOC_INDEX=3
            NOMAD_ALLOC_NAME=shop.web[3]
            NOMAD_ALLOC_PORT_http=8080
            NOMAD_DC=dc1
            NOMAD_GROUP_NAME=web
            NOMAD_HOST_ADDR_http=10.0.0.5:21000
            NOMAD_HOST_IP_http=10.0.0.5
            NOMAD_HOST_PORT_http=21000
            NOMAD_IP_http=10.0.0.5
            NOMAD_JOB_ID=shop
            NOMAD_JOB_NAME=shop
            NOMAD_META_A_B=group
            NOMAD_META_a_b=group
            NOMAD_NAMESPACE=default
            NOMAD_PORT_http=8080
            NOMAD_REGION=global
            NOMAD_SECRETS_DIR=/a/web/secrets
            NOMAD_SHORT_ALLOC_ID=aaaaaaaa
            NOMAD_TASK_DIR=/a/web/local
            NOMAD_TASK_NAME=web
            PATH=/opt
        "#]],
    );
}

#[test]
fn port_labels_are_cleaned_in_nomad_port_but_not_in_nomad_alloc_port() {
    let env = env(Task { name: "web".into(), ..Task::default() }, "db-x");
    assert!(env.vars.contains_key("NOMAD_PORT_db_x"));
    assert!(env.vars.contains_key("NOMAD_ALLOC_PORT_db-x"));
}

#[test]
fn driver_config_is_evaluated_and_its_faults_are_listed() {
    let env = env(Task { name: "web".into(), ..Task::default() }, "http");
    let evaluate = |text: &str| {
        let config = BTreeMap::from([("args".into(), serde_json::json!([text]))]);
        match env.evaluate_config(&config) {
            Ok(config) => format!("{text} -> {}\n", config["args"][0]),
            Err(faults) => format!("{text} -> {}\n", faults.join("; ")),
        }
    };
    let texts = [
        "-p ${NOMAD_PORT_http} $${x} ${env[\"NOMAD_DC\"]}",
        "%{if NOMAD_DC == \"dc1\"}yes%{endif} ${ upper(node.datacenter) }",
        "${nope} ${neither}",
        "${attr.nope}",
        "${node.pool}",
        "${node.unique.nope}",
        "x ${",
    ];
    expect![[r#"
        -p ${NOMAD_PORT_http} $${x} ${env["NOMAD_DC"]} -> "-p 8080 ${x} dc1"
        %{if NOMAD_DC == "dc1"}yes%{endif} ${ upper(node.datacenter) } -> "yes DC1"
        ${nope} ${neither} -> Unknown variable: There is no variable named "nope". Did you mean "node"?; Unknown variable: There is no variable named "neither".
        ${attr.nope} -> Unsupported attribute: This object does not have an attribute named "nope".
        ${node.pool} -> Unsupported attribute: This object does not have an attribute named "pool".
        ${node.unique.nope} -> Unsupported attribute: This object does not have an attribute named "nope".
        x ${ -> Invalid expression: Expected the start of an expression, but found an invalid expression token.
    "#]].assert_eq(&texts.map(evaluate).concat());
}

#[test]
fn quoted_and_dotted_environment_names_are_replaced_in_driver_configs_only() {
    let env = env(Task { name: "web".into(), ..Task::default() }, "http");
    let texts = [
        "${NOMAD_DC} ${attr.kernel.name}",
        "${env[\"NOMAD_DC\"]} ${env.NOMAD_DC}",
        "$${NOMAD_DC} ${ NOMAD_DC } ${}",
        "${unknown} ${open ${NOMAD_DC}",
    ];
    let lines = texts.map(|text| format!("{text} -> {}\n", env.replace(text)));
    expect![[r#"
        ${NOMAD_DC} ${attr.kernel.name} -> dc1 linux
        ${env["NOMAD_DC"]} ${env.NOMAD_DC} -> ${env["NOMAD_DC"]} ${env.NOMAD_DC}
        $${NOMAD_DC} ${ NOMAD_DC } ${} -> $${NOMAD_DC} ${ NOMAD_DC } ${}
        ${unknown} ${open ${NOMAD_DC} -> ${unknown} ${open dc1
    "#]]
    .assert_eq(&lines.concat());
    let config = BTreeMap::from([("args".into(), serde_json::json!(["${env[\"NOMAD_DC\"]}", "${env.NOMAD_DC}"]))]);
    let evaluated = env.evaluate_config(&config).expect("the names are known");
    assert_eq!(evaluated["args"], serde_json::json!(["dc1", "dc1"]));
}
