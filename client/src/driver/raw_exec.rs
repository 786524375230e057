//! `raw_exec`: a program of the host in a process group of its own, without isolation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FileType;
use serde_json::{Map, Value};
use songline_model::Blob;

use super::cgroup;
use super::programs;
use super::supervised::Supervisors;
use super::{Boxed, Driver, Fingerprint, Process, RunId, TaskConfig, text, texts};
use crate::beneath::Dir;
use crate::cgroup::hierarchy::Hierarchy;
use crate::config::ClientConfig;
use crate::core::StartFailure;
use crate::executor::place::{LogSpec, Spec};

/// The driver.
pub struct RawExec {
    enabled: bool,
    /// Cgroups for tasks, without limits, so that all of a task's remaining processes are found.
    cgroups: Option<Hierarchy>,
    supervisors: Supervisors,
}

impl RawExec {
    /// Creates the driver; enabled by its `enabled` option, and in dev mode.
    pub fn new(config: &ClientConfig) -> Self {
        Self {
            enabled: config.plugin_flag("raw_exec", "enabled", config.dev),
            cgroups: cgroup::usable(config).filter(|_| !config.plugin_flag("raw_exec", "no_cgroups", false)),
            supervisors: Supervisors::new(config),
        }
    }
}

impl Driver for RawExec {
    fn fingerprint(&self) -> Boxed<'_, Fingerprint> {
        let print = if self.enabled { Fingerprint::healthy("raw_exec") } else { Fingerprint::undetected("disabled") };
        Box::pin(std::future::ready(print))
    }

    fn validate(&self, config: &Map<String, Value>) -> Result<(), String> {
        known_options(config, &["command", "args"], &["command"])
    }

    fn start(&self, task: TaskConfig) -> Boxed<'_, Result<Arc<dyn Process>, StartFailure>> {
        Box::pin(async move {
            if !self.enabled {
                return Err(StartFailure { error: "raw_exec is disabled".into(), recoverable: false });
            }
            let command = text(&task.config, "command");
            let Some(command) = find(&task.task_dir, &command) else {
                // The error has the words of a driver in a separate process, because clients know them.
                let lost = format!("rpc error: code = Unknown desc = binary {command:?} could not be found");
                let error = format!("failed to launch command with executor: {lost}").into();
                return Err(StartFailure { error, recoverable: true });
            };
            leave_executor_file(&task.task_dir)?;
            let spec = Spec {
                command,
                args: texts(&task.config, "args"),
                env: task.env.clone(),
                dir: task.task_dir.clone(),
                user: task.user.clone(),
                logs: logs(&task),
                cgroups: self.cgroups.as_ref().map(|all| all.unlimited(&cgroup::name(&task.id))),
                isolation: None,
                network: task.network.as_ref().map(|network| network.path.clone()),
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

/// Makes an empty file in a task's directory, where the reference's executor writes its messages: programs that list
/// the directory find it.
pub(super) fn leave_executor_file(task_dir: &Path) -> Result<(), StartFailure> {
    let made = Dir::open(task_dir).and_then(|dir| dir.append("executor.out", 0o644));
    made.map(drop).map_err(|error| StartFailure {
        error: format!("failed to open the task's directory: {error}").into(),
        recoverable: false,
    })
}

/// Log files of a task; `None` when logging is disabled.
pub(super) fn logs(task: &TaskConfig) -> Option<LogSpec> {
    (!task.log_disabled).then(|| LogSpec {
        dir: task.log_dir.clone(),
        alloc_dir: Some(task.alloc_dir.clone()),
        stdout: format!("{}.stdout", task.id.task),
        stderr: format!("{}.stderr", task.id.task),
        files_max: task.log_files_max,
        file_bytes_max: task.log_file_bytes_max,
    })
}

/// Options of drivers that are lists of texts.
const LISTS: &[&str] = &["args", "jvm_options"];

/// Refuses a `config` block with an unknown option, without a required one, or with arguments that are no list.
pub(super) fn known_options(config: &Map<String, Value>, known: &[&str], required: &[&str]) -> Result<(), String> {
    if config.is_empty() {
        // An empty block is stored as none, and that is no object.
        return Err(
            "Root value must be object: The root value in a JSON-based configuration must be either a JSON object or a JSON array \
                    of objects."
                .to_owned(),
        );
    }
    if let Some(unknown) = config.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("Invalid label: No argument or block type is named {unknown:?}."));
    }
    if let Some(missing) = required.iter().find(|key| config.get(**key).is_none_or(Value::is_null)) {
        return Err(format!(
            "Missing required attribute: The attribute {missing:?} is required, but no definition was found."
        ));
    }
    let is_odd = |list: &Value| !list.is_array() && !list.is_null();
    if let Some(odd) = LISTS.iter().find(|key| config.get(**key).is_some_and(is_odd)) {
        return Err(format!(
            "Incorrect attribute value type: Inappropriate value for attribute {odd:?}: list of string required."
        ));
    }
    Ok(())
}

/// The program's file: first in the task's directories, then as a path, then in the agent's own search path.
fn find(task_dir: &Path, command: &str) -> Option<PathBuf> {
    if command.is_empty() {
        return None;
    }
    if let Some(path) = own(task_dir, Path::new(command)) {
        return Some(path);
    }
    if command.contains('/') {
        return Path::new(command).is_file().then(|| command.into());
    }
    programs::on_path(command)
}

/// Finds the program's file in a task's directory, or in its `local`. A link that leads out of the directory does not
/// count.
fn own(task_dir: &Path, command: &Path) -> Option<PathBuf> {
    let dir = Dir::open(task_dir).ok()?;
    let places = match command.strip_prefix(task_dir) {
        Ok(below) => vec![below.to_owned()],
        Err(_) => vec![Path::new("local").join(command), command.to_owned()],
    };
    places.into_iter().find_map(|path| {
        let found = dir.find(&path).ok().filter(|found| found.kind() == FileType::RegularFile)?;
        // A file that was placed there, by a template for example, may not be executable.
        let _ = found.set_mode(found.stat().st_mode & 0o7777 | 0o555);
        Some(task_dir.join(path))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_config_block_is_refused_by_its_first_fault() {
        let refused = |config: Value| {
            let config = config.as_object().expect("a block").clone();
            known_options(&config, &["command", "args"], &["command"]).err().unwrap_or_default()
        };
        let configs = [
            json!({}),
            json!({"what": "x"}),
            json!({"args": []}),
            json!({"command": "/bin/true", "args": "x"}),
            json!({"command": "/bin/true", "args": ["x"]}),
        ];
        let titles = configs.map(|config| refused(config).split(':').next().unwrap_or_default().to_owned());
        let expected = [
            "Root value must be object",
            "Invalid label",
            "Missing required attribute",
            "Incorrect attribute value type",
            "",
        ];
        assert_eq!(titles, expected);
    }
}
