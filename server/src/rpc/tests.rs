//! The node RPC with a server of its own: texts of refusals, and calls back to nodes. `tests/matrix.rs` tests rights.

mod defects;
mod matrix;
mod pulls;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use expect_test::expect;
use serde_json::{Value, json};
use songline_model::{NodeId, Secret};
use songline_rpc::agent_wire::ALLOC_SNAPSHOT;
use songline_rpc::msgpack::{Tree, from_slice, to_vec};
use songline_rpc::net::{self, Caller, Channel, Dispatch, OnSession, Pool, PoolLimits, Refusal};
use songline_rpc::port::Dialer;
use songline_rpc::{NodeAgent, RpcError};

use crate::config::{EncryptKey, ServerConfig};
use crate::testing::{Settings, TestServer};

pub(super) const NODE: &str = "5d1e0000-0000-0000-0000-000000000001";
pub(super) const SECRET: &str = "5d1e0000-0000-0000-0000-00000000000a";

fn settings(dir: &Path, acl: bool) -> Settings {
    Settings { data_dir: Some(dir.to_owned()), acl, ..Settings::default() }
}

pub(super) async fn start(dir: &Path, acl: bool) -> TestServer {
    TestServer::start(settings(dir, acl)).await.unwrap()
}

/// Starts a server with ACLs and an `encrypt` key.
pub(super) async fn start_with_key(dir: &Path) -> TestServer {
    let encrypt = Some(EncryptKey::parse(&EncryptKey::generate().unwrap()).unwrap());
    let server = ServerConfig { encrypt, ..ServerConfig::default() };
    TestServer::start(Settings { server, ..settings(dir, true) }).await.unwrap()
}

pub(crate) fn pool() -> Pool {
    Pool::new(Dialer::plain(), PoolLimits::default(), None)
}

/// Calls with a body written as JSON, and shows the answer as JSON.
pub(super) async fn call(pool: &Pool, address: &str, method: &str, body: Value) -> String {
    match pool.call(address, method, &to_vec(&body).unwrap()).await {
        Ok(answer) => match from_slice::<Value>(&answer) {
            Ok(answer) => answer.to_string(),
            Err(_) => format!("{:?}", Tree::read(&answer).unwrap()),
        },
        Err(error) => format!("error: {error}"),
    }
}

pub(super) fn node() -> Value {
    json!({
        "ID": NODE, "SecretID": SECRET, "Name": "far", "Datacenter": "dc1", "Attributes": { "kernel.name": "linux", "nomad.version": "1.6.5" },
        "Status": "initializing", "SchedulingEligibility": "eligible",
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_rpc_requests_are_refused_with_the_errors_that_agents_know() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), false).await;
    let (pool, address) = (pool(), server.core.rpc_addr());
    // Wait for the entries that a new cluster writes by itself; its first root key is the last one.
    server.core.wait_for_index(5, std::time::Duration::from_secs(60)).await.expect("a new cluster gets its root key");
    let alloc = json!([{ "ID": "5d1e0000-0000-0000-0000-000000000002", "NodeID": NODE, "ClientStatus": "running" }]);
    let mut told = String::new();
    for (method, body) in [
        ("Status.Ping", json!({ "AuthToken": "zz" })),
        ("Node.GetNode", json!({ "NodeID": NODE })),
        ("Node.List", json!({ "Region": "mars" })),
        ("Node.List", json!({ "Region": "global" })),
        ("Node.Nope", json!({ "Region": "global" })),
        ("Nope.Ping", json!({ "Region": "global" })),
        ("Node.Register", json!({ "Region": "global" })),
        ("Node.Register", json!({ "Region": "global", "Node": { "ID": NODE } })),
        ("Node.UpdateStatus", json!({ "Region": "global", "NodeID": NODE, "Status": "ready" })),
        ("Node.UpdateStatus", json!({ "Region": "global", "NodeID": NODE, "Status": "fine" })),
        ("Node.UpdateAlloc", json!({ "Region": "global", "Alloc": alloc })),
        ("Node.UpdateAlloc", json!({ "Region": "global" })),
        ("ClientStats.Stats", json!({ "Region": "global", "NodeID": NODE })),
        ("ClientAllocations.Restart", json!({ "Region": "global", "AllocID": NODE })),
        ("ACL.WhoAmI", json!({ "Region": "global" })),
        ("ACL.GetPolicies", json!({ "Region": "global", "Names": ["a"] })),
        ("Variables.Read", json!({ "Region": "global", "Path": "a/b" })),
        ("ServiceRegistration.DeleteByID", json!({ "Region": "global", "ID": "x", "AuthToken": SECRET })),
    ] {
        told.push_str(&format!("{method}: {}\n", call(&pool, &address, method, body).await));
    }
    expect![[r#"
        Status.Ping: {}
        Node.GetNode: error: rpc error: missing region for target RPC
        Node.List: error: rpc error: No path to region
        Node.List: {"Nodes":[],"Index":0,"KnownLeader":true,"LastContact":0,"NextToken":""}
        Node.Nope: error: rpc error: rpc: can't find method Node.Nope
        Nope.Ping: error: rpc error: rpc: can't find service Nope.Ping
        Node.Register: error: rpc error: missing node for client registration
        Node.Register: error: rpc error: missing datacenter for client registration
        Node.UpdateStatus: error: rpc error: node not found
        Node.UpdateStatus: error: rpc error: invalid status for node
        Node.UpdateAlloc: error: rpc error: node 5d1e0000-0000-0000-0000-000000000001 not found
        Node.UpdateAlloc: error: rpc error: must update at least one allocation
        ClientStats.Stats: error: rpc error: Unknown node 5d1e0000-0000-0000-0000-000000000001
        ClientAllocations.Restart: error: Unknown allocation "5d1e0000-0000-0000-0000-000000000001"
        ACL.WhoAmI: {"Identity":{"ACLToken":null,"Claims":null,"ClientID":null,"TLSName":"","RemoteIP":null},"Index":5,"LastContact":0,"KnownLeader":true,"NextToken":""}
        ACL.GetPolicies: error: ACL support disabled
        Variables.Read: {"Data":null,"Index":1,"LastContact":0,"KnownLeader":true,"NextToken":""}
        ServiceRegistration.DeleteByID: error: rpc error: service registration not found
    "#]].assert_eq(&told);
    // The zero time of an absent node has no JSON form.
    let connected = call(&pool, &address, "Status.HasNodeConn", json!({ "NodeID": NODE })).await;
    assert!(connected.starts_with(r#"{"Connected":false,"#), "{connected}");
    assert_eq!(call(&pool, &address, "Status.Leader", json!({})).await, format!("{address:?}"));
    assert_eq!(call(&pool, &address, "Status.Peers", json!({})).await, format!("[{address:?}]"));
    pool.close();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rpc_streams_of_unknown_objects_end_with_an_error_code() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), true).await;
    let (pool, address) = (pool(), server.core.rpc_addr());
    let mut told = String::new();
    for (method, request) in [
        ("FileSystem.Logs", json!({ "Region": "global", "AllocID": "5d1e0000-0000-0000-0000-000000000009" })),
        ("FileSystem.Logs", json!({ "Region": "global" })),
        (ALLOC_SNAPSHOT, json!({ "Region": "global" })),
        ("Nope.Nope", json!({ "Region": "global" })),
    ] {
        let said = match pool.stream(&address, method, &to_vec(&request).unwrap()).await {
            Ok(mut channel) => from_slice::<Value>(&channel.next().await.unwrap().unwrap()).unwrap().to_string(),
            Err(error) => error.to_string(),
        };
        told.push_str(&format!("{method}: {said}\n"));
    }
    expect![[r#"
        FileSystem.Logs: {"Error":{"Code":404,"Message":"Unknown allocation \"5d1e0000-0000-0000-0000-000000000009\""},"Payload":null}
        FileSystem.Logs: {"Error":{"Code":400,"Message":"Missing allocation ID"},"Payload":null}
        Allocations.Snapshot: {"Error":{"Code":500,"Message":"Permission denied"},"Payload":null}
        Nope.Nope: rpc error: Unknown rpc method: "Nope.Nope"
    "#]]
    .assert_eq(&told);
    pool.close();
    server.stop().await;
}

/// A node's side of its session.
struct FarNode;

impl Dispatch for FarNode {
    async fn call(&self, method: &str, _: Bytes, _: &Caller) -> Result<Bytes, Refusal> {
        match method {
            "ClientStats.Stats" => {
                Ok(to_vec(&json!({ "HostStats": { "Uptime": 7, "Memory": { "Used": 1.5 } } })).unwrap().into())
            }
            "FileSystem.List" => Err(RpcError::Coded { code: 404, text: "no such directory".into() }.into()),
            _ => Err(Refusal::NoMethod),
        }
    }

    fn streams(&self, _: &str) -> bool {
        false
    }

    async fn stream(&self, _: &str, _: Channel, _: &Caller) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_is_called_back_over_the_session_of_its_registration() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), false).await;
    let id: NodeId = NODE.parse().unwrap();
    let address = server.core.rpc_addr();
    let from = address.parse().unwrap();
    let on_session: OnSession = Arc::new(move |_, session| {
        tokio::spawn(net::serve_session(session, true, Caller::plain(from), Arc::new(FarNode)));
    });
    let pool = Pool::new(Dialer::plain(), PoolLimits::default(), Some(on_session));
    let registered = call(&pool, &address, "Node.Register", json!({ "Region": "global", "Node": node() })).await;
    assert!(registered.contains("HeartbeatTTL"), "{registered}");
    let connected = call(&pool, &address, "Status.HasNodeConn", json!({ "NodeID": NODE })).await;
    assert!(connected.contains("\"Connected\":true"), "{connected}");

    let far = server.core.any_node(id, Secret::default()).unwrap();
    let stats: Value = serde_json::from_slice(&far.host_stats().await.unwrap()).unwrap();
    assert_eq!(stats, json!({ "Uptime": 7, "Memory": { "Used": 1.5 } }));
    let refused = far.fs_list(Default::default(), "/").await.unwrap_err();
    assert_eq!(refused, RpcError::Coded { code: 404, text: "no such directory".into() });
    // The same call over another client's connection to the server.
    let by_rpc =
        call(&self::pool(), &address, "ClientStats.Stats", json!({ "Region": "global", "NodeID": NODE })).await;
    assert!(by_rpc.contains("\"Uptime\":7"), "{by_rpc}");

    // A wrong secret does not register a session as the node's.
    pool.close();
    let stranger = self::pool();
    let asked = json!({ "Region": "global", "NodeID": NODE, "SecretID": "another" });
    let refused = call(&stranger, &address, "Node.GetClientAllocs", asked).await;
    assert_eq!(refused, "error: rpc error: node secret ID does not match");
    tokio::time::timeout(std::time::Duration::from_secs(10), async {
        while server.core.connections.sessions.newest(id).is_some() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    let lost = far.host_stats().await.unwrap_err();
    assert_eq!(lost, RpcError::Coded { code: 404, text: "No path to node".into() });
    stranger.close();
    server.stop().await;
}
