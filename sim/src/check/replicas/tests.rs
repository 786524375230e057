//! A region beside the authoritative one, in the notation `kind/key=content`.

use expect_test::{Expect, expect};

use super::{Replica, replica_is_equal};

fn replica(shared: &str, local: &str, wanted: &str) -> Replica {
    let object = |word: &str| {
        let (name, content) = word.split_once('=').unwrap();
        let (kind, key) = name.split_once('/').unwrap();
        ((if kind == "policy" { "policy" } else { "token" }, key.to_owned()), content.to_owned())
    };
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    Replica {
        region: "west".to_owned(),
        shared: shared.split_whitespace().map(object).collect(),
        local_tokens: words(local),
        wanted_tokens: words(wanted),
    }
}

fn check(authoritative: &str, (shared, local, wanted): (&str, &str, &str), expected: &Expect) {
    let verdict = replica_is_equal(&replica(authoritative, "", ""), &replica(shared, local, wanted));
    expected.assert_eq(&verdict.map_or_else(|error| error.to_string(), |()| "equal".to_owned()));
}

#[test]
fn same_objects_and_own_local_tokens_are_equal() {
    check("policy/a=1 token/b=2", ("policy/a=1 token/b=2", "l", "l"), &expect!["equal"]);
    check("", ("", "made-by-an-unanswered-request", ""), &expect!["equal"]);
}

#[test]
fn missing_surplus_and_other_objects_are_found() {
    check("policy/a=1 token/b=2", ("policy/a=1", "", ""), &expect!["west lacks the token b"]);
    check(
        "policy/a=1",
        ("policy/a=1 policy/b=1", "", ""),
        &expect!["west has the policy b, which the authoritative region does not have"],
    );
    check("policy/a=1", ("policy/a=2", "", ""), &expect!["west has another policy a than the authoritative region"]);
}

#[test]
fn lost_local_token_is_found() {
    check("policy/a=1", ("policy/a=1", "", "l"), &expect!["west has lost its local token l"]);
}
