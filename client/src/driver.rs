//! Drivers: start tasks' processes and find them again. [`crate::core`] decides when.

mod block;
mod cgroup;
#[cfg(feature = "docker")]
pub mod docker;
pub mod exec;
mod isolated;
pub mod java;
pub mod mock;
mod programs;
pub mod qemu;
pub mod raw_exec;
mod rights;
pub mod session;
mod supervised;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use songline_model::{AllocId, AllocatedPortMapping, Blob, DnsConfig, Dur, Str};

use crate::config::ClientConfig;
use crate::core::{ExitResult, StartFailure};
use crate::executor::place::Bind;
use crate::options::{self, DRIVER};
use crate::stats::{Detail, TaskUsage};
pub(crate) use block::{text, texts};
pub use session::{Command, CommandEnd, Ends};

/// A boxed future: drivers are chosen at run time.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A way to run tasks.
pub trait Driver: Send + Sync + 'static {
    /// Whether the driver can be used here, and the reason if not.
    fn fingerprint(&self) -> Boxed<'_, Fingerprint>;

    /// Checks a task's `config` block after interpolation. The error is the reason shown to users.
    fn validate(&self, config: &Map<String, Value>) -> Result<(), String>;

    /// Whether tasks see their directories at `/alloc`, `/local` and `/secrets` rather than at their host paths.
    fn has_own_root(&self) -> bool {
        false
    }

    /// User of tasks that do not name one; empty is the agent's own user.
    fn default_user(&self) -> &'static str {
        ""
    }

    /// Starts a task.
    fn start(&self, task: TaskConfig) -> Boxed<'_, Result<Arc<dyn Process>, StartFailure>>;

    /// Finds the process of a run again; its handle may be missing. `Ok(None)` when the run was never started.
    fn recover(&self, run: RunId, handle: Option<Blob>) -> Boxed<'_, Result<Option<Arc<dyn Process>>, String>>;

    /// Removes all remains of a run, running or not.
    fn destroy(&self, run: RunId) -> Boxed<'_, ()>;

    /// Whether tasks of the driver can run in another network than the host's.
    fn joins_networks(&self) -> bool {
        true
    }

    /// Whether the driver makes a `/dev` of its own for tasks, so that the machine's cannot be mounted there.
    fn makes_devices(&self) -> bool {
        false
    }

    /// Whether tasks of the driver need a network namespace that the driver itself creates.
    fn owns_network(&self) -> bool {
        false
    }

    /// Creates the network namespace of an allocation, or finds it again: repeating the call is harmless. The namespace
    /// has no interface but a loopback. An empty host name leaves the name to the driver.
    fn create_network(&self, alloc: &AllocId, _hostname: &str) -> Boxed<'_, Result<AllocNetwork, String>> {
        let refused = format!("the driver makes no network for allocation {alloc}");
        Box::pin(async move { Err(refused) })
    }

    /// Removes a network namespace that [`Self::create_network`] returned. A namespace that is gone is no error. The
    /// path of `network` is empty if the agent died before it knew the answer.
    fn destroy_network(&self, alloc: &AllocId, _network: &AllocNetwork) -> Boxed<'_, Result<(), String>> {
        let refused = format!("the driver made no network for allocation {alloc}");
        Box::pin(async move { Err(refused) })
    }
}

/// Network namespace that the tasks of an allocation share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AllocNetwork {
    /// Path of the namespace on the host.
    pub path: PathBuf,
    /// Container that holds the namespace, if a container engine does.
    pub container: Option<String>,
    /// Host name of the tasks; empty leaves it to the driver.
    pub hostname: String,
    /// File on the host that tasks see as `/etc/hosts`.
    pub hosts_file: Option<PathBuf>,
}

/// A started task: running, or ended and remembered.
pub trait Process: Send + Sync + 'static {
    /// Handle by which the driver finds the task again.
    fn handle(&self) -> Blob;

    /// Waits for the task's end; may be called any number of times.
    fn wait(&self) -> Boxed<'_, ExitResult>;

    /// Signals the task with `signal` (empty is the driver's default) and kills it after `timeout`; returns when it
    /// has ended.
    fn stop(&self, signal: &str, timeout: Dur) -> Boxed<'_, Result<(), String>>;

    /// Sends a signal.
    fn signal<'a>(&'a self, signal: &'a str) -> Boxed<'a, Result<(), String>>;

    /// Runs a command in the task's environment, and returns when the command has ended. Dropping the future kills
    /// the command and all processes that it has started.
    fn exec(&self, command: Command, ends: Ends) -> Boxed<'_, Result<CommandEnd, String>>;

    /// Resource usage, if it is known. After the task's end it is the last known one.
    fn usage(&self, detail: Detail) -> Boxed<'_, Option<TaskUsage>>;

    /// Network in which the driver runs the task, if the driver has networks of its own.
    fn network(&self) -> Option<DriverNetwork> {
        None
    }
}

/// The place of a task in a network of its driver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriverNetwork {
    /// Address of the task; empty if the task is in the network of its allocation.
    pub address: String,
    /// Ports there by their labels, as far as the driver maps them itself.
    pub ports: BTreeMap<Str, i64>,
    /// Whether services have this address unless they ask for another one.
    pub advertise: bool,
}

/// A driver's message about a task that is being started, for the users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverMessage {
    /// The text.
    pub text: String,
    /// Details by name.
    pub details: BTreeMap<Str, Str>,
}

/// Receives the messages of a driver while it starts a task.
#[derive(Clone)]
pub struct Listener(Arc<dyn Fn(DriverMessage) + Send + Sync>);

impl Listener {
    /// Creates a listener from a function, which must not block.
    pub fn new(tell: impl Fn(DriverMessage) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    /// Passes a message on.
    pub fn tell(&self, text: impl Into<String>, details: BTreeMap<Str, Str>) {
        (self.0)(DriverMessage { text: text.into(), details });
    }
}

impl Default for Listener {
    fn default() -> Self {
        Self::new(drop)
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Listener")
    }
}

/// Identifies one run of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunId {
    /// Allocation.
    pub alloc: AllocId,
    /// Task name.
    pub task: Str,
    /// Number of the run.
    pub run: u64,
}

/// Description of a task for its driver.
#[derive(Debug, Clone)]
pub struct TaskConfig {
    /// The run.
    pub id: RunId,
    /// The `config` block, interpolated.
    pub config: Map<String, Value>,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// User of the task; empty is the driver's default.
    pub user: String,
    /// The task's directory on the host.
    pub task_dir: PathBuf,
    /// The directory that the tasks of the allocation share, on the host.
    pub shared_dir: PathBuf,
    /// The agent's own directory of logs, on the host.
    pub log_dir: PathBuf,
    /// The allocation's directory on the host.
    pub alloc_dir: PathBuf,
    /// Number of log files that are kept.
    pub log_files_max: u64,
    /// Largest size of a log file, in bytes.
    pub log_file_bytes_max: u64,
    /// Whether logging is disabled.
    pub log_disabled: bool,
    /// Processor share in MHz.
    pub cpu_shares: i64,
    /// Requested memory, in MB.
    pub memory_mb: i64,
    /// Memory limit in MB; 0 means `memory_mb`.
    pub memory_max_mb: i64,
    /// Reserved cores.
    pub cores: Vec<u64>,
    /// Host directories to mount in the task. Their destinations may be relative to the task's root.
    pub mounts: Vec<Bind>,
    /// Network namespace of the allocation; `None` is the host's.
    pub network: Option<AllocNetwork>,
    /// Part of the node's processor capacity that `cpu_shares` is; 0 if the capacity is not known.
    pub cpu_fraction: f64,
    /// Ports of the group.
    pub ports: Vec<AllocatedPortMapping>,
    /// Ports of the task's own network, a form of old jobs.
    pub own_ports: Vec<AllocatedPortMapping>,
    /// Id and name of the node.
    pub node: (Str, Str),
    /// Receives messages about the start.
    pub listener: Listener,
    /// Name resolution that the job asks for, in any network.
    pub dns: Option<DnsConfig>,
    /// File on the host with these settings, in the form of `/etc/resolv.conf`.
    pub resolv_conf: Option<PathBuf>,
}

/// Result of fingerprinting a driver.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fingerprint {
    /// Whether the driver is present.
    pub detected: bool,
    /// Whether the driver can be used.
    pub healthy: bool,
    /// Reason.
    pub description: Str,
    /// Node attributes while the driver is present.
    pub attributes: BTreeMap<Str, Str>,
}

impl Fingerprint {
    /// A usable driver.
    pub(crate) fn healthy(name: &str) -> Self {
        let attributes = BTreeMap::from([(format!("driver.{name}").into(), "true".into())]);
        Self { detected: true, healthy: true, description: "Healthy".into(), attributes }
    }

    /// A driver that is not present.
    pub(crate) fn undetected(why: &str) -> Self {
        Self { description: why.into(), ..Self::default() }
    }

    /// A driver that is present but not usable.
    pub(crate) fn unhealthy(why: &str) -> Self {
        Self { detected: true, description: why.into(), ..Self::default() }
    }
}

/// All drivers of an agent by name.
pub(crate) fn all(config: &ClientConfig) -> BTreeMap<Str, Arc<dyn Driver>> {
    let drivers: Vec<(Str, Arc<dyn Driver>)> = vec![
        ("mock_driver".into(), Arc::new(mock::Mock::new(config))),
        ("raw_exec".into(), Arc::new(raw_exec::RawExec::new(config))),
        ("exec".into(), Arc::new(exec::Exec::new(config))),
        ("java".into(), Arc::new(java::Java::new(config))),
        ("qemu".into(), Arc::new(qemu::Qemu::new(config))),
        #[cfg(feature = "docker")]
        ("docker".into(), Arc::new(docker::Docker::new(config))),
    ];
    drivers.into_iter().filter(|(name, _)| options::is_wanted(config, DRIVER, name)).collect()
}
