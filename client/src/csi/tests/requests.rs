//! Requests of servers, as bytes.

use songline_model::{CsiSecrets, CsiVolumeCapability};
use songline_rpc::RpcError;
use songline_rpc::message::{
    Call, ControllerCreateVolume, ControllerDetachVolume, ControllerListVolumes, ControllerValidateVolume,
};
use songline_rpc::msgpack;
use songline_rpc::net::Refusal;

use super::super::registry::Registry;
use super::super::supervisor::Place;
use super::super::volumes::Volumes;
use super::*;
use crate::clock::Clock;

/// Volumes of a node on which the fake plugin runs as `disks`.
fn volumes(fake: &Fake) -> Volumes {
    let registry = Arc::<Registry>::default();
    let place = Place::of(fake.dir.path(), &Default::default(), &Default::default());
    registry.enter(&instance(Parts::Controller), &fake.plugin(), &place);
    let clock = Clock::start(Arc::new(songline_rpc::world::Machine::default()));
    Volumes::new(registry, clock, drop)
}

async fn ask<C: Call>(volumes: &Volumes, request: &C) -> Result<C::Answer, String> {
    let body = msgpack::to_vec(request).expect("encodes");
    match super::super::serve(volumes, |_| None, C::METHOD, &body).await {
        Ok(answer) => Ok(msgpack::from_slice(&answer).expect("decodes")),
        Err(Refusal::Failed(RpcError::Remote(text))) => Err(text),
        Err(_) => panic!("another refusal"),
    }
}

fn capability() -> Option<Vec<CsiVolumeCapability>> {
    Some(vec![CsiVolumeCapability { access_mode: "single-node-writer".into(), attachment_mode: "file-system".into() }])
}

#[tokio::test]
async fn a_created_volume_comes_back_with_its_id_and_size() {
    let fake = Fake::start();
    let request = ControllerCreateVolume {
        plugin_id: "disks".into(),
        name: "v".into(),
        volume_capabilities: capability(),
        secrets: CsiSecrets::new([("key".into(), "hidden".into())].into()),
        ..ControllerCreateVolume::default()
    };
    let volumes = volumes(&fake);
    let made = ask(&volumes, &request).await.expect("made");
    assert_eq!((made.external_volume_id.as_str(), made.capacity_bytes), ("v", 7));

    fake.fail([Status::resource_exhausted("1"), Status::resource_exhausted("2"), Status::resource_exhausted("full")]);
    let error = ask(&volumes, &request).await.expect_err("refused");
    assert_eq!(
        error,
        "CSI.ControllerCreateVolume: unable to provision \"v\" in accessible_topology: \
         rpc error: code = ResourceExhausted desc = full"
    );
    let wrong = ControllerCreateVolume { capacity_min: 2, capacity_max: 1, ..request };
    let error = ask(&volumes, &wrong).await.expect_err("refused");
    assert_eq!(error, "CSI.ControllerCreateVolume: LimitBytes cannot be less than RequiredBytes");
}

#[tokio::test]
async fn a_volume_is_valid_unless_the_plugin_confirms_something_else() {
    let fake = Fake::start();
    let volumes = volumes(&fake);
    let of = |id: &str| ControllerValidateVolume {
        plugin_id: "disks".into(),
        volume_id: id.into(),
        volume_capabilities: capability(),
        ..ControllerValidateVolume::default()
    };
    ask(&volumes, &of("confirmed")).await.expect("valid");
    ask(&volumes, &of("unknown")).await.expect("not refused");
    let error = ask(&volumes, &of("nothing")).await.expect_err("refused");
    assert_eq!(error, "CSI.ControllerValidateVolume: volume capability validation failed: the plugin confirmed none");
}

#[tokio::test]
async fn servers_ask_another_node_if_the_plugin_is_not_here() {
    let fake = Fake::start();
    let volumes = volumes(&fake);
    let request = ControllerListVolumes { plugin_id: "others".into(), ..ControllerListVolumes::default() };
    let error = ask(&volumes, &request).await.expect_err("refused");
    assert_eq!(
        error,
        "CSI.ControllerListVolumes: CSI client error (retryable): plugin others for type csi-controller not found"
    );
}

#[tokio::test]
async fn a_volume_is_never_detached_from_all_nodes() {
    let fake = Fake::start();
    let volumes = volumes(&fake);
    let request = ControllerDetachVolume {
        plugin_id: "disks".into(),
        volume_id: "v".into(),
        client_csi_node_id: "n1".into(),
        ..ControllerDetachVolume::default()
    };
    fake.fail([Status::not_found("gone")]);
    ask(&volumes, &request).await.expect("nothing is left to do");
    let all = ControllerDetachVolume { client_csi_node_id: Default::default(), ..request };
    let error = ask(&volumes, &all).await.expect_err("refused");
    assert_eq!(error, "CSI.ControllerDetachVolume: missing ClientCSINodeID");
    assert_eq!(fake.calls(), ["Controller/ControllerUnpublishVolume"]);
}
