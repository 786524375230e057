//! Registrations and requested statuses on the state of a small cluster.

use std::sync::Arc;

use expect_test::{Expect, expect};
use songline_commands::RegisterNode;
use songline_model::{Dur, Node, NodeId, NodeStatus, Secret, Time};

use super::{missed_event, registration, status_update};
use crate::generic::tests::cluster::Cluster;

const NOW: Time = Time::from_secs(1_000_000);

/// A node as its agent describes it. `secret=`, `pool=` and `dc=` set those fields.
fn described(words: &[&str]) -> Node {
    let mut node = Node {
        id: NodeId::from_bytes([9; 16]),
        secret_id: Secret::new("s1"),
        name: "n9".into(),
        datacenter: "dc1".into(),
        attributes: Some(Arc::new([("kernel.name".into(), "linux".into())].into())),
        status: NodeStatus::Initializing,
        ..Node::default()
    };
    for word in words {
        match word.split_once('=') {
            Some(("secret", secret)) => node.secret_id = Secret::new(secret),
            Some(("pool", pool)) => node.node_pool = pool.into(),
            Some(("dc", datacenter)) => node.datacenter = datacenter.into(),
            other => panic!("no such word: {other:?}"),
        }
    }
    node
}

/// Lines are `register WORDS`, and `ready`, `down` or `missed`: a status that is requested for the node.
fn check(story: &str, expected: Expect) {
    let (mut cluster, mut now, mut said) = (Cluster::new(), NOW, String::new());
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        now = now.plus(Dur::from_secs(1));
        let words: Vec<_> = line.split_whitespace().collect();
        let answer = match words[..] {
            ["register", ref words @ ..] => match registration(&cluster.state, described(words), true, now) {
                Ok((RegisterNode { node, create_node_pool }, needs_evals)) => {
                    let told = format!("{} in {}, evaluations {needs_evals}", node.status, node.node_pool);
                    cluster.commit(RegisterNode { node, create_node_pool });
                    told
                }
                Err(why) => format!("refused: {why}"),
            },
            [asked] => {
                let (wanted, event) = match asked {
                    "ready" => (NodeStatus::Ready, None),
                    "down" => (NodeStatus::Down, None),
                    "missed" => (NodeStatus::Down, Some(missed_event(now))),
                    other => panic!("no such status: {other}"),
                };
                let node = Arc::clone(cluster.state.node(NodeId::from_bytes([9; 16])).unwrap());
                match status_update(&cluster.state, &node, wanted, event, now) {
                    Some(update) => {
                        let told = format!(
                            "{} {:?}",
                            update.status,
                            update.event.as_ref().map(|event| event.message.as_str())
                        );
                        cluster.commit(update);
                        told
                    }
                    None => "nothing to write".to_owned(),
                }
            }
            _ => panic!("no such line: {line}"),
        };
        said.push_str(&format!("{line}: {answer}\n"));
    }
    expected.assert_eq(&said);
}

#[test]
fn a_node_registers_with_its_secret_and_keeps_its_status() {
    check(
        "register
         ready
         ready
         register
         register secret=other",
        expect![[r#"
            register: initializing in default, evaluations false
            ready: ready None
            ready: nothing to write
            register: ready in default, evaluations false
            register secret=other: refused: node secret ID does not match. Not registering node.
        "#]],
    );
}

#[test]
fn incomplete_node_registration_is_refused() {
    check(
        "register dc=
         register secret=
         register pool=all
         register pool=a/b
         register pool=gpus",
        expect![[r#"
            register dc=: refused: missing datacenter for client registration
            register secret=: refused: missing node secret ID for client registration
            register pool=all: refused: node is not allowed to register in node pool "all"
            register pool=a/b: refused: invalid node pool: invalid name "a/b"
            register pool=gpus: initializing in gpus, evaluations false
        "#]],
    );
}

#[test]
fn node_events_record_the_missed_heartbeat_and_the_return() {
    check(
        "register
         ready
         missed
         missed
         ready
         down
         down",
        expect![[r#"
            register: initializing in default, evaluations false
            ready: ready None
            missed: down Some("Node heartbeat missed")
            missed: down Some("Node heartbeat missed")
            ready: ready Some("Node reregistered by heartbeat")
            down: down None
            down: nothing to write
        "#]],
    );
}
