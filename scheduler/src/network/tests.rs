//! Ports: static ones, dynamic ones, and those that a node reserves.

use std::sync::Arc;

use expect_test::{Expect, expect};
use songline_model::{
    AllocatedPortMapping, AllocatedResources, Allocation, NetworkResource, Node, NodeNetworkAddress,
    NodeNetworkResource, NodeReservedResources, NodeResources, Port,
};

use super::{Ports, granted, parse_ports};
use crate::seed::Seed;

/// A node with networks `default` on 10.0.0.1 and 10.0.0.2, and `public` on 1.2.3.4, that reserves port 22.
fn node(low: i64, high: i64) -> Node {
    let address = |alias: &str, address: &str| NodeNetworkAddress {
        alias: alias.into(),
        address: address.into(),
        ..Default::default()
    };
    let addresses =
        Some(vec![address("default", "10.0.0.1"), address("default", "10.0.0.2"), address("public", "1.2.3.4")]);
    let network = NodeNetworkResource { mode: "host".into(), addresses, ..NodeNetworkResource::default() };
    let resources = NodeResources {
        node_networks: Some(vec![network]),
        min_dynamic_port: low,
        max_dynamic_port: high,
        ..NodeResources::default()
    };
    let mut kept = NodeReservedResources::default();
    kept.networks.reserved_host_ports = "22,9000-9001".into();
    Node { node_resources: Some(Arc::new(resources)), reserved_resources: Some(kept), ..Node::default() }
}

/// `asks`: label, static port or 0, `to`, host network.
fn ask(asks: &[(&str, i64, i64, &str)]) -> NetworkResource {
    let port = |(label, value, to, network): &(&str, i64, i64, &str)| Port {
        label: (*label).into(),
        value: *value,
        to: *to,
        host_network: (*network).into(),
    };
    let (fixed, dynamic): (Vec<_>, Vec<_>) = asks.iter().partition(|(_, value, ..)| *value != 0);
    NetworkResource {
        reserved_ports: Some(fixed.into_iter().map(port).collect()),
        dynamic_ports: Some(dynamic.into_iter().map(port).collect()),
        ..NetworkResource::default()
    }
}

/// Makes the requests one after another on one node; assigned ports are taken.
fn check(range: (i64, i64), asks: &[NetworkResource], expected: Expect) {
    let node = node(range.0, range.1);
    let mut ports = Ports::of_node(&node).unwrap();
    let mut seed = Seed::new(3);
    let mut told = String::new();
    for ask in asks {
        let mut offer = Vec::new();
        match ports.assign(&node, ask, &mut offer, &mut seed) {
            Ok(()) => {
                for port in &offer {
                    told += &format!("{} {}:{} to {}; ", port.label, port.host_ip, port.value, port.to);
                }
                let network = granted(ask, &offer, &node);
                told += &format!("ip {}\n", network.ip);
                let mut resources = AllocatedResources::default();
                resources.shared.ports = Some(offer);
                ports.take_all(&resources).unwrap();
            }
            Err(why) => told += &format!("{why}\n"),
        }
    }
    expected.assert_eq(&told);
}

#[test]
fn static_port_is_given_once_per_host_network_on_its_first_address() {
    check(
        (0, 0),
        &[ask(&[("http", 80, 8080, "")]), ask(&[("http", 80, 8080, "")]), ask(&[("http", 80, 0, "public")])],
        expect![[r#"
            http 10.0.0.1:80 to 8080; ip 10.0.0.1
            reserved port collision http=80
            http 1.2.3.4:80 to 0; ip 10.0.0.1
        "#]],
    );
}

#[test]
fn port_request_that_cannot_be_met_names_the_reason() {
    check(
        (0, 0),
        &[
            ask(&[("ssh", 22, 0, "")]),
            ask(&[("far", 70000, 0, "")]),
            ask(&[("http", 80, 0, "private")]),
            ask(&[("one", 81, 0, ""), ("two", 81, 0, "")]),
        ],
        expect![[r#"
            reserved port collision ssh=22
            invalid port 70000 (out of range)
            no addresses available for private network
            reserved port collision two=81
        "#]],
    );
}

#[test]
fn dynamic_ports_run_out_one_address_after_the_other() {
    check(
        (9000, 9002),
        &[ask(&[("a", 0, -1, "")]), ask(&[("b", 0, 0, "")]), ask(&[("c", 0, 0, "")])],
        expect![[r#"
            a 10.0.0.1:9002 to 9002; ip 10.0.0.1
            b 10.0.0.2:9002 to 0; ip 10.0.0.1
            dynamic port selection failed
        "#]],
    );
}

#[test]
fn released_port_stays_taken_while_another_alloc_or_the_node_holds_it() {
    let node = node(0, 0);
    let mut ports = Ports::of_node(&node).unwrap();
    let alloc = |value: i64| {
        let mut resources = AllocatedResources::default();
        let port = AllocatedPortMapping { value, host_ip: "10.0.0.1".into(), ..AllocatedPortMapping::default() };
        resources.shared.ports = Some(vec![port]);
        Allocation { allocated_resources: Some(Arc::new(resources)), ..Allocation::default() }
    };
    let (stopping, replacement, careless) = (alloc(80), alloc(80), alloc(22));
    assert_eq!(ports.take(&stopping), Ok(()));
    assert_eq!(ports.take(&replacement), Err(80));
    assert_eq!(ports.take(&careless), Err(22));
    let free = |ports: &Ports, value: i64| {
        ports.assign(&node, &ask(&[("p", value, 0, "")]), &mut Vec::new(), &mut Seed::new(3)).is_ok()
    };
    assert!(ports.has_clash());
    ports.release(&replacement);
    assert!(ports.has_clash(), "the node itself holds port 22");
    ports.release(&careless);
    assert!(!ports.has_clash());
    assert_eq!((free(&ports, 80), free(&ports, 22)), (false, false));
    ports.release(&stopping);
    assert_eq!((free(&ports, 80), free(&ports, 22)), (true, false));
}

#[test]
fn lists_of_ports_are_read() {
    assert_eq!(parse_ports(" 22, 80-82 ,"), Ok(vec![22, 80, 81, 82]));
    assert_eq!(parse_ports(""), Ok(vec![]));
    for wrong in ["a", "5-2", "70000", "1-2-3"] {
        assert_eq!(parse_ports(wrong), Err(format!("invalid port range: {wrong}")));
    }
}
