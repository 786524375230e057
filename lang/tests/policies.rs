//! Policies of the recorded conversations: what their rules are read as, and the texts of those that are refused.

#![expect(clippy::disallowed_methods, reason = "tests read the recordings")]

use std::fs;
use std::path::Path;

use serde_json::Value;
use songline_lang::acl;

/// Checks the rules of a case in their order, each with the error or with the rules shown; how many there were.
fn check(case: &str) -> usize {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance/cases/acl").join(format!("{case}.json"));
    let text = fs::read_to_string(&path).expect("the case is in the tree");
    let case: Value = serde_json::from_str(&text).expect("the case is JSON");
    let mut checked = 0;
    let mut last = String::new();
    for step in case["steps"].as_array().expect("a case has steps") {
        if let Some(rules) = step["req"]["body"]["Rules"].as_str() {
            rules.clone_into(&mut last);
            if let Some(refused) = step["res"]["text"].as_str().filter(|text| !text.is_empty()) {
                let error = acl::parse(rules).expect_err(rules);
                let said = format!("policy 0 invalid: 1 error occurred:\n\t* failed to parse rules: {error}\n\n");
                assert_eq!(said, refused, "{rules}");
                checked += 1;
            }
        } else if let Some(shown) = step["res"]["body"].get("RulesJSON") {
            let written = acl::written(&last).unwrap_or_else(|error| panic!("{last}: {error}"));
            assert_eq!(serde_json::to_value(written).expect("rules are JSON"), *shown, "{last}");
            checked += 1;
        }
    }
    checked
}

#[test]
fn policies_are_read_and_refused_as_recorded() {
    let cases = [
        "rules_syntax",
        "rules_blocks",
        "rules_variables",
        "rules_host_volume",
        "rules_node_pool",
        "rules_namespace_names",
        "rules_namespace_shorthand",
    ];
    let checked: usize = cases.into_iter().map(check).sum();
    assert!(checked > 100, "the cases still hold policies: {checked}");
}
