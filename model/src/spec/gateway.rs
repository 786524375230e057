//! Gateways of the service mesh as submitted. Only the addresses of a proxy have another form when stored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{non_empty, non_empty_map};
use crate::{ConsulGatewayProxy, ConsulIngressConfigEntry, Dur, Str};

/// `ConsulGateway` as submitted.
pub type ConsulGateway = crate::ConsulGateway<ConsulGatewayBindAddress>;

/// `ConsulGatewayBindAddress` as submitted; `Name` repeats the key of the map and is not stored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConsulGatewayBindAddress {
    pub name: Str,
    pub address: Str,
    pub port: i64,
}

/// Connect timeout of a gateway's proxy without one.
const DEFAULT_CONNECT_TIMEOUT: Dur = Dur::from_secs(5);

impl ConsulGateway {
    pub(super) fn canonicalize(&mut self) {
        if let Some(proxy) = &mut self.proxy {
            proxy.connect_timeout.get_or_insert(DEFAULT_CONNECT_TIMEOUT);
            proxy.envoy_gateway_bind_addresses = non_empty_map(proxy.envoy_gateway_bind_addresses.take());
            proxy.config = non_empty_map(proxy.config.take());
        }
        if let Some(ingress) = &mut self.ingress {
            canonicalize_ingress(ingress);
        }
        if let Some(terminating) = &mut self.terminating {
            terminating.services = non_empty(terminating.services.take());
        }
    }

    pub(super) fn into_row(self) -> crate::ConsulGateway {
        let row = |address: ConsulGatewayBindAddress| crate::ConsulGatewayBindAddress {
            address: address.address,
            port: address.port,
        };
        let rows = |addresses: BTreeMap<Str, _>| addresses.into_iter().map(|(name, it)| (name, row(it))).collect();
        let proxy = self.proxy.map(|proxy| ConsulGatewayProxy {
            connect_timeout: proxy.connect_timeout,
            envoy_gateway_bind_tagged_addresses: proxy.envoy_gateway_bind_tagged_addresses,
            envoy_gateway_bind_addresses: proxy.envoy_gateway_bind_addresses.map(rows),
            envoy_gateway_no_default_bind: proxy.envoy_gateway_no_default_bind,
            envoy_dns_discovery_type: proxy.envoy_dns_discovery_type,
            config: proxy.config,
        });
        crate::ConsulGateway { proxy, ingress: self.ingress, terminating: self.terminating, mesh: self.mesh }
    }
}

fn canonicalize_ingress(ingress: &mut ConsulIngressConfigEntry) {
    ingress.listeners = non_empty(ingress.listeners.take());
    for listener in ingress.listeners.iter_mut().flatten() {
        if listener.protocol.is_empty() {
            listener.protocol = "tcp".into();
        }
        listener.services = non_empty(listener.services.take());
        for service in listener.services.iter_mut().flatten() {
            service.hosts = non_empty(service.hosts.take());
        }
    }
}
