//! Tests of odd policy texts.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::{parse, written};

fn check(texts: &[&str], expected: Expect) {
    let line = |text: &&str| match written(text) {
        Ok(rules) => {
            let shown = |value: &dyn std::fmt::Debug| format!("{value:?}");
            let spaces = rules.namespaces.iter().flatten();
            let spaces: Vec<String> =
                spaces.map(|rule| format!("{}: {}", rule.name, shown(&rule.capabilities))).collect();
            let pools: Vec<&String> = rules.node_pools.iter().flatten().map(|rule| &rule.name).collect();
            format!("{text:?}: namespaces {spaces:?} pools {pools:?}\n")
        }
        Err(error) => format!("{text:?}: {error}\n"),
    };
    expected.assert_eq(&texts.iter().map(line).collect::<String>());
}

#[test]
fn policy_block_without_its_label_is_refused() {
    check(
        &[
            "namespace { capabilities = [\"read-job\"] }",
            "namespace {}",
            "namespace \"a\" { policy = \"read\" } namespace {}",
            "namespace {} namespace \"a\" { policy = \"read\" }",
            "node_pool {}",
            "namespace = [{ policy = \"read\" }]",
            "namespace \"a\" { variables { path { } } }",
        ],
        expect![[r#"
            "namespace { capabilities = [\"read-job\"] }": Failed to parse ACL Policy: At 1:28: root.namespace[0]: not an object type for struct (*ast.ListType)
            "namespace {}": Failed to parse ACL Policy: invalid acl policy: runtime error: index out of range [0] with length 0
            "namespace \"a\" { policy = \"read\" } namespace {}": Failed to parse ACL Policy: invalid acl policy: runtime error: index out of range [1] with length 1
            "namespace {} namespace \"a\" { policy = \"read\" }": Invalid namespace name: &acl.NamespacePolicy{Name:"", Policy:"read", Capabilities:[]string(nil), Variables:(*acl.VariablesPolicy)(nil)}
            "node_pool {}": Failed to parse ACL Policy: invalid acl policy: runtime error: index out of range [0] with length 0
            "namespace = [{ policy = \"read\" }]": Failed to parse ACL Policy: At 1:16: root.namespace[0]: Name asked for 'key', impossible
            "namespace \"a\" { variables { path { } } }": Failed to parse ACL Policy: invalid acl policy: runtime error: index out of range [0] with length 0
        "#]],
    );
}

#[test]
fn policy_values_of_the_wrong_type_are_refused_with_their_path() {
    check(
        &[
            "namespace \"a\" { policy = true }",
            "namespace \"a\" { policy = 5 }",
            "namespace \"a\" { policy = [\"read\"] }",
            "namespace \"a\" { policy { } }",
            "namespace \"a\" { capabilities = \"read-job\" }",
            "namespace \"a\" { capabilities = [\"read-job\", 1.5] }",
            "namespace \"a\" { capabilities { x = 1 } }",
            "agent { policy \"x\" {} }",
            "{\"node\": {\"policy\": null}}",
            "{\"namespace\": {\"a\": {\"policy\": \"read\"}",
            "{\"namespace\": {\"a\": {\"policy\": \"re",
            "{\"namespace\": ]",
        ],
        expect![[r#"
            "namespace \"a\" { policy = true }": Failed to parse ACL Policy: At 1:26: root.namespace[0].Policy: unknown type for string *ast.LiteralType
            "namespace \"a\" { policy = 5 }": Invalid namespace policy: &acl.NamespacePolicy{Name:"a", Policy:"5", Capabilities:[]string(nil), Variables:(*acl.VariablesPolicy)(nil)}
            "namespace \"a\" { policy = [\"read\"] }": Failed to parse ACL Policy: At 1:26: root.namespace[0].Policy: unknown type for string *ast.ListType
            "namespace \"a\" { policy { } }": Failed to parse ACL Policy: invalid acl policy: runtime error: index out of range [0] with length 0
            "namespace \"a\" { capabilities = \"read-job\" }": Failed to parse ACL Policy: At 1:32: unknown slice type: *ast.LiteralType
            "namespace \"a\" { capabilities = [\"read-job\", 1.5] }": Failed to parse ACL Policy: At 1:45: root.namespace[0].Capabilities[1]: unknown type for string *ast.LiteralType
            "namespace \"a\" { capabilities { x = 1 } }": Failed to parse ACL Policy: At 1:32: root.namespace[0].Capabilities[0]: unknown type for string *ast.ObjectItem
            "agent { policy \"x\" {} }": Failed to parse ACL Policy: At 1:16: root.agent.Policy: unknown type for string *ast.ObjectList
            "{\"node\": {\"policy\": null}}": Invalid node policy: &acl.NodePolicy{Policy:""}
            "{\"namespace\": {\"a\": {\"policy\": \"read\"}": namespaces ["a: Some([\"list-jobs\", \"parse-job\", \"read-job\", \"csi-list-volume\", \"csi-read-volume\", \"read-job-scaling\", \"list-scaling-policies\", \"read-scaling-policy\"])"] pools []
            "{\"namespace\": {\"a\": {\"policy\": \"re": Failed to parse ACL Policy: 1:35: literal not terminated
            "{\"namespace\": ]": Failed to parse ACL Policy: Expected value, got unknown token: RBRACK
        "#]],
    );
}

proptest! {
    #[test]
    fn random_policies_never_panic(text in "(namespace|node|path|variables|policy|[a\"={}\\[\\],: \n*$\\\\]){0,40}") {
        let _ = (parse(&text), parse(&format!("{{{text}")));
    }
}

#[test]
fn nesting_is_bounded() {
    assert!(parse(&"{\"a\":".repeat(100_000)).is_err());
    assert!(parse(&format!("{{\"a\":{}", "[{\"a\":".repeat(100_000))).is_err());
}
