//! Deliberate differences from the reference: one test for each line of `deliberate.txt` and `defects.txt` in
//! `tests/conformance` that needs no node. A test has the name of the case in its line and shows the line's claim; a
//! test beside the lists checks that none is missing. Differences that need a running agent are in
//! `tests/conformance/deliberate`.

mod acl;
mod events;
mod jobs;
mod logins;

use std::collections::BTreeMap;
use std::sync::Arc;

use expect_test::expect;
use serde_json::{Value, json};
use songline_api::Reads;
use songline_commands::{ApplyPlan, ClaimCsiVolume, RegisterNode, UpdateEvals};
use songline_model::{
    AllocId, Allocation, CsiAccessMode, CsiAttachmentMode, CsiClaimMode, CsiInfo, CsiNodeInfo, CsiVolumeClaim,
    CsiVolumeKey, EvalId, Evaluation, Node, NodeId, Str,
};

use crate::acl::ALL;
use crate::server::{Memory, answer, parsed, shown};

/// A server and the requests that tests send to it.
struct World {
    server: Arc<Memory>,
}

impl World {
    /// A server with ACLs, with a management token.
    async fn guarded() -> Self {
        Self { server: crate::acl::guarded().await }
    }

    /// A server without ACLs.
    fn open() -> Self {
        Self { server: Memory::new() }
    }

    /// Sends `METHOD /path` with this token. A body that is not JSON is returned as a string.
    async fn ask(&self, token: &str, line: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        parsed(answer(&self.server, &shown(token, &format!("{line} {body}"))).await).await
    }

    /// The answer to a request with the management token, which must be a success.
    async fn done(&self, line: &str, body: Value) -> Value {
        let (status, said) = self.ask(ALL, line, body).await;
        assert!((200..300).contains(&status), "{line}: {status} {said}");
        said
    }

    /// Creates a client token with one policy and returns its secret.
    async fn token(&self, policy: &str, rules: &str) -> String {
        self.done(&format!("PUT /v1/acl/policy/{policy}"), json!({"Name": policy, "Rules": rules})).await;
        let token =
            self.done("POST /v1/acl/token", json!({"Name": policy, "Type": "client", "Policies": [policy]})).await;
        token["SecretID"].as_str().expect("a token has a secret").to_owned()
    }

    async fn namespace(&self, name: &str) {
        self.done("PUT /v1/namespace", json!({ "Name": name })).await;
    }

    /// Registers a job without allocations and returns the id of its evaluation.
    async fn job(&self, namespace: &str, id: &str) -> String {
        let group = json!({"Name": "g", "Count": 0, "Tasks": [{"Name": "t", "Driver": "d"}]});
        let job = json!({"Job": {"ID": id, "Namespace": namespace, "TaskGroups": [group]}});
        let said = self.done(&format!("PUT /v1/jobs?namespace={namespace}"), job).await;
        said["EvalID"].as_str().expect("a registration has an evaluation").to_owned()
    }

    /// The matches of a search, by context.
    async fn found(&self, token: &str, target: &str, body: Value) -> Value {
        let (status, said) = self.ask(token, &format!("PUT {target}"), body).await;
        assert_eq!(status, 200, "{said}");
        said["Matches"].clone()
    }
}

#[tokio::test]
async fn search_fuzzy_query_limit() {
    let world = World::open();
    for nth in 0..60 {
        world.job("default", &format!("job-{nth:02}")).await;
    }
    world.job("default", "zz-needle").await;
    let body = json!({"Text": "needle", "Context": "jobs"});
    let (_, said) = world.ask("", "PUT /v1/search/fuzzy", body).await;
    assert_eq!(
        said["Matches"]["jobs"],
        json!([{"ID": "zz-needle", "Scope": ["default", "zz-needle"]}]),
        "the 61st row is looked at"
    );
    assert_eq!(said["Truncations"]["jobs"], false, "all rows were looked at");
}

#[tokio::test]
async fn search_odd_prefix() {
    let world = World::open();
    let row = |byte: u8| Evaluation {
        id: EvalId::from_bytes([byte; 16]),
        namespace: "default".into(),
        ..Evaluation::default()
    };
    world.server.run(UpdateEvals { evals: (0..=255).map(row).collect() });
    let found = |prefix: &'static str| {
        let world = &world;
        async move {
            let (_, said) = world.ask("", "PUT /v1/search", json!({"Prefix": prefix, "Context": "evals"})).await;
            let ids = said["Matches"]["evals"].as_array().map(Vec::len).unwrap_or_default();
            format!("{prefix}: {ids} truncated {}", said["Truncations"]["evals"])
        }
    };
    // Prefixes of even length are listed, too: their matches have not changed.
    let mut told = String::new();
    for prefix in ["f", "fe", "fef", "fefefefe-f", "fefefefe-fe", "0a0", ""] {
        told += &found(prefix).await;
        told.push('\n');
    }
    expect![[r#"
        f: 16 truncated false
        fe: 1 truncated false
        fef: 1 truncated false
        fefefefe-f: 1 truncated false
        fefefefe-fe: 1 truncated false
        0a0: 1 truncated false
        : 20 truncated true
    "#]]
    .assert_eq(&told);
}

#[tokio::test]
async fn namespaces_delete_with_variable() {
    let world = World::guarded().await;
    world.namespace("dev").await;
    world.done("PUT /v1/operator/keyring/rotate", Value::Null).await;
    world.done("PUT /v1/var/a/b?namespace=dev", json!({"Items": {"k": "v"}})).await;
    let (status, said) = world.ask(ALL, "DELETE /v1/namespace/dev", Value::Null).await;
    let holds = "namespace \"dev\" contains at least one variable. All variables in namespace must be deleted before it can be deleted";
    assert_eq!((status, said.as_str()), (500, Some(holds)));
    world.done("GET /v1/namespace/dev", Value::Null).await;
    world.done("DELETE /v1/var/a/b?namespace=dev", Value::Null).await;
    world.done("DELETE /v1/namespace/dev", Value::Null).await;
    assert_eq!(world.ask(ALL, "GET /v1/namespace/dev", Value::Null).await.0, 404);
}

/// Creates a volume, then creates it again with a larger size and without a context.
#[tokio::test]
async fn csi_create_existing() {
    let world = World { server: crate::storage::server() };
    let modes = json!([{"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}]);
    for size in [10, 20] {
        let volume = json!({"ID": "v", "Name": "v", "PluginID": "p", "RequestedCapabilities": modes, "RequestedCapacityMin": size});
        let said = world.done("PUT /v1/volume/csi/v/create", json!({"Volumes": [volume]})).await;
        assert_eq!(said["Volumes"][0]["Context"], json!({"made": "here"}));
        let read = world.done("GET /v1/volume/csi/v", Value::Null).await;
        assert_eq!((&read["Context"], &read["Capacity"]), (&json!({"made": "here"}), &json!(size)));
    }
}

#[tokio::test]
async fn volumes_csi_detach() {
    const NODE: NodeId = NodeId::from_bytes([1; 16]);
    let world = World::open();
    world.job("default", "web").await;
    let alloc_id = AllocId::from_bytes([2; 16]);
    let info =
        CsiInfo { plugin_id: "p".into(), healthy: true, node_info: Some(CsiNodeInfo::default()), ..CsiInfo::default() };
    let plugins = Some(BTreeMap::from([(Str::new("p"), info)]));
    world.server.run(RegisterNode {
        node: Node { id: NODE, csi_node_plugins: plugins, ..Node::default() },
        create_node_pool: false,
    });
    let alloc = Allocation {
        id: alloc_id,
        namespace: "default".into(),
        job_id: "web".into(),
        task_group: "g".into(),
        node_id: Some(NODE),
        ..Allocation::default()
    };
    let job = world.server.view().job("default", "web").cloned();
    world.server.run(ApplyPlan { job, updated: vec![alloc.into()], ..ApplyPlan::default() });
    let modes = json!([{"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}]);
    let volume = json!({"ID": "v", "PluginID": "p", "RequestedCapabilities": modes});
    world.done("PUT /v1/volumes", json!({ "Volumes": [volume] })).await;
    let claim = CsiVolumeClaim {
        allocation_id: alloc_id,
        node_id: NODE,
        mode: CsiClaimMode::Write,
        access_mode: CsiAccessMode::SingleNodeWriter,
        attachment_mode: CsiAttachmentMode::FileSystem,
        ..CsiVolumeClaim::default()
    };
    world.server.run(ClaimCsiVolume { volume: CsiVolumeKey::new("default", "v"), claim });
    let (status, said) = world.ask("", "DELETE /v1/volume/csi/v", Value::Null).await;
    assert_eq!((status, said.as_str()), (500, Some("volume in use: v")));
    world.done(&format!("DELETE /v1/volume/csi/v/detach?node={NODE}"), Value::Null).await;
    let held = world.done("GET /v1/volume/csi/v", Value::Null).await;
    assert_eq!(held["WriteAllocs"], json!({}), "the claim of that node is released");
    world.done("DELETE /v1/volume/csi/v", Value::Null).await;
}

#[tokio::test]
async fn operator_license() {
    let world = World::guarded().await;
    world.done("PUT /v1/quota", json!({"Name": "x", "Limits": [{"RegionLimit": {"CPU": 100}}]})).await;
    assert_eq!(world.done("GET /v1/quotas", Value::Null).await[0]["Name"], "x");
    assert_eq!(world.done("GET /v1/quota/x", Value::Null).await["Limits"][0]["RegionLimit"]["CPU"], 100);
    assert_eq!(world.done("GET /v1/quota-usages", Value::Null).await[0]["Name"], "x");
    assert_eq!(world.done("GET /v1/quota/usage/x", Value::Null).await["Name"], "x");
    world.done("DELETE /v1/quota/x", Value::Null).await;
    for line in ["PUT /v1/quotas", "DELETE /v1/quota-usages", "GET /v1/quota", "DELETE /v1/quota/usage/x"] {
        assert_eq!(world.ask(ALL, line, json!({})).await.0, 405, "{line}");
    }
}
