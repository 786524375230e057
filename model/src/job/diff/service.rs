//! Diffs of services, their checks, and their service mesh blocks.

use std::collections::BTreeMap;

use super::flat::{self, Flat};
use super::object::{config, from_fields, keyed, object, set, set_of_texts, sorted};
use super::task::resources;
use super::{ObjectDiff, kind_of};
use crate::{
    ConsulConnect, ConsulGateway, ConsulGatewayProxy, ConsulIngressConfigEntry, ConsulIngressListener,
    ConsulIngressService, ConsulProxy, ConsulSidecarService, ConsulTerminatingConfigEntry, ConsulUpstream, Dur,
    Service, ServiceCheck, SidecarTask, Str,
};

/// Diff of two lists of services. Services have no identity, and authors rename and move them, so the most similar
/// ones are paired.
pub(super) fn services(old: &Option<Vec<Service>>, new: &Option<Vec<Service>>, contextual: bool) -> Vec<ObjectDiff> {
    let score = |at: usize, one: &Service, other_at: usize, other: &Service| {
        usize::from(at == other_at)
            + 2 * usize::from(one.port_label == other.port_label)
            + 3 * usize::from(one.name == other.name)
    };
    matched(old, new, score, |old, new| service(old, new, contextual))
}

fn checks(old: &Option<Vec<ServiceCheck>>, new: &Option<Vec<ServiceCheck>>, contextual: bool) -> Vec<ObjectDiff> {
    let score = |at: usize, one: &ServiceCheck, other_at: usize, other: &ServiceCheck| {
        usize::from(at == other_at) + 2 * usize::from(one.kind == other.kind) + 3 * usize::from(one.name == other.name)
    };
    matched(old, new, score, |old, new| check(old, new, contextual))
}

/// Services with a lower similarity score are not paired.
const SCORE_MIN: usize = 2;

fn matched<T>(
    old: &Option<Vec<T>>,
    new: &Option<Vec<T>>,
    score: impl Fn(usize, &T, usize, &T) -> usize,
    diff: impl Fn(Option<&T>, Option<&T>) -> Option<ObjectDiff>,
) -> Vec<ObjectDiff> {
    let (old, new) = (old.as_deref().unwrap_or_default(), new.as_deref().unwrap_or_default());
    if let ([old], [new]) = (old, new) {
        return diff(Some(old), Some(new)).into_iter().collect();
    }
    let mut taken = vec![false; new.len()];
    let mut diffs = Vec::new();
    for (at, item) in old.iter().enumerate() {
        let mut best: Option<(usize, usize)> = None;
        for (other_at, other) in new.iter().enumerate().filter(|(other_at, _)| !taken[*other_at]) {
            let points = score(at, item, other_at, other);
            if points > SCORE_MIN && best.is_none_or(|(most, _)| points > most) {
                best = Some((points, other_at));
            }
        }
        match best {
            Some((_, other_at)) => {
                taken[other_at] = true;
                diffs.extend(diff(Some(item), Some(&new[other_at])));
            }
            None => diffs.extend(diff(Some(item), None)),
        }
    }
    for (item, _) in new.iter().zip(&taken).filter(|(_, taken)| !**taken) {
        diffs.extend(diff(None, Some(item)));
    }
    sorted(diffs)
}

fn service(old: Option<&Service>, new: Option<&Service>, contextual: bool) -> Option<ObjectDiff> {
    let mut diff = ObjectDiff::changed("Service", old, new, &[], contextual)?;
    let nothing = Service::default();
    let (before, after) = (old.unwrap_or(&nothing), new.unwrap_or(&nothing));
    diff.add_objects(set_of_texts("CanaryTags", &before.canary_tags, &after.canary_tags, contextual));
    diff.add_objects(set_of_texts("Tags", &before.tags, &after.tags, contextual));
    diff.add_objects(checks(&before.checks, &after.checks, contextual));
    diff.add_objects(connect(before.connect.as_ref(), after.connect.as_ref(), contextual));
    Some(diff)
}

fn check(old: Option<&ServiceCheck>, new: Option<&ServiceCheck>, contextual: bool) -> Option<ObjectDiff> {
    let mut diff = ObjectDiff::changed("Check", old, new, &["Header"], contextual)?;
    let nothing = ServiceCheck::default();
    let (before, after) = (old.unwrap_or(&nothing), new.unwrap_or(&nothing));
    let headers = |check: &ServiceCheck| {
        let mut flat = Flat::default();
        for (name, values) in check.header.iter().flatten() {
            let values: Vec<&str> = values.iter().flatten().map(Str::as_str).collect();
            flat.set(name, Some(values.join(",")));
        }
        flat
    };
    diff.add_objects(from_fields("Header", flat::fields(&headers(before), &headers(after), contextual)));
    diff.add_objects(object(
        "CheckRestart",
        before.check_restart.as_ref(),
        after.check_restart.as_ref(),
        &[],
        contextual,
    ));
    Some(diff)
}

fn connect(old: Option<&ConsulConnect>, new: Option<&ConsulConnect>, contextual: bool) -> Option<ObjectDiff> {
    let mut diff = ObjectDiff::changed("ConsulConnect", old, new, &[], contextual)?;
    let nothing = ConsulConnect::default();
    let (before, after) = (old.unwrap_or(&nothing), new.unwrap_or(&nothing));
    diff.add_objects(sidecar_service(before.sidecar_service.as_ref(), after.sidecar_service.as_ref(), contextual));
    diff.add_objects(sidecar_task(before.sidecar_task.as_ref(), after.sidecar_task.as_ref(), contextual));
    diff.add_objects(gateway(before.gateway.as_ref(), after.gateway.as_ref(), contextual));
    Some(diff)
}

fn sidecar_service(
    old: Option<&ConsulSidecarService>,
    new: Option<&ConsulSidecarService>,
    contextual: bool,
) -> Option<ObjectDiff> {
    let mut diff = ObjectDiff::changed("SidecarService", old, new, &[], contextual)?;
    let nothing = ConsulSidecarService::default();
    let (before, after) = (old.unwrap_or(&nothing), new.unwrap_or(&nothing));
    diff.add_objects(set_of_texts("Tags", &before.tags, &after.tags, contextual));
    diff.add_objects(proxy(before.proxy.as_ref(), after.proxy.as_ref(), contextual));
    Some(diff)
}

fn proxy(old: Option<&ConsulProxy>, new: Option<&ConsulProxy>, contextual: bool) -> Option<ObjectDiff> {
    let mut diff = ObjectDiff::changed("ConsulProxy", old, new, &[], contextual)?;
    let nothing = ConsulProxy::default();
    let (before, after) = (old.unwrap_or(&nothing), new.unwrap_or(&nothing));
    diff.add_objects(set(&before.upstreams, &after.upstreams, |old, new| upstream(old, new, contextual)));
    let (old_expose, new_expose) = (before.expose.as_ref(), after.expose.as_ref());
    diff.add_objects(ObjectDiff::changed("Expose", old_expose, new_expose, &[], contextual).map(|mut diff| {
        let paths = |expose: Option<&crate::ConsulExposeConfig>| expose.and_then(|expose| expose.paths.clone());
        diff.add_objects(set(&paths(old_expose), &paths(new_expose), |old, new| {
            object("Paths", old, new, &[], contextual)
        }));
        diff
    }));
    diff.add_objects(config(&before.config, &after.config, contextual));
    Some(diff)
}

fn upstream(old: Option<&ConsulUpstream>, new: Option<&ConsulUpstream>, contextual: bool) -> Option<ObjectDiff> {
    let mut diff = ObjectDiff::changed("ConsulUpstreams", old, new, &[], contextual)?;
    let nothing = ConsulUpstream::default();
    let (before, after) = (old.unwrap_or(&nothing), new.unwrap_or(&nothing));
    let mesh = |upstream: Option<&ConsulUpstream>| upstream.map(|upstream| upstream.mesh_gateway.clone());
    diff.add_objects(object("MeshGateway", mesh(old).as_ref(), mesh(new).as_ref(), &[], contextual));
    diff.add_objects(config(&before.config, &after.config, contextual));
    Some(diff)
}

fn sidecar_task(old: Option<&SidecarTask>, new: Option<&SidecarTask>, contextual: bool) -> Option<ObjectDiff> {
    if old == new {
        return None;
    }
    let flat = |task: Option<&SidecarTask>| {
        let mut flat = Flat::of(task, &["KillTimeout", "ShutdownDelay"]);
        for (name, span) in [
            ("KillTimeout", task.and_then(|task| task.kill_timeout)),
            ("ShutdownDelay", task.and_then(|task| task.shutdown_delay)),
        ] {
            if let Some(span) = span {
                flat.set(name, Some(span.nanos()));
            }
        }
        flat
    };
    let mut diff = ObjectDiff::from_flat("SidecarTask", kind_of(old, new), &flat(old), &flat(new), contextual);
    let nothing = SidecarTask::default();
    let (before, after) = (old.unwrap_or(&nothing), new.unwrap_or(&nothing));
    diff.add_objects(config(&before.config, &after.config, contextual));
    diff.add_objects(resources(before.resources.as_ref(), after.resources.as_ref(), contextual));
    diff.add_objects(object("LogConfig", before.log_config.as_ref(), after.log_config.as_ref(), &[], contextual));
    Some(diff)
}

fn gateway(old: Option<&ConsulGateway>, new: Option<&ConsulGateway>, contextual: bool) -> Option<ObjectDiff> {
    let mut diff = ObjectDiff::changed("Gateway", old, new, &[], contextual)?;
    let nothing = ConsulGateway::default();
    let (before, after) = (old.unwrap_or(&nothing), new.unwrap_or(&nothing));
    diff.add_objects(gateway_proxy(before.proxy.as_ref(), after.proxy.as_ref(), contextual));
    diff.add_objects(ingress(before.ingress.as_ref(), after.ingress.as_ref(), contextual));
    diff.add_objects(terminating(before.terminating.as_ref(), after.terminating.as_ref(), contextual));
    diff.add_objects(ObjectDiff::changed("Mesh", before.mesh.as_ref(), after.mesh.as_ref(), &[], contextual));
    Some(diff)
}

fn gateway_proxy(
    old: Option<&ConsulGatewayProxy>,
    new: Option<&ConsulGatewayProxy>,
    contextual: bool,
) -> Option<ObjectDiff> {
    if old == new {
        return None;
    }
    let flat = |proxy: Option<&ConsulGatewayProxy>| {
        let mut flat = Flat::of(proxy, &["ConnectTimeout"]);
        if let Some(timeout) = proxy.and_then(|proxy| proxy.connect_timeout) {
            flat.set("ConnectTimeout", Some::<Dur>(timeout));
        }
        flat
    };
    let mut diff = ObjectDiff::from_flat("Proxy", kind_of(old, new), &flat(old), &flat(new), contextual);
    let addresses = |proxy: Option<&ConsulGatewayProxy>| {
        let mut flat = Flat::default();
        let addresses: BTreeMap<_, _> =
            proxy.and_then(|proxy| proxy.envoy_gateway_bind_addresses.clone()).unwrap_or_default();
        for (name, address) in addresses {
            flat.set(&name, Some(format!("{}:{}", address.address, address.port)));
        }
        flat
    };
    diff.add_objects(from_fields(
        "EnvoyGatewayBindAddresses",
        flat::fields(&addresses(old), &addresses(new), contextual),
    ));
    let config_of = |proxy: Option<&ConsulGatewayProxy>| proxy.and_then(|proxy| proxy.config.clone());
    diff.add_objects(config(&config_of(old), &config_of(new), contextual));
    Some(diff)
}

fn ingress(
    old: Option<&ConsulIngressConfigEntry>,
    new: Option<&ConsulIngressConfigEntry>,
    contextual: bool,
) -> Option<ObjectDiff> {
    let mut diff = ObjectDiff::changed("Ingress", old, new, &[], contextual)?;
    let nothing = ConsulIngressConfigEntry::default();
    let (before, after) = (old.unwrap_or(&nothing), new.unwrap_or(&nothing));
    let (old_tls, new_tls) = (before.tls.as_ref(), after.tls.as_ref());
    diff.add_objects(ObjectDiff::changed("TLS", old_tls, new_tls, &[], contextual).map(|mut diff| {
        let suites = |tls: Option<&crate::ConsulGatewayTlsConfig>| tls.and_then(|tls| tls.cipher_suites.clone());
        diff.add_objects(set_of_texts("CipherSuites", &suites(old_tls), &suites(new_tls), contextual));
        diff
    }));
    let key = |listener: &ConsulIngressListener| (listener.protocol.clone(), listener.port);
    diff.add_objects(keyed(&before.listeners, &after.listeners, key, |old, new| {
        let mut diff = ObjectDiff::changed("Listener", old, new, &[], contextual)?;
        let services =
            |listener: Option<&ConsulIngressListener>| listener.and_then(|listener| listener.services.clone());
        let name = |service: &ConsulIngressService| service.name.clone();
        diff.add_objects(keyed(&services(old), &services(new), name, |old, new| {
            let mut diff = ObjectDiff::changed("ConsulIngressService", old, new, &[], contextual)?;
            let hosts = |service: Option<&ConsulIngressService>| service.and_then(|service| service.hosts.clone());
            diff.add_objects(set_of_texts("Hosts", &hosts(old), &hosts(new), contextual));
            Some(diff)
        }));
        Some(diff)
    }));
    Some(diff)
}

fn terminating(
    old: Option<&ConsulTerminatingConfigEntry>,
    new: Option<&ConsulTerminatingConfigEntry>,
    contextual: bool,
) -> Option<ObjectDiff> {
    let mut diff = ObjectDiff::changed("Terminating", old, new, &[], contextual)?;
    let services = |entry: Option<&ConsulTerminatingConfigEntry>| entry.and_then(|entry| entry.services.clone());
    let name = |service: &crate::ConsulLinkedService| service.name.clone();
    diff.add_objects(keyed(&services(old), &services(new), name, |old, new| {
        ObjectDiff::changed("Service", old, new, &[], contextual)
    }));
    Some(diff)
}
