//! Root keys for operators: list, rotate, delete. Their material is never shown.

use std::sync::Arc;

use axum::response::Response;
use serde::Serialize;
use songline_commands::DeleteRootKey;
use songline_events::watch::WatchKey;
use songline_model::{RootKey, RootKeyId, RootKeyMeta};
use songline_projections::{Rejected, Table};
use songline_wire::responses::WriteMeta;

use crate::error::ApiError;
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta};
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::keyring::Keyring;
use crate::server::{ProposeError, Reads, Writes};

pub(super) fn routes<S: Writes>(mux: &mut Mux<S>) {
    let root = "/v1/operator/keyring/";
    mux.add(Methods::Get, "/v1/operator/keyring/keys", "", Capability::Management, |call| Box::pin(list(call)));
    mux.add(Methods::Write, "/v1/operator/keyring/rotate", "", Capability::Management, |call| Box::pin(rotate(call)));
    mux.add(Methods::Delete, root, "key/{}", Capability::Management, |call| Box::pin(delete(call)));
    mux.add(Methods::Any, root, "{}", Capability::Anyone, |_| Box::pin(std::future::ready(Err(ApiError::method()))));
}

/// Answer to a rotation: the new root key.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct RotateResponse<'a> {
    key: &'a RootKeyMeta,
    index: u64,
}

async fn list<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let found = blocking::run(&call, &params, &[WatchKey::Table(Table::RootKeys)], |view| {
        let rows: Vec<Arc<RootKey>> = view.root_keys().cloned().collect();
        Ok(At { index: view.table_index(Table::RootKeys), value: rows })
    })
    .await?;
    let shown: Vec<&RootKeyMeta> = found.value.iter().map(|row| &row.meta).collect();
    call.read(&Meta::at(found.index), &shown)
}

async fn rotate<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    call.write_namespace()?;
    // The body has no meaning, but a retry under an idempotency key must repeat it.
    call.bytes().await?;
    let command = call.server.keyring().fresh_key(call.query().has("full"))?;
    // The answer shows the key as proposed, without indexes.
    let meta = command.meta.clone();
    let written = call.propose(command).await?;
    call.written(written.index, &RotateResponse { key: &meta, index: written.index })
}

async fn delete<S: Writes>(call: Call<S>) -> Result<Response, ApiError> {
    call.write_namespace()?;
    if call.id().is_empty() {
        return Err(ApiError::internal("root key ID is required"));
    }
    // A text that is no id names no key, and deleting a missing key succeeds.
    let known = call.id().parse::<RootKeyId>().ok().filter(|id| call.view().root_key(*id).is_some());
    let Some(key_id) = known else {
        return call.nothing_to_write(0, &WriteMeta { index: 0 }).await;
    };
    match call.propose(DeleteRootKey { key_id, unused_only: false }).await {
        Ok(written) => call.written(written.index, &WriteMeta { index: written.index }),
        Err(error) if error == ApiError::from(ProposeError::Rejected(Rejected::RootKeyNotFound)) => {
            call.written(0, &WriteMeta { index: 0 })
        }
        Err(error) => Err(error),
    }
}
