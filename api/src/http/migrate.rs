//! What an allocation leaves to the one that follows it on another node: its data as a tar, for whoever has the token of that move.

use axum::body::Body;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use blake2::Blake2bMac512;
use blake2::digest::{KeyInit, Mac};
use songline_model::AllocId;
use songline_rpc::NodeAgent;
use tokio_stream::wrappers::ReceiverStream;

use crate::caller::denied;
use crate::error::ApiError;
use crate::http::allocs::alloc_id;
use crate::http::call::Call;
use crate::http::mux::{Capability, Methods, Mux};
use crate::server::Server;

pub(super) fn routes<S: Server>(mux: &mut Mux<S>) {
    mux.add(Methods::Get, "/v1/client/allocation/", "{}/snapshot", Capability::Possession, |call| Box::pin(snapshot(call)));
}

async fn snapshot<S: Server>(call: Call<S>) -> Result<Response, ApiError> {
    let node = call.server.local_node().ok_or_else(|| ApiError::bad_request("node is not running a Nomad Client"))?;
    let missing = || ApiError::not_found("allocation not found");
    if call.server.info().acl.enabled {
        // Whether there is such an allocation is nobody's business who has no token for it.
        let id = alloc_id(call.id()).map_err(|_| denied())?;
        let view = call.server.view();
        let row = view.node(node).ok_or_else(denied)?;
        if !is_token(call.token(), id, row.secret_id.reveal()) {
            return Err(denied());
        }
    }
    let id = alloc_id(call.id())?;
    let agent = call.server.node_agent(node).ok_or_else(missing)?;
    let pieces = agent.alloc_snapshot(id).await.map_err(|error| match error {
        songline_rpc::RpcError::Coded { code: 404, .. } => missing(),
        other => other.into(),
    })?;
    Ok(Response::new(Body::from_stream(ReceiverStream::new(pieces))))
}

/// Whether a token is that of a move of this allocation: its id under the node's secret.
fn is_token(token: &str, alloc: AllocId, secret: &str) -> bool {
    let (Ok(token), Ok(mut mac)) = (URL_SAFE.decode(token), <Blake2bMac512 as KeyInit>::new_from_slice(secret.as_bytes())) else {
        return false;
    };
    mac.update(alloc.to_string().as_bytes());
    // Takes as long for a wrong token as for a right one.
    mac.verify_slice(&token).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_of_a_move_is_the_allocs_id_under_the_nodes_secret() {
        let secret = "01234567-89ab-cdef-0123-456789abcdef";
        let token = "4j03vGt_J6U7mus3gf76tK0BXukowvOvm6O8Oz5W1he71Pc4wC9QzbfQ7qMsJfQn4OdjnagO3pZFDWrdeqJB2Q==";
        let id: AllocId = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee".parse().expect("an id");
        assert!(is_token(token, id, secret));
        assert!(!is_token(token, AllocId::default(), secret));
        assert!(!is_token(token, id, "fedcba98-89ab-cdef-0123-456789abcdef"));
        assert!(!is_token("", id, secret) && !is_token("%", id, secret));
    }
}
