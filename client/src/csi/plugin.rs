//! The connection to one CSI plugin, and its calls. Each call has a time limit. Calls about volumes are repeated when
//! the plugin's answer says that the failure may pass; probes and questions about the plugin itself are not.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::messages::{
    Empty, GetCapabilitiesResponse, GetPluginCapabilitiesResponse, GetPluginInfoResponse, Method, NodeGetInfoResponse,
    ProbeResponse, VolumeAtPath,
};

/// Time limit of one try of a call.
const TRY_TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Tries of a call whose failure may be temporary.
const TRIES: u32 = 3;
/// Delay before the second try; each later delay is twice the one before.
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// Longest path of a unix socket: `sun_path` has 108 bytes, of which the last is zero.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The reason why the socket of a plugin cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(
        "socket path {path:?} of the plugin has {length} bytes, and at most 107 are possible: use a shorter state_dir"
    )]
    PathTooLong { path: PathBuf, length: usize },
    #[error("socket path {path:?} of the plugin is not an address")]
    Address {
        path: PathBuf,
        #[source]
        source: tonic::transport::Error,
    },
}

/// A failed call. Its text is the one that users see in events, with the plugin's gRPC code.
#[derive(Debug, thiserror::Error)]
#[error("rpc error: code = {} desc = {}", code_name(.0.code()), .0.message())]
pub struct CallError(pub Status);

impl CallError {
    fn may_pass(&self) -> bool {
        matches!(self.0.code(), Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded)
    }
}

/// A plugin that serves the CSI services on a unix socket. Clones share one connection, which is made by the first
/// call and again after the plugin was restarted.
#[derive(Clone)]
pub struct Plugin {
    channel: Channel,
}

impl Plugin {
    /// Prepares a connection to `socket`, an absolute path. The socket need not exist yet.
    pub fn at(socket: &Path) -> Result<Plugin, ConnectError> {
        let length = socket.as_os_str().len();
        if length > SOCKET_PATH_BYTES_MAX {
            return Err(ConnectError::PathTooLong { path: socket.to_owned(), length });
        }
        let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display()))
            .map_err(|source| ConnectError::Address { path: socket.to_owned(), source })?
            .origin(http::Uri::from_static("http://localhost"));
        Ok(Plugin { channel: endpoint.connect_lazy() })
    }

    /// Whether the plugin is ready. A plugin that leaves the answer open is ready, as the protocol says.
    pub async fn probe(&self) -> Result<bool, CallError> {
        let answer: ProbeResponse = self.once("/csi.v1.Identity/Probe", Empty {}, PROBE_TIMEOUT).await?;
        Ok(answer.ready.is_none_or(|ready| ready.value))
    }

    pub(super) async fn info(&self) -> Result<GetPluginInfoResponse, CallError> {
        self.once("/csi.v1.Identity/GetPluginInfo", Empty {}, TRY_TIMEOUT).await
    }

    pub(super) async fn capabilities(&self) -> Result<GetPluginCapabilitiesResponse, CallError> {
        self.once("/csi.v1.Identity/GetPluginCapabilities", Empty {}, TRY_TIMEOUT).await
    }

    pub(super) async fn controller_capabilities(&self) -> Result<GetCapabilitiesResponse, CallError> {
        self.once("/csi.v1.Controller/ControllerGetCapabilities", Empty {}, TRY_TIMEOUT).await
    }

    pub(super) async fn node_capabilities(&self) -> Result<GetCapabilitiesResponse, CallError> {
        self.once("/csi.v1.Node/NodeGetCapabilities", Empty {}, TRY_TIMEOUT).await
    }

    pub(super) async fn node_info(&self) -> Result<NodeGetInfoResponse, CallError> {
        self.once("/csi.v1.Node/NodeGetInfo", Empty {}, TRY_TIMEOUT).await
    }

    /// Sends a request about volumes. A failure that may pass is tried again.
    pub async fn ask<M: Method>(&self, request: M) -> Result<M::Answer, CallError> {
        self.call(M::PATH, request).await
    }

    /// Reverts `NodeStageVolume`. A volume that the plugin does not know counts as unstaged.
    pub async fn unstage(&self, volume_id: &str, staging_path: &str) -> Result<(), CallError> {
        self.call::<_, Empty>("/csi.v1.Node/NodeUnstageVolume", at_path(volume_id, staging_path))
            .await
            .map(|_| ())
            .or_else(gone)
    }

    /// Reverts `NodePublishVolume`. A volume that the plugin does not know counts as unpublished.
    pub async fn unpublish(&self, volume_id: &str, target_path: &str) -> Result<(), CallError> {
        self.call::<_, Empty>("/csi.v1.Node/NodeUnpublishVolume", at_path(volume_id, target_path))
            .await
            .map(|_| ())
            .or_else(gone)
    }

    async fn call<Req, Resp>(&self, path: &'static str, request: Req) -> Result<Resp, CallError>
    where
        Req: prost::Message + Clone + 'static,
        Resp: prost::Message + Default + 'static,
    {
        let mut delay = FIRST_DELAY;
        for _ in 1..TRIES {
            match self.once(path, request.clone(), TRY_TIMEOUT).await {
                Err(error) if error.may_pass() => tokio::time::sleep(delay).await,
                done => return done,
            }
            delay *= 2;
        }
        self.once(path, request, TRY_TIMEOUT).await
    }

    async fn once<Req, Resp>(&self, path: &'static str, request: Req, limit: Duration) -> Result<Resp, CallError>
    where
        Req: prost::Message + 'static,
        Resp: prost::Message + Default + 'static,
    {
        let exchange = async {
            let mut grpc = tonic::client::Grpc::new(self.channel.clone());
            grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            let codec: ProstCodec<Req, Resp> = ProstCodec::default();
            grpc.unary(Request::new(request), PathAndQuery::from_static(path), codec).await
        };
        match tokio::time::timeout(limit, exchange).await {
            Ok(answer) => answer.map(tonic::Response::into_inner).map_err(CallError),
            Err(_) => Err(CallError(Status::deadline_exceeded("context deadline exceeded"))),
        }
    }
}

fn at_path(volume_id: &str, path: &str) -> VolumeAtPath {
    VolumeAtPath { volume_id: volume_id.to_owned(), path: path.to_owned() }
}

/// A plugin that does not find what it should release has nothing left to do.
fn gone(error: CallError) -> Result<(), CallError> {
    if error.0.code() == Code::NotFound { Ok(()) } else { Err(error) }
}

/// The name of a gRPC code in error texts.
fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}
