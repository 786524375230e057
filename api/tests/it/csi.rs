//! CSI volumes and plugins: shown, refused and hidden.

use std::collections::BTreeMap;
use std::sync::Arc;

use expect_test::expect;
use songline_api::Reads;
use songline_commands::{ApplyPlan, ClaimCsiVolume, RegisterNode, UpsertNamespaces};
use songline_model::{
    AllocId, Allocation, CsiAccessMode, CsiAttachmentMode, CsiClaimMode, CsiControllerInfo, CsiInfo, CsiNodeInfo,
    CsiVolumeClaim, CsiVolumeKey, Namespace, Node, NodeId, Str,
};

use crate::server::{Memory, answer, check, text};

const NODE: NodeId = NodeId::from_bytes([1; 16]);
const CAPABILITY: &str =
    r#""RequestedCapabilities": [{"AccessMode": "multi-node-multi-writer", "AttachmentMode": "file-system"}]"#;

/// A node that runs instances of plugin `p`, optionally with a controller with these capabilities.
pub fn node(server: &Arc<Memory>, controller: Option<CsiControllerInfo>) {
    let info = |controller_info: Option<CsiControllerInfo>| CsiInfo {
        plugin_id: "p".into(),
        alloc_id: alloc_id(1).to_string().into(),
        healthy: true,
        provider: "org.x".into(),
        provider_version: "1.2".into(),
        requires_controller_plugin: controller_info.is_some(),
        node_info: controller_info.is_none().then(CsiNodeInfo::default),
        controller_info,
        ..CsiInfo::default()
    };
    let one = |info: CsiInfo| Some(BTreeMap::from([(Str::new("p"), info)]));
    let node = Node {
        id: NODE,
        csi_node_plugins: one(info(None)),
        csi_controller_plugins: controller.map(Some).and_then(|can| one(info(can))),
        ..Node::default()
    };
    server.run(RegisterNode { node, create_node_pool: false });
}

fn alloc_id(n: u8) -> AllocId {
    AllocId::from_bytes([0xa0 + n; 16])
}

/// Job `web` with two allocations on the node.
async fn allocs(server: &Arc<Memory>) {
    let job = r#"PUT /v1/jobs {"Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Count": 2, "Tasks": [{"Name": "t", "Driver": "d"}]}]}}"#;
    assert_eq!(answer(server, job).await.status(), 200);
    let alloc = |n: u8| {
        Arc::new(Allocation {
            id: alloc_id(n),
            name: format!("web.g[{n}]").into(),
            namespace: "default".into(),
            job_id: "web".into(),
            task_group: "g".into(),
            node_id: Some(NODE),
            ..Allocation::default()
        })
    };
    let view = server.view();
    server.run(ApplyPlan {
        job: view.job("default", "web").cloned(),
        updated: vec![alloc(1), alloc(2)],
        ..ApplyPlan::default()
    });
}

fn claim(server: &Arc<Memory>, n: u8, mode: CsiClaimMode) {
    let claim = CsiVolumeClaim {
        allocation_id: alloc_id(n),
        node_id: NODE,
        mode,
        access_mode: CsiAccessMode::MultiNodeMultiWriter,
        attachment_mode: CsiAttachmentMode::FileSystem,
        ..CsiVolumeClaim::default()
    };
    server.run(ClaimCsiVolume { volume: CsiVolumeKey::new("default", "v"), claim });
}

async fn register(server: &Arc<Memory>, fields: &str) {
    let line = format!(r#"PUT /v1/volumes {{"Volumes": [{{{fields}, {CAPABILITY}}}]}}"#);
    let answer = answer(server, &line).await;
    assert_eq!(answer.status(), 200, "{}", text(answer).await);
}

#[tokio::test]
async fn volume_shows_its_allocs_and_hides_secrets_and_mount_flags() {
    let server = Memory::new();
    node(&server, None);
    allocs(&server).await;
    let secrets = r#""Secrets": {"k": "s3cret"}, "MountOptions": {"FSType": "ext4", "MountFlags": ["pass=s3cret"]}"#;
    let zero_time =
        r#""ResourceExhausted": "0001-01-01T00:00:00Z", "ReadAllocs": {"x": {}}, "AccessMode": "single-node-writer""#;
    register(&server, &format!(r#""ID": "v", "PluginID": "p", {secrets}, {zero_time}"#)).await;
    claim(&server, 1, CsiClaimMode::Read);
    claim(&server, 2, CsiClaimMode::Write);
    let shown = text(answer(&server, "GET /v1/volume/csi/v").await).await;
    assert!(!shown.contains("s3cret"), "{shown}");
    let mut shown: serde_json::Value = serde_json::from_str(&shown).expect("is JSON");
    for alloc in shown["Allocations"].as_array_mut().expect("a list") {
        *alloc = alloc["Name"].take();
    }
    expect![[r#"
        {
          "ID": "v",
          "Name": "",
          "ExternalID": "",
          "Namespace": "default",
          "RequestedTopologies": null,
          "Topologies": [],
          "AccessMode": "multi-node-multi-writer",
          "AttachmentMode": "file-system",
          "MountOptions": {
            "FSType": "ext4",
            "MountFlags": [
              "[REDACTED]"
            ]
          },
          "Secrets": null,
          "Parameters": {},
          "Context": {},
          "Capacity": 0,
          "RequestedCapacityMin": 0,
          "RequestedCapacityMax": 0,
          "RequestedCapabilities": [
            {
              "AttachmentMode": "file-system",
              "AccessMode": "multi-node-multi-writer"
            }
          ],
          "CloneID": "",
          "SnapshotID": "",
          "ReadAllocs": {
            "a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1": null
          },
          "WriteAllocs": {
            "a2a2a2a2-a2a2-a2a2-a2a2-a2a2a2a2a2a2": null
          },
          "Allocations": [
            "web.g[1]",
            "web.g[2]"
          ],
          "Schedulable": true,
          "PluginID": "p",
          "Provider": "org.x",
          "ProviderVersion": "1.2",
          "ControllerRequired": false,
          "ControllersHealthy": 0,
          "ControllersExpected": 0,
          "NodesHealthy": 1,
          "NodesExpected": 0,
          "ResourceExhausted": null,
          "CreateIndex": 5,
          "ModifyIndex": 7
        }"#]]
    .assert_eq(&format!("{shown:#}"));
}

#[tokio::test]
async fn volume_list_filters_by_node_plugin_and_namespace() {
    let server = Memory::new();
    node(&server, None);
    allocs(&server).await;
    server.run(UpsertNamespaces { namespaces: vec![Namespace { name: "dev".into(), ..Namespace::default() }] });
    register(&server, r#""ID": "v", "PluginID": "p""#).await;
    register(&server, r#""ID": "w", "PluginID": "p", "Namespace": "dev""#).await;
    claim(&server, 1, CsiClaimMode::Read);
    let ids = async |query: &str| {
        let shown = text(answer(&server, &format!("GET /v1/volumes?type=csi{query}")).await).await;
        let rows: Vec<serde_json::Value> = serde_json::from_str(&shown).expect("is a list");
        let ids: Vec<String> = rows
            .iter()
            .map(|row| format!("{}+{}+{}", row["ID"], row["CurrentReaders"], row["CurrentWriters"]))
            .collect();
        format!("{query} {}\n", ids.join(" ").replace('"', ""))
    };
    let mut told = String::new();
    for query in [
        "",
        "&namespace=*",
        "&namespace=dev",
        "&namespace=*&prefix=w",
        "&plugin_id=p",
        "&plugin_id=p&namespace=*",
        "&plugin_id=q",
        "&node_id=01010101-0101-0101-0101-010101010101",
        "&node_id=01010101-0101-0101-0101-010101010102",
        "&node_id=x",
        "&filter=Schedulable+==+true",
        "&namespace=*&filter=Namespace+==+dev",
        "&namespace=*&per_page=1",
    ] {
        told += &ids(query).await;
    }
    expect![[r#"
         v+1+0
        &namespace=* v+1+0 w+0+0
        &namespace=dev w+0+0
        &namespace=*&prefix=w w+0+0
        &plugin_id=p v+1+0
        &plugin_id=p&namespace=* v+1+0 w+0+0
        &plugin_id=q 
        &node_id=01010101-0101-0101-0101-010101010101 v+1+0
        &node_id=01010101-0101-0101-0101-010101010102 
        &node_id=x 
        &filter=Schedulable+==+true v+1+0
        &namespace=*&filter=Namespace+==+dev w+0+0
        &namespace=*&per_page=1 v+1+0
    "#]]
    .assert_eq(&told);
}

#[tokio::test]
async fn volume_with_claims_is_deregistered_only_after_its_node_is_detached() {
    let server = Memory::new();
    node(&server, None);
    allocs(&server).await;
    register(&server, r#""ID": "v", "PluginID": "p""#).await;
    claim(&server, 1, CsiClaimMode::Read);
    claim(&server, 2, CsiClaimMode::Write);
    check(
        &server,
        "DELETE /v1/volume/csi/v
        DELETE /v1/volume/csi/v?force=maybe
        DELETE /v1/volume/csi/v?force=true
        DELETE /v1/volume/csi/v/detach
        DELETE /v1/volume/csi/w/detach?node=01010101-0101-0101-0101-010101010101
        DELETE /v1/volume/csi/v/detach?node=01010101-0101-0101-0101-010101010102
        DELETE /v1/volume/csi/v/detach?node=01010101-0101-0101-0101-010101010101
        DELETE /v1/volume/csi/v/detach?node=01010101-0101-0101-0101-010101010101
        DELETE /v1/volume/csi/v
        GET /v1/volume/csi/v",
        expect![[r#"
            DELETE /v1/volume/csi/v
                500 volume in use: v
            DELETE /v1/volume/csi/v?force=maybe
                400 invalid force value
            DELETE /v1/volume/csi/v?force=true
                500 volume in use: v
            DELETE /v1/volume/csi/v/detach
                400 detach requires node ID
            DELETE /v1/volume/csi/w/detach?node=01010101-0101-0101-0101-010101010101
                500 no such volume
            DELETE /v1/volume/csi/v/detach?node=01010101-0101-0101-0101-010101010102
                500 Unknown allocation
            DELETE /v1/volume/csi/v/detach?node=01010101-0101-0101-0101-010101010101
                200 @10 
            DELETE /v1/volume/csi/v/detach?node=01010101-0101-0101-0101-010101010101
                500 Unknown allocation
            DELETE /v1/volume/csi/v
                200 @11 
            GET /v1/volume/csi/v
                404 @11 volume not found
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_plugin_shows_its_instances_and_their_allocations() {
    let server = Memory::new();
    check(
        &server,
        "GET /v1/plugin/csi/p
        GET /v1/plugin/csi/
        GET /v1/plugin/csi/p/q
        GET /v1/plugins
        GET /v1/plugins?type=host
        GET /v1/plugins?type=csi",
        expect![[r#"
            GET /v1/plugin/csi/p
                404 @0 plugin not found
            GET /v1/plugin/csi/
                500 missing plugin ID
            GET /v1/plugin/csi/p/q
                404 resource not found
            GET /v1/plugins
                200 []
            GET /v1/plugins?type=host
                200 
            GET /v1/plugins?type=csi
                200 @0 []
        "#]],
    )
    .await;
    node(&server, None);
    allocs(&server).await;
    check(
        &server,
        "GET /v1/plugins?type=csi
        GET /v1/plugins?type=csi&prefix=q",
        expect![[r#"
            GET /v1/plugins?type=csi
                200 @2 [{"ID":"p","Provider":"org.x","ControllerRequired":false,"ControllersHealthy":0,"ControllersExpected":0,"NodesHealthy":1,"NodesExpected":0,"CreateIndex":2,"ModifyIndex":2}]
            GET /v1/plugins?type=csi&prefix=q
                200 @2 []
        "#]],
    )
    .await;
    let mut shown: serde_json::Value =
        serde_json::from_str(&text(answer(&server, "GET /v1/plugin/csi/p").await).await).expect("is JSON");
    for alloc in shown["Allocations"].as_array_mut().expect("a list") {
        *alloc = alloc["Name"].take();
    }
    expect![[r#"{"ID":"p","Provider":"org.x","Version":"1.2","ControllerRequired":false,"Controllers":{},"Nodes":{"01010101-0101-0101-0101-010101010101":{"PluginID":"p","AllocID":"a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1","Healthy":true,"HealthDescription":"","UpdateTime":null,"Provider":"org.x","ProviderVersion":"1.2","RequiresControllerPlugin":false,"RequiresTopologies":false,"NodeInfo":{"ID":"","MaxVolumes":0,"AccessibleTopology":null,"RequiresNodeStageVolume":false,"SupportsStats":false,"SupportsExpand":false,"SupportsCondition":false}}},"ControllerJobs":{},"NodeJobs":{},"ControllersHealthy":0,"ControllersExpected":0,"NodesHealthy":1,"NodesExpected":0,"CreateIndex":2,"ModifyIndex":2,"Allocations":["web.g[1]"]}"#]].assert_eq(&shown.to_string());
}

#[tokio::test]
async fn volume_requests_that_need_a_controller_are_refused_like_the_reference() {
    let server = Memory::new();
    node(&server, None);
    register(&server, r#""ID": "v", "PluginID": "p""#).await;
    let story = format!(
        r#"PUT /v1/volume/csi/x/create {{"Volumes": [{{"ID": "x", "PluginID": "p", {CAPABILITY}}}]}}
        DELETE /v1/volume/csi/x/delete
        DELETE /v1/volume/csi/v/delete
        GET /v1/volumes/external?plugin_id=q
        GET /v1/volumes/external?plugin_id=p
        GET /v1/volumes/snapshot?plugin_id=q
        GET /v1/volumes/snapshot?plugin_id=p
        DELETE /v1/volumes/snapshot?plugin_id=q
        DELETE /v1/volumes/snapshot?plugin_id=p
        PUT /v1/volumes/snapshot {{"Snapshots": [{{"SourceVolumeID": "x"}}, {{"SourceVolumeID": "v"}}]}}
        PUT /v1/volumes/snapshot {{"Snapshots": []}}"#
    );
    check(
        &server,
        &story,
        expect![[r#"
        PUT /v1/volume/csi/x/create {"Volumes": [{"ID": "x", "PluginID": "p", "RequestedCapabilities": [{"Ac
            500 plugin has no controller
        DELETE /v1/volume/csi/x/delete
            500 volume not found: x
        DELETE /v1/volume/csi/v/delete
            500 plugin "p" for volume "v" not found
        GET /v1/volumes/external?plugin_id=q
            500 no such plugin
        GET /v1/volumes/external?plugin_id=p
            500 unimplemented for this plugin
        GET /v1/volumes/snapshot?plugin_id=q
            500 no such plugin
        GET /v1/volumes/snapshot?plugin_id=p
            500 plugin does not support listing snapshots
        DELETE /v1/volumes/snapshot?plugin_id=q
            500 1 error occurred:
        	* no such plugin
        DELETE /v1/volumes/snapshot?plugin_id=p
            500 1 error occurred:
        	* plugin does not support snapshot
        PUT /v1/volumes/snapshot {"Snapshots": [{"SourceVolumeID": "x"}, {"SourceVolumeID": "v"}]}
            500 2 errors occurred:
        	* no such volume "x"
        	* plugin "p" does not support snapshot
        PUT /v1/volumes/snapshot {"Snapshots": []}
            200 @0 {"Snapshots":null,"Index":0,"LastContact":0,"KnownLeader":false,"NextToken":""}
    "#]],
    )
    .await;
    node(&server, Some(CsiControllerInfo::default()));
    check(
        &server,
        &story,
        expect![[r#"
            PUT /v1/volume/csi/x/create {"Volumes": [{"ID": "x", "PluginID": "p", "RequestedCapabilities": [{"Ac
                500 plugin does not support creating volumes
            DELETE /v1/volume/csi/x/delete
                500 volume not found: x
            DELETE /v1/volume/csi/v/delete
                200 @5 
            GET /v1/volumes/external?plugin_id=q
                500 no such plugin
            GET /v1/volumes/external?plugin_id=p
                500 unimplemented for this plugin
            GET /v1/volumes/snapshot?plugin_id=q
                500 no such plugin
            GET /v1/volumes/snapshot?plugin_id=p
                500 plugin does not support listing snapshots
            DELETE /v1/volumes/snapshot?plugin_id=q
                500 1 error occurred:
            	* no such plugin
            DELETE /v1/volumes/snapshot?plugin_id=p
                500 1 error occurred:
            	* plugin does not support snapshot
            PUT /v1/volumes/snapshot {"Snapshots": [{"SourceVolumeID": "x"}, {"SourceVolumeID": "v"}]}
                500 2 errors occurred:
            	* no such volume "x"
            	* no such volume "v"
            PUT /v1/volumes/snapshot {"Snapshots": []}
                200 @0 {"Snapshots":null,"Index":0,"LastContact":0,"KnownLeader":false,"NextToken":""}
        "#]],
    )
    .await;
    let all = CsiControllerInfo {
        supports_create_delete: true,
        supports_list_volumes: true,
        supports_list_snapshots: true,
        supports_create_delete_snapshot: true,
        ..CsiControllerInfo::default()
    };
    node(&server, Some(all));
    check(
        &server,
        &story,
        expect![[r#"
            PUT /v1/volume/csi/x/create {"Volumes": [{"ID": "x", "PluginID": "p", "RequestedCapabilities": [{"Ac
                200 @7 {"Volumes":[{"ID":"x","Name":"","ExternalID":"ext-","Namespace":"default","RequestedTopologies":null,"Topologies":[],"AccessMode":"","AttachmentMode":"","MountOptions":null,"Secrets":null,"Parameters":null,"Context":{"made":"here"},"Capacity":0,"RequestedCapacityMin":0,"RequestedCapacityMax":0,"RequestedCapabilities":[{"AttachmentMode":"file-system","AccessMode":"multi-node-multi-writer"}],"CloneID":"","SnapshotID":"","ReadAllocs":null,"WriteAllocs":null,"Allocations":[],"Schedulable":false,"PluginID":"p","Provider":"org.x","ProviderVersion":"1.2","ControllerRequired":false,"ControllersHealthy":0,"ControllersExpected":0,"NodesHealthy":0,"NodesExpected":0,"ResourceExhausted":null,"CreateIndex":0,"ModifyIndex":0}],"Index":7,"LastContact":0,"KnownLeader":true,"NextToken":""}
            DELETE /v1/volume/csi/x/delete
                200 @8 
            DELETE /v1/volume/csi/v/delete
                500 volume not found: v
            GET /v1/volumes/external?plugin_id=q
                500 no such plugin
            GET /v1/volumes/external?plugin_id=p
                200 @0 {"Volumes":[{"ExternalID":"list-1","CapacityBytes":1,"VolumeContext":{"n":"1"},"CloneID":"","SnapshotID":"","PublishedExternalNodeIDs":null,"IsAbnormal":false,"Status":""},{"ExternalID":"list-2","CapacityBytes":0,"VolumeContext":null,"CloneID":"","SnapshotID":"","PublishedExternalNodeIDs":["n1"],"IsAbnormal":true,"Status":"worn"}],"Index":0,"LastContact":0,"KnownLeader":false,"NextToken":""}
            GET /v1/volumes/snapshot?plugin_id=q
                500 no such plugin
            GET /v1/volumes/snapshot?plugin_id=p
                200 @0 {"Snapshots":[{"ID":"snap-1","ExternalSourceVolumeID":"list-1","SizeBytes":4096,"CreateTime":7,"IsReady":true,"SourceVolumeID":"","PluginID":"p","Name":"","Secrets":null,"Parameters":null}],"Index":0,"LastContact":0,"KnownLeader":false,"NextToken":""}
            DELETE /v1/volumes/snapshot?plugin_id=q
                500 1 error occurred:
            	* no such plugin
            DELETE /v1/volumes/snapshot?plugin_id=p
                200 @0 
            PUT /v1/volumes/snapshot {"Snapshots": [{"SourceVolumeID": "x"}, {"SourceVolumeID": "v"}]}
                500 2 errors occurred:
            	* no such volume "x"
            	* no such volume "v"
            PUT /v1/volumes/snapshot {"Snapshots": []}
                200 @0 {"Snapshots":null,"Index":0,"LastContact":0,"KnownLeader":false,"NextToken":""}
        "#]],
    )
    .await;
}

#[tokio::test]
async fn malformed_volume_requests_are_refused() {
    let server = Memory::new();
    node(&server, None);
    let story = format!(
        r#"PUT /v1/volumes
        PUT /v1/volumes {{}}
        PUT /v1/volumes {{"Volumes": [{{"ID": 3}}]}}
        PUT /v1/volume/csi/a/b {{}}
        GET /v1/volume/csi/
        GET /v1/volume/csi/a/b
        GET /v1/volumes?type=csi&region=other
        PUT /v1/volumes?namespace=dev {{"Volumes": [{{"ID": "v", "PluginID": "p", {CAPABILITY}}}]}}
        PUT /v1/volumes {{"Namespace": "dev", "Volumes": [{{"ID": "v", "PluginID": "p", {CAPABILITY}}}]}}
        PUT /v1/volumes {{"Volumes": [{{"ID": "v", "PluginID": "p", {CAPABILITY}}}]}}
        PUT /v1/volumes {{"Volumes": [{{"ID": "v", "PluginID": "p", "Name": "x", {CAPABILITY}}}]}}"#
    );
    check(
        &server,
        &story,
        expect![[r#"
        PUT /v1/volumes
            400 Request body is empty
        PUT /v1/volumes {}
            500 missing volume definition
        PUT /v1/volumes {"Volumes": [{"ID": 3}]}
            400 json: cannot unmarshal number into Go struct field CSIVolume.Volumes.ID of type string
        PUT /v1/volume/csi/a/b {}
            404 resource not found
        GET /v1/volume/csi/
            500 missing volume ID
        GET /v1/volume/csi/a/b
            404 resource not found
        GET /v1/volumes?type=csi&region=other
            500 No path to region
        PUT /v1/volumes?namespace=dev {"Volumes": [{"ID": "v", "PluginID": "p", "RequestedCapabilities": [{"
            500 volume v is in nonexistent namespace dev
        PUT /v1/volumes {"Namespace": "dev", "Volumes": [{"ID": "v", "PluginID": "p", "RequestedCapabilities
            500 volume v is in nonexistent namespace dev
        PUT /v1/volumes {"Volumes": [{"ID": "v", "PluginID": "p", "RequestedCapabilities": [{"AccessMode": "
            200 @5 
        PUT /v1/volumes {"Volumes": [{"ID": "v", "PluginID": "p", "Name": "x", "RequestedCapabilities": [{"A
            500 unable to update volume: 1 error occurred:
        	* volume name cannot be updated
    "#]],
    )
    .await;
}

#[tokio::test]
async fn search_for_volumes_and_plugins_answers_index_zero() {
    let server = Memory::new();
    node(&server, None);
    register(&server, r#""ID": "vol-a", "PluginID": "p""#).await;
    check(
        &server,
        r#"PUT /v1/search {"Prefix": "vol", "Context": "volumes"}
        PUT /v1/search?namespace=dev {"Prefix": "vol-", "Context": "volumes"}
        PUT /v1/search {"Prefix": "p", "Context": "plugins"}
        PUT /v1/search/fuzzy {"Text": "vol-a", "Context": "volumes"}
        PUT /v1/search/fuzzy {"Text": "xx", "Context": "plugins"}"#,
        expect![[r#"
            PUT /v1/search {"Prefix": "vol", "Context": "volumes"}
                200 @0 {"Matches":{"volumes":["vol-a"]},"Truncations":{"volumes":false},"Index":0,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/search?namespace=dev {"Prefix": "vol-", "Context": "volumes"}
                200 @0 {"Matches":{"volumes":null},"Truncations":{"volumes":false},"Index":0,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/search {"Prefix": "p", "Context": "plugins"}
                200 @0 {"Matches":{"plugins":["p"]},"Truncations":{"plugins":false},"Index":0,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/search/fuzzy {"Text": "vol-a", "Context": "volumes"}
                200 @0 {"Matches":{"volumes":[{"ID":"vol-a"}]},"Truncations":{"volumes":false},"Index":0,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/search/fuzzy {"Text": "xx", "Context": "plugins"}
                200 @0 {"Matches":{},"Truncations":{"plugins":false},"Index":0,"LastContact":0,"KnownLeader":true,"NextToken":""}
        "#]],
    )
    .await;
}

#[tokio::test]
async fn namespace_with_a_volume_survives_a_delete_that_answers_200() {
    let server = Memory::new();
    server.run(UpsertNamespaces { namespaces: vec![Namespace { name: "dev".into(), ..Namespace::default() }] });
    node(&server, None);
    register(&server, r#""ID": "v", "PluginID": "p", "Namespace": "dev""#).await;
    check(
        &server,
        "DELETE /v1/namespace/dev
        DELETE /v1/volume/csi/v?namespace=dev
        DELETE /v1/namespace/dev
        GET /v1/namespace/dev",
        expect![[r#"
            DELETE /v1/namespace/dev
                200 @4 
            DELETE /v1/volume/csi/v?namespace=dev
                200 @5 
            DELETE /v1/namespace/dev
                200 @6 
            GET /v1/namespace/dev
                404 @6 Namespace not found
        "#]],
    )
    .await;
}

#[tokio::test]
async fn claim_without_an_alloc_changes_only_the_volume_index_and_wakes_its_watchers() {
    let server = Memory::new();
    node(&server, None);
    register(&server, r#""ID": "v", "PluginID": "p""#).await;
    register(&server, r#""ID": "w", "PluginID": "p""#).await;
    let before = server.view();
    let (other, index) = (Arc::clone(&server), before.applied_index());
    let query = tokio::spawn(async move { answer(&other, &format!("GET /v1/volume/csi/v?index={index}")).await });
    while server.watches().waiting() == 0 {
        tokio::task::yield_now().await;
    }
    server.run(ClaimCsiVolume { volume: CsiVolumeKey::new("default", "w"), claim: CsiVolumeClaim::default() });
    tokio::task::yield_now().await;
    assert!(!query.is_finished(), "another volume is another volume");
    let changed =
        server.run(ClaimCsiVolume { volume: CsiVolumeKey::new("default", "v"), claim: CsiVolumeClaim::default() });
    let answer = query.await.expect("answers");
    assert_eq!(answer.headers()["x-nomad-index"], changed.to_string().as_str());
    let after = server.view();
    let row = |view: &songline_projections::State| view.csi_volume("default", "v").expect("is there").as_ref().clone();
    assert_eq!(row(&after), songline_model::CsiVolume { modify_index: changed, ..row(&before) });
}
