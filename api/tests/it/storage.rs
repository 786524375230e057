//! A storage behind the CSI plugins of a test server, and stories of requests that reach it. Names choose the outcome,
//! and texts are those of a recorded plugin.

use std::sync::Arc;

use expect_test::expect;
use parking_lot::Mutex;
use serde_json::{Value, json};
use songline_api::Server as _;
use songline_commands::ClaimCsiVolumes;
use songline_model::{CsiClaimState, CsiControllerInfo, CsiVolumeClaim, CsiVolumeKey, NodeId};
use songline_rpc::RpcError;
use songline_rpc::message::Call;
use songline_rpc::msgpack::{from_slice, to_vec};

use crate::csi::node;
use crate::server::{Memory, check};

/// Answers requests to plugins, and remembers them.
#[derive(Default)]
pub struct Storage {
    asked: Mutex<Vec<String>>,
}

impl Storage {
    pub fn ask<C: Call>(&self, request: &C) -> Result<C::Answer, RpcError> {
        // Secrets are hidden in JSON, but not on the wire.
        let request: Value = from_slice(&to_vec(request).expect("is written")).expect("is read");
        let shown: Vec<String> = request
            .as_object()
            .expect("a request is a map")
            .iter()
            .filter(|(_, value)| !matches!(value, Value::Null) && **value != json!("") && **value != json!(0))
            .filter(|(name, _)| !["ControllerNodeID", "VolumeCapabilities"].contains(&name.as_str()))
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        self.asked.lock().push(format!("{} {}", C::METHOD, shown.join(" ")));
        let answer = answer(C::METHOD, &request).map_err(|text| RpcError::remote(format!("{}: {text}", C::METHOD)))?;
        Ok(from_slice(&to_vec(&answer).expect("is written")).expect("is an answer"))
    }

    /// The requests since the last look.
    fn asked(&self) -> String {
        std::mem::take(&mut *self.asked.lock()).join("\n")
    }
}

fn answer(method: &str, request: &Value) -> Result<Value, &'static str> {
    let text = |name: &str| request[name].as_str().unwrap_or_default();
    let snapshot = json!({
        "ID": "snap-1", "ExternalSourceVolumeID": "list-1", "SizeBytes": 4096, "CreateTime": 7, "IsReady": true,
    });
    Ok(match method {
        "CSI.ControllerCreateVolume" if text("Name").starts_with("fail") => {
            return Err("rpc error: code = InvalidArgument desc = the name is not liked");
        }
        "CSI.ControllerCreateVolume" => json!({
            "ExternalVolumeID": format!("ext-{}", text("Name")),
            "CapacityBytes": request["CapacityMin"],
            "VolumeContext": { "made": "here" },
        }),
        "CSI.ControllerDeleteVolume" if text("ExternalVolumeID").ends_with("sticky") => {
            return Err("rpc error: code = FailedPrecondition desc = still used there");
        }
        "CSI.ControllerValidateVolume" if text("VolumeID") == "absent" => {
            return Err("rpc error: code = NotFound desc = no such volume there");
        }
        "CSI.ControllerExpandVolume" => json!({
            "CapacityBytes": request["CapacityRange"]["RequiredBytes"],
            "NodeExpansionRequired": true,
        }),
        "CSI.ControllerListVolumes" if text("StartingToken") == "bad" => return Err("invalid starting token"),
        "CSI.ControllerListVolumes" => json!({
            "Entries": [
                { "ExternalID": "list-1", "CapacityBytes": 1, "VolumeContext": { "n": "1" } },
                { "ExternalID": "list-2", "PublishedExternalNodeIDs": ["n1"], "IsAbnormal": true, "Status": "worn" },
            ],
            "NextToken": if request["MaxEntries"] == 1 { "more" } else { "" },
        }),
        "CSI.ControllerCreateSnapshot" if text("Name").starts_with("fail") => {
            return Err("rpc error: code = InvalidArgument desc = the name is not liked");
        }
        "CSI.ControllerCreateSnapshot" => snapshot,
        "CSI.ControllerDeleteSnapshot" if text("ID") == "busy" => {
            return Err("snapshot \"busy\" could not be deleted because it is in use");
        }
        "CSI.ControllerListSnapshots" => json!({ "Entries": [snapshot], "NextToken": "" }),
        _ => json!({}),
    })
}

/// Frees the claims of a node at once. The steps of a release are tested with the server that takes them.
pub fn detach(server: &Memory, volume: &CsiVolumeKey, node: NodeId) -> Result<u64, RpcError> {
    let view = server.view();
    let seen = view.denormalize(view.csi_volume_by_key(volume).expect("the volume is there")).volume;
    let held = seen.holders().map(|(_, claim)| claim).filter(|claim| claim.node_id == node);
    let claims: Vec<_> = held
        .map(|claim| CsiVolumeClaim { state: CsiClaimState::ReadyToFree, ..claim.clone() })
        .map(|claim| songline_commands::ClaimCsiVolume { volume: volume.clone(), claim })
        .collect();
    match claims.is_empty() {
        true => Err(RpcError::remote("Unknown allocation")),
        false => Ok(server.run(ClaimCsiVolumes { claims })),
    }
}

/// A server with a controller that has all capabilities.
fn server() -> Arc<Memory> {
    let server = Memory::new();
    let all = CsiControllerInfo {
        supports_create_delete: true,
        supports_list_volumes: true,
        supports_list_snapshots: true,
        supports_create_delete_snapshot: true,
        supports_expand: true,
        ..CsiControllerInfo::default()
    };
    node(&server, Some(all));
    server
}

const MODES: &str =
    r#""RequestedCapabilities": [{"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}]"#;

#[tokio::test]
async fn created_volume_is_what_the_storage_has_made() {
    let server = server();
    let story = format!(
        r#"PUT /v1/volume/csi/v/create {{"Volumes": [{{"ID": "v", "Name": "v", "PluginID": "p", "RequestedCapacityMin": 10, "Secrets": {{"s": "t"}}, {MODES}}}]}}
        DELETE /v1/volume/csi/v/delete
        DELETE /v1/volume/csi/v/delete"#
    );
    check(&server, &story, expect![[r#""#]]).await;
    expect![[r#""#]].assert_eq(&server.storage.asked());
}

#[tokio::test]
async fn volumes_that_the_storage_made_are_registered_when_it_refuses_others() {
    let server = server();
    let story = format!(
        r#"PUT /v1/volume/csi/x/create {{"Volumes": [{{"ID": "a", "Name": "fail", "PluginID": "p", {MODES}}}, {{"ID": "b", "Name": "b", "PluginID": "p", {MODES}}}]}}
        GET /v1/volume/csi/a
        GET /v1/volumes?type=csi"#
    );
    check(&server, &story, expect![[r#""#]]).await;
}

#[tokio::test]
async fn larger_size_expands_the_volume_in_the_storage_and_a_wrong_one_is_refused() {
    let server = server();
    let volume = |fields: &str| format!(r#"{{"Volumes": [{{"ID": "v", "PluginID": "p", {fields}, {MODES}}}]}}"#);
    let story = [
        ("volume/csi/v/create", r#""Name": "v", "RequestedCapacityMin": 10485760"#),
        ("volume/csi/v/create", r#""Name": "v", "RequestedCapacityMin": 20971520, "RequestedCapacityMax": 31457280"#),
        ("volume/csi/v/create", r#""Name": "v", "RequestedCapacityMin": 5242880"#),
        ("volume/csi/v/create", r#""Name": "v", "RequestedCapacityMin": 41943040, "RequestedCapacityMax": 31457280"#),
        ("volume/csi/v/create", r#""Name": "other", "RequestedCapacityMin": 10485760"#),
        ("volumes", r#""Name": "v", "RequestedCapacityMin": 52428800"#),
        ("volumes", r#""Name": "v", "RequestedCapacityMin": 1, "RequestedCapacityMax": 2"#),
    ];
    let story = story.map(|(path, fields)| format!("PUT /v1/{path} {}\n", volume(fields)));
    check(&server, &story.concat(), expect![[r#""#]]).await;
    expect![[r#""#]].assert_eq(&server.storage.asked());
}

#[tokio::test]
async fn registered_volume_is_validated_by_its_controller_and_deleted_with_the_secrets_of_both() {
    let server = server();
    let volume = |id: &str, external: &str| {
        format!(
            r#"PUT /v1/volumes {{"Volumes": [{{"ID": "{id}", "ExternalID": "{external}", "PluginID": "p", "Secrets": {{"s": "t"}}, {MODES}}}]}}"#
        )
    };
    let story = [
        volume("a", "absent"),
        volume("a", "ext-a"),
        volume("b", "ext-sticky"),
        "DELETE /v1/volume/csi/a/delete".into(),
        "DELETE /v1/volume/csi/b/delete".into(),
        "GET /v1/volumes?type=csi".into(),
    ];
    check(&server, &story.join("\n"), expect![[r#""#]]).await;
    expect![[r#""#]].assert_eq(&server.storage.asked());
}

#[tokio::test]
async fn snapshots_and_external_volumes_are_the_storages() {
    let server = server();
    let story = format!(
        r#"PUT /v1/volumes {{"Volumes": [{{"ID": "v", "ExternalID": "ext-v", "PluginID": "p", "Secrets": {{"s": "t"}}, {MODES}}}]}}
        PUT /v1/volumes/snapshot {{"Snapshots": [{{"SourceVolumeID": "v", "Name": "one", "Secrets": {{"a": "b"}}, "Parameters": {{"p": "q"}}}}]}}
        PUT /v1/volumes/snapshot {{"Snapshots": [{{"SourceVolumeID": "v", "Name": "fail"}}, {{"SourceVolumeID": "v", "PluginID": "p", "Name": "two"}}]}}
        PUT /v1/volumes/snapshot {{"Snapshots": [null]}}
        GET /v1/volumes/snapshot?plugin_id=p&per_page=1
        DELETE /v1/volumes/snapshot?plugin_id=p&snapshot_id=snap-1
        DELETE /v1/volumes/snapshot?plugin_id=p&snapshot_id=busy
        GET /v1/volumes/external?plugin_id=p
        GET /v1/volumes/external?plugin_id=p&per_page=1
        GET /v1/volumes/external?plugin_id=p&next_token=bad"#
    );
    check(&server, &story, expect![[r#""#]]).await;
    expect![[r#""#]].assert_eq(&server.storage.asked());
}
