//! Preempted allocations in short notation, and the verdict.

use expect_test::{Expect, expect};

use super::{Eviction, Preemptor, preemption_is_sound};

/// Notation: `v:20@a` the victim with its priority and node, `p:70@a#9` its preemptor and the entry that placed it. The
/// preempting entry is 9.
fn check(victim: &str, by: &str, expected: &Expect) {
    let read = |word: &str| {
        let (alloc, rest) = word.split_once(':').unwrap();
        let (priority, node) = rest.split_once('@').unwrap();
        (alloc.to_owned(), priority.parse().unwrap(), node.to_owned())
    };
    let (victim, priority, node) = read(victim);
    let by = by.split_once('#').map(|(word, placed)| {
        let (alloc, priority, node) = read(word);
        Preemptor { alloc, priority, node, placed: placed.parse().unwrap() }
    });
    let verdict = preemption_is_sound(&Eviction { index: 9, victim, priority, node, by });
    expected.assert_eq(&verdict.map_or_else(|error| error.to_string(), |()| "sound".to_owned()));
}

#[test]
fn preemptor_of_clearly_higher_priority_on_the_same_node_is_sound() {
    check("v:20@a", "p:70@a#9", &expect!["sound"]);
    check("v:60@a", "p:70@a#9", &expect!["sound"]);
}

#[test]
fn preemption_by_near_or_lower_priority_is_found() {
    check("v:61@a", "p:70@a#9", &expect!["at index 9 allocation v of priority 61 was preempted by p of priority 70"]);
    check("v:80@a", "p:70@a#9", &expect!["at index 9 allocation v of priority 80 was preempted by p of priority 70"]);
}

#[test]
fn preemption_without_a_placement_there_is_found() {
    let in_vain = expect!["at index 9 allocation v on a was preempted in vain: no allocation took its place"];
    for by in ["", "p:70@b#9", "p:70@a#8"] {
        check("v:20@a", by, &in_vain);
    }
}
