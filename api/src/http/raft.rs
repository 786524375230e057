//! Raft: voters of the log's replication, removal of a server, transfer of leadership.

use std::borrow::Cow;

use axum::http::{Method, StatusCode};
use axum::response::Response;
use serde::Serialize;

use crate::error::ApiError;
use crate::http::call::{Call, empty};
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::http::params::{Query, quote};
use crate::server::{Cluster, Member};

pub(super) fn routes<S: Cluster>(mux: &mut Mux<S>) {
    let root = "/v1/operator/raft/";
    // The rest of the path after the word is ignored. Wrong methods and parameters are told before the rights are
    // checked.
    let management = Capability::Late(&Capability::Management);
    mux.add(Methods::Any, root, "configuration{}", management, |call| Box::pin(configuration(call)));
    mux.add(Methods::Any, root, "peer{}", management, |call| Box::pin(remove_peer(call)));
    mux.add(Methods::Any, root, "transfer-leadership{}", management, |call| Box::pin(transfer_leadership(call)));
    mux.add(Methods::Any, root, "{}", Capability::Anyone, |_| Box::pin(std::future::ready(Err(no_such_method()))));
}

fn no_such_method() -> ApiError {
    ApiError::not_found("Invalid method")
}

/// Answer of `raft/configuration`: the members of consensus.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ConfigurationResponse {
    servers: Vec<RaftServer>,
    /// Always 0, as in the reference.
    index: u64,
}

/// One member of consensus.
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

impl From<Member> for RaftServer {
    fn from(mut member: Member) -> Self {
        RaftServer {
            id: member.id,
            // The server at this address has not told its name yet.
            node: if member.name.is_empty() { "(unknown)".to_owned() } else { member.name },
            leader: member.leader,
            address: member.address,
            voter: member.voter,
            raft_protocol: member.tags.remove("raft_vsn").unwrap_or_else(|| "unknown".to_owned()),
        }
    }
}

async fn configuration<S: Cluster>(call: Call<S>) -> Result<Response, ApiError> {
    if call.method != Method::GET {
        return Err(ApiError::new(StatusCode::METHOD_NOT_ALLOWED, ""));
    }
    call.read_params()?;
    call.plain(&ConfigurationResponse {
        servers: call.server.members().into_iter().map(RaftServer::from).collect(),
        index: 0,
    })
}

async fn remove_peer<S: Cluster>(call: Call<S>) -> Result<Response, ApiError> {
    if call.method != Method::DELETE {
        return Err(no_such_method());
    }
    let neither = "Must specify either ?id with the server's ID or ?address with IP:port of peer to remove";
    let named = Named::of(call.query())?.ok_or_else(|| ApiError::bad_request(neither))?;
    call.write_namespace()?;
    let member = named.find(&*call.server)?;
    let voters = call.server.members().iter().filter(|other| other.voter && other.id != member.id).count();
    if voters == 0 {
        return Err(ApiError::internal("need at least one voter in configuration"));
    }
    call.server.remove_member(&member.id).await?;
    Ok(empty())
}

/// How a request names a member.
enum Named<'a> {
    Id(Cow<'a, str>),
    Address(Cow<'a, str>),
}

impl<'a> Named<'a> {
    /// The name in a query. `None`: the query names no member.
    fn of(query: Query<'a>) -> Result<Option<Self>, ApiError> {
        match (query.get("id"), query.get("address")) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(ApiError::bad_request("Must specify only one of ?id or ?address")),
            (Some(id), None) => Ok(Some(Named::Id(id))),
            (None, Some(address)) => Ok(Some(Named::Address(address))),
        }
    }

    /// The member of this name.
    fn find<S: Cluster>(&self, server: &S) -> Result<Member, ApiError> {
        let (word, asked) = match self {
            Named::Id(id) => ("id", id),
            Named::Address(address) => ("address", address),
        };
        let is_named = |member: &Member| match self {
            Named::Id(id) => member.id == **id,
            Named::Address(address) => member.address == **address,
        };
        let found = server.members().into_iter().find(is_named);
        found.ok_or_else(|| {
            ApiError::internal(format!("{word} {} was not found in the Raft configuration", quote(asked)))
        })
    }
}

/// Transfers leadership. Without a name, the leader chooses the successor; later versions of the reference require a
/// name.
async fn transfer_leadership<S: Cluster>(call: Call<S>) -> Result<Response, ApiError> {
    if call.method != Method::PUT && call.method != Method::POST {
        return Err(ApiError::new(StatusCode::METHOD_NOT_ALLOWED, ""));
    }
    let named = Named::of(call.query())?;
    call.write_namespace()?;
    let wanted = named.map(|named| named.find(&*call.server)).transpose()?;
    if let Some(member) = wanted.as_ref().filter(|member| !member.voter) {
        return Err(ApiError::internal(format!("server {} does not vote, so it cannot lead", quote(&member.id))));
    }
    if wanted.as_ref().is_none_or(|member| !member.leader) {
        call.server.transfer_leadership(wanted.as_ref().map(|member| member.id.as_str())).await?;
    }
    Ok(empty())
}
