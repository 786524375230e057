//! ACL bootstrap: the first management token, created by the first caller. A second bootstrap needs the index of the
//! first in a file on the leader.

use axum::response::Response;
use serde::Deserialize;
use songline_commands::BootstrapAclToken;
use songline_lang::go_json;
use songline_model::{AclToken, AclTokenKind, SecretId};
use songline_wire::acl::TokenView;

use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::server::{Upkeep, Writes};

use super::bodies::go_text;

pub(super) fn routes<S: Writes + Upkeep>(mux: &mut Mux<S>) {
    mux.add(Methods::Write, "/v1/acl/bootstrap", "", Capability::Anyone, |call| Box::pin(bootstrap(call)));
}

/// `ACLTokenBootstrapRequest`. Its `ResetIndex` is ignored: the index comes from the leader's file. The body holds a
/// secret, so it does not print.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct AclTokenBootstrapRequest {
    bootstrap_secret: String,
}

async fn bootstrap<S: Writes + Upkeep>(mut call: Call<S>) -> Result<Response, ApiError> {
    let body = call.bytes().await?;
    let request: AclTokenBootstrapRequest = if body.is_empty() {
        AclTokenBootstrapRequest::default()
    } else {
        go_json::from_slice(&body)
            .map_err(|error| ApiError::bad_request(format!("failed to decode request body: {}", go_text(&error))))?
    };
    call.with_acls()?;
    let reset_index = match call.view().acl_bootstrap_index() {
        None => 0,
        Some(last) => match call.server.bootstrap_reset_index() {
            0 => return Err(ApiError::bad_request(format!("ACL bootstrap already done (reset index: {last})"))),
            named if named != last => {
                let text = format!("Invalid bootstrap reset index (specified {named}, reset index: {last})");
                return Err(ApiError::bad_request(text));
            }
            named => named,
        },
    };
    let secret_id = match request.bootstrap_secret.as_str() {
        "" => call.server.fresh_uuid().into(),
        text => text
            .parse::<SecretId>()
            .ok()
            .filter(|secret| !secret.is_none())
            .ok_or_else(|| ApiError::bad_request("invalid acl token"))?,
    };
    let mut token = AclToken {
        accessor_id: call.fresh_uuid().into(),
        secret_id,
        name: "Bootstrap Token".into(),
        kind: AclTokenKind::Management,
        global: true,
        create_time: call.server.now(),
        ..AclToken::default()
    };
    token.hash = Some(token.compute_hash());
    let accessor = token.accessor_id;
    let written = call.propose(BootstrapAclToken { token, reset_index }).await?;
    match call.view_after(written.index).await.acl_token(accessor) {
        Some(row) => call.written(written.index, &TokenView::revealed(&row)),
        None => Err(ApiError::internal("ACL token not found")),
    }
}
