//! Membership of servers: joining, removing a failed server, gossip keys.
//!
//! Servers exchange greetings instead of gossip, so there is no gossip keyring.

use std::io::ErrorKind;
use std::time::Duration;

use axum::response::Response;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;

use crate::error::ApiError;
use crate::http::call::{Call, empty};
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::http::namespace::multi_error;
use crate::http::params::parse_bool;
use crate::server::{Cluster, Regions};
use songline_lang::acl::Access;
use songline_model::Blob;

/// Timeout for one address.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn routes<S: Regions + Cluster>(mux: &mut Mux<S>) {
    mux.add(Methods::Write, "/v1/agent/join", "", Capability::Agent(Access::Write), |call| Box::pin(join(call)));
    mux.add(Methods::Write, "/v1/agent/force-leave", "", Capability::Agent(Access::Write), |call| {
        Box::pin(force_leave(call))
    });
    let (root, write) = ("/v1/agent/keyring/", Capability::Agent(Access::Write));
    mux.add(Methods::Any, root, "list{}", write, |call| Box::pin(list_keys(call)));
    for verb in ["install{}", "use{}", "remove{}"] {
        mux.add(Methods::Any, root, verb, write, |call| Box::pin(change_keys(call)));
    }
    mux.add(Methods::Any, root, "{}", write, |_| Box::pin(std::future::ready(Err(resource_not_found()))));
}

fn resource_not_found() -> ApiError {
    ApiError::not_found("resource not found")
}

#[derive(Debug, Serialize)]
struct JoinResponse {
    num_joined: usize,
    error: String,
}

/// Joins the servers of the given addresses. A failure is reported in the body of a successful response.
async fn join<S: Cluster>(call: Call<S>) -> Result<Response, ApiError> {
    let addresses: Vec<String> = call.query().all("address").map(|address| address.into_owned()).collect();
    if addresses.is_empty() {
        return Err(ApiError::bad_request("missing address to join"));
    }
    let mut errors = Vec::with_capacity(addresses.len());
    for address in &addresses {
        if let Err(why) = meet(&*call.server, &with_port(address, call.server.info().serf_port)).await {
            errors.push(format!("Failed to join {address}: {why}"));
        }
    }
    // One joined address is enough for success.
    let num_joined = addresses.len() - errors.len();
    let error = if num_joined > 0 { String::new() } else { multi_error(&errors) };
    call.plain(&JoinResponse { num_joined, error })
}

/// Joins the server at one address; the error says why it cannot be joined.
async fn meet<S: Cluster>(server: &S, address: &str) -> Result<(), String> {
    dial(address).await?;
    server.join(address).await
}

/// Connects to an address, and hangs up; the error says why it cannot be reached. An address without a host is this
/// machine.
pub(super) async fn dial(address: &str) -> Result<(), String> {
    let own = format!("localhost{address}");
    let target = if address.starts_with(':') { own.as_str() } else { address };
    let error = match tokio::time::timeout(DIAL_TIMEOUT, TcpStream::connect(target)).await {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(error)) => error,
        Err(elapsed) => elapsed.into(),
    };
    let reason = match error.kind() {
        ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        ErrorKind::TimedOut => "i/o timeout".to_owned(),
        ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        _ => error.to_string(),
    };
    Err(format!("dial tcp {address}: {reason}"))
}

/// An address with a port.
pub(super) fn with_port(address: &str, port: u16) -> String {
    let has_port = address
        .rsplit_once(':')
        .is_some_and(|(host, port)| port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']')));
    match (has_port, address.contains(':') && !address.starts_with('[')) {
        (true, _) => address.to_owned(),
        (false, true) => format!("[{address}]:{port}"),
        (false, false) => format!("{address}:{port}"),
    }
}

/// Removes a server from the cluster, except this one. A live server of this region joins again some seconds later, as
/// with the reference. Unknown names are ignored.
async fn force_leave<S: Regions + Cluster>(call: Call<S>) -> Result<Response, ApiError> {
    let query = call.query();
    if query.text("node").is_empty() {
        return Err(ApiError::bad_request("missing node to force leave"));
    }
    let prune = query.text("prune");
    if !prune.is_empty() && parse_bool(&prune).is_none() {
        return Err(ApiError::bad_request("invalid prune value"));
    }
    let node = query.text("node");
    match call.server.members().into_iter().find(|member| member.name == *node) {
        Some(member) if !member.own => call.server.remove_member(&member.id).await?,
        Some(_) => {}
        None => call.server.forget_member(&node),
    }
    Ok(empty())
}

/// Error of an agent without a gossip keyring.
fn no_keyring() -> ApiError {
    ApiError::internal("1/1 nodes reported failure")
}

async fn list_keys<S>(call: Call<S>) -> Result<Response, ApiError> {
    Err(if call.id().is_empty() { no_keyring() } else { resource_not_found() })
}

/// Body of a change of the gossip keyring, which is only checked: there is no such keyring.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct KeyringRequest {
    key: String,
}

async fn change_keys<S>(mut call: Call<S>) -> Result<Response, ApiError> {
    if !call.id().is_empty() {
        return Err(resource_not_found());
    }
    let request: KeyringRequest = call.json().await?;
    Blob::from_base64(&request.key).map_err(|error| ApiError::internal(error.to_string()))?;
    Err(no_keyring())
}

#[cfg(test)]
mod tests {
    use super::with_port;

    #[test]
    fn addresses_without_a_port_get_the_default_port() {
        for (address, expected) in [
            ("10.0.0.1", "10.0.0.1:4648"),
            ("10.0.0.1:1", "10.0.0.1:1"),
            ("host", "host:4648"),
            ("::1", "[::1]:4648"),
            ("[::1]:9", "[::1]:9"),
            ("[::1]", "[::1]:4648"),
        ] {
            assert_eq!(with_port(address, 4648), expected);
        }
    }
}
