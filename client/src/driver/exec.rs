//! `exec`: a program of the host in isolation.

use std::sync::Arc;

use serde_json::{Map, Value};
use songline_model::Blob;

use super::isolated::{Isolated, Program};
use super::{Boxed, Driver, Fingerprint, Process, RunId, TaskConfig, text, texts};
use crate::config::ClientConfig;
use crate::core::StartFailure;

/// Options of a task.
const OPTIONS: &[&str] = &["command", "args", "pid_mode", "ipc_mode", "cap_add", "cap_drop"];

/// The driver.
pub struct Exec(Isolated);

impl Exec {
    /// Finds the machine's cgroups, and reads the options of `plugin "exec"`.
    pub fn new(config: &ClientConfig) -> Self {
        Self(Isolated::new(config, "exec"))
    }
}

impl Driver for Exec {
    fn fingerprint(&self) -> Boxed<'_, Fingerprint> {
        Box::pin(std::future::ready(self.0.print()))
    }

    fn validate(&self, config: &Map<String, Value>) -> Result<(), String> {
        super::raw_exec::known_options(config, OPTIONS, &["command"])
    }

    fn has_own_root(&self) -> bool {
        true
    }

    fn makes_devices(&self) -> bool {
        true
    }

    fn default_user(&self) -> &'static str {
        "nobody"
    }

    fn start(&self, task: TaskConfig) -> Boxed<'_, Result<Arc<dyn Process>, StartFailure>> {
        Box::pin(async move {
            let (command, args) = (text(&task.config, "command").into(), texts(&task.config, "args"));
            self.0.start(task, Program { command, args, home: None }).await
        })
    }

    fn recover(&self, run: RunId, _handle: Option<Blob>) -> Boxed<'_, Result<Option<Arc<dyn Process>>, String>> {
        Box::pin(async move { self.0.recover(&run).await })
    }

    fn destroy(&self, run: RunId) -> Boxed<'_, ()> {
        Box::pin(async move { self.0.destroy(&run).await })
    }
}
