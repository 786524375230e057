//! Admission of quotas: what is valid, and the hashes.

use std::collections::BTreeSet;

use blake2::digest::consts::U32;
use blake2::{Blake2b, Digest};
use songline_model::{Blob, QuotaLimit, QuotaSpec, Resources, Str};

use crate::error::ApiError;
use crate::http::namespace::{multi_error, refusals};

/// The quota as it is written: a limit without a region is that of the servers' region, and hashes are set. An invalid
/// quota is refused.
pub(super) fn admitted(mut quota: QuotaSpec, region: &Str) -> Result<QuotaSpec, ApiError> {
    let mut errors = refusals(&quota.name, &quota.description);
    let mut regions = BTreeSet::new();
    for limit in quota.limits.iter_mut().flatten() {
        if limit.region.is_empty() {
            limit.region = region.clone();
        }
        if !regions.insert(limit.region.clone()) {
            errors.push(format!("region {:?} has more than one limit", limit.region.as_str()));
        }
        let unlimited = limit.region_limit.iter().flat_map(unlimited);
        errors.extend(unlimited.map(|what| format!("limit of region {:?}: {what}", limit.region.as_str())));
        limit.hash = Some(Blob(hash_of_limit(limit)));
    }
    if errors.is_empty() {
        quota.hash = Some(Blob(hash(&quota)));
        return Ok(quota);
    }
    Err(ApiError::bad_request(format!("invalid quota {:?}: {}", quota.name.as_str(), multi_error(&errors))))
}

/// The parts of a limit that would have no effect.
fn unlimited(limit: &Resources) -> Vec<String> {
    let mut errors = Vec::new();
    for (name, is_set) in [
        ("disk", limit.disk_mb != 0),
        ("iops", limit.iops != 0),
        ("networks", limit.networks.as_ref().is_some_and(|networks| !networks.is_empty())),
    ] {
        if is_set {
            errors.push(format!("{name} can not be limited"));
        }
    }
    for device in limit.devices.iter().flatten() {
        let parts = device.name.split('/').collect::<Vec<_>>();
        if parts.len() > 3 || parts.iter().any(|part| part.is_empty()) {
            errors.push(format!("invalid device {:?}, must be type, vendor/type or vendor/type/name", &*device.name));
        }
        let is_set = |len: Option<usize>| len.is_some_and(|len| len > 0);
        if is_set(device.constraints.as_ref().map(Vec::len)) || is_set(device.affinities.as_ref().map(Vec::len)) {
            errors.push(format!("device {:?} can not have constraints or affinities", &*device.name));
        }
    }
    errors
}

/// BLAKE2b-256 of a limit's parts, each ended by a zero byte.
fn hash_of_limit(limit: &QuotaLimit) -> Vec<u8> {
    let mut hasher = Blake2b::<U32>::new();
    let mut add = |part: String| {
        hasher.update(part.as_bytes());
        hasher.update([0]);
    };
    add(limit.region.to_string());
    if let Some(resources) = &limit.region_limit {
        let Resources { cpu, cores, memory_mb, memory_max_mb, devices, .. } = resources;
        [cpu, cores, memory_mb, memory_max_mb].into_iter().for_each(|amount| add(amount.to_string()));
        devices.iter().flatten().for_each(|device| add(format!("{}={}", device.name, device.count)));
    }
    add(limit.variables_limit.unwrap_or(0).to_string());
    add(limit.allocations_limit.unwrap_or(0).to_string());
    hasher.finalize().to_vec()
}

/// BLAKE2b-256 of name, description and the hashes of the limits.
fn hash(quota: &QuotaSpec) -> Vec<u8> {
    let mut hasher = Blake2b::<U32>::new();
    hasher.update(quota.name.as_bytes());
    hasher.update(quota.description.as_bytes());
    for limit in quota.limits.iter().flatten() {
        hasher.update(limit.hash.as_ref().map_or(&[][..], |hash| &hash.0));
    }
    hasher.finalize().to_vec()
}
