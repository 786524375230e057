//! Registrations of an allocation's services, and the worker with mock servers.

use std::sync::Arc;

use expect_test::expect;
use parking_lot::Mutex;
use songline_model::{
    AllocDeploymentStatus, AllocId, AllocNetworkStatus, AllocatedPortMapping, AllocatedResources,
    AllocatedSharedResources, Allocation, Job, NamespaceName, NetworkResource, Node, NodeId, Service,
    ServiceRegistration, Str, TaskGroup,
};
use songline_rpc::RpcError;
use songline_rpc::world::Machine;

use super::{Announcer, Located, Registrar, address, registrations};
use crate::clock::Clock;
use crate::core::Workload;
use crate::driver::{Boxed, DriverNetwork};
use crate::env::TaskEnv;

fn service(name: &str, port_label: &str, address_mode: &str, address: &str) -> Service {
    Service {
        name: name.into(),
        port_label: port_label.into(),
        address_mode: address_mode.into(),
        address: address.into(),
        tags: Some(vec!["${meta.rack}".into()]),
        canary_tags: Some(vec!["canary".into()]),
        provider: "nomad".into(),
        ..Service::default()
    }
}

fn alloc(services: Vec<Service>) -> Allocation {
    let group = TaskGroup { name: "g".into(), services: Some(services), ..TaskGroup::default() };
    let port = AllocatedPortMapping { label: "http".into(), value: 23456, to: 80, host_ip: "10.0.0.1".into() };
    let network = NetworkResource { ip: "10.0.0.9".into(), ..NetworkResource::default() };
    let shared = AllocatedSharedResources {
        ports: Some(vec![port]),
        networks: Some(vec![network]),
        ..AllocatedSharedResources::default()
    };
    Allocation {
        id: AllocId::from_bytes([7; 16]),
        namespace: "default".into(),
        job_id: "web".into(),
        task_group: "g".into(),
        job: Some(Arc::new(Job { task_groups: Some(vec![group]), ..Job::default() })),
        allocated_resources: Some(Arc::new(AllocatedResources { shared, ..AllocatedResources::default() })),
        ..Allocation::default()
    }
}

fn told(alloc: &Allocation) -> String {
    told_of(alloc, None)
}

fn told_of(alloc: &Allocation, network: Option<&AllocNetworkStatus>) -> String {
    let node = Node { id: NodeId::from_bytes([1; 16]), datacenter: "dc1".into(), ..Node::default() };
    let located = Located { alloc, network, driver: None };
    match registrations(located, &node, &TaskEnv::default(), &Workload::Group) {
        Ok(rows) => rows
            .iter()
            .map(|row| format!("{} at {:?}:{} {:?}", row.id, row.address.as_str(), row.port, row.tags))
            .collect(),
        Err(error) => error,
    }
}

#[test]
fn mode_driver_is_the_address_and_the_port_in_the_network_of_the_driver() {
    let alloc = alloc(Vec::new());
    let of_engine = DriverNetwork { address: "172.17.0.2".into(), ..DriverNetwork::default() };
    let mapped = DriverNetwork { ports: [("http".into(), 8080)].into(), advertise: true, ..of_engine.clone() };
    let of_alloc = DriverNetwork::default();
    let mut story = String::new();
    for (name, driver) in
        [("none", None), ("engine", Some(&of_engine)), ("mapped", Some(&mapped)), ("alloc", Some(&of_alloc))]
    {
        for (mode, label) in
            [("driver", "http"), ("driver", "4321"), ("driver", "none"), ("driver", ""), ("auto", "http")]
        {
            let located = Located { alloc: &alloc, network: None, driver };
            let found = address::of(located, "", mode, label).map(|(address, port)| format!("{address:?}:{port}"));
            story += &format!("{name} {mode} {label:?}: {}\n", found.unwrap_or_else(|error| error));
        }
    }
    expect![[r#"
        none driver "http": cannot use address_mode="driver": no driver network exists
        none driver "4321": cannot use address_mode="driver": no driver network exists
        none driver "none": cannot use address_mode="driver": no driver network exists
        none driver "": cannot use address_mode="driver": no driver network exists
        none auto "http": "10.0.0.1":23456
        engine driver "http": "172.17.0.2":80
        engine driver "4321": "172.17.0.2":4321
        engine driver "none": invalid port "none": port label not found
        engine driver "": "172.17.0.2":0
        engine auto "http": "10.0.0.1":23456
        mapped driver "http": "172.17.0.2":8080
        mapped driver "4321": "172.17.0.2":4321
        mapped driver "none": invalid port "none": port label not found
        mapped driver "": "172.17.0.2":0
        mapped auto "http": "172.17.0.2":8080
        alloc driver "http": "":80
        alloc driver "4321": "":4321
        alloc driver "none": invalid port "none": port label not found
        alloc driver "": "":0
        alloc auto "http": "10.0.0.1":23456
    "#]]
    .assert_eq(&story);
}

#[test]
fn mode_alloc_is_the_address_and_the_port_inside_of_the_allocation() {
    let network = AllocNetworkStatus { address: "172.26.64.5".into(), ..AllocNetworkStatus::default() };
    let at = |label: &str| told_of(&alloc(vec![service("s", label, "alloc", "")]), Some(&network));
    let place = |text: String| text.split(" at ").nth(1).unwrap_or(&text).split(" [").next().map(str::to_owned);
    assert_eq!(place(at("http")).as_deref(), Some("\"172.26.64.5\":80"));
    assert_eq!(place(at("4321")).as_deref(), Some("\"172.26.64.5\":4321"));
    assert_eq!(place(at("")).as_deref(), Some("\"172.26.64.5\":0"));
    let lost = "unable to get address for service \"s\": invalid port \"none\": port label not found";
    assert_eq!(at("none"), lost);
    let without = told(&alloc(vec![service("s", "http", "alloc", "")]));
    assert!(without.ends_with("no allocation network status reported"), "{without}");
}

#[test]
fn address_mode_decides_the_address_of_a_service() {
    let cases = [
        ("http", "auto", ""),
        ("http", "", ""),
        ("http", "host", ""),
        ("", "host", ""),
        ("8080", "host", ""),
        ("0", "host", ""),
        ("none", "auto", ""),
        ("http", "auto", "web.example"),
        ("", "auto", "web.example"),
        ("81", "auto", "web.example"),
        ("none", "auto", "web.example"),
        ("http", "host", "web.example"),
        ("http", "driver", ""),
        ("http", "alloc", ""),
    ];
    let lines: String = cases
        .iter()
        .map(|(label, mode, address)| {
            format!("{label:?} {mode:?} {address:?}: {}\n", told(&alloc(vec![service("s", label, mode, address)])))
        })
        .collect();
    expect![[r#"
        "http" "auto" "": _nomad-task-07070707-0707-0707-0707-070707070707-group-g-s-http at "10.0.0.1":23456 ["${meta.rack}"]
        "http" "" "": _nomad-task-07070707-0707-0707-0707-070707070707-group-g-s-http at "10.0.0.1":23456 ["${meta.rack}"]
        "http" "host" "": _nomad-task-07070707-0707-0707-0707-070707070707-group-g-s-http at "10.0.0.1":23456 ["${meta.rack}"]
        "" "host" "": _nomad-task-07070707-0707-0707-0707-070707070707-group-g-s- at "10.0.0.9":0 ["${meta.rack}"]
        "8080" "host" "": _nomad-task-07070707-0707-0707-0707-070707070707-group-g-s-8080 at "":8080 ["${meta.rack}"]
        "0" "host" "": unable to get address for service "s": invalid port: "0": port must be >0
        "none" "auto" "": unable to get address for service "s": invalid port "none": port label not found
        "http" "auto" "web.example": _nomad-task-07070707-0707-0707-0707-070707070707-group-g-s-http at "web.example":23456 ["${meta.rack}"]
        "" "auto" "web.example": _nomad-task-07070707-0707-0707-0707-070707070707-group-g-s- at "web.example":0 ["${meta.rack}"]
        "81" "auto" "web.example": _nomad-task-07070707-0707-0707-0707-070707070707-group-g-s-81 at "web.example":81 ["${meta.rack}"]
        "none" "auto" "web.example": unable to get address for service "s": invalid port: "none": not a valid port mapping or numeric port
        "http" "host" "web.example": unable to get address for service "s": cannot use custom advertise address with "host" address mode
        "http" "driver" "": unable to get address for service "s": cannot use address_mode="driver": no driver network exists
        "http" "alloc" "": unable to get address for service "s": cannot use address_mode="alloc": no allocation network status reported
    "#]]
    .assert_eq(&lines);
}

#[test]
fn canary_services_use_canary_tags_and_other_providers_are_skipped() {
    let mut canary = alloc(vec![
        service("a", "http", "auto", ""),
        Service { provider: "consul".into(), ..service("b", "", "auto", "") },
    ]);
    canary.deployment_status =
        Some(Arc::new(AllocDeploymentStatus { canary: true, ..AllocDeploymentStatus::default() }));
    expect![[r#"_nomad-task-07070707-0707-0707-0707-070707070707-group-g-a-http at "10.0.0.1":23456 ["canary"]"#]]
        .assert_eq(&told(&canary));
}

/// A server that records its calls, and knows no leader at the first one.
#[derive(Default)]
struct Noting {
    calls: Mutex<Vec<String>>,
}

impl Noting {
    fn note(&self, call: String, answer: Result<u64, RpcError>) -> Boxed<'_, Result<u64, RpcError>> {
        let mut calls = self.calls.lock();
        let first = calls.is_empty();
        calls.push(call);
        Box::pin(async move { if first { Err(RpcError::NoLeader) } else { answer } })
    }
}

impl Registrar for Noting {
    fn upsert(&self, rows: Vec<ServiceRegistration>) -> Boxed<'_, Result<u64, RpcError>> {
        self.note(format!("upsert {}", rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>().join(" ")), Ok(1))
    }

    fn delete(&self, _namespace: NamespaceName, id: Str) -> Boxed<'_, Result<u64, RpcError>> {
        self.note(format!("delete {id}"), Err(RpcError::remote("service registration not found")))
    }
}

#[tokio::test(start_paused = true)]
async fn service_worker_writes_only_changes_and_retries_without_a_leader() {
    let servers = Arc::new(Noting::default());
    let (announcer, worker) =
        Announcer::new(Arc::<Noting>::clone(&servers), Clock::start(Arc::new(Machine::default())));
    let worker = tokio::spawn(worker.run());
    let row = |id: &str, port| ServiceRegistration { id: id.into(), port, ..ServiceRegistration::default() };
    announcer.announce(Workload::Group, vec![row("a", 1), row("b", 1)]);
    announcer.announce(Workload::Group, vec![row("a", 1), row("b", 1)]);
    announcer.announce(Workload::Group, vec![row("b", 2), row("c", 1)]);
    announcer.announce(Workload::Task("t".into()), vec![row("t", 1)]);
    announcer.withdraw(Workload::Group, vec![row("left", 1)]).await.expect("is answered");
    drop(announcer);
    worker.await.expect("ends with its last order");
    expect![[r#"
        upsert a b
        upsert a b
        upsert b c
        delete a
        upsert t
        delete b
        delete c
        delete left"#]]
    .assert_eq(&servers.calls.lock().join("\n"));
}
