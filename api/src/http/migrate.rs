//! Migration of ephemeral disks: the data of an allocation as a tar, for its successor on another node, which has the
//! migrate token.

use axum::body::Body;
use axum::response::Response;
use songline_model::migrate_token;
use songline_rpc::NodeAgent;
use tokio_stream::wrappers::ReceiverStream;

use crate::caller::denied;
use crate::error::ApiError;
use crate::http::alloc::alloc_id;
use crate::http::call::Call;
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::server::{Nodes, Reads};

pub(super) fn routes<S: Reads + Nodes>(mux: &mut Mux<S>) {
    mux.add(Methods::Any, "/v1/client/allocation/", "{}/snapshot", Capability::Possession, |call| {
        Box::pin(snapshot(call))
    });
}

async fn snapshot<S: Reads + Nodes>(call: Call<S>) -> Result<Response, ApiError> {
    let node = call.server.local_node().ok_or_else(|| ApiError::bad_request("node is not running a Nomad Client"))?;
    let missing = || ApiError::internal("allocation not found");
    if call.server.info().acl.enabled {
        // A caller without the token must not learn whether the allocation exists.
        let id = alloc_id(call.id()).map_err(|_| denied())?;
        let view = call.server.view();
        let row = view.node(node).ok_or_else(denied)?;
        if !migrate_token::is_of(call.token(), id, &row.secret_id) {
            return Err(denied());
        }
    }
    let id = alloc_id(call.id())?;
    let agent = call.server.node_agent(node, call.secret()).ok_or_else(missing)?;
    let pieces = agent.alloc_snapshot(id).await.map_err(|error| match error {
        songline_rpc::RpcError::Coded { code: 404, .. } => missing(),
        other => other.into(),
    })?;
    Ok(Response::new(Body::from_stream(ReceiverStream::new(pieces))))
}
