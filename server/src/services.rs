//! Service registrations that nodes announce: checked, and written if they are new.

use std::net::IpAddr;
use std::sync::Arc;

use songline_api::Reads;
use songline_commands::{Actor, DeleteServiceRegistration, UpsertServiceRegistrations};
use songline_model::{NamespaceName, ServiceRegistration, Str};
use songline_projections::{Rejected, State};
use songline_rpc::{NodeAuth, RpcError};

use super::Core;
use super::endpoint::refused;

/// Writes announced registrations. A restarted agent announces all of them again: known ones make no entry.
pub(super) async fn upsert(
    core: &Core,
    from: &NodeAuth,
    view: &State,
    services: Vec<ServiceRegistration>,
) -> Result<u64, RpcError> {
    for service in &services {
        if service.node_id != from.id {
            return Err(RpcError::remote("service registration of another node"));
        }
        if service.address.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified()) {
            return Err(RpcError::remote("invalid service registration address"));
        }
    }
    let is_known = |service: &ServiceRegistration| {
        view.service_registration(&service.namespace, &service.id).is_some_and(|stored| stored.says_the_same(service))
    };
    if services.iter().all(is_known) {
        return Ok(0);
    }
    core.propose_as(Actor::Node(from.id), None, UpsertServiceRegistrations { services }).await
}

/// Deletes a registration of the calling node. A restarted agent deletes everything that an earlier one may have
/// announced: an unknown registration makes no entry.
pub(super) async fn delete(core: &Core, from: &NodeAuth, namespace: NamespaceName, id: Str) -> Result<u64, RpcError> {
    let stored = announced(core, &namespace, &id).await?;
    if stored.node_id != from.id {
        return Err(RpcError::remote("service registration of another node"));
    }
    core.propose_as(Actor::Node(from.id), None, DeleteServiceRegistration { namespace, id }).await
}

/// Like [`delete`], for a caller that may change the namespace's jobs.
pub(super) async fn delete_as(core: &Core, actor: Actor, namespace: NamespaceName, id: Str) -> Result<u64, RpcError> {
    announced(core, &namespace, &id).await?;
    core.propose_as(actor, None, DeleteServiceRegistration { namespace, id }).await
}

async fn announced(core: &Core, namespace: &NamespaceName, id: &Str) -> Result<Arc<ServiceRegistration>, RpcError> {
    core.read_barrier().await.map_err(refused)?;
    let stored = core.view().service_registration(namespace, id).cloned();
    stored.ok_or_else(|| RpcError::remote(Rejected::ServiceRegistrationNotFound.to_string()))
}
