//! Who takes part in the log's replication, and taking a server out of it.

use axum::http::{Method, StatusCode};
use axum::response::Response;
use serde::Serialize;

use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::mux::{Capability, Methods, Mux};
use crate::http::params::quote;
use crate::server::Server;

pub(super) fn routes<S: Server>(mux: &mut Mux<S>) {
    let root = "/v1/operator/raft/";
    // What follows the word does not count.
    mux.add(Methods::Any, root, "configuration{}", Capability::Management, |call| Box::pin(configuration(call)));
    mux.add(Methods::Any, root, "peer{}", Capability::Management, |call| Box::pin(remove_peer(call)));
    mux.add(Methods::Any, root, "{}", Capability::Management, |_| Box::pin(std::future::ready(Err(no_such_method()))));
}

fn no_such_method() -> ApiError {
    ApiError::not_found("Invalid method")
}

/// `RaftConfigurationResponse` of the wire.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ConfigurationResponse {
    servers: Vec<RaftServer>,
    /// The reference never fills it.
    index: u64,
}

/// `RaftServer` of the wire.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct RaftServer {
    #[serde(rename = "ID")]
    pub(super) id: String,
    pub(super) node: String,
    pub(super) address: String,
    pub(super) leader: bool,
    pub(super) voter: bool,
    raft_protocol: String,
}

impl RaftServer {
    /// This server; there are no others yet.
    pub(super) fn this<S: Server>(server: &S) -> Self {
        let mut tags = server.agent_self().tags;
        let leader = server.leader_addr();
        let address = server.peer_addrs().into_iter().next().unwrap_or_default();
        RaftServer {
            id: tags.remove("id").unwrap_or_default(),
            node: server.info().name.clone(),
            leader: leader == address,
            address,
            voter: true,
            raft_protocol: tags.remove("raft_vsn").unwrap_or_else(|| "unknown".to_owned()),
        }
    }
}

async fn configuration<S: Server>(call: Call<S>) -> Result<Response, ApiError> {
    if call.method != Method::GET {
        return Err(ApiError::new(StatusCode::METHOD_NOT_ALLOWED, ""));
    }
    call.read_params()?;
    call.plain(&ConfigurationResponse { servers: vec![RaftServer::this(&*call.server)], index: 0 })
}

async fn remove_peer<S: Server>(call: Call<S>) -> Result<Response, ApiError> {
    if call.method != Method::DELETE {
        return Err(no_such_method());
    }
    call.write_namespace()?;
    let query = call.query();
    let known = RaftServer::this(&*call.server);
    let (word, asked, known) = match (query.get("id"), query.get("address")) {
        (None, None) => {
            let text = "Must specify either ?id with the server's ID or ?address with IP:port of peer to remove";
            return Err(ApiError::bad_request(text));
        }
        (Some(_), Some(_)) => return Err(ApiError::bad_request("Must specify only one of ?id or ?address")),
        (Some(id), None) => ("id", id, known.id),
        (None, Some(address)) => ("address", address, known.address),
    };
    if asked.is_empty() || *asked != known {
        return Err(ApiError::internal(format!("{word} {} was not found in the Raft configuration", quote(&asked))));
    }
    // It is the only one that votes.
    Err(ApiError::internal("need at least one voter in configuration"))
}
