//! Commands in running tasks over a websocket: refusals before the upgrade, and refusals after it as close frames.
//! [`session`] has the conversation; the node agent runs the command.

mod frame;
mod session;

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use songline_lang::acl::NamespaceCapability;
use songline_lang::go_json;
use songline_model::{Allocation, Secret, Str};
use songline_rpc::{ExecCommand, ExecSession, NodeAgent};

use crate::error::ApiError;
use crate::http::alloc::alloc_id;
use crate::http::call::Call;
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::http::params::{parse_bool, quote};
use crate::server::{Nodes, Reads};

/// Largest message of a caller, in bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Buffer of a session's connection in each direction, in bytes.
const BUFFER_BYTES: usize = 8 << 10;

pub(super) fn routes<S: Reads + Nodes>(mux: &mut Mux<S>) {
    // Rights are refused after the upgrade, as close frames: see `permitted`.
    mux.add(Methods::Any, "/v1/client/allocation/", "{}/exec", Capability::Anyone, |call| Box::pin(exec(call)));
}

/// Drivers that give a task a file system of its own. All others show it the node's.
const ISOLATING: [&str; 5] = ["exec", "docker", "java", "podman", "qemu"];

/// Whether a task's driver isolates it from the node, so that a command in the task does not have the node's rights.
/// An unknown task counts as isolated.
pub fn is_kept_apart(alloc: &Allocation, task: &str) -> bool {
    alloc.group().and_then(|group| group.task(task)).is_none_or(|task| ISOLATING.contains(&&*task.driver))
}

/// Whether the caller may run commands in this task: it needs `alloc-exec`, and `alloc-node-exec` when the driver
/// shows the task the node's own file system. `secret` is that of the handshake message, if one was sent; otherwise
/// the request's token counts.
fn permitted<S: Reads>(call: &Call<S>, secret: Option<&str>, alloc: &Allocation, task: &str) -> Result<(), ApiError> {
    let secret = secret.unwrap_or_else(|| call.token());
    let caller = call.authenticate(secret);
    let caller = caller.map_err(|_| ApiError::internal("rpc error: Permission denied"))?;
    let may = |capability| caller.acl().namespace(&alloc.namespace, capability);
    if may(NamespaceCapability::AllocExec) && (is_kept_apart(alloc, task) || may(NamespaceCapability::AllocNodeExec)) {
        return Ok(());
    }
    Err(ApiError::internal("Permission denied"))
}

async fn exec<S: Reads + Nodes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let command = command(&call.query().text("command"))?;
    let tty = match &*call.query().text("tty") {
        "" => false,
        text => parse_bool(text).ok_or_else(|| {
            ApiError::internal(format!(
                "tty value is not a boolean: strconv.ParseBool: parsing {}: invalid syntax",
                quote(text)
            ))
        })?,
    };
    let upgrade = upgrade(&mut call).await?;
    Ok(upgrade.on_upgrade(move |socket| converse(call, command, tty, socket)))
}

fn command(text: &str) -> Result<Vec<String>, ApiError> {
    go_json::from_slice(text.as_bytes()).map_err(|error| {
        let why = match error {
            // The text is a parameter, not a body: Go has another error text for it.
            go_json::Error::Eof | go_json::Error::UnexpectedEof => "unexpected end of JSON input".to_owned(),
            go_json::Error::Syntax(_) | go_json::Error::Type { .. } | go_json::Error::Custom(_) => error.to_string(),
        };
        ApiError::internal(format!("failed to marshal command into json: {why}"))
    })
}

/// The upgrade of the connection. Refuses a request that is no valid upgrade.
async fn upgrade<S>(call: &mut Call<S>) -> Result<WebSocketUpgrade, ApiError> {
    if let Some((code, why)) = fault(&call.method, &call.headers) {
        let word = code.canonical_reason().unwrap_or_default();
        return Err(ApiError::new(code, format!("{word}\nfailed to upgrade connection: websocket: {why}")));
    }
    let mut request = Request::new(());
    *request.method_mut() = Method::GET;
    request.headers_mut().clone_from(&call.headers);
    if let Some(connection) = call.upgrade.take() {
        request.extensions_mut().insert(connection);
    }
    let (mut parts, ()) = request.into_parts();
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
    let upgrade =
        upgrade.map_err(|refused| ApiError::new(refused.into_response().status(), "failed to upgrade connection"))?;
    let upgrade = upgrade.read_buffer_size(BUFFER_BYTES).write_buffer_size(0);
    Ok(upgrade.max_message_size(MESSAGE_BYTES_MAX).max_frame_size(MESSAGE_BYTES_MAX))
}

/// Defect of an upgrade request, in the words of the reference's library.
fn fault(method: &Method, headers: &HeaderMap) -> Option<(StatusCode, &'static str)> {
    let has = |name: header::HeaderName, word: &str| {
        let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
        lines.flat_map(|line| line.split(',')).any(|item| item.trim().eq_ignore_ascii_case(word))
    };
    let text = |name: header::HeaderName| headers.get(name).and_then(|line| line.to_str().ok());
    if !has(header::CONNECTION, "upgrade") {
        let why = "the client is not using the websocket protocol: 'upgrade' token not found in 'Connection' header";
        return Some((StatusCode::BAD_REQUEST, why));
    }
    if !has(header::UPGRADE, "websocket") {
        let why = "the client is not using the websocket protocol: 'websocket' token not found in 'Upgrade' header";
        return Some((StatusCode::BAD_REQUEST, why));
    }
    if method != Method::GET {
        let why = "the client is not using the websocket protocol: request method is not GET";
        return Some((StatusCode::METHOD_NOT_ALLOWED, why));
    }
    if !has(header::SEC_WEBSOCKET_VERSION, "13") {
        return Some((StatusCode::BAD_REQUEST, "unsupported version: 13 not found in 'Sec-Websocket-Version' header"));
    }
    // A page of another site must not open such a session through its visitor's browser.
    let foreign = text(header::ORIGIN).is_some_and(|origin| {
        let host = origin.split_once("://").map_or(origin, |(_, rest)| rest).split('/').next().unwrap_or_default();
        !text(header::HOST).is_some_and(|own| own.eq_ignore_ascii_case(host))
    });
    if foreign {
        return Some((StatusCode::FORBIDDEN, "request origin not allowed by Upgrader.CheckOrigin"));
    }
    let key = text(header::SEC_WEBSOCKET_KEY).and_then(|key| STANDARD.decode(key).ok());
    if key.is_none_or(|key| key.len() != 16) {
        let why =
            "not a websocket handshake: 'Sec-WebSocket-Key' header must be Base64 encoded value of 16-byte in length";
        return Some((StatusCode::BAD_REQUEST, why));
    }
    None
}

/// Runs the session after the upgrade.
async fn converse<S: Reads + Nodes>(call: Call<S>, command: Vec<String>, tty: bool, mut socket: WebSocket) {
    match begin(&call, command, tty, &mut socket).await {
        Ok(Begun { session, alloc, task, secret }) => {
            let still_may = || permitted(&call, secret.as_deref(), &alloc, &task);
            session::talk(socket, session, call.server.shutdown(), still_may).await;
        }
        Err(error) => session::close(socket, session::code_of(error.code), &error.text).await,
    }
}

/// A session, and the facts that its permission depends on.
struct Begun {
    session: ExecSession,
    alloc: Arc<Allocation>,
    task: Str,
    secret: Option<String>,
}

async fn begin<S: Reads + Nodes>(
    call: &Call<S>,
    command: Vec<String>,
    tty: bool,
    socket: &mut WebSocket,
) -> Result<Begun, ApiError> {
    let handshake = match &*call.query().text("ws_handshake") {
        "" => false,
        text => parse_bool(text).ok_or_else(|| {
            let why = format!(
                "ws_handshake value is not a boolean: strconv.ParseBool: parsing {}: invalid syntax",
                quote(text)
            );
            ApiError::bad_request(why)
        })?,
    };
    let secret = if handshake { Some(session::handshake(socket).await.map_err(ApiError::bad_request)?) } else { None };
    if call.id().is_empty() {
        return Err(ApiError::bad_request("must provide a valid alloc id"));
    }
    let id = alloc_id(call.id())?;
    let unknown = || ApiError::not_found(format!("Unknown allocation \"{id}\""));
    let alloc = call.view().alloc(id).map(Arc::clone).ok_or_else(unknown)?;
    let task = Str::new(call.query().text("task"));
    permitted(call, secret.as_deref(), &alloc, &task)?;
    let token = secret.as_deref().map_or_else(|| call.secret(), Secret::new);
    let agent = alloc
        .node_id
        .and_then(|node| call.server.node_agent(node, token))
        .ok_or_else(|| ApiError::not_found("No path to node"))?;
    if task.is_empty() {
        return Err(ApiError::bad_request("must provide task name"));
    }
    if command.is_empty() {
        return Err(ApiError::bad_request("command is not present"));
    }
    let session = agent.alloc_exec(ExecCommand { alloc: id, task: task.clone(), command, tty }).await?;
    Ok(Begun { session, alloc, task, secret })
}

#[cfg(test)]
mod tests;
