//! Calls that the reference accepts from any caller on this port. The rights that each method needs are in
//! `matrix.rs`.

use serde_json::{Value, json};

use super::{NODE, SECRET, call, node, pool, start};

const OTHER: &str = "5d1e0000-0000-0000-0000-000000000009";
const OTHER_SECRET: &str = "5d1e0000-0000-0000-0000-00000000000c";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defect_9_node_reports_are_accepted_only_from_that_node() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), true).await;
    let (pool, address) = (pool(), server.core.rpc_addr());
    let register = |id: &str, secret: &str| {
        let mut node = node();
        (node["ID"], node["SecretID"]) = (json!(id), json!(secret));
        json!({ "Region": "global", "Node": node, "AuthToken": secret })
    };
    for (id, secret) in [(NODE, SECRET), (OTHER, OTHER_SECRET)] {
        let told = call(&pool, &address, "Node.Register", register(id, secret)).await;
        assert!(!told.starts_with("error"), "{told}");
    }
    let event = json!({ "Message": "made up", "Subsystem": "Cluster", "Details": {} });
    let alloc = json!({ "ID": "5d1e0000-0000-0000-0000-000000000002", "NodeID": NODE, "ClientStatus": "failed" });
    let asked = |method: &str, secret: &str| -> Value {
        let mut body = json!({ "Region": "global", "AuthToken": secret });
        let said = match method {
            "Node.UpdateStatus" => json!({ "NodeID": NODE, "Status": "down" }),
            "Node.UpdateAlloc" => json!({ "Alloc": [alloc] }),
            "Node.EmitEvents" => json!({ "NodeEvents": { NODE: [event] } }),
            "Node.GetClientAllocs" => json!({ "NodeID": NODE, "SecretID": secret }),
            _ => json!({ "AllocIDs": ["5d1e0000-0000-0000-0000-000000000002"] }),
        };
        for (name, value) in said.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    };
    let mut told = String::new();
    for method in ["Node.UpdateStatus", "Node.UpdateAlloc", "Node.EmitEvents", "Node.GetClientAllocs"] {
        for (who, secret) in
            [("nobody", ""), ("a stranger", "5d1e0000-0000-0000-0000-0000000000ff"), ("another node", OTHER_SECRET)]
        {
            told.push_str(&format!(
                "{method} from {who}: {}\n",
                call(&pool, &address, method, asked(method, secret)).await
            ));
        }
    }
    for who in ["", "5d1e0000-0000-0000-0000-0000000000ff"] {
        told.push_str(&format!(
            "Alloc.GetAllocs: {}\n",
            call(&pool, &address, "Alloc.GetAllocs", asked("Alloc.GetAllocs", who)).await
        ));
    }
    assert!(told.lines().all(|line| line.contains(": error: ")), "{told}");
    let view = songline_api::Reads::view(&*server.core);
    let row = view.node(NODE.parse().unwrap()).expect("is there");
    let made_up = row.events.iter().flatten().any(|event| event.message == "made up");
    assert!(row.status != songline_model::NodeStatus::Down && !made_up, "{row:?}");
    pool.close();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defect_17_rpc_port_serves_no_keys_and_no_server_work() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), true).await;
    server.core.signer().await.unwrap();
    let (pool, address) = (pool(), server.core.rpc_addr());
    let methods = [
        "Keyring.Get",
        "Keyring.List",
        "Eval.Dequeue",
        "Eval.Ack",
        "Eval.Update",
        "Plan.Submit",
        "ClientCSI.NodeDetachVolume",
        "ClientCSI.ControllerDetachVolume",
    ];
    for method in methods {
        let told = call(&pool, &address, method, json!({ "Region": "global", "AuthToken": "" })).await;
        assert!(told.starts_with("error: rpc error: "), "{method}: {told}");
    }
    pool.close();
    server.stop().await;
}
