//! Conversations with a fake plugin: a gRPC service in this process, on a unix socket.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::path::PathBuf;
use std::sync::Arc;

use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use songline_model::Time;
use tokio::net::UnixListener;
use tonic::server::UnaryService;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

mod requests;
mod supervision;
mod volumes;

use super::messages::*;
use super::*;

/// The answers of a fake plugin, and the calls that it got.
#[derive(Default)]
struct Script {
    calls: Vec<String>,
    /// Failures that the next calls about volumes get, in order.
    failures: VecDeque<Status>,
    stage: Option<NodeStageVolumeRequest>,
    nameless: bool,
    not_ready: bool,
    /// Directory of the plugin's volumes on this machine, in which targets are made and removed.
    root: PathBuf,
    /// Paths that volumes were published and unpublished at, as the agent names them.
    paths: Vec<String>,
}

impl Script {
    /// The place on this machine of a path in the plugin's task.
    fn place(&mut self, path: &str) -> PathBuf {
        self.paths.push(path.to_owned());
        self.root.join(path.trim_start_matches("/local/csi/"))
    }
}

struct Fake {
    dir: tempfile::TempDir,
    script: Arc<Mutex<Script>>,
}

impl Fake {
    fn start() -> Fake {
        let dir = tempfile::tempdir().expect("a folder");
        let script = Arc::<Mutex<Script>>::default();
        let listener = UnixListener::bind(dir.path().join("csi.sock")).expect("a socket");
        tokio::spawn(serve(listener, script.clone()));
        Fake { dir, script }
    }

    fn plugin(&self) -> Plugin {
        Plugin::at(&self.dir.path().join("csi.sock")).expect("a short path")
    }

    fn calls(&self) -> Vec<String> {
        self.script.lock().calls.clone()
    }

    fn fail(&self, failures: impl IntoIterator<Item = Status>) {
        self.script.lock().failures.extend(failures);
    }
}

async fn serve(listener: UnixListener, script: Arc<Mutex<Script>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let script = script.clone();
        let service = hyper::service::service_fn(move |request| {
            let script = script.clone();
            async move { Ok::<_, Infallible>(answer(request, &script).await) }
        });
        let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
    }
}

type Answer = http::Response<tonic::body::Body>;

async fn answer(request: http::Request<hyper::body::Incoming>, script: &Mutex<Script>) -> Answer {
    let call = request.uri().path().trim_start_matches("/csi.v1.").to_owned();
    script.lock().calls.push(call.clone());
    let Script { nameless, not_ready, .. } = *script.lock();
    match call.as_str() {
        "Identity/Probe" => {
            let ready = not_ready.then_some(BoolValue { value: false });
            reply(request, move |_: Empty| Ok(ProbeResponse { ready: ready.clone() })).await
        }
        "Identity/GetPluginInfo" => {
            let name = if nameless { "" } else { "org.example" }.to_owned();
            let info = GetPluginInfoResponse { name, vendor_version: "1.2.3".to_owned() };
            reply(request, move |_: Empty| Ok(info.clone())).await
        }
        "Identity/GetPluginCapabilities" => reply(request, |_: Empty| Ok(plugin_capabilities())).await,
        "Controller/ControllerGetCapabilities" => reply(request, |_: Empty| Ok(capabilities(&[1, 2, 9]))).await,
        "Node/NodeGetCapabilities" => reply(request, |_: Empty| Ok(capabilities(&[1, 3]))).await,
        "Node/NodeGetInfo" => reply(request, |_: Empty| Ok(about_node())).await,
        "Node/NodeStageVolume" => {
            let failure = script.lock().failures.pop_front();
            reply(request, |message: NodeStageVolumeRequest| {
                script.lock().stage = Some(message);
                failure.clone().map_or(Ok(Empty {}), Err)
            })
            .await
        }
        "Node/NodePublishVolume" => {
            let failure = script.lock().failures.pop_front();
            reply(request, |message: NodePublishVolumeRequest| {
                let target = script.lock().place(&message.target_path);
                std::fs::create_dir(target).expect("the parent is there");
                failure.clone().map_or(Ok(Empty {}), Err)
            })
            .await
        }
        "Node/NodeUnpublishVolume" => {
            let failure = script.lock().failures.pop_front();
            reply(request, |message: VolumeAtPath| {
                let target = script.lock().place(&message.path);
                // A repeated request finds nothing.
                let _ = std::fs::remove_dir(target);
                failure.clone().map_or(Ok(Empty {}), Err)
            })
            .await
        }
        "Controller/ValidateVolumeCapabilities" => {
            reply(request, |message: ValidateVolumeCapabilitiesRequest| {
                let confirmed = Confirmed { volume_capabilities: message.volume_capabilities };
                let unknown = message.volume_id == "unknown";
                Ok(ValidateVolumeCapabilitiesResponse {
                    confirmed: (!unknown).then_some(match message.volume_id.as_str() {
                        "nothing" => Confirmed::default(),
                        _ => confirmed,
                    }),
                    message: String::new(),
                })
            })
            .await
        }
        "Controller/CreateVolume" => {
            let failure = script.lock().failures.pop_front();
            reply(request, |message: CreateVolumeRequest| {
                let volume = Volume { volume_id: message.name, capacity_bytes: 7, ..Volume::default() };
                failure.clone().map_or(Ok(CreateVolumeResponse { volume: Some(volume) }), Err)
            })
            .await
        }
        _ => {
            let failure = script.lock().failures.pop_front();
            reply(request, |_: VolumeAtPath| failure.clone().map_or(Ok(Empty {}), Err)).await
        }
    }
}

/// A gRPC method that answers by a function.
struct Method<F>(F);

impl<F, Req, Resp> UnaryService<Req> for Method<F>
where
    F: FnMut(Req) -> Result<Resp, Status>,
{
    type Response = Resp;
    type Future = Ready<Result<Response<Resp>, Status>>;

    fn call(&mut self, request: Request<Req>) -> Self::Future {
        ready((self.0)(request.into_inner()).map(Response::new))
    }
}

async fn reply<Req, Resp>(
    request: http::Request<hyper::body::Incoming>,
    to: impl FnMut(Req) -> Result<Resp, Status>,
) -> Answer
where
    Req: prost::Message + Default + 'static,
    Resp: prost::Message + 'static,
{
    let codec: ProstCodec<Resp, Req> = ProstCodec::default();
    tonic::server::Grpc::new(codec).unary(Method(to), request).await
}

fn plugin_capabilities() -> GetPluginCapabilitiesResponse {
    GetPluginCapabilitiesResponse { capabilities: vec![PluginCapability { service: Some(Capability { kind: 1 }) }] }
}

fn capabilities(kinds: &[i32]) -> GetCapabilitiesResponse {
    let one = |kind: &i32| ServiceCapability { rpc: Some(Capability { kind: *kind }) };
    GetCapabilitiesResponse { capabilities: kinds.iter().map(one).collect() }
}

fn about_node() -> NodeGetInfoResponse {
    let segments = BTreeMap::from([("zone".to_owned(), "a".to_owned())]);
    let accessible_topology = Some(Topology { segments });
    NodeGetInfoResponse { node_id: "n1".to_owned(), max_volumes_per_node: 0, accessible_topology }
}

fn instance(parts: Parts) -> Instance {
    Instance { plugin_id: "disks".into(), alloc_id: "a1".into(), parts }
}

fn stage_request() -> NodeStageVolumeRequest {
    let mount = MountVolume { fs_type: "ext4".to_owned(), mount_flags: vec!["password=flagged".to_owned()] };
    NodeStageVolumeRequest {
        volume_id: "v1".to_owned(),
        staging_target_path: "/local/csi/staging/v1".to_owned(),
        volume_capability: Some(VolumeCapability {
            access_type: Some(access_type::AccessType::Mount(mount)),
            access_mode: Some(AccessMode { mode: 1 }),
        }),
        secrets: BTreeMap::from([("key".to_owned(), "hidden".to_owned())]),
        ..NodeStageVolumeRequest::default()
    }
}

#[tokio::test]
async fn a_monolith_has_a_row_for_each_part() {
    let fake = Fake::start();
    assert!(fake.plugin().probe().await.expect("an answer"));
    let found = instance(Parts::Monolith).fingerprint(&fake.plugin(), Time::default()).await.expect("answers");
    let controller = found.controller.expect("a controller");
    assert!(controller.healthy && controller.requires_controller_plugin && !controller.requires_topologies);
    assert_eq!((&*controller.provider, &*controller.provider_version), ("org.example", "1.2.3"));
    let can = controller.controller_info.expect("its capabilities");
    assert!(can.supports_create_delete && can.supports_attach_detach && can.supports_expand);
    assert!(!can.supports_list_volumes && !can.supports_get);
    let node = found.node.expect("a node part").node_info.expect("its capabilities");
    assert!(node.requires_node_stage_volume && node.supports_expand && !node.supports_stats);
    assert_eq!((&*node.id, node.max_volumes), ("n1", i64::MAX));
    let segments = node.accessible_topology.and_then(|of| of.segments).expect("its segments");
    assert_eq!(segments.get("zone").map(|zone| &**zone), Some("a"));
}

#[tokio::test]
async fn a_node_plugin_is_not_asked_about_a_controller() {
    let fake = Fake::start();
    let found = instance(Parts::Node).fingerprint(&fake.plugin(), Time::default()).await.expect("answers");
    assert!(found.controller.is_none() && found.node.is_some());
    assert!(!fake.calls().iter().any(|call| call.starts_with("Controller/")));
}

#[tokio::test]
async fn a_plugin_without_a_name_is_not_healthy() {
    let fake = Fake::start();
    fake.script.lock().nameless = true;
    let of = instance(Parts::Controller);
    let error = of.fingerprint(&fake.plugin(), Time::default()).await.expect_err("no name");
    let row = of.failed(None, &error, Time::default()).controller.expect("a row");
    assert!(!row.healthy);
    let text = "failed fingerprinting with error: PluginGetInfo: plugin returned empty name field";
    assert_eq!(&*row.health_description, text);
}

#[tokio::test]
async fn a_failure_that_may_pass_is_tried_three_times() {
    let fake = Fake::start();
    fake.fail([Status::unavailable("busy"), Status::resource_exhausted("busy")]);
    fake.plugin().ask(stage_request()).await.expect("the third try");
    assert_eq!(fake.calls(), ["Node/NodeStageVolume"; 3]);
    assert_eq!(fake.script.lock().stage, Some(stage_request()), "secrets and mount flags arrive");

    fake.fail([Status::unavailable("1"), Status::unavailable("2"), Status::unavailable("3")]);
    let error = fake.plugin().ask(stage_request()).await.expect_err("no fourth try");
    assert_eq!(error.to_string(), "rpc error: code = Unavailable desc = 3");
}

#[tokio::test]
async fn a_refusal_is_not_repeated() {
    let fake = Fake::start();
    fake.fail([Status::invalid_argument("it can not be staged")]);
    let error = fake.plugin().ask(stage_request()).await.expect_err("a refusal");
    assert_eq!(error.to_string(), "rpc error: code = InvalidArgument desc = it can not be staged");
    assert_eq!(fake.calls().len(), 1);
}

#[tokio::test]
async fn releasing_an_unknown_volume_succeeds() {
    let fake = Fake::start();
    fake.fail([Status::not_found("gone"), Status::not_found("gone"), Status::internal("stuck")]);
    let plugin = fake.plugin();
    plugin.unpublish("v1", "/t").await.expect("unpublished");
    plugin.unstage("v1", "/s").await.expect("unstaged");
    plugin.unpublish("v1", "/t").await.expect_err("another failure");
}

#[tokio::test]
async fn a_probe_without_a_plugin_fails_and_is_not_repeated() {
    let dir = tempfile::tempdir().expect("a folder");
    let plugin = Plugin::at(&dir.path().join("csi.sock")).expect("a short path");
    assert_eq!(plugin.probe().await.expect_err("no socket").0.code(), tonic::Code::Unavailable);
}

#[tokio::test]
async fn a_socket_path_beyond_the_systems_limit_is_refused() {
    assert!(Plugin::at(&PathBuf::from(format!("/{}", "x".repeat(106)))).is_ok());
    let error = Plugin::at(&PathBuf::from(format!("/{}", "x".repeat(107)))).err().expect("too long");
    assert!(matches!(error, ConnectError::PathTooLong { length: 108, .. }));
}

#[test]
fn debug_output_has_no_secrets() {
    let shown = format!("{:?}", stage_request());
    assert!(!shown.contains("hidden") && !shown.contains("flagged"), "{shown}");
    let capability = format!("{:?}", stage_request().volume_capability);
    assert!(!capability.contains("flagged"), "{capability}");
}
