//! Drivers: what starts a task's process and gets hold of it again. When to do so is decided in [`crate::core`].

mod cgroup;
pub mod exec;
pub mod mock;
pub mod raw_exec;
pub mod session;
mod supervised;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value};
use songline_model::{AllocId, Blob, Dur, Str};

use crate::config::ClientConfig;
use crate::core::{ExitResult, StartFailure};
use crate::stats::TaskUsage;
pub use session::{Command, CommandEnd, Ends};

/// A future in a box: drivers are chosen at run time.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A way to run tasks.
pub trait Driver: Send + Sync + 'static {
    /// Whether it can be used here, and why not.
    fn fingerprint(&self) -> Fingerprint;

    /// Checks a task's `config` block after interpolation. The text is what people read as the reason.
    fn validate(&self, config: &Map<String, Value>) -> Result<(), String>;

    /// Whether tasks see their directories at `/alloc`, `/local` and `/secrets` rather than where they are on the host.
    fn has_own_root(&self) -> bool {
        false
    }

    /// As whom tasks run that do not say; empty is the agent's own user.
    fn default_user(&self) -> &'static str {
        ""
    }

    /// Starts a task.
    fn start(&self, task: TaskConfig) -> Boxed<'_, Result<Arc<dyn Process>, StartFailure>>;

    /// Finds the process of a run again, of which the handle may be missing. `Ok(None)`: it was never started.
    fn recover(&self, run: RunId, handle: Option<Blob>) -> Boxed<'_, Result<Option<Arc<dyn Process>>, String>>;

    /// Removes whatever is left of a run, running or not.
    fn destroy(&self, run: RunId) -> Boxed<'_, ()>;
}

/// A task that was started: running, or ended and remembered.
pub trait Process: Send + Sync + 'static {
    /// What it takes to find it again.
    fn handle(&self) -> Blob;

    /// Waits for its end; may be called any number of times.
    fn wait(&self) -> Boxed<'_, ExitResult>;

    /// Asks it to end with `signal` (empty is the driver's own) and makes it after `timeout`; returns when it has ended.
    fn stop(&self, signal: &str, timeout: Dur) -> Boxed<'_, Result<(), String>>;

    /// Sends a signal.
    fn signal(&self, signal: &str) -> Result<(), String>;

    /// Runs a command where the task runs, and returns when that has ended. Dropped earlier, the command ends, and all it has started.
    fn exec(&self, command: Command, ends: Ends) -> Boxed<'_, Result<CommandEnd, String>>;

    /// What it uses, if that can be known.
    fn usage(&self) -> Option<TaskUsage>;
}

/// One run of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunId {
    /// Of this allocation.
    pub alloc: AllocId,
    /// Its name.
    pub task: Str,
    /// Which run.
    pub run: u64,
}

/// What a driver is told of a task.
#[derive(Debug, Clone)]
pub struct TaskConfig {
    /// Which run.
    pub id: RunId,
    /// The `config` block, interpolated.
    pub config: Map<String, Value>,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// As whom it runs; empty is the driver's own choice.
    pub user: String,
    /// The task's directory on the host.
    pub task_dir: PathBuf,
    /// The directory that the tasks of the allocation share, on the host.
    pub shared_dir: PathBuf,
    /// The agent's own directory of logs, on the host.
    pub log_dir: PathBuf,
    /// The allocation's directory on the host.
    pub alloc_dir: PathBuf,
    /// How many log files are kept.
    pub log_files_max: u64,
    /// How large one becomes, in bytes.
    pub log_file_bytes_max: u64,
    /// Whether nothing is logged.
    pub log_disabled: bool,
    /// Processor share in MHz.
    pub cpu_shares: i64,
    /// Memory in MB that it has asked for.
    pub memory_mb: i64,
    /// Memory in MB that it may use at most; 0 is as much as it has asked for.
    pub memory_max_mb: i64,
    /// Processors of its own.
    pub cores: Vec<u64>,
    /// Directories of the host to be seen inside: from, to, whether read-only.
    pub mounts: Vec<(PathBuf, PathBuf, bool)>,
}

/// What a driver says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fingerprint {
    /// Whether it is there at all.
    pub detected: bool,
    /// Whether it can be used.
    pub healthy: bool,
    /// Why, or why not.
    pub description: Str,
    /// Attributes of the node while it is there.
    pub attributes: BTreeMap<Str, Str>,
}

impl Fingerprint {
    /// Usable.
    pub(crate) fn healthy(name: &str) -> Self {
        let attributes = BTreeMap::from([(format!("driver.{name}").into(), "true".into())]);
        Self { detected: true, healthy: true, description: "Healthy".into(), attributes }
    }

    /// Not there.
    pub(crate) fn undetected(why: &str) -> Self {
        Self { description: why.into(), ..Self::default() }
    }

    /// There, but not usable.
    pub(crate) fn unhealthy(why: &str) -> Self {
        Self { detected: true, description: why.into(), ..Self::default() }
    }
}

/// The drivers of an agent by name.
pub(crate) fn all(config: &ClientConfig) -> BTreeMap<Str, Arc<dyn Driver>> {
    let allowed = |name: &str| {
        let listed = |key: &str| config.options.get(key).map(|list| list.split(',').any(|item| item.trim() == name));
        listed("driver.allowlist").unwrap_or(true) && !listed("driver.denylist").unwrap_or(false)
    };
    let drivers: [(Str, Arc<dyn Driver>); 3] = [
        ("mock_driver".into(), Arc::new(mock::Mock::new(config))),
        ("raw_exec".into(), Arc::new(raw_exec::RawExec::new(config))),
        ("exec".into(), Arc::new(exec::Exec::new(config))),
    ];
    drivers.into_iter().filter(|(name, _)| allowed(name)).collect()
}

/// The texts of a list in a `config` block.
pub(crate) fn texts(config: &Map<String, Value>, key: &str) -> Vec<String> {
    let list = config.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned)).collect()
}

/// A text of a `config` block; empty when there is none.
pub(crate) fn text(config: &Map<String, Value>, key: &str) -> String {
    match config.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}
