//! Tests of the combined permissions of policies.

use super::*;

fn namespace(name: &str, policy: &str, capabilities: &[&str]) -> Policy {
    let capabilities = capabilities.iter().map(|word| String::from(*word)).collect();
    let rule = NamespaceRule { name: name.into(), policy: policy.into(), capabilities, variables: None };
    Policy { namespaces: vec![rule], ..Policy::default() }
}

fn variables(name: &str, paths: &[(&str, &[&str])]) -> Policy {
    let rule = |(path, words): &(&str, &[&str])| PathRule {
        path: (*path).into(),
        capabilities: words.iter().map(|word| String::from(*word)).collect(),
    };
    let rule = NamespaceRule {
        name: name.into(),
        variables: Some(paths.iter().map(rule).collect()),
        ..NamespaceRule::default()
    };
    Policy { namespaces: vec![rule], ..Policy::default() }
}

/// The names of those namespaces in which the policies permit reading jobs.
fn readable<'n>(policies: &[Policy], names: &[&'n str]) -> Vec<&'n str> {
    let acl = Acl::of(policies);
    names.iter().copied().filter(|name| acl.namespace(name, NamespaceCapability::ReadJob)).collect()
}

#[test]
fn the_closest_label_decides_alone() {
    let policies =
        [namespace("*", "read", &[]), namespace("prod-*", "", &["list-jobs"]), namespace("prod-web", "write", &[])];
    assert_eq!(readable(&policies, &["default", "prod-db", "prod-web", "*"]), ["default", "prod-web", "*"]);
}

#[test]
fn an_exact_label_that_grants_nothing_still_decides() {
    let policies = [namespace("*", "read", &[]), namespace("quiet", "", &[])];
    assert_eq!(readable(&policies, &["default", "quiet"]), ["default"]);
}

#[test]
fn deny_overrides_grants_of_other_policies_under_the_same_label() {
    for order in [[0, 1], [1, 0]] {
        let both = [namespace("default", "write", &[]), namespace("default", "deny", &[])];
        let policies = order.map(|at| both[at].clone());
        assert_eq!(readable(&policies, &["default"]), [""; 0]);
    }
}

#[test]
fn last_of_equally_close_labels_decides() {
    let policies = [namespace("a*c", "", &["read-job"]), namespace("ab*", "deny", &[])];
    assert_eq!(readable(&policies, &["abc"]), [""; 0]);
    let policies = [namespace("a*c", "deny", &[]), namespace("ab*", "", &["read-job"])];
    assert_eq!(readable(&policies, &["abc"]), ["abc"]);
}

#[test]
fn star_in_a_policy_label_matches_any_text_or_none() {
    for (label, name, fits) in [
        ("*", "", true),
        ("a*", "a", true),
        ("*a", "ba", true),
        ("a*a", "a", false),
        ("a*b*c", "axbxc", true),
        ("a*b*c", "acb", false),
        ("*b*b", "bb", true),
        ("*b*b", "b", false),
        ("é*", "éa", true),
    ] {
        let acl = Acl::of(&[namespace(label, "", &["read-job"])]);
        assert_eq!(acl.namespace(name, NamespaceCapability::ReadJob), fits, "{label} and {name}");
    }
}

#[test]
fn unlabelled_policy_blocks_take_the_widest_access_unless_one_denies() {
    let node = |word: &str| Policy { node: Some(word.into()), ..Policy::default() };
    assert!(Acl::of(&[node("read"), node("write")]).node(Access::Write));
    assert!(!Acl::of(&[node("write"), node("deny")]).node(Access::Read));
    assert!(!Acl::of(&[node("scale")]).node(Access::Read));
}

#[test]
fn variable_read_includes_list_and_deny_wins() {
    let acl = Acl::of(&[variables("default", &[("app/*", &["read"]), ("app/x", &["read"]), ("app/x", &["deny"])])]);
    assert!(acl.variable("default", "app/a", VariableCapability::List));
    assert!(!acl.variable("default", "app/a", VariableCapability::Write));
    assert!(!acl.variable("default", "app/x", VariableCapability::Read));
    assert!(!acl.variable("other", "app/a", VariableCapability::Read));
}

#[test]
fn workload_reads_its_own_variable_paths_unless_denied_by_exact_path() {
    let workload = Workload { namespace: "default".into(), job: "web/a".into(), group: "g".into(), task: "t".into() };
    let acl = Acl::nothing().with_workload(workload.clone());
    let seen = |acl: &Acl, path: &str| acl.variable("default", path, VariableCapability::Read);
    for path in ["nomad/jobs", "nomad/jobs/web/a", "nomad/jobs/web/a/g", "nomad/jobs/web/a/g/t"] {
        assert!(seen(&acl, path), "{path}");
    }
    for path in ["nomad/jobs/web", "nomad/jobs/web/a/g/u", "nomad/jobs/web/a/h", "nomad", "nomad/jobsx", "app"] {
        assert!(!seen(&acl, path), "{path}");
    }
    assert!(!acl.variable("other", "nomad/jobs", VariableCapability::Read));
    assert!(!acl.variable("default", "nomad/jobs", VariableCapability::Write));
    let denied = Acl::of(&[variables("default", &[("nomad/jobs/web/a", &["deny"]), ("nomad/jobs/*", &["deny"])])])
        .with_workload(workload);
    assert!(!seen(&denied, "nomad/jobs/web/a"));
    assert!(seen(&denied, "nomad/jobs/web/a/g"));
}
