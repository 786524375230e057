//! The driver's fingerprint: whether the engine answers, and what it is.

use std::collections::BTreeMap;

use songline_model::Str;

use super::Inner;
use super::engine::Failure;
use crate::driver::Fingerprint;
use crate::fingerprint::addresses_of;

const NAME: &str = "docker";

/// Asks the engine. An engine that has never answered is undetected; one that answered before is unhealthy.
pub(super) async fn print(inner: &Inner) -> Fingerprint {
    match attributes(inner).await {
        Ok(attributes) => {
            *inner.seen.lock() = true;
            let mut print = Fingerprint::healthy(NAME);
            print.attributes.extend(attributes);
            print
        }
        Err(failure) => {
            inner.engine.forget();
            tracing::debug!(%failure, "asking the container engine for its version");
            let why = "Failed to connect to docker daemon";
            if *inner.seen.lock() { Fingerprint::unhealthy(why) } else { Fingerprint::undetected(why) }
        }
    }
}

async fn attributes(inner: &Inner) -> Result<BTreeMap<Str, Str>, Failure> {
    let client = inner.engine.client().await?;
    let (version, info) = (client.version().await?, client.info().await?);
    let mut attributes = BTreeMap::new();
    let mut put = |key: &str, value: String| {
        if !value.is_empty() {
            attributes.insert(Str::from(format!("driver.{NAME}.{key}")), Str::from(value));
        }
    };
    put("version", version.version.unwrap_or_default());
    // The versions of Podman are others than Docker's, which constraints of jobs may mean.
    put("engine", if inner.engine.is_podman().await? { "podman".to_owned() } else { String::new() });
    put("os_type", info.os_type.unwrap_or_default());
    let mut runtimes: Vec<String> = info.runtimes.into_iter().flatten().map(|(name, _)| name).collect();
    runtimes.sort_unstable();
    put("runtimes", runtimes.join(","));
    let settings = &inner.settings;
    put("privileged.enabled", if settings.allow_privileged { "true".to_owned() } else { String::new() });
    put("volumes.enabled", if settings.volumes_enabled { "true".to_owned() } else { String::new() });
    put("pids.limit", if settings.pids_limit > 0 { settings.pids_limit.to_string() } else { String::new() });
    // An engine may have no such network.
    if let Ok(bridge) = client.inspect_network("bridge", None).await {
        let gateways = bridge.ipam.and_then(|ipam| ipam.config).into_iter().flatten();
        let gateway = gateways.filter_map(|config| config.gateway).next();
        // An engine that has just made its bridge does not name the gateway before its next start.
        let of_kernel = || {
            let device = bridge.options.as_ref()?.get("com.docker.network.bridge.name")?;
            addresses_of(device).first().map(ToString::to_string)
        };
        put("bridge_ip", gateway.or_else(of_kernel).unwrap_or_default());
    }
    Ok(attributes)
}
