//! Scores of nodes.

use std::sync::Arc;

use songline_model::{
    Affinity, Amount, Job, Node, NodeReservedResources, NodeResources, SchedulerAlgorithm, Spread, SpreadTarget, Str,
    TaskGroup,
};
use songline_scheduler::rank::affinity::Affinities;
use songline_scheduler::rank::first::FirstNodes;
use songline_scheduler::rank::spread::{DesiredSpread, Spreading};
use songline_scheduler::rank::{Scores, anti_affinity, fit_score};

/// Runs `fit NODE RESERVED ASK` (each `CPU/MEMORY`), `shared ALLOCS COUNT [penalty]`, `affinity MATCHED..`, `spread
/// WEIGHT/WEIGHTS COUNT TARGETS VALUE USED [+ ..]`, `even COUNTS..` (one score per value) or `first LIMIT SKIPS
/// SCORES..` (the scores that are compared).
pub(super) fn line(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["fit", node, reserved, ask] => shown(fit(node, reserved, ask)),
        ["shared", allocs, count] => shown(anti_affinity(number(allocs) as u64, number(count))),
        ["shared", allocs, count, "penalty"] => {
            let fit = anti_affinity(number(allocs) as u64, number(count));
            shown(Scores { fit, penalty: true, ..Scores::default() }.total())
        }
        ["affinity", ref matched @ ..] => shown(affinity(matched)),
        ["spread", ref spreads @ ..] => shown(spreads.split(|word| *word == "+").map(spread).sum()),
        ["even", ref counts @ ..] => even(counts),
        ["first", limit, skips, ref scores @ ..] => first(number(limit), number(skips) as usize, scores),
        _ => panic!("unknown line {line}"),
    }
}

fn shown(score: f64) -> String {
    format!("{score:.3}")
}

fn number(text: &str) -> i64 {
    text.parse().expect("a number")
}

fn pair(text: &str) -> (i64, i64) {
    let (cpu, memory) = text.split_once('/').expect("`CPU/MEMORY`");
    (number(cpu), number(memory))
}

fn fit(node: &str, reserved: &str, ask: &str) -> f64 {
    let mut resources = NodeResources::default();
    (resources.cpu.cpu_shares, resources.memory.memory_mb) = pair(node);
    let mut kept = NodeReservedResources::default();
    (kept.cpu.cpu_shares, kept.memory.memory_mb) = pair(reserved);
    let node = Node { node_resources: Some(Arc::new(resources)), reserved_resources: Some(kept), ..Node::default() };
    let (cpu, memory) = pair(ask);
    fit_score(SchedulerAlgorithm::Binpack, node.capacity(), Amount { cpu, memory, disk: 0 })
}

/// Weights: `dc1` 100, `dc2` -100, `kernel` 50, and `class` 50 of the group.
fn affinity(matched: &[&str]) -> f64 {
    let affinity = |left: &str, right: &str, weight| Affinity {
        l_target: left.into(),
        operand: "=".into(),
        r_target: right.into(),
        weight,
    };
    let of_job = vec![
        affinity("${node.datacenter}", "dc1", 100),
        affinity("${node.datacenter}", "dc2", -100),
        affinity("${attr.kernel.name}", "linux", 50),
    ];
    let job = Job { affinities: Some(of_job), ..Job::default() };
    let group = TaskGroup { affinities: Some(vec![affinity("${node.class}", "large", 50)]), ..TaskGroup::default() };
    let value = |name: &str, value: &str| Str::new(if matched.contains(&name) { value } else { "none" });
    let datacenter = if matched.contains(&"dc1") { "dc1".into() } else { value("dc2", "dc2") };
    Affinities::of(&job, &group).score(&Node {
        datacenter,
        node_class: value("class", "large"),
        attributes: Some(Arc::new([("kernel.name".into(), value("kernel", "linux"))].into())),
        ..Node::default()
    })
}

fn spread(words: &[&str]) -> f64 {
    let [weights, count, targets, at, used] = words else { panic!("not a spread: {words:?}") };
    let (weight, weights) = pair(weights);
    let target = |text: &str| {
        let (value, percent) = text.split_once(':').expect("`VALUE:PERCENT`");
        SpreadTarget { value: value.into(), percent: number(percent) as u64 }
    };
    let targets: Vec<SpreadTarget> = targets.split(',').map(target).collect();
    let spread = Spread { weight, spread_target: Some(targets), ..Spread::default() };
    let desired = DesiredSpread::new(&spread, number(count), weights);
    let named = desired.values().position(|value| *value == **at);
    let used = number(used) as u64;
    desired.score(desired.target(named), Spreading { here: used, untargeted: used, range: None }, &mut -1.0)
}

fn even(counts: &[&str]) -> String {
    let counts: Vec<u64> = counts.iter().map(|count| number(count) as u64).collect();
    let range = counts.iter().min().copied().zip(counts.iter().max().copied());
    let spread = DesiredSpread::new(&Spread { weight: 100, ..Spread::default() }, 10, 100);
    let score = |here: &u64| {
        let counts = Spreading { here: *here, range, untargeted: 0 };
        shown(spread.score(spread.target(None), counts, &mut -1.0))
    };
    counts.iter().map(score).collect::<Vec<_>>().join(" ")
}

fn first(limit: i64, skips: usize, scores: &[&str]) -> String {
    let mut scores = scores.iter().map(|score| number(score));
    let mut nodes = FirstNodes::new(skips);
    let compared = (0..limit).filter_map(|_| nodes.next(|score| *score as f64, || scores.next()));
    compared.map(|score| score.to_string()).collect::<Vec<_>>().join(" ")
}
