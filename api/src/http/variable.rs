//! Variables: list, read, write, delete. Items are encrypted before they are proposed and decrypted after they are
//! read.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use songline_commands::ApplyVariable;
use songline_events::watch::WatchKey;
use songline_lang::go_json;
use songline_model::{
    NamespaceName, Str, Variable, VariableData, VariableKey, VariableMetadata, VariableOp, check_variable_path,
};
use songline_projections::{Outcome, Table};

use crate::caller::Caller;
use crate::error::ApiError;
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta, empty_written, set_index};
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::http::paging::{self, Token};
use crate::http::params::{ReadParams, parse_uint};
use crate::keyring::Keyring;
use crate::server::{Agent, Reads, Writes};
use songline_lang::acl::{Acl, VariableCapability, Workload};

/// Largest size of a variable: bytes of all keys and values.
const ITEMS_BYTES_MAX: usize = 64 << 10;
/// Largest body of a write, in bytes: room for all items written as escapes.
const BODY_BYTES_MAX: usize = 512 << 10;

pub(super) fn routes<S: Writes>(mux: &mut Mux<S>) {
    mux.add(Methods::Get, "/v1/vars", "", Capability::Variables(VariableCapability::List), |call| Box::pin(list(call)));
    mux.add(Methods::Get, "/v1/var/", "{}", Capability::Variables(VariableCapability::Read), |call| {
        Box::pin(read(call))
    });
    mux.add(Methods::Write, "/v1/var/", "{}", Capability::Variables(VariableCapability::Write), |call| {
        Box::pin(write(call))
    });
    mux.add(Methods::Delete, "/v1/var/", "{}", Capability::Variables(VariableCapability::Destroy), |call| {
        Box::pin(delete(call))
    });
    mux.add(Methods::Any, "/v1/var/", "{}", Capability::Anyone, |call| {
        Box::pin(std::future::ready(other_method(&call)))
    });
}

/// Secret items of a variable. They do not print.
#[derive(Default, Serialize, Deserialize)]
#[serde(transparent)]
struct Items(BTreeMap<String, String>);

/// A variable with its decrypted items, in requests and answers.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct VariableView<'a> {
    #[serde(flatten)]
    meta: &'a VariableMetadata,
    items: Option<&'a Items>,
}

/// `VariableDecrypted` in a request: only namespace and items come from the caller.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase", rename = "VariableDecrypted")]
struct VariableRequest {
    namespace: NamespaceName,
    #[serde(rename = "Path")]
    _path: Str,
    #[serde(rename = "CreateIndex")]
    _create_index: u64,
    #[serde(rename = "CreateTime")]
    _create_time: i64,
    #[serde(rename = "ModifyIndex")]
    _modify_index: u64,
    #[serde(rename = "ModifyTime")]
    _modify_time: i64,
    items: Option<Items>,
}

const NAMES: go_json::Names<'static> = go_json::Names {
    package: "structs",
    root: None,
    fields: &[("VariableDecrypted.CreateTime", "int64"), ("VariableDecrypted.ModifyTime", "int64")],
};

async fn list<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = read_params(&call)?;
    let found = blocking::run(&call, &params, &[WatchKey::Table(Table::Variables)], |view| {
        let rows: Box<dyn Iterator<Item = &Arc<Variable>>> = if params.all_namespaces() {
            Box::new(view.variables().filter(|row| row.meta.path.starts_with(&params.prefix)))
        } else {
            Box::new(view.variables_in(&params.namespace, &params.prefix))
        };
        let token = |row: &Variable| Token::Spaced(row.meta.namespace.to_string(), row.meta.path.to_string());
        let caller = call.caller()?;
        let keep =
            |row: &Variable| caller.acl().variable(&row.meta.namespace, &row.meta.path, VariableCapability::List);
        let page = paging::page(&params, rows.cloned(), token, keep)?;
        Ok(At { index: view.table_index(Table::Variables).max(1), value: page })
    })
    .await?;
    let shown: Vec<&VariableMetadata> = found.value.rows.iter().map(|row| &row.meta).collect();
    call.read(&Meta::page(found.index, found.value.next_token), &shown)
}

async fn read<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let path = required_path(&call)?;
    let params = read_params(&call)?;
    let key = VariableKey::new(params.namespace.as_str(), path.clone());
    let keys = [WatchKey::Variable(key.clone())];
    let found = blocking::run(&call, &params, &keys, |view| {
        // A caller without the right to read it does not learn whether it exists.
        call.require(|acl| acl.variable(&params.namespace, &path, VariableCapability::Read))?;
        let row = view.variable(&key).cloned();
        let index = row.as_ref().map_or_else(|| view.table_index(Table::Variables).max(1), |row| row.meta.modify_index);
        Ok(At { index, value: row })
    })
    .await?;
    let Some(row) = found.value else {
        return Err(ApiError::missing("variable not found", found.index));
    };
    let items = decrypt(&call, &row)?;
    call.read(&Meta::at(found.index), &VariableView { meta: &row.meta, items: Some(&items) })
}

async fn write<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let path = required_path(&call)?;
    let body = call.bytes_of(BODY_BYTES_MAX).await?;
    if body.is_empty() {
        return Err(ApiError::bad_request("Request body is empty"));
    }
    let request: VariableRequest = go_json::from_slice_named(&body, NAMES).map_err(|error| {
        // In the reference, the items are of a named type and their values of an unnamed one, and all else is in an
        // embedded struct, which is part of the path.
        let text = error.to_string().replace("Items of type map[string]string", "Items of type structs.VariableItems");
        let text = text.replace("field VariableDecrypted.", "field VariableDecrypted.VariableMetadata.");
        ApiError::bad_request(text.replace("VariableMetadata.Items", "Items"))
    })?;
    let items = request.items.filter(|items| !items.0.is_empty());
    let Some(items) = items else {
        return Err(ApiError::bad_request("variable missing required Items object"));
    };
    let cas = cas(&call)?;
    let asked = call.write_namespace()?;
    let namespace = if request.namespace.is_empty() { asked.as_str().into() } else { request.namespace };
    if let Err(error) = call.require(|acl| acl.variable(&namespace, &path, VariableCapability::Write)) {
        return Ok(refused(error));
    }
    if let Err(text) = check(&namespace, &path, &items) {
        return Ok(refused(ApiError::internal(text)));
    }
    let now = call.server.now();
    let meta = VariableMetadata {
        namespace,
        path,
        modify_index: cas.unwrap_or(0),
        create_time: now,
        modify_time: now,
        ..VariableMetadata::default()
    };
    let var = Variable { encrypted: encrypt(&call, &items)?, meta };
    let op = if cas.is_some() { VariableOp::Cas } else { VariableOp::Set };
    let written = call.propose(ApplyVariable { op, var: var.clone() }).await?;
    if let Outcome::VariableConflict(row) = &written.outcome {
        return conflict(&call, row);
    }
    // Without an outcome of apply, the stored variable equals the sent one.
    let meta = if let Outcome::VariableWritten(meta) = &written.outcome { meta } else { &var.meta };
    call.written(written.index, &VariableView { meta, items: Some(&items) })
}

async fn delete<S: Writes>(call: Call<S>) -> Result<Response, ApiError> {
    let path = required_path(&call)?;
    let cas = cas(&call)?;
    let namespace = call.write_namespace()?;
    if let Err(error) = call.require(|acl| acl.variable(&namespace, &path, VariableCapability::Destroy)) {
        return Ok(refused(error));
    }
    let meta = VariableMetadata {
        namespace: namespace.as_str().into(),
        path,
        modify_index: cas.unwrap_or(0),
        ..VariableMetadata::default()
    };
    let op = if cas.is_some() { VariableOp::DeleteCas } else { VariableOp::Delete };
    let written =
        call.propose(ApplyVariable { op, var: Variable { meta, encrypted: VariableData::default() } }).await?;
    if let Outcome::VariableConflict(row) = written.outcome {
        return conflict(&call, &row);
    }
    let mut response = empty_written(written.index);
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

/// Parses the parameters of a read. The reference reports errors in them twice.
fn read_params<S: Agent>(call: &Call<S>) -> Result<ReadParams, ApiError> {
    call.read_params().map_err(|error| match error.code {
        StatusCode::BAD_REQUEST => ApiError::bad_request(format!("{}failed to parse parameters", error.text)),
        _ => error,
    })
}

fn other_method<S>(call: &Call<S>) -> Result<Response, ApiError> {
    required_path(call)?;
    Err(ApiError::bad_request("Invalid method"))
}

fn required_path<S>(call: &Call<S>) -> Result<Str, ApiError> {
    match call.id() {
        "" => Err(ApiError::bad_request("missing variable path")),
        path => Ok(Str::new(path)),
    }
}

/// Modify index that the caller expects, if it names one.
fn cas<S>(call: &Call<S>) -> Result<Option<u64>, ApiError> {
    let text = call.query().text("cas");
    if text.is_empty() {
        return Ok(None);
    }
    parse_uint(&text).map(Some).map_err(|error| ApiError::bad_request(format!("can not parse cas: {error}")))
}

/// Refuses an invalid variable.
fn check(namespace: &str, path: &str, items: &Items) -> Result<(), String> {
    if namespace == "*" {
        return Err("can not target wildcard (\"*\")namespace".to_owned());
    }
    let size: usize = items.0.iter().map(|(key, value)| key.len() + value.len()).sum();
    if size > ITEMS_BYTES_MAX {
        return Err("variables are limited to 64KiB in total size".to_owned());
    }
    check_variable_path(path).map_err(|error| error.to_string())
}

/// A refusal before anything is written. Its index is 0, because there is no entry.
fn refused(error: ApiError) -> Response {
    let mut response = Response::new(Body::from(error.text.into_owned()));
    *response.status_mut() = error.code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    set_index(&mut response, 0);
    response
}

/// Status 409 with the stored variable, whose index differs from the expected one.
fn conflict<S: Reads>(call: &Call<S>, row: &Variable) -> Result<Response, ApiError> {
    // A caller that may write but not read learns that the variable exists, but not its items.
    let may_read = by_policy(&call.caller()?).variable(&row.meta.namespace, &row.meta.path, VariableCapability::Read);
    // A repeated write may have met a variable in its first run that is gone now; then its items are unknown.
    let is_known = row.meta.modify_index > 0 && !row.encrypted.data.0.is_empty();
    let items = if is_known && may_read { Some(decrypt(call, row)?) } else { None };
    let mut response = call.written(row.meta.modify_index, &VariableView { meta: &row.meta, items: items.as_ref() })?;
    *response.status_mut() = StatusCode::CONFLICT;
    Ok(response)
}

/// Rights of a caller by its policies alone: a task may read its own variables, but its writes have no such right.
fn by_policy(caller: &Caller) -> Acl {
    let acl = caller.acl().clone();
    if !caller.is_workload() {
        return acl;
    }
    // No variable has an empty namespace, so this workload owns none.
    let of_none = Workload { namespace: String::new(), job: String::new(), group: String::new(), task: String::new() };
    acl.with_workload(of_none)
}

fn encrypt<S: Reads>(call: &Call<S>, items: &Items) -> Result<VariableData, ApiError> {
    let plain =
        serde_json::to_vec(items).map_err(|error| ApiError::internal(format!("encoding the items: {error}")))?;
    Ok(call.server.keyring().encrypt(&plain)?)
}

fn decrypt<S: Reads>(call: &Call<S>, row: &Variable) -> Result<Items, ApiError> {
    let plain = call.server.keyring().decrypt(row.encrypted.key_id, &row.encrypted.data)?;
    // The parser's own error would quote the secret text.
    serde_json::from_slice(&plain).map_err(|_| ApiError::internal("the decrypted variable is no map of texts"))
}
