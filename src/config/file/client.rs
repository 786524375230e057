//! Keys of the block `client` and of `plugin`: settings of a node.

use anyhow::{Context, bail};
use serde_json::Value;
use songline_client::{ArtifactSettings, ClientConfig, DrainOnShutdown};
use songline_model::{ClientHostVolumeConfig, Str};

use super::{NotOfType, Seen, count, each, each_named, flag, network, number, pairs, size, span, template, text};
use crate::config::AgentConfig;

/// Above the number of every core.
const CORES_MAX: u64 = 1 << 16;

/// The block `client`.
pub(super) fn block(value: &Value, config: &mut AgentConfig, seen: &mut Seen) -> anyhow::Result<()> {
    let mut told = config.client.clone().unwrap_or_else(|| std::mem::take(&mut config.not_enabled.client));
    let mut join = std::mem::take(&mut config.client_join);
    let mut enabled = config.client.is_some();
    each(value, &mut |key, value| {
        match key {
            "enabled" => enabled |= flag(key, value)?,
            "node_class" => told.node_class = text(key, value)?.into(),
            "node_pool" => told.node_pool = text(key, value)?.into(),
            "meta" => pairs(value, &mut |name, text| drop(told.meta.insert(name, text)))?,
            "options" => pairs(value, &mut |name, text| drop(told.options.insert(name, text)))?,
            "cgroup_parent" => told.cgroup_parent = text(key, value)?.into(),
            "network_interface" => told.network_interface = text(key, value)?.into(),
            "cpu_total_compute" => told.cpu_total_compute = Some(number(key, value)?),
            "memory_total_mb" => told.memory_total_mb = Some(number(key, value)?),
            "disk_total_mb" => told.disk_total_mb = Some(number(key, value)?),
            "min_dynamic_port" => told.min_dynamic_port = number(key, value)?,
            "max_dynamic_port" => told.max_dynamic_port = number(key, value)?,
            "max_kill_timeout" => told.kill_timeout_max = span("client", key, value)?,
            "gc_interval" => told.gc_interval = span("client", key, value)?,
            "gc_max_allocs" => told.gc_allocs_max = count(key, value)?,
            "gc_parallel_destroys" => told.gc_parallel_destroys = count(key, value)?.max(1),
            "gc_disk_usage_threshold" => told.gc_disk_usage_percent = percent(key, value)?,
            "gc_inode_usage_threshold" => told.gc_inode_usage_percent = percent(key, value)?,
            "disable_remote_exec" => told.disable_remote_exec = flag(key, value)?,
            "reserved" => reserved(value, &mut told)?,
            "host_volume" => host_volumes(value, &mut told, seen)?,
            "cni_path" => told.network.cni_path = text(key, value)?,
            "cni_config_dir" => told.network.cni_config_dir = text(key, value)?.into(),
            "bridge_network_name" => told.network.bridge_name = text(key, value)?.into(),
            "bridge_network_subnet" => told.network.bridge_subnet = text(key, value)?.into(),
            "bridge_network_hairpin_mode" => told.network.bridge_hairpin = flag(key, value)?,
            "bind_wildcard_default_host_network" => told.network.wildcard_ports = flag(key, value)?,
            "host_network" => host_networks(value, &mut told)?,
            "servers" => told.servers.extend(network::texts(key, value)?.into_iter().map(Str::from)),
            "template" => template::block(value, &mut told.template, seen)?,
            "server_join" => network::join_block("client.server_join", value, &mut join, seen)?,
            "state_dir" => told.own_state_dir = path(key, value)?,
            "alloc_dir" => told.own_alloc_dir = path(key, value)?,
            "chroot_env" => pairs(value, &mut |from, to| drop(told.chroot_env.insert(from, to)))?,
            "network_speed" => told.network_speed_mbits = Some(number(key, value)?).filter(|mbits| *mbits > 0),
            "disk_free_mb" => told.disk_free_mb = Some(number(key, value)?).filter(|mb| *mb > 0),
            "reservable_cores" => told.reservable_cores = cores(key, value)?,
            "no_host_uuid" => told.no_host_uuid = flag(key, value)?,
            "nomad_service_discovery" => told.service_discovery = flag(key, value)?,
            "artifact" => artifact(value, &mut told.artifact)?,
            "drain_on_shutdown" => drain_on_shutdown(value, &mut told)?,
            // Ports for plugins in processes of their own, and a block without effect in the reference.
            "client_min_port" | "client_max_port" | "stats" => seen.without_effect(&format!("client.{key}"), value),
            other => bail!("client unexpected keys {other}"),
        }
        Ok(())
    })?;
    if enabled {
        config.client = Some(told);
    } else {
        config.not_enabled.client = told;
    }
    config.client_join = join;
    Ok(())
}

fn reserved(value: &Value, told: &mut ClientConfig) -> anyhow::Result<()> {
    each(value, &mut |key, value| {
        match key {
            "cpu" => told.reserved.cpu.cpu_shares = number(key, value)?,
            "memory" => told.reserved.memory.memory_mb = number(key, value)?,
            "disk" => told.reserved.disk.disk_mb = number(key, value)?,
            "reserved_ports" => told.reserved.networks.reserved_host_ports = text(key, value)?.into(),
            "cores" => told.reserved.cpu.reserved_cpu_cores = cores(key, value)?,
            other => bail!("reserved unexpected keys {other}"),
        }
        Ok(())
    })
}

fn host_volumes(value: &Value, told: &mut ClientConfig, seen: &mut Seen) -> anyhow::Result<()> {
    each_named(value, &mut |name, body| {
        let mut volume = ClientHostVolumeConfig { name: name.into(), ..ClientHostVolumeConfig::default() };
        each(body, &mut |key, value| {
            match key {
                "path" => volume.path = text(key, value)?.into(),
                "read_only" => volume.read_only = flag(key, value)?,
                other => seen.without_effect(&format!("client.host_volume.{name}.{other}"), value),
            }
            Ok(())
        })?;
        told.host_volumes.insert(name.into(), volume);
        Ok(())
    })
}

fn host_networks(value: &Value, told: &mut ClientConfig) -> anyhow::Result<()> {
    each_named(value, &mut |name, body| {
        let network = told.network.host_networks.entry(name.into()).or_default();
        each(body, &mut |key, value| {
            match key {
                "cidr" => network.cidr = text(key, value)?.into(),
                "interface" => network.interface = text(key, value)?.into(),
                "reserved_ports" => network.reserved_ports = text(key, value)?.into(),
                other => bail!("host_network unexpected keys {other}"),
            }
            Ok(())
        })
    })
}

/// Driver options: `plugin "raw_exec" { config { enabled = true } }`.
pub(super) fn plugins(value: &Value, config: &mut AgentConfig, seen: &mut Seen) -> anyhow::Result<()> {
    // Plugins configure nodes.
    let told = config.client.as_mut().unwrap_or(&mut config.not_enabled.client);
    each(value, &mut |name, body| {
        each(body, &mut |key, value| match key {
            "config" => {
                let options = told.plugins.entry(name.into()).or_default();
                each(value, &mut |option, value| {
                    options.insert(option.to_owned(), value.clone());
                    Ok(())
                })
            }
            "args" => {
                seen.without_effect(&format!("plugin.{name}.args"), value);
                Ok(())
            }
            other => bail!("plugin unexpected keys {other}"),
        })
    })
}

/// An absolute path; an empty text is none.
fn path(key: &str, value: &Value) -> anyhow::Result<Option<std::path::PathBuf>> {
    let told = std::path::PathBuf::from(text(key, value)?);
    if told.as_os_str().is_empty() {
        return Ok(None);
    }
    if told.is_relative() {
        bail!("client.{key} must be given as an absolute path: got {}", told.display());
    }
    Ok(Some(told))
}

fn percent(key: &str, value: &Value) -> anyhow::Result<f64> {
    let told = text(key, value)?;
    told.parse().with_context(|| NotOfType(format!("client.{key}: expected a number, got {told:?}")))
}

/// A set of processor cores such as `0-3,7`; an empty text is none.
fn cores(key: &str, value: &Value) -> anyhow::Result<Option<Vec<u64>>> {
    let told = text(key, value)?;
    let mut cores = Vec::new();
    for part in told.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = first.trim().parse::<u64>().ok().zip(last.trim().parse::<u64>().ok());
        match range {
            Some((first, last)) if first <= last && last < CORES_MAX => cores.extend(first..=last),
            _ => bail!("client.{key}: {told:?} is no set of cores such as 0-3,7"),
        }
    }
    cores.sort_unstable();
    cores.dedup();
    Ok(Some(cores).filter(|cores| !cores.is_empty()))
}

fn artifact(value: &Value, told: &mut ArtifactSettings) -> anyhow::Result<()> {
    const BLOCK: &str = "client.artifact";
    each(value, &mut |key, value| {
        match key {
            "http_read_timeout" => told.http_read_timeout = span(BLOCK, key, value)?,
            "http_max_size" => told.http_bytes_max = size(key, value)?,
            "gcs_timeout" => told.gcs_timeout = span(BLOCK, key, value)?,
            "git_timeout" => told.git_timeout = span(BLOCK, key, value)?,
            "hg_timeout" => told.hg_timeout = span(BLOCK, key, value)?,
            "s3_timeout" => told.s3_timeout = span(BLOCK, key, value)?,
            "decompression_file_count_limit" => told.unpacked_files_max = count(key, value)? as u64,
            "decompression_size_limit" => told.unpacked_bytes_max = size(key, value)?,
            "disable_filesystem_isolation" => told.disable_filesystem_isolation = flag(key, value)?,
            "set_environment_variables" => {
                let names = text(key, value)?;
                let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
                told.environment_variables = names.map(str::to_owned).collect();
            }
            other => bail!("artifact unexpected keys {other}"),
        }
        Ok(())
    })
}

/// An empty block is one, too.
fn drain_on_shutdown(value: &Value, config: &mut ClientConfig) -> anyhow::Result<()> {
    const BLOCK: &str = "client.drain_on_shutdown";
    if value.is_null() {
        return Ok(());
    }
    let told = config.drain_on_shutdown.get_or_insert_with(DrainOnShutdown::default);
    each(value, &mut |key, value| {
        match key {
            "deadline" => told.deadline = span(BLOCK, key, value)?,
            "ignore_system_jobs" => told.ignore_system_jobs = flag(key, value)?,
            "force" => told.force = flag(key, value)?,
            other => bail!("drain_on_shutdown unexpected keys {other}"),
        }
        Ok(())
    })
}
