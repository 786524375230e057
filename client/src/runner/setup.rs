//! Set-up of a task before its driver starts it: directories, environment, mounts, and the driver's configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Map;
use songline_model::{
    AllocatedPortMapping, Allocation, NetworkResource, Node, Port, Secret, ServiceRegistration, Str, Task, TaskArtifact,
};
use tokio::sync::mpsc;

use super::hooks::blocking;
use super::{Order, Shared, send, validate};
use crate::allocdir::AllocDir;
use crate::artifact::{self, Dirs, Fetcher};
use crate::beneath::Owner;
use crate::checks;
use crate::consul::{self, ServiceDefinition};
use crate::core::{CheckPlan, Input, NOMAD_PROVIDER, StartFailure, Workload, event};
use crate::csi::Place;
use crate::driver::{Driver, DriverNetwork, Listener, RunId, TaskConfig};
use crate::env::{Sources, TaskEnv, TaskPaths, host};
use crate::executor::user;
use crate::services::{self, Located};
use crate::vault::Account;
use crate::volumes::{self, Known};

/// File in a task's secrets directory with its identity token.
const TOKEN_FILE: &str = "nomad_token";

/// Creates a task's directories and what is in them before artifacts and templates come.
pub(super) async fn prepare(
    shared: &Shared,
    alloc: &Arc<Allocation>,
    dir: &AllocDir,
    name: &Str,
    run: u64,
    driver: Option<&dyn Driver>,
    back: &mpsc::WeakUnboundedSender<Order>,
) -> Result<(), String> {
    let now = || shared.clock.now();
    let task = alloc.group().and_then(|group| group.task(name)).ok_or("the allocation has lost its task")?;
    let tell = |event| send(back, Input::TaskEvent { task: name.clone(), event: Box::new(event) });
    let fail_hook = |hook: &str, error: String| {
        tell(event::message(event::HOOK_FAILED, now(), &format!("{hook}: {error}")));
        format!("prestart hook {hook:?} failed: {error}")
    };
    let driver =
        driver.ok_or_else(|| fail_hook("validate", format!("driver {:?} is not available", task.driver.as_str())))?;
    check_user(shared, task, &task.user).await.map_err(|error| fail_hook("validate", error))?;
    if !dir.has_task(name) {
        tell(event::message(event::TASK_SETUP, now(), "Building Task Directory"));
    }
    let (building, built_for, built_as) = (dir.clone(), name.clone(), user_name(task, driver).to_owned());
    let build = move || {
        let owner = owner_named(&built_as);
        building.build()?;
        building.build_task(&built_for, owner)?;
        Ok::<_, std::io::Error>(owner)
    };
    let owner = blocking(build).await.map_err(|error| fail_hook("task_dir", error))?;
    let wanted = task.identity.clone().unwrap_or_default();
    if let Some(token) = alloc.identity_token(name).filter(|_| wanted.file) {
        let (dir, task) = (dir.clone(), name.clone());
        let write = move || dir.write_secret(&task, TOKEN_FILE, token.reveal().as_bytes(), owner);
        blocking(write).await.map_err(|error| fail_hook("identity", error))?;
    }
    if let (Some(wanted), Some(payload), 1) =
        (&task.dispatch_payload, alloc.job.as_ref().and_then(|job| job.payload.clone()), run)
    {
        let env = task_environment(shared, alloc, task, dir, driver, None);
        let (dir, task, path) = (dir.clone(), name.clone(), PathBuf::from(env.replace(&wanted.file)));
        let write = move || dir.write_local(&task, &path, &payload.0);
        blocking(write).await.map_err(|error| fail_hook("dispatch_payload", error))?;
    }
    Ok(())
}

/// Results of earlier steps that the configuration of a task uses.
pub(super) struct Ready {
    /// Token of Vault.
    pub vault: Option<Account>,
    /// Variables that environment templates set.
    pub vars: BTreeMap<String, String>,
    /// Places of the allocation's CSI volumes, by their names in the group.
    pub volumes: BTreeMap<Str, PathBuf>,
}

/// Creates the configuration with which a task's driver starts it.
pub(super) async fn configure(
    shared: &Shared,
    alloc: &Arc<Allocation>,
    dir: &AllocDir,
    (name, run): (&Str, u64),
    driver: Option<&dyn Driver>,
    ready: Ready,
    back: &mpsc::WeakUnboundedSender<Order>,
) -> Result<TaskConfig, String> {
    let now = || shared.clock.now();
    let task = alloc.group().and_then(|group| group.task(name)).ok_or("the allocation has lost its task")?;
    let driver = driver.ok_or("the task's driver is not there any more")?;
    let tell = |event| send(back, Input::TaskEvent { task: name.clone(), event: Box::new(event) });
    let fail_hook = |hook: &str, error: String| {
        tell(event::message(event::HOOK_FAILED, now(), &format!("{hook}: {error}")));
        format!("prestart hook {hook:?} failed: {error}")
    };
    let mut env = task_environment(shared, alloc, task, dir, driver, ready.vault.as_ref());
    env.vars.extend(ready.vars);
    let known = Known { host: &shared.config.host_volumes, csi: &ready.volumes };
    let mut mounts = volumes::mounts(known, alloc, task, driver.has_own_root(), &env)
        .map_err(|error| fail_hook("volumes", error))?;
    if let Some(plugin) = &task.csi_plugin_config {
        let place = Place::of(&shared.config.state_dir(), &alloc.id, plugin);
        let making = place.clone();
        blocking(move || making.make()).await.map_err(|error| fail_hook("csi_plugin_supervisor", error))?;
        let own_root = driver.has_own_root();
        env.vars.entry("CSI_ENDPOINT".to_owned()).or_insert_with(|| place.endpoint(own_root));
        if own_root {
            mounts.extend(place.mounts());
        }
    }
    let user = env.replace(user_name(task, driver));
    // The name after interpolation may be denied as well.
    check_user(shared, task, &user).await.map_err(|error| fail_hook("validate", error))?;
    let config = env.evaluate_config(task.config.as_ref().unwrap_or(&BTreeMap::new()));
    let valid = |config: Map<_, _>| match driver.validate(&config) {
        Ok(()) => Ok(config),
        Err(error) => Err(vec![error]),
    };
    let config = config.and_then(valid).map_err(|faults| {
        let lines: String = faults.iter().map(|fault| format!("\t* {fault}\n")).collect();
        let text = format!("{} errors occurred:\n\t* failed to parse config: \n{lines}\n", faults.len() + 1);
        tell(event::failed_validation(now(), &text));
        text
    })?;
    let resources =
        alloc.allocated_resources.as_ref().and_then(|all| all.tasks.as_ref()?.get(name).cloned()).unwrap_or_default();
    let logs = task.log_config.clone().unwrap_or_default();
    let node = Arc::clone(&shared.node.lock());
    let positive = |n: i64, otherwise: u64| if n > 0 { n.unsigned_abs() } else { otherwise };
    Ok(TaskConfig {
        id: RunId { alloc: alloc.id, task: name.clone(), run },
        config,
        user,
        env: env.vars,
        task_dir: dir.task(name),
        shared_dir: dir.shared(),
        log_dir: dir.logs(),
        alloc_dir: dir.root().to_owned(),
        log_files_max: positive(logs.max_files, 10),
        log_file_bytes_max: positive(logs.max_file_size_mb, 10) << 20,
        log_disabled: logs.disabled,
        cpu_shares: resources.cpu.cpu_shares,
        memory_mb: resources.memory.memory_mb,
        memory_max_mb: resources.memory.memory_max_mb,
        cores: resources.cpu.reserved_cores.unwrap_or_default(),
        mounts,
        cpu_fraction: cpu_fraction(&node, resources.cpu.cpu_shares),
        ports: alloc.allocated_resources.as_ref().and_then(|all| all.shared.ports.clone()).unwrap_or_default(),
        own_ports: own_ports(&resources.networks),
        node: (node.id.to_string().into(), node.name.clone()),
        network: None,
        listener: Listener::default(),
        dns: None,
        resolv_conf: None,
    })
}

/// Part of the node's processor capacity that a task's share is; 0 if the capacity is not known.
fn cpu_fraction(node: &Node, shares: i64) -> f64 {
    let capacity = node.node_resources.as_ref().map_or(0, |all| all.cpu.cpu_shares);
    if capacity > 0 { shares as f64 / capacity as f64 } else { 0.0 }
}

/// Ports of a task's own network, a form of old jobs.
fn own_ports(networks: &Option<Vec<NetworkResource>>) -> Vec<AllocatedPortMapping> {
    let mapped = |network: &NetworkResource, port: &Port| AllocatedPortMapping {
        label: port.label.clone(),
        value: port.value,
        to: port.to,
        host_ip: network.ip.clone(),
    };
    let of_network = |network: &NetworkResource| -> Vec<AllocatedPortMapping> {
        let ports = network.reserved_ports.iter().flatten().chain(network.dynamic_ports.iter().flatten());
        ports.map(|port| mapped(network, port)).collect()
    };
    networks.iter().flatten().flat_map(of_network).collect()
}

/// The environment as a task sees it.
pub(super) fn task_environment(
    shared: &Shared,
    alloc: &Allocation,
    task: &Task,
    dir: &AllocDir,
    driver: &dyn Driver,
    vault: Option<&Account>,
) -> TaskEnv {
    let wanted = task.identity.clone().unwrap_or_default();
    let identity = alloc.identity_token(&task.name).filter(|_| wanted.env);
    let vault = vault.filter(|_| task.vault.as_ref().is_some_and(|block| block.env));
    environment(shared, alloc, task, dir, driver.has_own_root(), Shown { identity: identity.as_ref(), vault })
}

/// Tokens that are in a task's environment.
#[derive(Default, Clone, Copy)]
pub(super) struct Shown<'a> {
    identity: Option<&'a Secret>,
    vault: Option<&'a Account>,
}

/// Refuses a user, named `name`, that the task must not run as. The lookup of users runs on a thread that may block.
async fn check_user(shared: &Shared, task: &Task, name: &str) -> Result<(), String> {
    let (config, driver, name) = (shared.config.clone(), task.driver.clone(), name.to_owned());
    blocking(move || validate::user(&config, &driver, &name)).await
}

/// Name of the user that a task runs as, before interpolation; empty is the agent's own user.
fn user_name<'a>(task: &'a Task, driver: &dyn Driver) -> &'a str {
    if task.user.is_empty() { driver.default_user() } else { task.user.as_str() }
}

/// Owner of a task's secrets directory: the task's user, if that user exists. Blocks while the user is looked up.
pub(super) fn owner(task: &Task, driver: &dyn Driver) -> Option<Owner> {
    owner_named(user_name(task, driver))
}

/// As [`owner`], of a task that runs as the user of this name.
fn owner_named(user: &str) -> Option<Owner> {
    (!user.is_empty()).then(|| user::lookup(user).ok()).flatten().map(|user| (user.uid, user.gid))
}

/// Fetches a task's artifacts before it starts. A failure is retried as long as the task's restart policy allows.
pub(super) async fn fetch_artifacts(
    shared: &Shared,
    alloc: &Allocation,
    dir: &AllocDir,
    name: &Str,
    back: &mpsc::WeakUnboundedSender<Order>,
) -> Result<(), StartFailure> {
    let Some(task) = alloc.group().and_then(|group| group.task(name)) else { return Ok(()) };
    let Some(artifacts) = task.artifacts.as_ref().filter(|artifacts| !artifacts.is_empty()) else { return Ok(()) };
    let tell = |event| send(back, Input::TaskEvent { task: name.clone(), event: Box::new(event) });
    // Destinations are directories of this node, regardless of the paths that the task sees.
    let env = environment(shared, alloc, task, dir, false, Shown::default());
    let replaced = |text: &Str| Str::from(env.replace(text));
    let all = |map: &Option<BTreeMap<Str, Str>>| {
        map.as_ref().map(|map| map.iter().map(|(key, value)| (key.clone(), replaced(value))).collect())
    };
    let wanted = artifacts.iter().map(|artifact| artifact::Wanted {
        named: artifact.getter_source.to_string(),
        artifact: TaskArtifact {
            getter_source: replaced(&artifact.getter_source),
            getter_options: all(&artifact.getter_options),
            getter_headers: all(&artifact.getter_headers),
            getter_mode: artifact.getter_mode.clone(),
            relative_dest: replaced(&artifact.relative_dest),
        },
    });
    let dirs = Dirs { alloc: dir.root().to_owned(), task: name.clone() };
    let missing = artifact::missing(wanted, &dirs);
    if missing.is_empty() {
        return Ok(());
    }
    tell(event::new(event::DOWNLOADING_ARTIFACTS, shared.clock.now()));
    let fetched = match shared.config.executor_command() {
        Ok(executor) => {
            let by = Fetcher { executor: &executor, settings: &shared.config.artifact };
            artifact::fetch_all(missing, &dirs, &by).await
        }
        Err(error) => Err(format!("failed to download artifacts: {error}")),
    };
    fetched.map_err(|error| {
        tell(event::failed_artifact_download(shared.clock.now(), &error));
        StartFailure { error: format!("prestart hook \"artifacts\" failed: {error}").into(), recoverable: true }
    })
}

pub(super) fn environment(
    shared: &Shared,
    alloc: &Allocation,
    task: &Task,
    dir: &AllocDir,
    own_root: bool,
    shown: Shown<'_>,
) -> TaskEnv {
    let paths = if own_root {
        TaskPaths { alloc: "/alloc".into(), local: "/local".into(), secrets: "/secrets".into() }
    } else {
        let own = dir.task(&task.name);
        TaskPaths { alloc: dir.shared(), local: own.join("local"), secrets: own.join("secrets") }
    };
    let host = host::inherited(&task.driver, &shared.config.options);
    let node = Arc::clone(&shared.node.lock());
    TaskEnv::build(&Sources {
        alloc,
        task,
        node: &node,
        region: &shared.config.region,
        paths: &paths,
        host: &host,
        token: shown.identity,
        vault: shown.vault.map(|account| (&account.token, account.namespace.as_str())),
    })
}

/// Registrations of a workload's services at the servers.
pub(super) fn registrations(
    shared: &Shared,
    located: Located<'_>,
    dir: &AllocDir,
    of: &Workload,
) -> Result<Vec<ServiceRegistration>, String> {
    let alloc = located.alloc;
    if of.services_of(alloc, NOMAD_PROVIDER).next().is_none() {
        return Ok(Vec::new());
    }
    let env = environment_of(shared, alloc, dir, of);
    let node = Arc::clone(&shared.node.lock());
    services::registrations(located, &node, &env, of)
}

/// Definitions of a workload's services for the node's Consul agent.
pub(super) fn definitions(
    shared: &Shared,
    located: Located<'_>,
    dir: &AllocDir,
    of: &Workload,
) -> Result<Vec<ServiceDefinition>, String> {
    let alloc = located.alloc;
    if of.services_of(alloc, consul::PROVIDER).next().is_none() {
        return Ok(Vec::new());
    }
    let consul = shared.consul.as_ref().ok_or("this node has no Consul agent")?;
    let env = environment_of(shared, alloc, dir, of);
    consul::definitions(consul::Of { located, env: &env, workload: of, mark: consul.mark() })
}

/// Checks of all services of an allocation.
pub(super) fn check_plans(
    shared: &Shared,
    located: Located<'_>,
    dir: &AllocDir,
    of_task: &dyn Fn(&str) -> Option<DriverNetwork>,
) -> Vec<CheckPlan> {
    let alloc = located.alloc;
    let mut plans = checks::plans(located, &group_environment(shared, alloc, dir), of_task);
    for workload in Workload::all(alloc) {
        let Some(consul) = &shared.consul else { break };
        if workload.services_of(alloc, consul::PROVIDER).next().is_some() {
            let env = environment_of(shared, alloc, dir, &workload);
            let driver = match &workload {
                Workload::Group => None,
                Workload::Task(task) => of_task(task),
            };
            let located = Located { driver: driver.as_ref(), ..located };
            let of = consul::Of { located, env: &env, workload: &workload, mark: consul.mark() };
            plans.extend(consul::check_plans(of));
        }
    }
    plans
}

/// The environment of a workload's services: a group's see only what all its tasks share.
fn environment_of(shared: &Shared, alloc: &Allocation, dir: &AllocDir, of: &Workload) -> TaskEnv {
    let nobody = Task::default();
    let task = match of {
        Workload::Group => &nobody,
        Workload::Task(name) => alloc.group().and_then(|group| group.task(name)).unwrap_or(&nobody),
    };
    environment(shared, alloc, task, dir, false, Shown::default())
}

/// The environment that all tasks of the allocation share.
pub(super) fn group_environment(shared: &Shared, alloc: &Allocation, dir: &AllocDir) -> TaskEnv {
    environment(shared, alloc, &Task::default(), dir, false, Shown::default())
}
