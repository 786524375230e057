//! Tests of the visible fields of a volume, and of the changes that a request may make.

use expect_test::{Expect, expect};

use super::*;
use crate::{CsiControllerInfo, CsiInfo, NodeId};

fn volume(json: &str) -> CsiVolume {
    serde_json::from_str(json).expect("a volume")
}

#[test]
fn volume_row_keeps_secrets_in_the_log_and_hides_them_in_json_and_debug() {
    let row = volume(
        r#"{"ID":"v","Secrets":{"key":"s3cret"},"MountOptions":{"FSType":"ext4","MountFlags":["pass=s3cret"]}}"#,
    );
    let bytes = rmp_serde::to_vec_named(&row).expect("encodes");
    let read: CsiVolume = rmp_serde::from_slice(&bytes).expect("decodes");
    assert_eq!(read, row);
    assert_eq!(read.secrets.reveal().and_then(|secrets| secrets.get("key")).map(Str::as_str), Some("s3cret"));
    let shown = format!("{row:?} {}", serde_json::to_string(&row).expect("encodes"));
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(shown.contains(r#""Secrets":null"#) && shown.contains(r#""MountFlags":["[REDACTED]"]"#), "{shown}");
}

#[test]
fn a_volume_of_only_defaults_survives_the_log() {
    let row = CsiVolume::default();
    let bytes = rmp_serde::to_vec_named(&row).expect("encodes");
    assert_eq!(rmp_serde::from_slice::<CsiVolume>(&bytes).expect("decodes"), row);
}

const STORED: &str = r#"{"ID":"v","Name":"n","ExternalID":"e","PluginID":"p","Parameters":{"a":"1"},"Context":{"c":"1"},"Capacity":100,
    "RequestedCapabilities":[{"AccessMode":"single-node-writer","AttachmentMode":"file-system"}]}"#;
const CAPABILITY: &str =
    r#""RequestedCapabilities":[{"AccessMode":"single-node-writer","AttachmentMode":"file-system"}]"#;

/// Applies a request with these fields to the stored volume, after `change`, and shows the result.
fn check(change: impl Fn(&mut CsiVolume), request: &str, expected: Expect) {
    let mut stored = volume(STORED);
    change(&mut stored);
    let request = if request.is_empty() { format!("{{{CAPABILITY}}}") } else { format!("{{{CAPABILITY},{request}}}") };
    let told = match stored.updated(&volume(&request)) {
        Err(refused) => refused.to_string(),
        Ok(row) if row == stored => "as it was".to_owned(),
        Ok(row) => {
            let fields = |row: &CsiVolume| match serde_json::to_value(row).expect("encodes") {
                serde_json::Value::Object(fields) => fields,
                other => panic!("{other} is no row"),
            };
            let before = fields(&stored);
            let changed = fields(&row).into_iter().filter(|(name, value)| before[name] != *value);
            changed.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        }
    };
    expected.assert_eq(&told);
}

fn held(row: &mut CsiVolume) {
    let alloc = AllocId::from_bytes([1; 16]);
    row.access_mode = CsiAccessMode::SingleNodeWriter;
    row.attachment_mode = CsiAttachmentMode::FileSystem;
    row.write_claims.insert(alloc, CsiVolumeClaim { allocation_id: alloc, ..CsiVolumeClaim::default() });
}

fn free(_row: &mut CsiVolume) {}

#[test]
fn volume_update_keeps_omitted_names_and_refuses_different_ones() {
    check(free, r#""PluginID":"p","Context":{"c":"1"}"#, expect!["as it was"]);
    check(free, r#""PluginID":"p","Context":{"c":"1"},"Name":"n","ExternalID":"e""#, expect!["as it was"]);
    check(
        free,
        r#""PluginID":"p","Name":"m","ExternalID":"f","CloneID":"c","SnapshotID":"s""#,
        expect![[r#"
            unable to update volume: 4 errors occurred:
            	* volume name cannot be updated
            	* volume external ID cannot be updated
            	* volume clone ID cannot be updated
            	* volume snapshot ID cannot be updated

        "#]],
    );
}

#[test]
fn volume_plugin_cannot_be_updated() {
    check(
        free,
        "",
        expect![[r#"
            unable to update volume: 1 error occurred:
            	* volume plugin ID cannot be updated

        "#]],
    );
}

#[test]
fn volume_capabilities_are_replaced_unless_a_claim_needs_them() {
    let other = r#""PluginID":"p","Context":{"c":"1"},"RequestedCapabilities":[{"AccessMode":"multi-node-multi-writer","AttachmentMode":"block-device"}]"#;
    let update = |change: fn(&mut CsiVolume)| {
        let mut stored = volume(STORED);
        change(&mut stored);
        stored.updated(&volume(&format!("{{{other}}}"))).map_err(|refused| refused.to_string())
    };
    let offered = update(free).expect("nobody holds it").requested_capabilities;
    assert_eq!(
        offered.into_iter().flatten().map(|one| one.access_mode).collect::<Vec<_>>(),
        [CsiAccessMode::MultiNodeMultiWriter]
    );
    expect![[r#"
        unable to update volume: 1 error occurred:
        	* volume requested capabilities update was not compatible with existing capability in use

    "#]]
    .assert_eq(&update(held).expect_err("a claim needs the other one"));
    check(held, r#""PluginID":"p","Context":{"c":"1"}"#, expect!["as it was"]);
}

#[test]
fn volume_topology_cannot_be_updated_once_set() {
    let placed = |row: &mut CsiVolume| {
        let place = CsiTopology { segments: Some([(Str::new("a"), Str::new("1"))].into()) };
        row.requested_topologies = Some(CsiTopologyRequest { required: Some(vec![place.clone()]), preferred: None });
        row.topologies = Some(vec![place]);
    };
    for request in
        [r#""PluginID":"p","RequestedTopologies":{"Required":[{"Segments":{"a":"2"}}]}"#, r#""PluginID":"p""#]
    {
        check(
            placed,
            request,
            expect![[r#"
                unable to update volume: 1 error occurred:
                	* volume topology request update was not compatible with existing topology

            "#]],
        );
    }
    check(
        placed,
        r#""PluginID":"p","Context":{"c":"1"},"RequestedTopologies":{"Required":[{"Segments":{"a":"1"}}]}"#,
        expect!["as it was"],
    );
    check(
        free,
        r#""PluginID":"p","Context":{"c":"1"},"RequestedTopologies":{"Preferred":[{"Segments":{"a":"2"}}]}"#,
        expect![[r#"RequestedTopologies={"Required":null,"Preferred":[{"Segments":{"a":"2"}}]}"#]],
    );
}

#[test]
fn mount_options_change_only_while_the_volume_has_no_claims() {
    let mount = r#""PluginID":"p","Context":{"c":"1"},"MountOptions":{"FSType":"xfs","MountFlags":["ro"]}"#;
    check(free, mount, expect![[r#"MountOptions={"FSType":"xfs","MountFlags":["[REDACTED]"]}"#]]);
    check(
        held,
        mount,
        expect![[r#"
            unable to update volume: 1 error occurred:
            	* can not update mount options while volume is in use

        "#]],
    );
}

#[test]
fn defect_13_volume_update_without_a_context_keeps_the_stored_context() {
    check(held, r#""PluginID":"p""#, expect!["as it was"]);
    check(held, r#""PluginID":"p","Context":{}"#, expect!["as it was"]);
    check(held, r#""PluginID":"p","Context":{"d":"2"}"#, expect![[r#"Context={"d":"2"}"#]]);
}

#[test]
fn volume_secrets_can_be_replaced() {
    let row = volume(STORED)
        .updated(&volume(&format!(r#"{{{CAPABILITY},"PluginID":"p","Secrets":{{"k":"v"}}}}"#)))
        .expect("is fine");
    assert!(row.secrets.reveal().is_some());
}

#[test]
fn volume_parameters_may_be_omitted_but_not_changed() {
    check(free, r#""PluginID":"p","Context":{"c":"1"},"Parameters":{}"#, expect!["as it was"]);
    check(free, r#""PluginID":"p","Context":{"c":"1"},"Parameters":{"a":"1"}"#, expect!["as it was"]);
    check(
        free,
        r#""PluginID":"p","Parameters":{"a":"2"}"#,
        expect![[r#"
            unable to update volume: 1 error occurred:
            	* volume parameters cannot be updated

        "#]],
    );
}

#[test]
fn volume_capacity_grows_to_the_reported_size_and_never_shrinks() {
    let asks = |min: u32, max: u32, got: u32| {
        format!(
            r#""PluginID":"p","Context":{{"c":"1"}},"RequestedCapacityMin":{min},"RequestedCapacityMax":{max},"Capacity":{got}"#
        )
    };
    check(free, &asks(50, 0, 0), expect!["RequestedCapacityMin=50"]);
    check(free, &asks(150, 200, 160), expect!["Capacity=160 RequestedCapacityMin=150 RequestedCapacityMax=200"]);
    for (min, max) in [(150, 200), (20, 10), (0, 50)] {
        let refused = volume(STORED).updated(&volume(&format!("{{{CAPABILITY},{}}}", asks(min, max, 0))));
        assert!(refused.is_err(), "{min} to {max}");
    }
}

#[test]
fn volume_request_fields_that_the_server_sets_are_ignored() {
    check(
        held,
        r#""PluginID":"p","Context":{"c":"1"},"AccessMode":"multi-node-multi-writer","Provider":"x","CreateIndex":7,"ModifyIndex":7"#,
        expect!["as it was"],
    );
    let new = volume(
        r#"{"ID":"v","AccessMode":"multi-node-multi-writer","CreateIndex":7,"ResourceExhausted":"2020-01-01T00:00:00Z"}"#,
    );
    assert_eq!(new.as_registered(), CsiVolume { topologies: Some(Vec::new()), ..volume(r#"{"ID":"v"}"#) });
}

#[test]
fn plugin_instance_is_known_once_it_was_healthy() {
    let node = NodeId::from_bytes([1; 16]);
    let told = |healthy| CsiInfo {
        healthy,
        provider: "x".into(),
        requires_controller_plugin: true,
        controller_info: Some(CsiControllerInfo::default()),
        ..CsiInfo::default()
    };
    let mut plugin = CsiPlugin::new("p".into(), 1);
    for (healthy, known, count) in [(false, 0, 0), (true, 1, 1), (true, 1, 1), (false, 1, 0)] {
        plugin.set_instance(CsiPluginPart::Controller, node, &told(healthy));
        assert_eq!((plugin.controllers.len(), plugin.controllers_healthy), (known, count));
    }
    assert!(plugin.controller_required && !plugin.is_empty());
    assert!(plugin.drop_instance(CsiPluginPart::Controller, node) && plugin.is_empty());
}

#[test]
fn volume_access_mode_decides_which_claims_may_be_added() {
    let health = CsiHealth { nodes_healthy: 1, ..CsiHealth::default() };
    let claims = |n: u8| (0..n).map(|n| (AllocId::from_bytes([n + 1; 16]), CsiVolumeClaim::default())).collect();
    let mut told = String::new();
    for mode in [
        CsiAccessMode::Unknown,
        CsiAccessMode::SingleNodeReader,
        CsiAccessMode::SingleNodeWriter,
        CsiAccessMode::MultiNodeReader,
        CsiAccessMode::MultiNodeSingleWriter,
        CsiAccessMode::MultiNodeMultiWriter,
        CsiAccessMode::Other("strange".into()),
    ] {
        let mut line = format!("{:24}", mode.as_str());
        for (readers, writers) in [(0, 0), (1, 0), (0, 1)] {
            let row = CsiVolume {
                access_mode: mode.clone(),
                requested_capabilities: Some(vec![CsiVolumeCapability {
                    access_mode: CsiAccessMode::SingleNodeWriter,
                    ..Default::default()
                }]),
                read_claims: claims(readers),
                write_claims: claims(writers),
                ..CsiVolume::default()
            };
            let free = [
                (row.has_free_read_claim(), "r"),
                (row.has_free_write_claim(), "w"),
                (row.write_schedulable(&health), "s"),
            ];
            let free: String = free.iter().map(|(holds, letter)| if *holds { *letter } else { "-" }).collect();
            line += &format!(" {readers}+{writers}:{free}");
        }
        told += line.trim_end();
        told.push('\n');
    }
    expect![[r#"
                                 0+0:rws 1+0:rws 0+1:rws
        single-node-reader-only  0+0:r-- 1+0:--- 0+1:r--
        single-node-writer       0+0:rws 1+0:-ws 0+1:--s
        multi-node-reader-only   0+0:r-- 1+0:r-- 0+1:r--
        multi-node-single-writer 0+0:rws 1+0:rws 0+1:r-s
        multi-node-multi-writer  0+0:rws 1+0:rws 0+1:rws
        strange                  0+0:r-- 1+0:r-- 0+1:r--
    "#]]
    .assert_eq(&told);
}

#[test]
fn volume_is_schedulable_while_its_plugin_is_healthy_and_its_storage_not_full() {
    let well = CsiHealth { nodes_healthy: 1, ..CsiHealth::default() };
    for (health, schedulable) in [
        (CsiHealth::default(), false),
        (well, true),
        (CsiHealth { controller_required: true, ..well }, false),
        (CsiHealth { controller_required: true, controllers_healthy: 1, ..well }, true),
        (CsiHealth { controllers_healthy: 1, ..CsiHealth::default() }, false),
    ] {
        assert_eq!(CsiVolume::default().read_schedulable(&health), schedulable, "{health:?}");
        let full = CsiVolume { resource_exhausted: Some(Time::from_secs(1)), ..CsiVolume::default() };
        assert!(!full.read_schedulable(&health) && !full.write_schedulable(&health));
    }
    let offers = |access_mode| CsiVolume {
        requested_capabilities: Some(vec![CsiVolumeCapability { access_mode, ..CsiVolumeCapability::default() }]),
        ..CsiVolume::default()
    };
    assert!(offers(CsiAccessMode::MultiNodeSingleWriter).write_schedulable(&well));
    assert!(!offers(CsiAccessMode::MultiNodeReader).write_schedulable(&well));
}

#[test]
fn volume_without_capabilities_offers_its_access_mode_after_its_next_claim() {
    let mut row = CsiVolume { requested_capabilities: None, ..volume(STORED) };
    held(&mut row);
    let alloc = AllocId::from_bytes([1; 16]);
    let step = CsiVolumeClaim { allocation_id: alloc, state: CsiClaimState::NodeDetached, ..CsiVolumeClaim::default() };
    row.claim(&step, true, &CsiHealth::default()).expect("steps back are always taken");
    let offered = row.requested_capabilities.into_iter().flatten().map(|one| one.access_mode).collect::<Vec<_>>();
    assert_eq!(offered, [CsiAccessMode::SingleNodeWriter]);
}
