//! Stories of effects: each line is a decision, a time, or the outcome of an attempt; the expected text is the work for
//! the shell.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use songline_commands::{FinishNodeDrains, UpdateNodeDrain};
use songline_model::DrainStrategy;

use super::*;
use crate::generic::tests::cluster::Cluster;

/// The language: `node NAME` and the like as in [`Cluster`]. `drained NAME` and `missed NAME` decide, `at SECS` prints
/// the work that is due then. `written`, `refused` and `fails` are outcomes of the oldest attempt under way.
/// `hear NAME` takes a heartbeat of a silent node, `drain NAME` starts a drain, `forget` clears all effects.
fn check(story: &str, expected: Expect) {
    let mut stage = Stage {
        cluster: Cluster::new(),
        outbox: Outbox::new(),
        now: Time::from_secs(1_000),
        keys: 0,
        heard: Vec::new(),
        under_way: BTreeMap::new(),
    };
    let mut said = String::new();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(answer) = stage.line(line) {
            said.push_str(&format!("{line}: {answer}\n"));
        }
    }
    expected.assert_eq(&said);
}

struct Stage {
    cluster: Cluster,
    outbox: Outbox,
    now: Time,
    keys: u32,
    heard: Vec<NodeId>,
    under_way: BTreeMap<Ticket, Attempt>,
}

impl Stage {
    fn line(&mut self, line: &str) -> Option<String> {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["drained", node] => {
                let id = self.node(node);
                let command = FinishNodeDrains { node_ids: vec![id], ..FinishNodeDrains::default() };
                Some(self.decide(
                    Subject::DrainEnd(id),
                    Deed::Write { cause: None, command: Box::new(command.into()) },
                    id,
                ))
            }
            ["missed", node] => {
                let id = self.node(node);
                let command = UpdateNodeStatus { node_id: id, status: NodeStatus::Down, ..UpdateNodeStatus::default() };
                Some(self.decide(Subject::NodeStatus(id), Deed::WriteStatus { before: NodeStatus::Ready, command }, id))
            }
            ["at", secs] => {
                self.now =
                    Time::from_secs(1_000).plus(Dur::from_millis((secs.parse::<f64>().unwrap() * 1000.0) as i64));
                Some(self.due())
            }
            ["written"] => Some(self.outcome(Outcome::Written(77))),
            ["refused"] => Some(self.outcome(Outcome::Refused)),
            ["fails"] => Some(self.outcome(Outcome::Lost)),
            ["hear", node] => {
                self.heard.push(self.node(node));
                None
            }
            ["drain", node] => {
                let (node_id, drain_strategy) = (self.node(node), Some(DrainStrategy::default()));
                self.cluster.commit(UpdateNodeDrain { node_id, drain_strategy, ..UpdateNodeDrain::default() });
                None
            }
            ["forget"] => {
                self.outbox.clear();
                None
            }
            _ => {
                self.cluster.line(line);
                None
            }
        }
    }

    fn node(&self, name: &str) -> NodeId {
        self.cluster.state.nodes().find(|node| node.name == *name).unwrap().id
    }

    fn decide(&mut self, subject: Subject, deed: Deed, node: NodeId) -> String {
        self.keys += 1;
        let basis = Basis::of(&self.cluster.state, [Row::Node(node)]);
        let effect = Effect { subject, actor: Actor::Leader("test".into()), deed, basis };
        let taken = self.outbox.decide(effect, format!("key-{}", self.keys).into(), self.now);
        if taken { "taken".into() } else { "put off".into() }
    }

    fn due(&mut self) -> String {
        let Due { attempts, over } =
            self.outbox.on_time(&self.cluster.state, self.now, |node| self.heard.contains(&node));
        let mut said: Vec<_> =
            attempts.iter().map(|it| format!("try {}, {} failures", it.key.key, it.earlier)).collect();
        said.extend(over.iter().map(ended));
        self.under_way.extend(attempts.into_iter().map(|attempt| (attempt.ticket, attempt)));
        if said.is_empty() { "nothing".into() } else { said.join("; ") }
    }

    fn outcome(&mut self, outcome: Outcome) -> String {
        let (ticket, _) = self.under_way.pop_first().unwrap();
        match self.outbox.on_outcome(ticket, outcome, self.now) {
            Told::Again { failures, at, .. } => format!("again in {}, failure {failures}", at.since(self.now)),
            Told::Over(over) => ended(&over),
            Told::Unknown => "nobody asked".into(),
        }
    }
}

fn ended(over: &Over) -> String {
    let how = match over.ending {
        Ending::Written(index) => format!("written at {index}"),
        Ending::Refused => "refused".into(),
        Ending::OutOfDate => "out of date".into(),
    };
    format!("{how}{}", if over.look_again { ", look again" } else { "" })
}

#[test]
fn effect_with_a_lost_write_is_retried_under_its_key_with_backoff() {
    check(
        "node n1
         drained n1
         at 0
         at 0
         fails
         at 0.2
         at 0.25
         fails
         at 0.75
         fails
         at 1.75
         fails
         at 3.75
         fails
         at 7.75
         fails
         at 15.75
         fails
         at 23.75
         written
         at 100",
        expect![[r#"
            drained n1: taken
            at 0: try key-1, 0 failures
            at 0: nothing
            fails: again in 250ms, failure 1
            at 0.2: nothing
            at 0.25: try key-1, 1 failures
            fails: again in 500ms, failure 2
            at 0.75: try key-1, 2 failures
            fails: again in 1s, failure 3
            at 1.75: try key-1, 3 failures
            fails: again in 2s, failure 4
            at 3.75: try key-1, 4 failures
            fails: again in 4s, failure 5
            at 7.75: try key-1, 5 failures
            fails: again in 8s, failure 6
            at 15.75: try key-1, 6 failures
            fails: again in 8s, failure 7
            at 23.75: try key-1, 7 failures
            written: written at 77
            at 100: nothing
        "#]],
    );
}

#[test]
fn refused_effect_is_not_retried() {
    check(
        "node n1
         drained n1
         at 0
         refused
         at 100",
        expect![[r#"
            drained n1: taken
            at 0: try key-1, 0 failures
            refused: refused
            at 100: nothing
        "#]],
    );
}

#[test]
fn decision_with_an_open_effect_is_put_off_until_the_effect_is_written() {
    check(
        "node n1
         drained n1
         at 0
         drained n1
         fails
         drained n1
         at 1
         written
         drained n1
         at 1
         written",
        expect![[r#"
            drained n1: taken
            at 0: try key-1, 0 failures
            drained n1: put off
            fails: again in 250ms, failure 1
            drained n1: put off
            at 1: try key-1, 1 failures
            written: written at 77, look again
            drained n1: taken
            at 1: try key-4, 0 failures
            written: written at 77
        "#]],
    );
}

#[test]
fn effect_is_dropped_when_its_rows_changed_before_the_retry() {
    check(
        "node n1
         drained n1
         at 0
         fails
         drain n1
         at 1
         at 100",
        expect![[r#"
            drained n1: taken
            at 0: try key-1, 0 failures
            fails: again in 250ms, failure 1
            at 1: out of date
            at 100: nothing
        "#]],
    );
}

#[test]
fn node_that_sent_a_heartbeat_is_not_marked_down_by_a_retry() {
    check(
        "node n1
         node n2
         missed n1
         missed n2
         at 0
         fails
         fails
         hear n2
         at 1
         written",
        expect![[r#"
            missed n1: taken
            missed n2: taken
            at 0: try key-1, 0 failures; try key-2, 0 failures
            fails: again in 250ms, failure 1
            fails: again in 250ms, failure 1
            at 1: try key-1, 1 failures; out of date
            written: written at 77
        "#]],
    );
}

#[test]
fn outcomes_of_forgotten_effects_are_ignored() {
    check(
        "node n1
         drained n1
         at 0
         forget
         drained n1
         fails
         at 0
         written",
        expect![[r#"
            drained n1: taken
            at 0: try key-1, 0 failures
            drained n1: taken
            fails: nobody asked
            at 0: try key-2, 0 failures
            written: written at 77
        "#]],
    );
}
