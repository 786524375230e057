//! Operands, targets, drivers and networks.

use std::sync::Arc;

use songline_model::{
    Constraint, DriverInfo, Job, NetworkResource, Node, NodeId, RequestedDevice, Resources, Task, TaskGroup,
};

use super::{Demands, Eligibility, Rule, has_driver, resolve, satisfied};

/// `lines`: left, operand, right; `-` is a missing value. Each must hold or not.
#[track_caller]
fn check(holds: bool, lines: &[(&str, &str, &str)]) {
    for (left, operand, right) in lines {
        let value = |text: &'static str| (text != "-").then_some(text);
        let (left, right): (&'static str, &'static str) = (leak(left), leak(right));
        assert_eq!(satisfied(operand, value(left), value(right)), holds, "{left} {operand} {right}");
    }
}

fn leak(text: &str) -> &'static str {
    String::leak(text.to_owned())
}

#[test]
fn constraint_operators_compare_equality_and_presence() {
    check(
        true,
        &[
            ("a", "=", "a"),
            ("a", "is", "a"),
            ("a", "!=", "b"),
            ("-", "!=", "foo"),
            ("a", "is_set", "-"),
            ("-", "is_not_set", "-"),
        ],
    );
    check(
        false,
        &[
            ("a", "=", "b"),
            ("-", "=", "-"),
            ("a", "not", "a"),
            ("-", "!=", "-"),
            ("-", "is_set", "-"),
            ("a", "nonsense", "a"),
        ],
    );
}

#[test]
fn constraint_order_is_numeric_when_both_operands_are_numbers() {
    check(true, &[("1", "<", "10"), ("1.5", "<", "10.5"), ("10", ">=", "10"), ("b", ">", "a"), ("9", "<", "10")]);
    check(false, &[("10", "<", "1"), ("10.5", "<", "1.5"), ("1", ">", "foo"), ("-", "<", "1")]);
}

#[test]
fn versions() {
    check(
        true,
        &[
            ("1.2.3", "version", "~> 1.0"),
            ("1.3.0-beta1+ent", "version", "= 1.3.0-beta1"),
            ("1.3.0-beta1", "semver", ">= 0.6.1"),
        ],
    );
    check(
        false,
        &[
            ("2.0.1", "version", "~> 1.0"),
            ("1.3.0-beta1", "version", ">= 0.6.1"),
            ("1.2.3", "semver", "~> 1.0"),
            ("x", "version", "> 1"),
        ],
    );
}

#[test]
fn constraint_operators_match_sets_and_regular_expressions() {
    check(
        true,
        &[
            ("foo,bar,baz", "set_contains", "foo,  bar  "),
            ("a,b", "set_contains_any", "z,b"),
            ("linux-5", "regexp", "^lin.*[0-9]"),
        ],
    );
    check(
        false,
        &[
            ("foo,bar,baz", "set_contains_all", "foo,bam"),
            ("a,b", "set_contains_any", "y,z"),
            ("a", "regexp", "("),
            ("-", "regexp", "."),
        ],
    );
}

fn node() -> Node {
    Node {
        id: NodeId::from_bytes([1; 16]),
        datacenter: "dc1".into(),
        name: "n1".into(),
        attributes: Some(Arc::new([("kernel.name".into(), "linux".into()), ("driver.old".into(), "1".into())].into())),
        meta: Some([("rack".into(), "r1".into())].into()),
        drivers: Some(
            [
                ("well".into(), DriverInfo { detected: true, healthy: true, ..DriverInfo::default() }),
                ("sick".into(), DriverInfo { detected: true, healthy: false, ..DriverInfo::default() }),
            ]
            .into(),
        ),
        ..Node::default()
    }
}

#[test]
fn constraint_targets_resolve_to_node_values_or_literals() {
    let node = node();
    let target = |text: &'static str| resolve(text, &node).map(|value| value.into_owned());
    assert_eq!(target("${node.datacenter}").as_deref(), Some("dc1"));
    assert_eq!(target("${node.unique.id}").as_deref(), Some("01010101-0101-0101-0101-010101010101"));
    assert_eq!(target("${attr.kernel.name}").as_deref(), Some("linux"));
    assert_eq!(target("${meta.rack}").as_deref(), Some("r1"));
    assert_eq!(target("plain").as_deref(), Some("plain"));
    assert_eq!((target("${meta.none}"), target("${node.nothing}"), target("${x}")), (None, None, None));
}

#[test]
fn constraint_rules_with_compiled_expressions_answer_as_their_operators() {
    let node = node();
    let holds = |left: &str, operand: &str, right: &str| {
        Rule::new(&Constraint { l_target: left.into(), operand: operand.into(), r_target: right.into() }).holds(&node)
    };
    assert!(holds("${attr.kernel.name}", "regexp", "^lin"));
    assert!(!holds("${attr.kernel.name}", "regexp", "("));
    assert!(!holds("${attr.none}", "regexp", ".*"));
    assert!(holds("1.2.3", "version", ">= 1.0, < 2"));
    assert!(holds("${meta.rack}", "=", "r1"));
}

#[test]
fn driver_is_available_when_the_node_reports_it() {
    let has = |driver| has_driver(&node(), driver);
    assert_eq!([has("well"), has("sick"), has("old"), has("none")], [true, false, true, false]);
}

/// A group that asks for a driver and a rack, and perhaps for a device and a bridge network.
fn group(driver: &str, rack: &str, more: &[&str]) -> TaskGroup {
    let device = RequestedDevice { name: "gpu".into(), count: 1, ..RequestedDevice::default() };
    let resources = Resources { devices: more.contains(&"device").then(|| vec![device]), ..Resources::default() };
    let bridge = NetworkResource { mode: "bridge".into(), ..NetworkResource::default() };
    let constraint = Constraint { l_target: "${meta.rack}".into(), operand: "=".into(), r_target: rack.into() };
    let task = Task { name: "t".into(), driver: driver.into(), resources: Some(resources), ..Task::default() };
    TaskGroup {
        name: "g".into(),
        constraints: Some(vec![constraint]),
        networks: more.contains(&"bridge").then(|| vec![bridge]),
        tasks: Some(vec![task]),
        ..TaskGroup::default()
    }
}

#[test]
fn group_is_checked_for_drivers_constraints_devices_and_networks_in_this_order() {
    let both = ["device", "bridge"];
    for (asked, says, class_may) in [
        (group("none", "r9", &both), Err("missing drivers"), false),
        (group("sick", "r9", &both), Err("missing drivers"), false),
        (group("sick", "r1", &[]), Err("missing drivers"), true),
        (group("well", "r9", &both), Err("${meta.rack} = r9"), false),
        (group("well", "r1", &both), Err("missing devices"), false),
        (group("well", "r1", &["bridge"]), Err("missing network"), false),
        (group("well", "r1", &[]), Ok(()), true),
    ] {
        let demands = Demands::of(&Job::default(), &asked);
        let checked = demands.check_group(&node());
        assert_eq!(checked.as_ref().err().map(|why| why.as_str()), says.err());
        assert_eq!(demands.may_meet_in_class(&node()), class_may, "{says:?}");
    }
}

#[test]
fn a_class_is_eligible_when_any_group_can_use_it_and_the_job_allows_it() {
    let mut known = Eligibility::default();
    for (group, class, eligible) in
        [("g", "a", true), ("h", "a", false), ("g", "b", false), ("h", "b", false), ("g", "c", true)]
    {
        known.record_group(&group.into(), &class.into(), eligible);
    }
    known.record_job(&"c".into(), false);
    known.record_job(&"b".into(), true);
    known.record_job(&"d".into(), true);
    let classes: Vec<_> = known.classes().into_iter().map(|(class, eligible)| format!("{class} {eligible}")).collect();
    assert_eq!(classes, ["a true", "b false", "c false", "d true"]);
}
