//! The request that creates a container: the task's options, resources, directories and network, within what the
//! node allows. Pure; errors are in the reference's words. Volumes and ports have modules of their own.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::mounts;
use super::podman;
use super::ports;
use super::resolver::Resolver;
use super::settings::Settings;
use crate::driver::block::{self, Block};
use crate::driver::rights;
use crate::driver::{AllocNetwork, TaskConfig, text, texts};
use crate::executor::capabilities::Set;

/// Label with the id of a container's allocation.
pub(super) const ALLOC_LABEL: &str = "com.hashicorp.nomad.alloc_id";
/// Prefix of the names of labels.
const LABEL_PREFIX: &str = "com.hashicorp.nomad.";
/// Period of the processor limit, in microseconds.
const CFS_PERIOD_USECS: i64 = 100_000;
/// Smallest quota that engines accept, in microseconds.
const CFS_QUOTA_USECS_MIN: i64 = 1000;

/// Parts of a container that are not in the task's configuration.
#[derive(Debug, Clone, Default)]
pub(super) struct Prepared {
    /// Id of the image.
    pub image: String,
    /// Security options, with profiles read.
    pub security_opt: Vec<String>,
    /// Files of the host in place of files in the container, by path in the container.
    pub files: BTreeMap<String, PathBuf>,
    /// Whether the engine is Podman's service.
    pub is_podman: bool,
    /// Number of processors of this machine.
    pub cores: usize,
}

/// Name of a task's container.
pub(super) fn name(task: &TaskConfig) -> String {
    format!("{}-{}", task.id.task, task.id.alloc)
}

/// The body of the engine's request to create a container.
pub(super) fn body(task: &TaskConfig, settings: &Settings, prepared: &Prepared) -> Result<Value, String> {
    let config = &task.config;
    if prepared.is_podman {
        podman::check_volumes(config)?;
    }
    let shares_network = task.network.is_some();
    let network_mode = network_mode(task);
    let published = ports::published(task)?;
    let mut body = Map::new();
    body.insert("Image".into(), prepared.image.clone().into());
    body.insert("Env".into(), task.env.iter().map(|(key, value)| format!("{key}={value}")).collect());
    body.insert("Labels".into(), labels(task, settings));
    put(&mut body, "Cmd", command(config));
    put(&mut body, "Entrypoint", entrypoint(config));
    put(&mut body, "User", task.user.clone());
    put(&mut body, "WorkingDir", text(config, "work_dir"));
    if !shares_network {
        put(&mut body, "Hostname", text(config, "hostname"));
        put(&mut body, "MacAddress", text(config, "mac_address"));
        put(&mut body, "ExposedPorts", published.exposed());
        put(&mut body, "NetworkingConfig", endpoint(config, &network_mode));
    }
    // Docker's containers have the name of the one whose namespace they share.
    if let Some(network) = task.network.as_ref().filter(|network| network.container.is_none()) {
        put(&mut body, "Hostname", network.hostname.clone());
    }
    put(&mut body, "Tty", block::flag(config, "tty"));
    put(&mut body, "OpenStdin", block::flag(config, "interactive"));
    let unchecked = block::block(config, "healthchecks").and_then(|checks| block::flag(&checks, "disable"));
    put(&mut body, "Healthcheck", unchecked.filter(|off| *off).map(|_| json!({"Test": ["NONE"]})));
    let mut host = Map::new();
    limits(&mut host, task, settings, prepared.cores)?;
    isolation(&mut host, config, settings, prepared.is_podman)?;
    put(&mut host, "SecurityOpt", prepared.security_opt.clone());
    put(&mut host, "LogConfig", logging(task, settings, prepared.is_podman));
    host.insert("NetworkMode".into(), network_mode.into());
    if !shares_network {
        put(&mut host, "PortBindings", published.bindings());
        let resolver = Resolver::of(task);
        put(&mut host, "Dns", resolver.servers);
        put(&mut host, "DnsOptions", resolver.options);
        put(&mut host, "DnsSearch", resolver.searches);
        put(&mut host, "ExtraHosts", texts(config, "extra_hosts"));
    }
    put(&mut host, "Binds", mounts::binds(task, settings)?);
    put(&mut host, "VolumeDriver", text(config, "volume_driver"));
    put(&mut host, "Mounts", mounts::mounts(task, settings, &prepared.files)?);
    body.insert("HostConfig".into(), host.into());
    Ok(body.into())
}

/// Sets a key whose value says something: not null, and not empty.
fn put(body: &mut Map<String, Value>, key: &str, value: impl serde::Serialize) {
    let Ok(value) = serde_json::to_value(value) else { return };
    let is_empty = match &value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    if !is_empty {
        body.insert(key.to_owned(), value);
    }
}

/// The command with its arguments; arguments alone take the place of the image's command.
fn command(config: &Block) -> Vec<String> {
    let first = Some(text(config, "command")).filter(|command| !command.is_empty());
    first.into_iter().chain(texts(config, "args")).collect()
}

fn entrypoint(config: &Block) -> Vec<String> {
    match config.get("entrypoint") {
        Some(Value::String(one)) if !one.is_empty() => vec![one.clone()],
        Some(_) | None => texts(config, "entrypoint"),
    }
}

fn labels(task: &TaskConfig, settings: &Settings) -> Value {
    let env = |key: &str| task.env.get(key).cloned().unwrap_or_default();
    let known = [
        ("job_name", env("NOMAD_JOB_NAME")),
        ("job_id", env("NOMAD_JOB_ID")),
        ("task_group_name", env("NOMAD_GROUP_NAME")),
        ("task_name", task.id.task.to_string()),
        ("namespace", env("NOMAD_NAMESPACE")),
        ("node_id", task.node.0.to_string()),
        ("node_name", task.node.1.to_string()),
    ];
    let wanted = |name: &str| settings.extra_labels.iter().any(|pattern| matches(pattern, name));
    let extra = known.into_iter().filter(|(name, _)| wanted(name));
    let mut labels = block::map(&task.config, "labels");
    labels.extend(extra.map(|(name, value)| (format!("{LABEL_PREFIX}{name}"), value)));
    labels.insert(ALLOC_LABEL.to_owned(), task.id.alloc.to_string());
    json!(labels)
}

/// Whether a name matches a pattern, in which each `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name
            .strip_prefix(start)
            .is_some_and(|name| (0..=name.len()).any(|at| name.is_char_boundary(at) && matches(rest, &name[at..]))),
    }
}

/// The engine's network of the container. A task of a group with a network is always in the group's, whatever the task
/// asks for.
fn network_mode(task: &TaskConfig) -> String {
    let told = text(&task.config, "network_mode");
    match &task.network {
        Some(AllocNetwork { container: Some(container), .. }) => format!("container:{container}"),
        Some(AllocNetwork { path, .. }) => podman::network_mode(path),
        None if told.is_empty() => "default".to_owned(),
        None => told,
    }
}

/// Addresses and aliases in a network of the engine's user.
fn endpoint(config: &Block, mode: &str) -> Value {
    let mut addresses = Map::new();
    put(&mut addresses, "IPv4Address", text(config, "ipv4_address"));
    put(&mut addresses, "IPv6Address", text(config, "ipv6_address"));
    let mut endpoint = Map::new();
    put(&mut endpoint, "Aliases", texts(config, "network_aliases"));
    put(&mut endpoint, "IPAMConfig", addresses);
    if endpoint.is_empty() { Value::Null } else { json!({"EndpointsConfig": {mode: endpoint}}) }
}

/// Memory, processor and other limits.
fn limits(host: &mut Map<String, Value>, task: &TaskConfig, settings: &Settings, cores: usize) -> Result<(), String> {
    let config = &task.config;
    let hard = block::number(config, "memory_hard_limit").max(task.memory_max_mb);
    let (memory, reserved) = if hard > task.memory_mb { (hard, task.memory_mb) } else { (task.memory_mb, 0) };
    host.insert("Memory".into(), (memory << 20).into());
    // Together with the limit: no swap.
    host.insert("MemorySwap".into(), (memory << 20).into());
    if reserved > 0 {
        host.insert("MemoryReservation".into(), (reserved << 20).into());
    }
    host.insert("CpuShares".into(), task.cpu_shares.into());
    let pinned: Vec<String> = task.cores.iter().map(u64::to_string).collect();
    put(host, "CpusetCpus", if pinned.is_empty() { text(config, "cpuset_cpus") } else { pinned.join(",") });
    if block::flag(config, "cpu_hard_limit") == Some(true) {
        let period = Some(block::number(config, "cpu_cfs_period")).filter(|period| *period != 0);
        let period = period.unwrap_or(CFS_PERIOD_USECS);
        if !(1000..=1_000_000).contains(&period) {
            return Err("invalid value for cpu_cfs_period".to_owned());
        }
        let quota = (task.cpu_fraction * period as f64) as i64 * i64::try_from(cores).unwrap_or(1);
        host.insert("CpuPeriod".into(), period.into());
        host.insert("CpuQuota".into(), quota.max(CFS_QUOTA_USECS_MIN).into());
    }
    let (pids, bound) = (block::number(config, "pids_limit"), settings.pids_limit);
    if bound > 0 && pids > bound {
        return Err(format!("pids_limit cannot be greater than nomad plugin config pids_limit: {bound}"));
    }
    put(host, "PidsLimit", [pids, bound].into_iter().find(|limit| *limit > 0));
    put(host, "ShmSize", Some(block::number(config, "shm_size")).filter(|size| *size > 0));
    put(host, "OomScoreAdj", Some(block::number(config, "oom_score_adj")).filter(|score| *score != 0));
    put(host, "StorageOpt", block::map(config, "storage_opt"));
    put(host, "Sysctls", block::map(config, "sysctl"));
    put(host, "Ulimits", ulimits(config)?);
    Ok(())
}

/// `ulimit { nofile = "100:200" }`: soft and hard limit, or one for both.
fn ulimits(config: &Block) -> Result<Vec<Value>, String> {
    let read = |(name, told): (String, String)| {
        let (soft, hard) = told.split_once(':').unwrap_or((&told, &told));
        match (soft.trim().parse::<i64>(), hard.trim().parse::<i64>()) {
            (Ok(soft), Ok(hard)) => Ok(json!({"Name": name, "Soft": soft, "Hard": hard})),
            _ => Err(format!("failed to parse ulimit configuration: Malformed ulimit specification {name}: {told:?}")),
        }
    };
    block::map(config, "ulimit").into_iter().map(read).collect()
}

/// Privileges, capabilities, devices and namespaces.
fn isolation(
    host: &mut Map<String, Value>,
    config: &Block,
    settings: &Settings,
    is_podman: bool,
) -> Result<(), String> {
    let privileged = block::flag(config, "privileged").unwrap_or(false);
    if privileged && !settings.allow_privileged {
        return Err("Docker privileged mode is disabled on this Nomad agent".to_owned());
    }
    put(host, "Privileged", privileged.then_some(true));
    let runtime = text(config, "runtime");
    if !runtime.is_empty() && !settings.allow_runtimes.contains(&runtime) {
        return Err(format!("requested runtime {runtime:?} is not allowed"));
    }
    put(host, "Runtime", runtime);
    let wanted = rights::wanted(config, Set::DEFAULT, settings.allowed_caps.clone()?)?.bounding;
    if is_podman {
        podman::capabilities(host, wanted);
    } else {
        // Docker starts from a set of its own.
        let of_engine = Set::DEFAULT.or(Set::named("net_raw").unwrap_or_default());
        put(host, "CapAdd", wanted.without(of_engine).names());
        put(host, "CapDrop", of_engine.without(wanted).names());
    }
    put(host, "Devices", devices(config)?);
    put(host, "GroupAdd", texts(config, "group_add"));
    put(host, "Init", block::flag(config, "init"));
    put(host, "ReadonlyRootfs", block::flag(config, "readonly_rootfs"));
    put(host, "IpcMode", text(config, "ipc_mode"));
    put(host, "PidMode", text(config, "pid_mode"));
    put(host, "UTSMode", text(config, "uts_mode"));
    put(host, "UsernsMode", text(config, "userns_mode"));
    Ok(())
}

fn devices(config: &Block) -> Result<Vec<Value>, String> {
    let read = |device: Block| {
        let at_host = text(&device, "host_path");
        if at_host.is_empty() {
            return Err("device host path must be set in configuration for devices".to_owned());
        }
        let or = |key: &str, otherwise: &str| {
            Some(text(&device, key)).filter(|told| !told.is_empty()).unwrap_or_else(|| otherwise.to_owned())
        };
        let permissions = or("cgroup_permissions", "rwm");
        if permissions.chars().any(|permission| !"rwm".contains(permission)) {
            return Err(format!("invalid cgroup permission string: {permissions:?}"));
        }
        let inside = or("container_path", &at_host);
        Ok(json!({"PathOnHost": at_host, "PathInContainer": inside, "CgroupPermissions": permissions}))
    };
    block::blocks(config, "devices").into_iter().map(read).collect()
}

/// The engine's log driver. By default the engine keeps as much of the output as the task's own log files do, so that
/// an agent that was away finds all that would not have been rotated away.
fn logging(task: &TaskConfig, settings: &Settings, is_podman: bool) -> Value {
    let told = block::block(&task.config, "logging").or_else(|| settings.logging.clone());
    let Some(told) = told else {
        let (files, bytes) = (task.log_files_max, task.log_file_bytes_max);
        let config = if is_podman {
            json!({"max-size": podman::log_bytes_max(files, bytes).to_string()})
        } else {
            json!({"max-file": files.to_string(), "max-size": bytes.to_string()})
        };
        return json!({"Type": "json-file", "Config": config});
    };
    let kinds = ["type", "driver"].map(|key| text(&told, key));
    let kind = kinds.into_iter().find(|kind| !kind.is_empty()).unwrap_or_else(|| "json-file".to_owned());
    json!({"Type": kind, "Config": block::map(&told, "config")})
}
