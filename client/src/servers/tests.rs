//! Calls to servers of which some are unreachable, without a leader, or refuse.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;
use expect_test::{Expect, expect};
use songline_model::{NodeId, Secret};
use songline_rpc::message::{AllocGetAllocsAnswer, NodeServerInfo, NodeUpdate};
use songline_rpc::net::{self, Channel, Dispatch, Refusal};
use songline_rpc::port::{self, Accept, Conn, FirstByte, PortLimits};
use songline_rpc::world::Machine;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::*;

/// Scripted reaction of a server to a call.
#[derive(Debug, Clone, PartialEq)]
enum Does {
    Answers,
    HasNoLeader,
    HangsUp,
    Refuses(&'static str),
}

/// A server that follows the script call by call, and answers every call once the script has ended.
struct Scripted {
    name: usize,
    script: Arc<Mutex<VecDeque<Does>>>,
    said: Arc<Mutex<Vec<String>>>,
    members: Arc<Mutex<Vec<Str>>>,
}

impl Accept for Scripted {
    async fn accept(self: Arc<Self>, first: FirstByte, conn: Conn, from: SocketAddr) {
        net::serve(first, conn, net::Caller::plain(from), self).await;
    }
}

impl Dispatch for Scripted {
    async fn call(&self, method: &str, _: Bytes, caller: &net::Caller) -> Result<Bytes, Refusal> {
        let does = self.script.lock().pop_front().unwrap_or(Does::Answers);
        self.said.lock().push(format!("{} {method}: {does:?}", self.name));
        match does {
            Does::Answers if method == "Alloc.GetAllocs" => Ok(encoded(&AllocGetAllocsAnswer::default())?),
            Does::Answers => {
                let info =
                    |address: &Str| NodeServerInfo { rpc_advertise_addr: address.clone(), ..NodeServerInfo::default() };
                let servers = self.members.lock().iter().map(info).collect();
                Ok(encoded(&NodeUpdate { servers: Some(servers), ..NodeUpdate::default() })?)
            }
            Does::HasNoLeader => Err(RpcError::NoLeader.into()),
            Does::HangsUp => {
                caller.session.as_ref().expect("nodes call over sessions").close();
                std::future::pending().await
            }
            Does::Refuses(text) => Err(RpcError::remote(text).into()),
        }
    }

    fn streams(&self, _: &str) -> bool {
        false
    }

    async fn stream(&self, _: &str, _: Channel, _: &net::Caller) {}
}

struct Story {
    node: NetServers,
    /// Shared by all servers: reactions in the order in which calls arrive.
    script: Arc<Mutex<VecDeque<Does>>>,
    said: Arc<Mutex<Vec<String>>>,
    members: Arc<Mutex<Vec<Str>>>,
    closing: CancellationToken,
}

impl Story {
    /// Starts `count` servers, named by the order in which the node asks them.
    async fn begin(count: usize) -> Self {
        let mut listeners = std::collections::BTreeMap::new();
        for _ in 0..count {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
            listeners.insert(Str::from(listener.local_addr().expect("is bound").to_string()), listener);
        }
        let node = NetServers::new(
            listeners.keys().cloned().collect(),
            "global".into(),
            Arc::new(Machine::default()),
            Dialer::plain(),
            None,
        );
        let members = Arc::new(Mutex::new(node.known()));
        let (script, said, closing) = (Arc::default(), Arc::default(), CancellationToken::new());
        for (at, address) in node.known().iter().enumerate() {
            let listener = listeners.remove(address).expect("each is known once");
            let (script, said, members) = (Arc::clone(&script), Arc::clone(&said), Arc::clone(&members));
            let server = Arc::new(Scripted { name: at + 1, script, said, members });
            tokio::spawn(port::serve(listener, PortLimits::default(), server, closing.clone()));
        }
        Self { node, script, said, members, closing }
    }

    async fn call(&self, call: &str) -> String {
        let from = NodeAuth { id: NodeId::from_bytes([1; 16]), secret: Secret::new("secret") };
        let result = match call {
            "heartbeat" => self.node.node_update_status(&from, NodeStatus::Ready).await.map(drop),
            "fetch" => self.node.alloc_get_allocs(&from, Vec::new()).await.map(drop),
            other => panic!("{other} is no call"),
        };
        match result {
            Ok(()) => "ok".to_owned(),
            Err(RpcError::Lost(_)) => "lost".to_owned(),
            Err(error) => error.to_string(),
        }
    }
}

impl Drop for Story {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

/// Makes calls to two servers that follow the script; prints the calls that servers saw and the node's results.
async fn check(script: &[Does], calls: &[&str], expected: Expect) {
    let story = Story::begin(2).await;
    story.script.lock().extend(script.iter().cloned());
    let mut told = String::new();
    for call in calls {
        let result = story.call(call).await;
        for line in std::mem::take(&mut *story.said.lock()) {
            told.push_str(&format!("  {line}\n"));
        }
        told.push_str(&format!("{call}: {result}\n"));
    }
    expected.assert_eq(&told);
}

#[tokio::test]
async fn a_node_stays_with_its_server_while_that_answers() {
    check(
        &[],
        &["heartbeat", "fetch", "heartbeat"],
        expect![[r#"
          1 Node.UpdateStatus: Answers
        heartbeat: ok
          1 Alloc.GetAllocs: Answers
        fetch: ok
          1 Node.UpdateStatus: Answers
        heartbeat: ok
    "#]],
    )
    .await;
}

#[tokio::test]
async fn interrupted_read_is_repeated_at_the_next_server_which_is_kept() {
    check(
        &[Does::HangsUp],
        &["fetch", "heartbeat"],
        expect![[r#"
          1 Alloc.GetAllocs: HangsUp
          2 Alloc.GetAllocs: Answers
        fetch: ok
          2 Node.UpdateStatus: Answers
        heartbeat: ok
    "#]],
    )
    .await;
}

#[tokio::test]
async fn interrupted_write_fails_and_the_next_call_goes_to_another_server() {
    check(
        &[Does::HangsUp],
        &["heartbeat", "heartbeat"],
        expect![[r#"
          1 Node.UpdateStatus: HangsUp
        heartbeat: lost
          2 Node.UpdateStatus: Answers
        heartbeat: ok
    "#]],
    )
    .await;
}

#[tokio::test]
async fn call_without_a_leader_is_repeated_at_each_server_until_one_leads() {
    check(
        &[Does::HasNoLeader, Does::HasNoLeader, Does::HasNoLeader],
        &["heartbeat"],
        expect![[r#"
          1 Node.UpdateStatus: HasNoLeader
          2 Node.UpdateStatus: HasNoLeader
          1 Node.UpdateStatus: HasNoLeader
          2 Node.UpdateStatus: Answers
        heartbeat: ok
    "#]],
    )
    .await;
}

#[tokio::test]
async fn refused_call_is_not_repeated_and_keeps_the_server() {
    check(
        &[Does::Refuses("node not found")],
        &["heartbeat", "heartbeat"],
        expect![[r#"
          1 Node.UpdateStatus: Refuses("node not found")
        heartbeat: rpc error: node not found
          1 Node.UpdateStatus: Answers
        heartbeat: ok
    "#]],
    )
    .await;
}

#[tokio::test]
async fn single_read_skips_a_server_that_does_not_listen() {
    let story = Story::begin(2).await;
    let dead = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port").local_addr().expect("is bound");
    let alive = story.node.known()[0].clone();
    let mut met = 0;
    // The order is random: in 20 rounds the dead server comes first often enough.
    for _ in 0..20 {
        let addresses = vec![Str::from(dead.to_string()), alive.clone()];
        let node = NetServers::new(addresses, "global".into(), Arc::new(Machine::default()), Dialer::plain(), None);
        met += usize::from(node.known()[0] == dead.to_string());
        let from = NodeAuth { id: NodeId::from_bytes([1; 16]), secret: Secret::new("secret") };
        node.alloc_get_allocs(&from, Vec::new()).await.expect("the other one answers");
        assert_eq!(node.known()[0], alive);
    }
    assert!(met > 0);
}

#[tokio::test]
async fn server_list_of_a_heartbeat_answer_replaces_the_known_servers() {
    let story = Story::begin(1).await;
    *story.members.lock() = vec!["192.0.2.1:4647".into()];
    assert_eq!(story.call("heartbeat").await, "ok");
    assert_eq!(story.node.known(), ["192.0.2.1:4647"]);
    story.node.replace(vec![]).expect_err("nobody to ask is not taken");
}

#[tokio::test]
async fn heartbeat_answer_without_servers_fails_and_keeps_the_known_servers() {
    let story = Story::begin(1).await;
    let before = story.node.known();
    story.members.lock().clear();
    assert_eq!(story.call("heartbeat").await, "no servers");
    assert_eq!(story.node.known(), before);
}
