//! Programs of the host with their own root directory, process ids and cgroup, and with few of root's capabilities:
//! what `exec` and `java` share. This module reads the settings of job and node; [`crate::executor`] isolates the task
//! accordingly.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde_json::Map;

use super::cgroup;
use super::raw_exec::logs;
use super::rights;
use super::supervised::Supervisors;
use super::{Fingerprint, Process, RunId, TaskConfig, text};
use crate::cgroup::hierarchy::{Hierarchy, Limits};
use crate::config::ClientConfig;
use crate::core::StartFailure;
use crate::executor::capabilities::Set;
use crate::executor::devices::ALLOWED;
use crate::executor::place::{Bind, Isolation, Propagation, Spec};
use crate::executor::user;

/// Directories of the host that a task sees in its root, read-only, unless `chroot_env` names others.
const HOST_DIRS: &[&str] =
    &["/bin", "/etc", "/lib", "/lib32", "/lib64", "/run/resolvconf", "/run/systemd/resolve", "/sbin", "/usr"];
/// Settings of name resolution.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Directories that a job may not mount over, because the executor creates them itself. The task's root is refused as
/// well.
const OWN_DIRS: &[&str] = &["/dev", "/proc", "/sys"];
/// `PATH` of a task that does not set it.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Options of `plugin "exec"` and `plugin "java"`.
const OPTIONS: &[&str] = &["allow_caps", "default_ipc_mode", "default_pid_mode", "seccomp"];

/// The part of a driver that isolates its tasks.
pub(super) struct Isolated {
    /// Name of the driver.
    driver: &'static str,
    init: Vec<PathBuf>,
    /// Files and directories of the host, with their places in a task's root.
    host_dirs: Vec<(PathBuf, PathBuf)>,
    cgroups: Option<Hierarchy>,
    supervisors: Supervisors,
    /// Capabilities that tasks may hold; an error if the configuration names an unknown one.
    allowed: Result<Set, String>,
    /// Capabilities that tasks hold unless their job says otherwise.
    usual: Set,
    seccomp: bool,
    own_pids: bool,
    own_ipc: bool,
}

/// A program to run in isolation.
pub(super) struct Program {
    /// Path in the task's root, or a name that is searched there.
    pub command: PathBuf,
    /// Arguments, without the program's name.
    pub args: Vec<String>,
    /// Directory of the host that the program needs in the task's root, at the same path.
    pub home: Option<PathBuf>,
}

impl Isolated {
    /// Finds the machine's cgroups, and reads the options of `plugin "DRIVER"`.
    pub fn new(config: &ClientConfig, driver: &'static str) -> Self {
        let options = config.plugins.get(driver);
        for unknown in options.into_iter().flat_map(Map::keys).filter(|option| !OPTIONS.contains(&option.as_str())) {
            tracing::warn!(driver, option = unknown.as_str(), "the driver does not know the option; it has no effect");
        }
        let is_private = |key: &str| options.is_none_or(|options| text(options, key) != "host");
        let (cgroups, seccomp) = (cgroup::usable(config), config.plugin_flag(driver, "seccomp", true));
        // A device node on a disk of the host works outside the task. Either the filter or the device cgroup keeps a
        // task from making one.
        let no_nodes = seccomp || cgroups.as_ref().is_some_and(Hierarchy::limits_devices);
        let mknod = Set::named("mknod").unwrap_or_default();
        Self {
            driver,
            init: config.executor_command().unwrap_or_default(),
            cgroups,
            supervisors: Supervisors::new(config),
            allowed: rights::allowed(config, driver),
            usual: if no_nodes { Set::DEFAULT } else { Set::DEFAULT.without(mknod) },
            seccomp,
            host_dirs: host_dirs(config),
            own_pids: is_private("default_pid_mode"),
            own_ipc: is_private("default_ipc_mode"),
        }
    }

    /// Whether tasks can be isolated here.
    pub fn print(&self) -> Fingerprint {
        if !rustix::process::geteuid().is_root() {
            return Fingerprint::undetected("Driver must run as root");
        }
        if let Err(error) = &self.allowed {
            return Fingerprint::unhealthy(error);
        }
        if !can_mount(&rustix::system::uname().release().to_string_lossy()) {
            return Fingerprint::unhealthy("Linux 5.12 or newer is needed to isolate tasks");
        }
        let Some(cgroups) = &self.cgroups else { return Fingerprint::unhealthy("Cgroup mount point unavailable") };
        match cgroups.lacks() {
            None => Fingerprint::healthy(self.driver),
            Some(missing) => Fingerprint::unhealthy(&format!(
                "The {missing} controller is not available in the cgroup {} hierarchy at {}",
                cgroups.version(),
                cgroups.mount().display()
            )),
        }
    }

    /// The isolation of a task. Errors are in the reference's words, where it has any.
    fn isolation(&self, task: &TaskConfig, home: Option<&Path>) -> Result<Isolation, String> {
        let mode = |key: &str, otherwise: bool| match text(&task.config, key).as_str() {
            "" => Ok(otherwise),
            "private" => Ok(true),
            "host" => Ok(false),
            other => {
                Err(format!("failed driver config validation: {key} must be \"private\" or \"host\", got {other:?}"))
            }
        };
        Ok(Isolation {
            root: task.task_dir.clone(),
            own_pids: mode("pid_mode", self.own_pids)?,
            own_ipc: mode("ipc_mode", self.own_ipc)?,
            init: self.init.clone(),
            capabilities: self.allowed.clone().and_then(|allowed| rights::wanted(&task.config, self.usual, allowed))?,
            seccomp: self.seccomp,
            binds: binds(task, &self.host_dirs, home)?,
        })
    }

    /// Path in a task's root of a directory of the host; `None` if tasks do not see it.
    pub fn shown(&self, dir: &Path) -> Option<PathBuf> {
        let seen = self.host_dirs.iter().rev().find_map(|(from, to)| Some((dir.strip_prefix(from).ok()?, to)));
        seen.map(|(below, to)| to.join(below))
    }

    /// Starts a program as a task.
    pub async fn start(&self, task: TaskConfig, program: Program) -> Result<Arc<dyn Process>, StartFailure> {
        let fail = |error: String, recoverable| StartFailure { error: error.into(), recoverable };
        let print = self.print();
        if !print.healthy {
            return Err(fail(print.description.to_string(), false));
        }
        let isolation = self.isolation(&task, program.home.as_deref()).map_err(|error| fail(error, true))?;
        super::raw_exec::leave_executor_file(&task.task_dir)?;
        let spec = Spec {
            command: program.command,
            args: program.args,
            env: environment(&task).await,
            dir: "/".into(),
            user: task.user.clone(),
            logs: logs(&task),
            cgroups: self.cgroups.as_ref().map(|all| all.limited(&cgroup::name(&task.id), &limits(&task))),
            isolation: Some(isolation),
            network: task.network.as_ref().map(|network| network.path.clone()),
        };
        self.supervisors.start(&task.id, &spec).await
    }

    /// Finds the process of a run again.
    pub async fn recover(&self, run: &RunId) -> Result<Option<Arc<dyn Process>>, String> {
        self.supervisors.recover(run).await
    }

    /// Removes all remains of a run.
    pub async fn destroy(&self, run: &RunId) {
        self.supervisors.destroy(run).await;
    }
}

/// Whether a kernel of this release has `mount_setattr`, which makes whole trees of mounts read-only.
fn can_mount(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().ok());
    matches!((numbers.next().flatten(), numbers.next().flatten()), (Some(major), Some(minor)) if (major, minor) >= (5, 12))
}

/// Files and directories of the machine that a task sees. A job's own mounts come last, over the others.
fn binds(task: &TaskConfig, host_dirs: &[(PathBuf, PathBuf)], home: Option<&Path>) -> Result<Vec<Bind>, String> {
    let host = host_dirs.iter().filter(|(from, _)| from.exists()).map(|(from, to)| bind(from, to, true));
    let shared = bind(&task.shared_dir, Path::new("/alloc"), false);
    // Mounted over `logs` in the shared directory, because logs belong to the agent.
    let logs = bind(&task.log_dir, Path::new("/alloc/logs"), true);
    let mut binds: Vec<Bind> = host.chain(home.map(|home| bind(home, home, true))).chain([shared, logs]).collect();
    if let Some(file) = &task.resolv_conf {
        // On many hosts the file is a link, and a mount over a link is refused.
        let to = std::fs::canonicalize(RESOLV_CONF).unwrap_or_else(|_| RESOLV_CONF.into());
        binds.push(bind(file, &to, true));
    }
    for mount in &task.mounts {
        binds.push(Bind { to: destination(&mount.to)?, ..mount.clone() });
    }
    Ok(binds)
}

fn bind(from: &Path, to: &Path, read_only: bool) -> Bind {
    Bind { from: from.to_owned(), to: to.to_owned(), read_only, propagation: Propagation::Private }
}

/// Files and directories of the host that tasks see, with their places, sorted: a directory comes before those below
/// it.
fn host_dirs(config: &ClientConfig) -> Vec<(PathBuf, PathBuf)> {
    if config.chroot_env.is_empty() {
        return HOST_DIRS.iter().map(|dir| (PathBuf::from(dir), PathBuf::from(dir))).collect();
    }
    let mut dirs = Vec::new();
    for (from, to) in &config.chroot_env {
        match destination(Path::new(to.as_str())) {
            Ok(to) => dirs.push((PathBuf::from(from.as_str()), to)),
            Err(error) => tracing::warn!(from = from.as_str(), error, "chroot_env: tasks do not see it"),
        }
    }
    dirs.sort_by(|(_, a), (_, b)| a.cmp(b));
    dirs
}

/// A job's mount destination as a path below the task's root.
fn destination(told: &Path) -> Result<PathBuf, String> {
    let to = Path::new("/").join(told);
    if to.components().any(|part| part == Component::ParentDir) {
        return Err(format!(
            "mount destination {:?} escapes the task's root: \"..\" is not allowed",
            told.display().to_string()
        ));
    }
    if to.parent().is_none() || OWN_DIRS.iter().any(|own| to.starts_with(own)) {
        return Err(format!(
            "mount destination {:?} is not allowed: the driver mounts it itself",
            told.display().to_string()
        ));
    }
    Ok(to)
}

/// The task's environment, with defaults for the variables that every program expects.
async fn environment(task: &TaskConfig) -> BTreeMap<String, String> {
    let name = task.user.clone();
    let found = tokio::task::spawn_blocking(move || user::lookup(&name)).await;
    let mut env = task.env.clone();
    let mut expected = vec![("PATH", SEARCH_PATH.to_owned())];
    // An unknown user is refused when the task starts.
    if let Ok(Ok(user)) = found {
        expected.extend([("HOME", user.home), ("USER", user.name)]);
    }
    for (key, value) in expected {
        env.entry(key.to_owned()).or_insert(value);
    }
    env
}

/// Limits of a task.
fn limits(task: &TaskConfig) -> Limits<'_> {
    let bytes = |mb: i64| u64::try_from(mb).unwrap_or(0) << 20;
    let (most, kept) = if task.memory_max_mb > 0 { (task.memory_max_mb, task.memory_mb) } else { (task.memory_mb, 0) };
    Limits {
        memory_bytes: bytes(most),
        memory_kept_bytes: bytes(kept),
        cpu_shares: task.cpu_shares,
        cores: &task.cores,
        devices: ALLOWED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_before_5_12_do_not_isolate() {
        let can = ["4.18.0-553.el8.x86_64", "5.4.0-200-generic", "5.12", "5.15.0-1", "6.18.44-fc", "7.0-rc1", "odd"]
            .map(can_mount);
        assert_eq!(can, [false, false, true, true, true, true, false]);
    }

    #[test]
    fn mount_destination_outside_the_root_or_on_a_driver_mount_is_refused() {
        let told = ["/data", "data/deep", "/data/../../etc", "..", "/", "/proc/sys", "/dev", "/device"];
        let story = told.map(|told| match destination(Path::new(told)) {
            Ok(to) => format!("{told}: {}", to.display()),
            Err(error) => error,
        });
        expect_test::expect![[r#"
            /data: /data
            data/deep: /data/deep
            mount destination "/data/../../etc" escapes the task's root: ".." is not allowed
            mount destination ".." escapes the task's root: ".." is not allowed
            mount destination "/" is not allowed: the driver mounts it itself
            mount destination "/proc/sys" is not allowed: the driver mounts it itself
            mount destination "/dev" is not allowed: the driver mounts it itself
            /device: /device"#]]
        .assert_eq(&story.join("\n"));
    }
}
