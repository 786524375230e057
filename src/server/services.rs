//! What nodes announce: checked, and written when it is news.

use std::net::IpAddr;

use songline_commands::{Actor, DeleteServiceRegistration, UpsertServiceRegistrations};
use songline_model::{NamespaceName, ServiceRegistration, Str};
use songline_projections::State;
use songline_rpc::{NodeAuth, RpcError};

use super::Core;

/// A restarted agent announces everything again: what is known makes no entry.
pub(super) async fn upsert(core: &Core, from: &NodeAuth, view: &State, services: Vec<ServiceRegistration>) -> Result<u64, RpcError> {
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

/// One that is gone already is refused here, too: an older view may lack it only if nobody announced it before the caller did.
pub(super) async fn delete(core: &Core, from: &NodeAuth, view: &State, namespace: NamespaceName, id: Str) -> Result<u64, RpcError> {
    if view.service_registration(&namespace, &id).is_some_and(|stored| stored.node_id != from.id) {
        return Err(RpcError::remote("service registration of another node"));
    }
    core.propose_as(Actor::Node(from.id), None, DeleteServiceRegistration { namespace, id }).await
}
