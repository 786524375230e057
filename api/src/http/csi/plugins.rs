//! CSI plugins: list and read. Plugins are not written by requests: they follow from nodes and jobs.

use std::sync::Arc;

use axum::response::Response;
use songline_events::watch::WatchKey;
use songline_model::{Allocation, CsiPlugin, CsiPluginId};
use songline_projections::Table;
use songline_wire::alloc::{AllocFields, AllocStub};
use songline_wire::csi::{CsiPluginStub, CsiPluginView};

use super::{not_a_resource, other_type};
use crate::error::ApiError;
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta};
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::server::Reads;
use songline_lang::acl::{Access, NamespaceCapability};

pub(super) fn routes<S: Reads>(mux: &mut Mux<S>) {
    // The list of another type than `csi` is for every caller, so the handler checks the rights.
    mux.add(Methods::Get, "/v1/plugins", "", Capability::Anyone, |call| Box::pin(list(call)));
    mux.add(Methods::Get, "/v1/plugin/csi/", "{}", Capability::Plugin(Access::Read), |call| Box::pin(read(call)));
}

async fn list<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    if let Some(response) = other_type(&call)? {
        return Ok(response);
    }
    let params = call.read_params()?;
    let found = blocking::run(&call, &params, &[WatchKey::Table(Table::CsiPlugins)], |view| {
        // A waiting query is refused when its caller has lost the right.
        call.require(|acl| acl.plugin(Access::List))?;
        let rows: Vec<Arc<CsiPlugin>> =
            view.csi_plugins().filter(|row| row.id.starts_with(&params.prefix)).cloned().collect();
        Ok(At { index: view.table_index(Table::CsiPlugins), value: rows })
    })
    .await?;
    let stubs: Vec<_> = found.value.iter().map(|row| CsiPluginStub::new(row)).collect();
    call.read(&Meta::at(found.index), &stubs)
}

async fn read<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    if call.id().contains('/') {
        return Err(not_a_resource());
    }
    let params = call.read_params()?;
    if call.id().is_empty() {
        return Err(ApiError::internal("missing plugin ID"));
    }
    let id = CsiPluginId::from(call.id());
    let found = blocking::run(&call, &params, &[WatchKey::Named(Table::CsiPlugins, id.0.clone())], |view| {
        let row = view.csi_plugin(&id).cloned();
        let caller = call.caller()?;
        // All allocations that the caller may read; with ACLs disabled, those of all namespaces.
        let aimed = |alloc: &Allocation| !call.server.info().acl.enabled || params.in_namespace(&alloc.namespace);
        let shown = |alloc: &&Arc<Allocation>| {
            aimed(alloc) && caller.acl().namespace(&alloc.namespace, NamespaceCapability::ReadJob)
        };
        let allocs: Vec<Arc<Allocation>> = row
            .iter()
            .flat_map(|row| row.allocs())
            .filter_map(|alloc| view.alloc(alloc))
            .filter(shown)
            .cloned()
            .collect();
        // The reference has no index for a missing plugin.
        let index = row.as_ref().map_or(0, |_| view.table_index(Table::CsiPlugins));
        Ok(At { index, value: (row, allocs) })
    })
    .await?;
    let (Some(plugin), allocs) = &found.value else {
        return Err(ApiError::missing("plugin not found", found.index));
    };
    let stubs: Vec<AllocStub<'_>> = allocs.iter().map(|alloc| AllocStub::new(alloc, AllocFields::default())).collect();
    call.read(&Meta::at(found.index), &CsiPluginView { plugin, allocations: (!stubs.is_empty()).then_some(stubs) })
}
