//! Dynamic metadata of a node: read and set while the node runs. The node stores it.

use std::collections::BTreeMap;

use axum::response::Response;
use serde::Deserialize;
use songline_model::Str;
use songline_rpc::NodeAgent;

use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::capability::Capability;
use crate::http::fs::agent_of_node;
use crate::http::mux::{Methods, Mux};
use crate::server::{Nodes, Reads};
use songline_lang::acl::Access;

pub(super) fn routes<S: Reads + Nodes>(mux: &mut Mux<S>) {
    const LATE_WRITE: Capability = Capability::Late(&Capability::Node(Access::Write));
    mux.add(Methods::Get, "/v1/client/metadata", "", Capability::Node(Access::Read), |call| Box::pin(read(call)));
    mux.add(Methods::Post, "/v1/client/metadata", "", LATE_WRITE, |call| Box::pin(apply(call)));
}

/// Body of a change of a node's dynamic metadata; null removes a key.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct NodeMetaApplyRequest {
    #[serde(rename = "NodeID")]
    node_id: Str,
    meta: Option<BTreeMap<Str, Option<Str>>>,
}

async fn read<S: Reads + Nodes>(call: Call<S>) -> Result<Response, ApiError> {
    let agent = agent_of_node(&call, &call.query().text("node_id"), ApiError::internal)?;
    call.plain(&agent.node_meta().await?)
}

async fn apply<S: Reads + Nodes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let request: NodeMetaApplyRequest = call.json().await?;
    call.read_params()?;
    let in_query = call.query().text("node_id").into_owned();
    let node = if in_query.is_empty() { request.node_id.as_str() } else { &in_query };
    let agent = agent_of_node(&call, node, ApiError::internal)?;
    call.plain(&agent.node_meta_apply(request.meta.unwrap_or_default()).await?)
}
