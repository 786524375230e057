//! Definitions of services and checks for a Consul agent.

use std::sync::Arc;

use serde_json::json;
use songline_model::{
    AllocDeploymentStatus, AllocId, AllocatedPortMapping, AllocatedResources, Allocation, Dur, Job, Service,
    ServiceCheck, TaskGroup,
};

use super::definition::{Of, definitions};
use crate::core::Workload;
use crate::env::TaskEnv;
use crate::services::Located;

fn told(service: Service, canary: bool) -> String {
    let group = TaskGroup { name: "g".into(), services: Some(vec![service]), ..TaskGroup::default() };
    let mut resources = AllocatedResources::default();
    resources.shared.ports =
        Some(vec![AllocatedPortMapping { label: "http".into(), value: 2000, to: 80, host_ip: "10.0.0.1".into() }]);
    let alloc = Allocation {
        id: AllocId::from_bytes([7; 16]),
        task_group: "g".into(),
        job: Some(Arc::new(Job { task_groups: Some(vec![group]), ..Job::default() })),
        allocated_resources: Some(Arc::new(resources)),
        deployment_status: canary
            .then(|| Arc::new(AllocDeploymentStatus { canary, ..AllocDeploymentStatus::default() })),
        ..Allocation::default()
    };
    let mut env = TaskEnv::default();
    env.vars.insert("P".to_owned(), "path".to_owned());
    let located = Located { alloc: &alloc, network: None, driver: None };
    let of = Of { located, env: &env, workload: &Workload::Group, mark: ("node", "n1") };
    match definitions(of) {
        Ok(services) => serde_json::to_string_pretty(&services).expect("is JSON"),
        Err(error) => error,
    }
}

fn check(kind: &str) -> ServiceCheck {
    ServiceCheck {
        name: kind.into(),
        kind: kind.into(),
        interval: Dur::from_secs(10),
        timeout: Dur::from_secs(2),
        ..ServiceCheck::default()
    }
}

fn service(checks: Vec<ServiceCheck>) -> Service {
    Service {
        name: "web".into(),
        port_label: "http".into(),
        provider: "consul".into(),
        tags: Some(vec!["plain".into()]),
        canary_tags: Some(vec!["canary".into()]),
        meta: Some([("a".into(), "${P}".into())].into()),
        checks: Some(checks),
        ..Service::default()
    }
}

#[test]
fn each_type_of_check_has_its_definition() {
    let http = ServiceCheck { path: "/${P}".into(), method: "POST".into(), body: "x".into(), ..check("http") };
    let grpc = ServiceCheck { grpc_service: "s".into(), grpc_use_tls: true, ..check("grpc") };
    let script = ServiceCheck { command: "/bin/true".into(), task_name: "t".into(), ..check("script") };
    let tcp = ServiceCheck { port_label: "99".into(), initial_status: "passing".into(), ..check("tcp") };
    let told: serde_json::Value =
        serde_json::from_str(&told(service(vec![http, grpc, script, tcp]), false)).expect("is JSON");
    let service = &told[0];
    assert_eq!(service["ID"], "_nomad-task-07070707-0707-0707-0707-070707070707-group-g-web-http");
    assert_eq!((&service["Address"], &service["Port"]), (&json!("10.0.0.1"), &json!(2000)));
    assert_eq!(service["Meta"], json!({ "a": "path", "external-source": "nomad", "node": "n1" }));
    let checks = &service["Checks"];
    assert_eq!(checks[0]["HTTP"], "http://10.0.0.1:2000/path");
    assert_eq!(
        (&checks[0]["Method"], &checks[0]["Body"], &checks[0]["Interval"]),
        (&json!("POST"), &json!("x"), &json!("10s"))
    );
    assert_eq!((&checks[1]["GRPC"], &checks[1]["GRPCUseTLS"]), (&json!("10.0.0.1:2000/s"), &json!(true)));
    assert_eq!((&checks[2]["TTL"], &checks[2]["Name"]), (&json!("42s"), &json!("script")));
    assert_eq!((&checks[3]["TCP"], &checks[3]["Status"]), (&json!("127.0.0.1:99"), &json!("passing")));
    assert!(checks.as_array().is_some_and(|checks| checks.iter().all(|check| check["ID"].is_null())));
}

#[test]
fn tagged_addresses_may_lack_a_port() {
    let addresses = [("wan".into(), "192.0.2.1:99".into()), ("lan".into(), "fd00::1".into())];
    let told = told(Service { tagged_addresses: Some(addresses.into()), ..service(vec![]) }, false);
    let told: serde_json::Value = serde_json::from_str(&told).expect("is JSON");
    let expected =
        json!({ "wan": { "Address": "192.0.2.1", "Port": 99 }, "lan": { "Address": "fd00::1", "Port": 2000 } });
    assert_eq!(told[0]["TaggedAddresses"], expected);
}

#[test]
fn canaries_have_their_own_tags() {
    let lines = told(service(vec![]), true);
    assert!(lines.contains("\"canary\"") && !lines.contains("\"plain\""), "{lines}");
}

#[test]
fn check_without_an_address_is_an_error_of_its_service() {
    let lost = ServiceCheck { port_label: "none".into(), ..check("tcp") };
    let told = told(service(vec![lost]), false);
    assert_eq!(told, "unable to get address for check \"tcp\": invalid port \"none\": port label not found");
}
