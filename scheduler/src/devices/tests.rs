//! Requests for devices against the devices of a node.

use std::sync::Arc;

use expect_test::{Expect, expect};
use songline_model::{
    Affinity, AllocatedResources, Constraint, DeviceAttribute, Node, NodeDevice, NodeDeviceResource, NodeResources,
    RequestedDevice,
};

use super::attribute::{Value, holds};
use super::{Held, Request, assign, feasible, lacks};

fn group(vendor: &str, kind: &str, name: &str, ids: &[(&str, bool)], memory: i64, unit: &str) -> NodeDeviceResource {
    let device =
        |(id, healthy): &(&str, bool)| NodeDevice { id: (*id).into(), healthy: *healthy, ..NodeDevice::default() };
    let memory = DeviceAttribute { int: Some(memory), unit: unit.into(), ..DeviceAttribute::default() };
    NodeDeviceResource {
        vendor: vendor.into(),
        kind: kind.into(),
        name: name.into(),
        instances: Some(ids.iter().map(device).collect()),
        attributes: Some([("memory".into(), memory)].into()),
    }
}

fn node() -> Node {
    let devices = vec![
        group("nvidia", "gpu", "1080ti", &[("a1", true), ("a2", true), ("a3", false)], 11, "GiB"),
        group("nvidia", "gpu", "2080ti", &[("b1", true)], 11_264, "MiB"),
        group("intel", "fpga", "F100", &[("f1", false)], 4, "GiB"),
    ];
    let resources = NodeResources { devices: Some(devices), ..NodeResources::default() };
    Node { node_resources: Some(Arc::new(resources)), ..Node::default() }
}

/// `name count`, followed by `target,operand,value` for a constraint and `target,operand,value,weight` for an affinity.
fn request(text: &str) -> Request {
    let words: Vec<&str> = text.split(' ').collect();
    let mut asked =
        RequestedDevice { name: words[0].into(), count: words[1].parse().unwrap(), ..RequestedDevice::default() };
    for rule in &words[2..] {
        let parts: Vec<&str> = rule.split(',').collect();
        let (l_target, operand, r_target) =
            (parts[0].into(), parts[1].into(), parts[2].replace('+', ",").as_str().into());
        match parts.get(3) {
            Some(weight) => asked.affinities.get_or_insert_default().push(Affinity {
                l_target,
                operand,
                r_target,
                weight: weight.parse().unwrap(),
            }),
            None => asked.constraints.get_or_insert_default().push(Constraint { l_target, operand, r_target }),
        }
    }
    Request::new(&asked)
}

/// Assigns the requests one after another; the devices stay held.
fn check(requests: &[&str], expected: Expect) {
    let node = node();
    let mut held = Held::default();
    let mut told = String::new();
    for text in requests {
        let asked = [request(text)];
        let class = if lacks(&asked, &node) { ", class lacks it" } else { "" };
        let feasible = if feasible(&asked, &node) { "feasible" } else { "missing" };
        let outcome = match assign(&asked, &node, &mut held) {
            Ok(offer) => {
                let devices = &offer.devices[0];
                let ids = devices.device_ids.as_ref().unwrap().join(" ");
                let score = if offer.weights > 0.0 {
                    format!(", score {}", offer.matched / offer.weights)
                } else {
                    String::new()
                };
                format!("{}/{}/{} {ids}{score}", devices.vendor, devices.kind, devices.name)
            }
            Err(why) => why.to_owned(),
        };
        told += &format!("{text}: {feasible}{class}; {outcome}\n");
    }
    expected.assert_eq(&told);
}

#[test]
fn healthy_free_devices_of_a_matching_group_are_given() {
    check(
        &["nvidia/gpu/1080ti 1", "gpu 1", "nvidia/gpu 1", "gpu 1", "gpu 3", "amd/gpu 1", "intel/fpga 1", "gpu 0"],
        expect![[r#"
            nvidia/gpu/1080ti 1: feasible; nvidia/gpu/1080ti a1
            gpu 1: feasible; nvidia/gpu/2080ti b1
            nvidia/gpu 1: feasible; nvidia/gpu/1080ti a2
            gpu 1: feasible; no devices match request
            gpu 3: missing; no devices match request
            amd/gpu 1: missing, class lacks it; no devices match request
            intel/fpga 1: missing; no devices match request
            gpu 0: missing; invalid request of zero devices
        "#]],
    );
}

#[test]
fn feasibility_takes_the_first_group_that_fits_each_request() {
    let node = node();
    let fits = |texts: &[&str]| {
        let requests: Vec<Request> = texts.iter().map(|text| request(text)).collect();
        feasible(&requests, &node)
    };
    assert!(fits(&["gpu 1", "nvidia/gpu/2080ti 1"]));
    assert!(fits(&["gpu 2", "gpu 1"]));
    assert!(!fits(&["gpu 2", "gpu 2"]));
    // The second group would leave both devices of the first.
    assert!(!fits(&["gpu 1", "nvidia/gpu/1080ti 2"]));
    assert!(!fits(&["gpu 1 ${device.model},=,2080ti,50", "nvidia/gpu/1080ti 2"]));
}

#[test]
fn constraints_compare_attributes_with_their_units() {
    check(
        &[
            "gpu 1 ${device.attr.memory},>=,11GiB",
            "gpu 1 ${device.attr.memory},>,11GiB",
            "gpu 1 ${device.attr.memory},>=,100MHz",
            "gpu 2 ${device.model},=,1080ti",
            "gpu 1 ${device.attr.none},is_set,",
        ],
        expect![[r#"
            gpu 1 ${device.attr.memory},>=,11GiB: feasible; nvidia/gpu/2080ti b1
            gpu 1 ${device.attr.memory},>,11GiB: missing, class lacks it; no devices match request
            gpu 1 ${device.attr.memory},>=,100MHz: missing, class lacks it; no devices match request
            gpu 2 ${device.model},=,1080ti: feasible; nvidia/gpu/1080ti a1 a2
            gpu 1 ${device.attr.none},is_set,: missing, class lacks it; no devices match request
        "#]],
    );
}

#[test]
fn constraint_on_ids_selects_single_devices() {
    check(
        &[
            "gpu 1 ${device.ids},set_contains,a2",
            "gpu 1 ${device.ids},set_contains,a2",
            "gpu 1 ${device.ids},set_contains,x",
        ],
        expect![[r#"
            gpu 1 ${device.ids},set_contains,a2: feasible; nvidia/gpu/1080ti a2
            gpu 1 ${device.ids},set_contains,a2: feasible; no devices match request
            gpu 1 ${device.ids},set_contains,x: missing; no devices match request
        "#]],
    );
}

#[test]
fn group_with_the_best_affinities_is_taken() {
    check(
        &["gpu 1 ${device.model},=,1080ti,50", "gpu 1 ${device.model},=,1080ti,-50 ${device.vendor},=,nvidia,50"],
        expect![[r#"
            gpu 1 ${device.model},=,1080ti,50: feasible; nvidia/gpu/1080ti a1, score 1
            gpu 1 ${device.model},=,1080ti,-50 ${device.vendor},=,nvidia,50: feasible; nvidia/gpu/2080ti b1, score 0.5
        "#]],
    );
}

#[test]
fn device_of_two_allocs_is_free_when_both_have_released_it() {
    let node = node();
    let mut held = Held::default();
    let offer = assign(&[request("nvidia/gpu/2080ti 1")], &node, &mut held).unwrap();
    let mut resources = AllocatedResources::default();
    resources.tasks.get_or_insert_default().entry("t".into()).or_default().devices = Some(offer.devices);
    assert!(!held.take(&resources), "the device is held already");
    assert!(assign(&[request("nvidia/gpu/2080ti 1")], &node, &mut held).is_err());
    held.release(&resources);
    assert!(assign(&[request("nvidia/gpu/2080ti 1")], &node, &mut held).is_err());
    held.release(&resources);
    assert!(assign(&[request("nvidia/gpu/2080ti 1")], &node, &mut held).is_ok());
}

#[test]
fn values_of_different_kinds_satisfy_no_comparison() {
    let holds = |left: &str, operand: &str, right: &str| {
        let value = |text: &str| (!text.is_empty()).then(|| Value::parse(text));
        holds(operand, value(left).as_ref(), value(right).as_ref())
    };
    assert!(holds("1 GiB", "=", "1024 MiB"));
    assert!(holds("1GB", "<", "1GiB"));
    assert!(holds("10", ">", "9.5"));
    assert!(!holds("10", ">", "9 MiB"));
    assert!(!holds("10", "!=", "9 MiB"));
    assert!(!holds("10", "!=", "ten"));
    assert!(holds("true", "=", "True"));
    assert!(!holds("true", "<", "false"));
    assert!(holds("", "!=", "a"));
    assert!(!holds("", "!=", ""));
    assert!(holds("2.1", "version", ">= 2"));
    assert!(holds("a,b", "set_contains", "b"));
}
