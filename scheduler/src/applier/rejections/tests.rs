//! Stories of rejected plans: when a node is named, and how many may be.

use expect_test::{Expect, expect};

use super::*;

/// Each line: the second at which rejections of a node are counted, the node's number, and how many rejections.
/// `scores SECOND` tells the scores.
fn check(limits: RejectionLimits, story: &str, expected: Expect) {
    let mut rejections = Rejections::new(limits);
    let mut told = String::new();
    for line in story.lines().map(str::trim) {
        let words: Vec<_> = line.split(' ').collect();
        let at = |text: &str| Time::from_secs(1_000_000 + text.parse::<i64>().unwrap());
        let answer = match words[..] {
            ["scores", second] => {
                let scores = rejections.scores(at(second));
                scores.map(|(node, score)| format!("{}: {score}", node.as_bytes()[0])).collect::<Vec<_>>().join(", ")
            }
            [second, node, times] => {
                let node = NodeId::from_bytes([node.parse().unwrap(); 16]);
                let named = (0..times.parse().unwrap()).filter(|_| rejections.on_rejected(node, at(second))).count();
                if named > 0 { format!("ineligible ({named})") } else { "counted".into() }
            }
            _ => panic!("no such line: {line}"),
        };
        told += &format!("{line}: {answer}\n");
    }
    expected.assert_eq(&told);
}

fn limits(node_threshold: u32) -> RejectionLimits {
    RejectionLimits { enabled: true, node_threshold, node_window: Dur::from_secs(60) }
}

#[test]
fn node_is_named_at_the_threshold_within_the_window() {
    check(
        limits(3),
        "0 1 2
         30 2 1
         59 1 1
         scores 59
         scores 90
         scores 119
         scores 120",
        expect![[r#"
            0 1 2: counted
            30 2 1: counted
            59 1 1: ineligible (1)
            scores 59: 1: 3, 2: 1
            scores 90: 1: 1, 2: 1
            scores 119: 1: 1
            scores 120: 
        "#]],
    );
}

#[test]
fn rejections_outside_of_the_window_do_not_count() {
    check(
        limits(3),
        "0 1 2
         61 1 2
         70 1 1",
        expect![[r#"
            0 1 2: counted
            61 1 2: counted
            70 1 1: ineligible (1)
        "#]],
    );
}

#[test]
fn ten_nodes_are_named_at_once_and_then_one_every_six_minutes() {
    let story: Vec<String> = (1..=12).map(|node| format!("0 {node} 1")).collect();
    let later = ["359 13 1", "360 14 1", "360 15 1", "1440 16 5", "100000 17 12"].map(str::to_owned);
    check(
        limits(1),
        &[&story[..], &later[..]].concat().join("\n"),
        expect![[r#"
            0 1 1: ineligible (1)
            0 2 1: ineligible (1)
            0 3 1: ineligible (1)
            0 4 1: ineligible (1)
            0 5 1: ineligible (1)
            0 6 1: ineligible (1)
            0 7 1: ineligible (1)
            0 8 1: ineligible (1)
            0 9 1: ineligible (1)
            0 10 1: ineligible (1)
            0 11 1: counted
            0 12 1: counted
            359 13 1: counted
            360 14 1: ineligible (1)
            360 15 1: counted
            1440 16 5: ineligible (3)
            100000 17 12: ineligible (10)
        "#]],
    );
}

#[test]
fn disabled_tracker_counts_and_names_no_node() {
    check(
        RejectionLimits { enabled: false, ..limits(2) },
        "0 1 5
         scores 1",
        expect![[r#"
            0 1 5: counted
            scores 1: 1: 2
        "#]],
    );
}

#[test]
fn of_more_than_fifty_nodes_the_one_rejected_longest_ago_is_forgotten() {
    let mut rejections = Rejections::new(limits(3));
    for node in 1..=51 {
        rejections.on_rejected(NodeId::from_bytes([node; 16]), Time::from_secs(1_000_000 + i64::from(node)));
    }
    let kept: Vec<_> = rejections.scores(Time::from_secs(1_000_051)).map(|(node, _)| node.as_bytes()[0]).collect();
    assert_eq!(kept, Vec::from_iter(2..=51));
}
