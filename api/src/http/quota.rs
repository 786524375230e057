//! Quotas: list, read, create, delete, and what their namespaces use. Who may not read quotas sees those of the
//! namespaces in which they have some right.

mod admission;

use std::sync::Arc;

use axum::response::Response;
use songline_commands::{DeleteQuotaSpecs, UpsertQuotaSpecs};
use songline_events::watch::WatchKey;
use songline_lang::acl::{Access, Acl};
use songline_model::{QuotaName, QuotaSpec, Str};
use songline_projections::{State, Table};
use songline_wire::quota::QuotaUsageView;

use crate::error::ApiError;
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta, empty_written};
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::http::paging::{self, Token};
use crate::http::params::ReadParams;
use crate::server::{Reads, Writes};

const NOT_FOUND: &str = "quota not found";

pub(super) fn routes<S: Writes>(mux: &mut Mux<S>) {
    let write = Capability::Quota(Access::Write);
    mux.add(Methods::Get, "/v1/quotas", "", Capability::Filtered, |call| Box::pin(list(call)));
    mux.add(Methods::Get, "/v1/quota-usages", "", Capability::Filtered, |call| Box::pin(list_usages(call)));
    mux.add(Methods::Write, "/v1/quota", "", write, |call| Box::pin(create(call)));
    mux.add(Methods::Get, "/v1/quota/usage/", "{}", Capability::Filtered, |call| Box::pin(read_usage(call)));
    mux.add(Methods::Get, "/v1/quota/", "{}", Capability::Filtered, |call| Box::pin(read(call)));
    mux.add(Methods::Write, "/v1/quota/", "{}", write, |call| Box::pin(update(call)));
    mux.add(Methods::Delete, "/v1/quota/", "{}", write, |call| Box::pin(delete(call)));
}

/// Whether a caller with these rights may read a quota.
pub(super) fn may_read(acl: &Acl, view: &State, name: &QuotaName) -> bool {
    acl.quota(Access::Read) || view.namespaces_of_quota(name).any(|namespace| acl.any_in_namespace(namespace))
}

async fn list<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let keys = [WatchKey::Table(Table::QuotaSpecs), WatchKey::Table(Table::Namespaces)];
    let found = blocking::run(&call, &params, &keys, |view| {
        let rows = permitted(&call, view, &params)?;
        let page = paging::page(&params, rows.into_iter(), |spec| Token::Text(spec.name.to_string()), |_| true)?;
        Ok(At { index: view.table_index(Table::QuotaSpecs).max(1), value: page })
    })
    .await?;
    call.read(&Meta::page(found.index, found.value.next_token), &found.value.rows)
}

async fn list_usages<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let keys = [Table::QuotaUsages, Table::QuotaSpecs, Table::Namespaces].map(WatchKey::Table);
    let found = blocking::run(&call, &params, &keys, |view| {
        let specs = permitted(&call, view, &params)?;
        let rows = specs.iter().filter_map(|spec| usage(view, &spec.name)).map(Arc::new);
        let page = paging::page(&params, rows, |row| Token::Text(row.name.to_string()), |_| true)?;
        let index = view.table_index(Table::QuotaUsages).max(view.table_index(Table::QuotaSpecs)).max(1);
        Ok(At { index, value: page })
    })
    .await?;
    call.read(&Meta::page(found.index, found.value.next_token), &found.value.rows)
}

/// The quotas with the wanted prefix that the caller may read, in the wanted order.
fn permitted<S>(call: &Call<S>, view: &State, params: &ReadParams) -> Result<Vec<Arc<QuotaSpec>>, ApiError> {
    let caller = call.caller()?;
    let shown =
        |spec: &&Arc<QuotaSpec>| spec.name.starts_with(&params.prefix) && may_read(caller.acl(), view, &spec.name);
    let mut rows: Vec<Arc<QuotaSpec>> = view.quota_specs().filter(shown).cloned().collect();
    if params.reverse {
        rows.reverse();
    }
    Ok(rows)
}

async fn read<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let name = required_name(&call)?;
    let params = call.read_params()?;
    let keys = [WatchKey::Named(Table::QuotaSpecs, name.0.clone())];
    let found = blocking::run(&call, &params, &keys, |view| {
        call.require(|acl| may_read(acl, view, &name))?;
        let row = view.quota_spec(&name).cloned();
        let index = row.as_ref().map_or_else(|| view.table_index(Table::QuotaSpecs).max(1), |row| row.modify_index);
        Ok(At { index, value: row })
    })
    .await?;
    match found.value {
        Some(row) => call.read(&Meta::at(found.index), &*row),
        None => Err(ApiError::missing(NOT_FOUND, found.index)),
    }
}

async fn read_usage<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let name = required_name(&call)?;
    let params = call.read_params()?;
    let keys = [Table::QuotaSpecs, Table::QuotaUsages].map(|table| WatchKey::Named(table, name.0.clone()));
    let found = blocking::run(&call, &params, &keys, |view| {
        call.require(|acl| may_read(acl, view, &name))?;
        let row = usage(view, &name);
        let index = row.as_ref().map_or_else(|| view.table_index(Table::QuotaSpecs).max(1), |row| row.modify_index);
        Ok(At { index, value: row })
    })
    .await?;
    match found.value {
        Some(row) => call.read(&Meta::at(found.index), &row),
        None => Err(ApiError::missing(NOT_FOUND, found.index)),
    }
}

fn usage(view: &State, name: &QuotaName) -> Option<QuotaUsageView> {
    Some(QuotaUsageView::new(view.quota_usage(name)?, view.quota_spec(name)?))
}

async fn create<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let quota = call.json().await?;
    write(&call, quota).await
}

async fn update<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let name = required_name(&call)?;
    let quota: QuotaSpec = call.json().await?;
    if quota.name != name {
        return Err(ApiError::bad_request("Quota name does not match request path"));
    }
    write(&call, quota).await
}

async fn write<S: Writes>(call: &Call<S>, quota: QuotaSpec) -> Result<Response, ApiError> {
    let region = Str::new(&call.server.info().region);
    let quota = admission::admitted(quota, &region)?;
    let written = call.propose(UpsertQuotaSpecs { quotas: vec![quota], region }).await?;
    Ok(empty_written(written.index))
}

async fn delete<S: Writes>(call: Call<S>) -> Result<Response, ApiError> {
    let name = required_name(&call)?;
    let written = call.propose(DeleteQuotaSpecs { names: vec![name] }).await?;
    Ok(empty_written(written.index))
}

fn required_name<S>(call: &Call<S>) -> Result<QuotaName, ApiError> {
    match call.id() {
        "" => Err(ApiError::bad_request("Missing Quota Name")),
        name => Ok(name.into()),
    }
}
