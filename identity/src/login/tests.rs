//! Stories of logins: claims and mappings, and the grants of each binding rule.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};
use songline_model::{AclAuthMethodConfig, AclBindingRule};

use super::*;
use crate::jwt::Claims;

fn claims(value: Value) -> Claims {
    match value {
        Value::Object(claims) => claims,
        other => panic!("claims are an object, not {other}"),
    }
}

fn identity(said: Value, mappings: Value) -> Result<Identity, ClaimError> {
    let config: AclAuthMethodConfig = serde_json::from_value(mappings).unwrap();
    Identity::of(&claims(said), &config)
}

/// The identity of Ann of team Ops, with some odd claims.
fn ann() -> Identity {
    let said = json!({"team": "Ops", "roles": ["dev", "", "Admin", 3, true, 2.9], "on": true, "age": 41.9, "deep": {"er": {"a/b": "x"}}});
    let mappings = json!({
        "ClaimMappings": {"team": "team", "missing": "missing", "on": "on", "age": "age", "/deep/er/a~1b": "deep"},
        "ListClaimMappings": {"roles": "roles", "team": "teams"},
    });
    identity(said, mappings).unwrap()
}

/// Shows the grants of rules of one kind to Ann: each line is a selector, an arrow and a name.
fn check(kind: &str, story: &str, expected: Expect) {
    let mut out = String::new();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (selector, name) = line.split_once("->").unwrap();
        let (selector, bind_name, bind_kind) = (selector.trim().into(), name.trim().into(), kind.into());
        let rule = AclBindingRule { selector, bind_name, bind_kind, ..AclBindingRule::default() };
        let made = match bind([&rule].into_iter(), &ann()) {
            Ok(bindings) => format!("{bindings:?}"),
            Err(error) => error.to_string(),
        };
        out.push_str(&format!("{line}\n    {made}\n"));
    }
    expected.assert_eq(&out);
}

#[test]
fn mapped_claims_get_names_and_single_values_become_text() {
    expect![[
        r#"{"value":{"age":"41","deep":"x","on":"true","team":"Ops"},"list":{"roles":["dev","Admin","3","true","2"],"teams":["Ops"]}}"#
    ]]
    .assert_eq(&serde_json::to_string(&ann()).unwrap());
    let big = identity(json!({"id": 9007199254740993_u64}), json!({"ClaimMappings": {"id": "id"}})).unwrap();
    expect![[r#"{"value":{"id":"9007199254740993"},"list":{}}"#]].assert_eq(&serde_json::to_string(&big).unwrap());
}

#[test]
fn claim_that_cannot_become_text_fails_the_login() {
    let stories = [
        (json!({"a": ["x"]}), json!({"ClaimMappings": {"a": "a"}})),
        (json!({"a": {"x": 1}}), json!({"ClaimMappings": {"a": "a"}})),
        (json!({"a": null}), json!({"ClaimMappings": {"a": "a"}, "ListClaimMappings": {"a": "a"}})),
        (json!({"a": {"x": 1}}), json!({"ListClaimMappings": {"a": "a"}})),
        (json!({"a": ["x", ["y", null]]}), json!({"ListClaimMappings": {"a": "a"}})),
        (json!({"a": ["x", {"z": 1, "b": "c"}]}), json!({"ListClaimMappings": {"a": "a"}})),
        (json!({"a": ["x", null]}), json!({"ListClaimMappings": {"a": "a"}})),
        (json!({"a": {"b": ["x"]}}), json!({"ClaimMappings": {"/a/b": "a"}})),
        (json!({"a": {"b": ["x"]}}), json!({"ClaimMappings": {"/a/b/0": "a", "/a/c": "b", "/": "c"}})),
    ];
    let told = stories.map(|(said, mappings)| {
        identity(said, mappings)
            .map_or_else(|error| error.to_string(), |identity| serde_json::to_string(&identity).unwrap())
    });
    expect![[r#"
        error converting claim 'a' to string from unknown type []interface {}
        error converting claim 'a' to string from unknown type map[string]interface {}
        {"value":{},"list":{}}
        "a" list claim could not be converted to string list
        value [y <nil>] in "a" list claim could not be parsed as string
        value map[b:c z:1] in "a" list claim could not be parsed as string
        value <nil> in "a" list claim could not be parsed as string
        error converting claim '/a/b' to string from unknown type []interface {}
        {"value":{"a":"x"},"list":{}}"#]]
    .assert_eq(&told.join("\n"));
}

#[test]
fn binding_rule_selectors_match_logins_and_broken_ones_match_none() {
    check(
        "policy",
        r#"-> p
        value.team == Ops -> p
        value.team == ops -> p
        value.missing == "" -> p
        value.missing is empty -> p
        value.missing != x -> p
        value.never != x -> p
        value.never == x -> p
        "dev" in list.roles -> p
        "2" in list.roles and "3" in list.roles and "true" in list.roles -> p
        list.roles contains "Admin" -> p
        list.nothing is empty -> p
        "x" not in list.nothing -> p
        value.team matches "^O" -> p
        not (value.team == Ops) -> p
        value.team == -> p
        nope == 3 -> p
        value is empty -> p
        value.team matches "(" -> p
        value.deep == x and value.age == 41 and value.on == true -> p"#,
        expect![[r#"
            -> p
                [Policy("p")]
            value.team == Ops -> p
                [Policy("p")]
            value.team == ops -> p
                []
            value.missing == "" -> p
                []
            value.missing is empty -> p
                [Policy("p")]
            value.missing != x -> p
                [Policy("p")]
            value.never != x -> p
                [Policy("p")]
            value.never == x -> p
                []
            "dev" in list.roles -> p
                [Policy("p")]
            "2" in list.roles and "3" in list.roles and "true" in list.roles -> p
                [Policy("p")]
            list.roles contains "Admin" -> p
                [Policy("p")]
            list.nothing is empty -> p
                [Policy("p")]
            "x" not in list.nothing -> p
                [Policy("p")]
            value.team matches "^O" -> p
                [Policy("p")]
            not (value.team == Ops) -> p
                []
            value.team == -> p
                []
            nope == 3 -> p
                []
            value is empty -> p
                []
            value.team matches "(" -> p
                []
            value.deep == x and value.age == 41 and value.on == true -> p
                [Policy("p")]
        "#]],
    );
}

#[test]
fn bind_names_are_interpolated_with_lowercased_claims() {
    check(
        "role",
        r#"-> plain
        -> team-${value.team}
        -> ${ value.team }${value.missing}-${value.age}
        -> ${value.nope}
        -> ${list.roles}
        -> team-${lower(value.team)}
        -> a${lower("}")}
        -> ${value.
        -> ${
        -> ${}
        -> ${value.team
        -> ${value.team value.team}
        -> ${"x
        -> a-${"Ops"}-${7}
        -> $${value.team}
        -> a$b
        -> ../${value.team}
        -> ${value.missing}"#,
        expect![[r#"
            -> plain
                [Role("plain")]
            -> team-${value.team}
                [Role("team-ops")]
            -> ${ value.team }${value.missing}-${value.age}
                [Role("ops-41")]
            -> ${value.nope}
                cannot compute "role" bind name for bind target: 1:3: unknown variable accessed: value.nope
            -> ${list.roles}
                cannot compute "role" bind name for bind target: 1:3: unknown variable accessed: list.roles
            -> team-${lower(value.team)}
                cannot compute "role" bind name for bind target: 1:8: unknown function called: lower
            -> a${lower("}")}
                cannot compute "role" bind name for bind target: 1:4: unknown function called: lower
            -> ${value.
                cannot compute "role" bind name for bind target: parse error at 1:9: expected "}" but found end of string
            -> ${
                cannot compute "role" bind name for bind target: parse error at 1:3: expected expression but found end of string
            -> ${}
                cannot compute "role" bind name for bind target: parse error at 1:3: expected expression but found "}"
            -> ${value.team
                cannot compute "role" bind name for bind target: parse error at 1:13: expected "}" but found end of string
            -> ${value.team value.team}
                cannot compute "role" bind name for bind target: parse error at 1:14: expected "}" but found "v"
            -> ${"x
                cannot compute "role" bind name for bind target: parse error at 1:5: expected "\"" but found end of string
            -> a-${"Ops"}-${7}
                [Role("a-Ops-7")]
            -> $${value.team}
                computed "role" bind name for bind target is invalid: "${value.team}"
            -> a$b
                computed "role" bind name for bind target is invalid: "a$b"
            -> ../${value.team}
                computed "role" bind name for bind target is invalid: "../ops"
            -> ${value.missing}
                computed "role" bind name for bind target is invalid: ""
        "#]],
    );
}

#[test]
fn management_binding_replaces_policies_and_roles() {
    let rule = |kind: &str, name: &str| AclBindingRule {
        bind_kind: kind.into(),
        bind_name: name.into(),
        ..AclBindingRule::default()
    };
    let rules = [rule("policy", "p"), rule("role", "r"), rule("management", ""), rule("policy", "${broken")];
    expect!["Ok([Management])"].assert_eq(&format!("{:?}", bind(rules.iter(), &ann())));
    expect![[r#"Ok([Policy("p"), Role("r")])"#]].assert_eq(&format!("{:?}", bind(rules[..2].iter(), &ann())));
    assert!(bind(rules[3..].iter(), &ann()).is_err());
}

#[test]
fn user_info_claims_override_all_but_issuer_and_subject() {
    let mut said = claims(json!({"iss": "a", "sub": "ann", "team": "ops"}));
    overlay(&mut said, claims(json!({"iss": "b", "sub": "eve", "team": "dev", "mail": "m"})));
    assert_eq!(Value::Object(said), json!({"iss": "a", "sub": "ann", "team": "dev", "mail": "m"}));
}

proptest! {
    #[test]
    fn random_bind_names_never_panic(name in "[${}\"\\\\a.( )é\n]{0,40}") {
        let rule = AclBindingRule { bind_kind: "role".into(), bind_name: name.as_str().into(), ..AclBindingRule::default() };
        let _bound = bind([&rule].into_iter(), &ann());
    }
}
