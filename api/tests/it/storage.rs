//! A storage behind the CSI plugins of a test server, and stories of requests that reach it. Names choose the outcome,
//! and texts are those of a recorded plugin.

use std::sync::Arc;

use expect_test::expect;
use parking_lot::Mutex;
use serde_json::{Value, json};
use songline_api::Reads as _;
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
            // A node of the reference answers with as many empty topologies before the real ones.
            "Topologies": if text("Name") == "zoned" { json!([null, { "Segments": { "zone": "a" } }]) } else { json!(null) },
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
pub fn server() -> Arc<Memory> {
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
    check(&server, &story, expect![[r#"
        PUT /v1/volume/csi/v/create {"Volumes": [{"ID": "v", "Name": "v", "PluginID": "p", "RequestedCapacit
            200 @3 {"Volumes":[{"ID":"v","Name":"v","ExternalID":"ext-v","Namespace":"default","RequestedTopologies":null,"Topologies":[],"AccessMode":"","AttachmentMode":"","MountOptions":null,"Secrets":null,"Parameters":null,"Context":{"made":"here"},"Capacity":10,"RequestedCapacityMin":10,"RequestedCapacityMax":0,"RequestedCapabilities":[{"AttachmentMode":"file-system","AccessMode":"single-node-writer"}],"CloneID":"","SnapshotID":"","ReadAllocs":null,"WriteAllocs":null,"Allocations":[],"Schedulable":false,"PluginID":"p","Provider":"org.x","ProviderVersion":"1.2","ControllerRequired":false,"ControllersHealthy":0,"ControllersExpected":0,"NodesHealthy":0,"NodesExpected":0,"ResourceExhausted":null,"CreateIndex":0,"ModifyIndex":0}],"Index":3,"LastContact":0,"KnownLeader":true,"NextToken":""}
        DELETE /v1/volume/csi/v/delete
            200 @4 
        DELETE /v1/volume/csi/v/delete
            500 volume not found: v
    "#]]).await;
    expect![[r#"
        CSI.ControllerCreateVolume Name="v" Secrets={"s":"t"} CapacityMin=10
        CSI.ControllerDeleteVolume ExternalVolumeID="ext-v" Secrets={"s":"t"}"#]]
    .assert_eq(&server.storage.asked());
}

#[tokio::test]
async fn defect_14_created_volume_has_no_empty_topologies() {
    let server = server();
    let volume = format!(r#"{{"ID": "v", "Name": "zoned", "PluginID": "p", {MODES}}}"#);
    check(&server, &format!(r#"PUT /v1/volume/csi/v/create {{"Volumes": [{volume}]}}"#), expect![[r#"
        PUT /v1/volume/csi/v/create {"Volumes": [{"ID": "v", "Name": "zoned", "PluginID": "p", "RequestedCap
            200 @3 {"Volumes":[{"ID":"v","Name":"zoned","ExternalID":"ext-zoned","Namespace":"default","RequestedTopologies":null,"Topologies":[{"Segments":{"zone":"a"}}],"AccessMode":"","AttachmentMode":"","MountOptions":null,"Secrets":null,"Parameters":null,"Context":{"made":"here"},"Capacity":0,"RequestedCapacityMin":0,"RequestedCapacityMax":0,"RequestedCapabilities":[{"AttachmentMode":"file-system","AccessMode":"single-node-writer"}],"CloneID":"","SnapshotID":"","ReadAllocs":null,"WriteAllocs":null,"Allocations":[],"Schedulable":false,"PluginID":"p","Provider":"org.x","ProviderVersion":"1.2","ControllerRequired":false,"ControllersHealthy":0,"ControllersExpected":0,"NodesHealthy":0,"NodesExpected":0,"ResourceExhausted":null,"CreateIndex":0,"ModifyIndex":0}],"Index":3,"LastContact":0,"KnownLeader":true,"NextToken":""}
    "#]]).await;
    let volume = CsiVolumeKey { namespace: "default".into(), id: "v".into() };
    let topologies = server.view().csi_volume_by_key(&volume).and_then(|volume| volume.topologies.clone());
    expect![[r#"
        Some(
            [
                CsiTopology {
                    segments: Some(
                        {
                            "zone": "a",
                        },
                    ),
                },
            ],
        )
    "#]]
    .assert_debug_eq(&topologies);
}

#[tokio::test]
async fn volumes_that_the_storage_made_are_registered_when_it_refuses_others() {
    let server = server();
    let story = format!(
        r#"PUT /v1/volume/csi/x/create {{"Volumes": [{{"ID": "a", "Name": "fail", "PluginID": "p", {MODES}}}, {{"ID": "b", "Name": "b", "PluginID": "p", {MODES}}}]}}
        GET /v1/volume/csi/a
        GET /v1/volumes?type=csi"#
    );
    check(&server, &story, expect![[r#"
        PUT /v1/volume/csi/x/create {"Volumes": [{"ID": "a", "Name": "fail", "PluginID": "p", "RequestedCapa
            500 1 error occurred:
        	* controller create volume: CSI.ControllerCreateVolume: rpc error: code = InvalidArgument desc = the name is not liked
        GET /v1/volume/csi/a
            404 @3 volume not found
        GET /v1/volumes?type=csi
            200 @3 [{"ID":"b","Namespace":"default","Name":"b","ExternalID":"ext-b","Topologies":[],"AccessMode":"","AttachmentMode":"","CurrentReaders":0,"CurrentWriters":0,"Schedulable":true,"PluginID":"p","Provider":"org.x","ControllerRequired":true,"ControllersHealthy":1,"ControllersExpected":0,"NodesHealthy":1,"NodesExpected":0,"ResourceExhausted":null,"CreateIndex":3,"ModifyIndex":3}]
    "#]]).await;
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
    check(&server, &story.concat(), expect![[r#"
        PUT /v1/volume/csi/v/create {"Volumes": [{"ID": "v", "PluginID": "p", "Name": "v", "RequestedCapacit
            200 @3 {"Volumes":[{"ID":"v","Name":"v","ExternalID":"ext-v","Namespace":"default","RequestedTopologies":null,"Topologies":[],"AccessMode":"","AttachmentMode":"","MountOptions":null,"Secrets":null,"Parameters":null,"Context":{"made":"here"},"Capacity":10485760,"RequestedCapacityMin":10485760,"RequestedCapacityMax":0,"RequestedCapabilities":[{"AttachmentMode":"file-system","AccessMode":"single-node-writer"}],"CloneID":"","SnapshotID":"","ReadAllocs":null,"WriteAllocs":null,"Allocations":[],"Schedulable":false,"PluginID":"p","Provider":"org.x","ProviderVersion":"1.2","ControllerRequired":false,"ControllersHealthy":0,"ControllersExpected":0,"NodesHealthy":0,"NodesExpected":0,"ResourceExhausted":null,"CreateIndex":0,"ModifyIndex":0}],"Index":3,"LastContact":0,"KnownLeader":true,"NextToken":""}
        PUT /v1/volume/csi/v/create {"Volumes": [{"ID": "v", "PluginID": "p", "Name": "v", "RequestedCapacit
            200 @4 {"Volumes":[{"ID":"v","Name":"v","ExternalID":"ext-v","Namespace":"default","RequestedTopologies":null,"Topologies":[],"AccessMode":"","AttachmentMode":"","MountOptions":null,"Secrets":null,"Parameters":{},"Context":{"made":"here"},"Capacity":20971520,"RequestedCapacityMin":20971520,"RequestedCapacityMax":31457280,"RequestedCapabilities":[{"AttachmentMode":"file-system","AccessMode":"single-node-writer"}],"CloneID":"","SnapshotID":"","ReadAllocs":{},"WriteAllocs":{},"Allocations":[],"Schedulable":true,"PluginID":"p","Provider":"org.x","ProviderVersion":"1.2","ControllerRequired":true,"ControllersHealthy":1,"ControllersExpected":0,"NodesHealthy":1,"NodesExpected":0,"ResourceExhausted":null,"CreateIndex":3,"ModifyIndex":4}],"Index":4,"LastContact":0,"KnownLeader":true,"NextToken":""}
        PUT /v1/volume/csi/v/create {"Volumes": [{"ID": "v", "PluginID": "p", "Name": "v", "RequestedCapacit
            200 @5 {"Volumes":[{"ID":"v","Name":"v","ExternalID":"ext-v","Namespace":"default","RequestedTopologies":null,"Topologies":[],"AccessMode":"","AttachmentMode":"","MountOptions":null,"Secrets":null,"Parameters":{},"Context":{"made":"here"},"Capacity":20971520,"RequestedCapacityMin":5242880,"RequestedCapacityMax":0,"RequestedCapabilities":[{"AttachmentMode":"file-system","AccessMode":"single-node-writer"}],"CloneID":"","SnapshotID":"","ReadAllocs":{},"WriteAllocs":{},"Allocations":[],"Schedulable":true,"PluginID":"p","Provider":"org.x","ProviderVersion":"1.2","ControllerRequired":true,"ControllersHealthy":1,"ControllersExpected":0,"NodesHealthy":1,"NodesExpected":0,"ResourceExhausted":null,"CreateIndex":3,"ModifyIndex":5}],"Index":5,"LastContact":0,"KnownLeader":true,"NextToken":""}
        PUT /v1/volume/csi/v/create {"Volumes": [{"ID": "v", "PluginID": "p", "Name": "v", "RequestedCapacit
            500 1 error occurred:
        	* max requested capacity (32 MB) less than or equal to min (42 MB)
        PUT /v1/volume/csi/v/create {"Volumes": [{"ID": "v", "PluginID": "p", "Name": "other", "RequestedCap
            500 1 error occurred:
        	* 1 error occurred:
        	* volume name cannot be updated
        PUT /v1/volumes {"Volumes": [{"ID": "v", "PluginID": "p", "Name": "v", "RequestedCapacityMin": 52428
            200 @6 
        PUT /v1/volumes {"Volumes": [{"ID": "v", "PluginID": "p", "Name": "v", "RequestedCapacityMin": 1, "R
            500 unable to update volume: 1 error occurred:
        	* max requested capacity (2 B) less than or equal to current (52 MB)
    "#]]).await;
    expect![[r#"
        CSI.ControllerCreateVolume Name="v" CapacityMin=10485760
        CSI.ControllerExpandVolume ExternalVolumeID="ext-v" CapacityRange={"RequiredBytes":20971520,"LimitBytes":31457280}
        CSI.ControllerValidateVolume VolumeID="ext-v"
        CSI.ControllerExpandVolume ExternalVolumeID="ext-v" CapacityRange={"RequiredBytes":52428800,"LimitBytes":0}"#]].assert_eq(&server.storage.asked());
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
    check(&server, &story.join("\n"), expect![[r#"
        PUT /v1/volumes {"Volumes": [{"ID": "a", "ExternalID": "absent", "PluginID": "p", "Secrets": {"s": "
            500 controller validate volume: CSI.ControllerValidateVolume: rpc error: code = NotFound desc = no such volume there
        PUT /v1/volumes {"Volumes": [{"ID": "a", "ExternalID": "ext-a", "PluginID": "p", "Secrets": {"s": "t
            200 @3 
        PUT /v1/volumes {"Volumes": [{"ID": "b", "ExternalID": "ext-sticky", "PluginID": "p", "Secrets": {"s
            200 @4 
        DELETE /v1/volume/csi/a/delete
            200 @5 
        DELETE /v1/volume/csi/b/delete
            500 controller delete volume: CSI.ControllerDeleteVolume: rpc error: code = FailedPrecondition desc = still used there
        GET /v1/volumes?type=csi
            200 @5 [{"ID":"b","Namespace":"default","Name":"","ExternalID":"ext-sticky","Topologies":[],"AccessMode":"","AttachmentMode":"","CurrentReaders":0,"CurrentWriters":0,"Schedulable":true,"PluginID":"p","Provider":"org.x","ControllerRequired":true,"ControllersHealthy":1,"ControllersExpected":0,"NodesHealthy":1,"NodesExpected":0,"ResourceExhausted":null,"CreateIndex":4,"ModifyIndex":4}]
    "#]]).await;
    expect![[r#"
        CSI.ControllerValidateVolume VolumeID="absent" Secrets={"s":"t"}
        CSI.ControllerValidateVolume VolumeID="ext-a" Secrets={"s":"t"}
        CSI.ControllerValidateVolume VolumeID="ext-sticky" Secrets={"s":"t"}
        CSI.ControllerDeleteVolume ExternalVolumeID="ext-a" Secrets={"s":"t"}
        CSI.ControllerDeleteVolume ExternalVolumeID="ext-sticky" Secrets={"s":"t"}"#]]
    .assert_eq(&server.storage.asked());
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
    check(&server, &story, expect![[r#"
        PUT /v1/volumes {"Volumes": [{"ID": "v", "ExternalID": "ext-v", "PluginID": "p", "Secrets": {"s": "t
            200 @3 
        PUT /v1/volumes/snapshot {"Snapshots": [{"SourceVolumeID": "v", "Name": "one", "Secrets": {"a": "b"}
            200 @0 {"Snapshots":[{"ID":"snap-1","ExternalSourceVolumeID":"list-1","SizeBytes":4096,"CreateTime":7,"IsReady":true,"SourceVolumeID":"","PluginID":"","Name":"","Secrets":null,"Parameters":null}],"Index":0,"LastContact":0,"KnownLeader":false,"NextToken":""}
        PUT /v1/volumes/snapshot {"Snapshots": [{"SourceVolumeID": "v", "Name": "fail"}, {"SourceVolumeID": 
            500 1 error occurred:
        	* could not create snapshot: controller create snapshot: CSI.ControllerCreateSnapshot: rpc error: code = InvalidArgument desc = the name is not liked
        PUT /v1/volumes/snapshot {"Snapshots": [null]}
            500 snapshot cannot be nil
        GET /v1/volumes/snapshot?plugin_id=p&per_page=1
            200 @0 {"Snapshots":[{"ID":"snap-1","ExternalSourceVolumeID":"list-1","SizeBytes":4096,"CreateTime":7,"IsReady":true,"SourceVolumeID":"","PluginID":"p","Name":"","Secrets":null,"Parameters":null}],"Index":0,"LastContact":0,"KnownLeader":false,"NextToken":""}
        DELETE /v1/volumes/snapshot?plugin_id=p&snapshot_id=snap-1
            200 @0 
        DELETE /v1/volumes/snapshot?plugin_id=p&snapshot_id=busy
            500 1 error occurred:
        	* could not delete "busy": controller delete snapshot: CSI.ControllerDeleteSnapshot: snapshot "busy" could not be deleted because it is in use
        GET /v1/volumes/external?plugin_id=p
            200 @0 {"Volumes":[{"ExternalID":"list-1","CapacityBytes":1,"VolumeContext":{"n":"1"},"CloneID":"","SnapshotID":"","PublishedExternalNodeIDs":null,"IsAbnormal":false,"Status":""},{"ExternalID":"list-2","CapacityBytes":0,"VolumeContext":null,"CloneID":"","SnapshotID":"","PublishedExternalNodeIDs":["n1"],"IsAbnormal":true,"Status":"worn"}],"Index":0,"LastContact":0,"KnownLeader":false,"NextToken":""}
        GET /v1/volumes/external?plugin_id=p&per_page=1
            200 @0 next=more {"Volumes":[{"ExternalID":"list-1","CapacityBytes":1,"VolumeContext":{"n":"1"},"CloneID":"","SnapshotID":"","PublishedExternalNodeIDs":null,"IsAbnormal":false,"Status":""}],"Index":0,"LastContact":0,"KnownLeader":false,"NextToken":"more"}
        GET /v1/volumes/external?plugin_id=p&next_token=bad
            500 controller list volumes: CSI.ControllerListVolumes: invalid starting token
    "#]]).await;
    expect![[r#"
        CSI.ControllerValidateVolume VolumeID="ext-v" Secrets={"s":"t"}
        CSI.ControllerCreateSnapshot ExternalSourceVolumeID="ext-v" Name="one" Secrets={"a":"b","s":"t"} Parameters={"p":"q"}
        CSI.ControllerCreateSnapshot ExternalSourceVolumeID="ext-v" Name="fail" Secrets={"s":"t"}
        CSI.ControllerCreateSnapshot ExternalSourceVolumeID="ext-v" Name="two" Secrets={"s":"t"}
        CSI.ControllerListSnapshots MaxEntries=1 Secrets={}
        CSI.ControllerDeleteSnapshot ID="snap-1" Secrets={}
        CSI.ControllerDeleteSnapshot ID="busy" Secrets={}
        CSI.ControllerListVolumes 
        CSI.ControllerListVolumes MaxEntries=1
        CSI.ControllerListVolumes StartingToken="bad""#]].assert_eq(&server.storage.asked());
}
