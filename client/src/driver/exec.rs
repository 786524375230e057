//! `exec`: a program of the host with a root directory, process ids and a cgroup of its own, as far as the kernel lets.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};
use songline_model::Blob;

use super::cgroup;
use super::raw_exec::logs;
use super::supervised::Supervisors;
use super::{Boxed, Driver, Fingerprint, Process, RunId, TaskConfig, text, texts};
use crate::beneath::Dir;
use crate::cgroup::hierarchy::{Hierarchy, Limits};
use crate::config::ClientConfig;
use crate::core::StartFailure;
use crate::executor::place::{Bind, Isolation, Spec};

/// What of the host a task sees in its root, read-only.
const HOST_DIRS: &[&str] = &["/bin", "/etc", "/lib", "/lib32", "/lib64", "/run/resolvconf", "/run/systemd/resolve", "/sbin", "/usr"];
/// Devices that programs expect.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// The driver.
pub struct Exec {
    init: Vec<PathBuf>,
    cgroups: Option<Hierarchy>,
    supervisors: Supervisors,
}

impl Exec {
    /// Looks where cgroups are.
    pub fn new(config: &ClientConfig) -> Self {
        let init = config.executor_command().unwrap_or_default();
        Self { init, cgroups: cgroup::usable(config), supervisors: Supervisors::new(config) }
    }
}

impl Driver for Exec {
    fn fingerprint(&self) -> Fingerprint {
        if !rustix::process::geteuid().is_root() {
            return Fingerprint::undetected("Driver must run as root");
        }
        let Some(cgroups) = &self.cgroups else { return Fingerprint::unhealthy("Cgroup mount point unavailable") };
        match cgroups.lacks() {
            None => Fingerprint::healthy("exec"),
            Some(missing) => Fingerprint::unhealthy(&format!(
                "The {missing} controller is not available in the cgroup {} hierarchy at {}",
                cgroups.version(),
                cgroups.mount().display()
            )),
        }
    }

    fn validate(&self, config: &Map<String, Value>) -> Result<(), String> {
        super::raw_exec::known_options(config, &["command", "args", "pid_mode", "ipc_mode", "cap_add", "cap_drop"])?;
        for key in ["pid_mode", "ipc_mode"] {
            if !matches!(text(config, key).as_str(), "" | "private" | "host") {
                return Err(format!("{key} must be \"private\" or \"host\", got {:?}", text(config, key)));
            }
        }
        for key in ["cap_add", "cap_drop"] {
            if !texts(config, key).is_empty() {
                return Err(format!("{key} is not supported by this agent"));
            }
        }
        Ok(())
    }

    fn has_own_root(&self) -> bool {
        true
    }

    fn default_user(&self) -> &'static str {
        "nobody"
    }

    fn start(&self, task: TaskConfig) -> Boxed<'_, Result<Arc<dyn Process>, StartFailure>> {
        Box::pin(async move {
            let fail = |error: String| StartFailure { error: error.into(), recoverable: false };
            let print = self.fingerprint();
            if !print.healthy {
                return Err(fail(print.description.to_string()));
            }
            // Whoever the task runs as has to get through its root.
            Dir::open(&task.task_dir)
                .and_then(|dir| dir.set_mode(0o755))
                .map_err(|error| fail(format!("failed to open the task's directory: {error}")))?;
            let spec = Spec {
                command: text(&task.config, "command").into(),
                args: texts(&task.config, "args"),
                env: task.env.clone(),
                dir: "/".into(),
                user: task.user.clone(),
                logs: logs(&task),
                cgroups: self.cgroups.as_ref().map(|all| all.limited(&cgroup::name(&task.id), &limits(&task))),
                isolation: Some(Isolation {
                    root: task.task_dir.clone(),
                    binds: binds(&task),
                    own_pids: text(&task.config, "pid_mode") != "host",
                    own_ipc: text(&task.config, "ipc_mode") != "host",
                    init: self.init.clone(),
                }),
            };
            self.supervisors.start(&task.id, &spec).await
        })
    }

    fn recover(&self, run: RunId, _handle: Option<Blob>) -> Boxed<'_, Result<Option<Arc<dyn Process>>, String>> {
        Box::pin(async move { self.supervisors.recover(&run).await })
    }

    fn destroy(&self, run: RunId) -> Boxed<'_, ()> {
        Box::pin(async move { self.supervisors.destroy(&run).await })
    }
}

fn binds(task: &TaskConfig) -> Vec<Bind> {
    let exists = |path: &&&str| Path::new(path).exists();
    let host = HOST_DIRS.iter().filter(exists).map(|dir| Bind { from: dir.into(), to: dir.into(), read_only: true });
    let devices = DEVICES.iter().filter(exists).map(|file| Bind { from: file.into(), to: file.into(), read_only: false });
    let shared = Bind { from: task.shared_dir.clone(), to: "/alloc".into(), read_only: false };
    // Over what the tasks share: logs are the agent's.
    let logs = Bind { from: task.log_dir.clone(), to: "/alloc/logs".into(), read_only: true };
    let mounts = task.mounts.iter().map(|(from, to, read_only)| Bind { from: from.clone(), to: to.clone(), read_only: *read_only });
    host.chain(devices).chain([shared, logs]).chain(mounts).collect()
}

/// How much a task may use.
fn limits(task: &TaskConfig) -> Limits<'_> {
    let bytes = |mb: i64| u64::try_from(mb).unwrap_or(0) << 20;
    let (most, kept) = if task.memory_max_mb > 0 { (task.memory_max_mb, task.memory_mb) } else { (task.memory_mb, 0) };
    Limits { memory_bytes: bytes(most), memory_kept_bytes: bytes(kept), cpu_shares: task.cpu_shares, cores: &task.cores }
}
