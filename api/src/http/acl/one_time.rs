//! One-time tokens: secrets that are created for a token and exchanged for it once.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use songline_commands::{DeleteOneTimeTokens, UpsertOneTimeToken};
use songline_model::{OneTimeToken, SecretId};
use songline_wire::acl::{OneTimeTokenExchangeResponse, OneTimeTokenUpsertResponse, OneTimeTokenView, TokenView};

use crate::caller::denied;
use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::capability::Capability;
use crate::http::ids;
use crate::http::mux::{Methods, Mux};
use crate::server::Writes;

use super::bodies::json;
use super::own::{shown, unexpired};

pub(super) fn routes<S: Writes>(mux: &mut Mux<S>) {
    mux.add(Methods::Write, "/v1/acl/token/onetime", "", Capability::Possession, |call| Box::pin(create(call)));
    mux.add(Methods::Write, "/v1/acl/token/onetime/exchange", "", Capability::Possession, |call| {
        Box::pin(exchange(call))
    });
}

/// `OneTimeTokenExchangeRequest`. It holds a secret, so it does not print.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct OneTimeTokenExchangeRequest {
    #[serde(rename = "OneTimeSecretID")]
    one_time_secret_id: String,
}

async fn create<S: Writes>(call: Call<S>) -> Result<Response, ApiError> {
    call.with_acls()?;
    call.write_namespace()?;
    let token = shown(&call)?.ok_or_else(denied)?;
    let row = OneTimeToken {
        one_time_secret_id: call.server.fresh_uuid().into(),
        accessor_id: token.accessor_id,
        expires_at: Some(call.server.now().plus(OneTimeToken::TTL)),
        ..OneTimeToken::default()
    };
    let written = call.propose(UpsertOneTimeToken { token: row }).await?;
    let view = call.view_after(written.index).await;
    // Race: a newer one-time token may have replaced the row already. A repeated write finds the row of the first
    // write.
    let row =
        view.one_time_token(token.accessor_id).filter(|row| row.modify_index == written.index).ok_or_else(denied)?;
    call.written(
        written.index,
        &OneTimeTokenUpsertResponse { one_time_token: OneTimeTokenView::new(row), index: written.index },
    )
}

async fn exchange<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let request: OneTimeTokenExchangeRequest = json(&mut call).await?;
    call.with_acls()?;
    call.write_namespace()?;
    let failed = |why: String| ApiError::internal(format!("one-time token lookup failed: {why}"));
    if request.one_time_secret_id.is_empty() {
        return Err(failed("missing secret".to_owned()));
    }
    let secret = ids::exact(&request.one_time_secret_id).map_err(|error| failed(format!("index error: {error}")))?;
    let secret = SecretId::from(secret.ok_or_else(denied)?);
    let view = call.view();
    let now = call.server.now();
    let found = view.one_time_token_by_secret(&secret).filter(|row| row.expires_at.is_some_and(|at| at > now));
    let row = found.ok_or_else(denied)?;
    let token = view.acl_token(row.accessor_id).ok_or_else(denied)?;
    unexpired(&call, &token)?;
    let command = DeleteOneTimeTokens { accessor_ids: vec![row.accessor_id], exchanged: Some(row.modify_index) };
    // Apply refuses the exchange when another caller was faster.
    let written = call
        .propose(command)
        .await
        .map_err(|error| if error.code == StatusCode::FORBIDDEN { denied() } else { error })?;
    call.written(
        written.index,
        &OneTimeTokenExchangeResponse { token: TokenView::revealed(&token), index: written.index },
    )
}
