//! Runs CNI plugins: each gets its configuration with the result of the plugin before on its standard input, and
//! answers with a result or an error on its standard output.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::list::NetworkList;
use super::settings::NetworkSettings;

/// Longest time of one plugin. Plugins that ask the network for an address take the longest.
const PLUGIN_MAX: Duration = Duration::from_secs(60);
/// Search path of plugins' own commands, such as `iptables`, when the agent has none.
pub(super) const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Largest part of a plugin's messages in an error, in bytes.
const MESSAGE_BYTES_MAX: usize = 1024;

/// One allocation in one network, with all that the plugins are told. It is recorded before the first plugin runs, so
/// that a later agent, with another configuration perhaps, can undo what they did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Attachment {
    /// Name of the allocation for the plugins.
    pub container: String,
    /// Path of the network namespace.
    pub namespace: PathBuf,
    /// Name of the interface in the namespace.
    pub interface: String,
    /// `CNI_ARGS`.
    pub args: String,
    /// Parameters for plugins that declare a capability of this name.
    pub capabilities: Map<String, Value>,
    /// The plugins.
    pub list: NetworkList,
}

impl Attachment {
    /// Adds the namespace to the network, one plugin after another. `done` gets the result so far after each plugin.
    pub async fn add(
        &self,
        settings: &NetworkSettings,
        log: &File,
        mut done: impl FnMut(&Value) -> Result<(), String>,
    ) -> Result<Value, String> {
        let mut result = None;
        for plugin in &self.list.plugins {
            let answer = self.call("ADD", plugin, result.as_ref(), settings, log).await?;
            done(&answer)?;
            result = Some(answer);
        }
        result.ok_or_else(|| "the network has no plugins".to_owned())
    }

    /// Takes the namespace out of the network: the plugins in reverse, all of them even if one fails. Plugins do nothing
    /// where there is nothing to undo.
    pub async fn del(&self, settings: &NetworkSettings, log: &File, result: Option<&Value>) -> Result<(), String> {
        let mut errors = Vec::new();
        for plugin in self.list.plugins.iter().rev() {
            if let Err(error) = self.call("DEL", plugin, result, settings, log).await {
                errors.push(error);
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
    }

    async fn call(
        &self,
        verb: &str,
        plugin: &Map<String, Value>,
        previous: Option<&Value>,
        settings: &NetworkSettings,
        log: &File,
    ) -> Result<Value, String> {
        let name = plugin.get("type").and_then(Value::as_str).unwrap_or_default();
        let failed = |error: &str| format!("plugin type={name:?} failed ({}): {error}", verb.to_lowercase());
        let program = settings.plugin(name).ok_or_else(|| {
            failed(&format!("failed to find plugin {name:?} in path [{}]", settings.cni_path.replace(':', " ")))
        })?;
        let written = log.metadata().map_or(0, |meta| meta.len());
        let mut command = Command::new(program);
        command.env_clear().current_dir("/").kill_on_drop(true);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_else(|| SEARCH_PATH.into()));
        command.env("CNI_COMMAND", verb).env("CNI_PATH", &settings.cni_path).env("CNI_ARGS", &self.args);
        command.env("CNI_CONTAINERID", &self.container).env("CNI_IFNAME", &self.interface);
        command.env("CNI_NETNS", &self.namespace);
        // The plugin holds the lock of the allocation's network as long as it runs: a later agent waits for its end.
        let held = log.try_clone().map_err(|error| failed(&error.to_string()))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(held);
        let request = self.request(plugin, previous).to_string();
        let run = async {
            let mut child = command.spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                // A plugin that does not read its configuration says why by itself.
                let _ = stdin.write_all(request.as_bytes()).await;
            }
            child.wait_with_output().await
        };
        let output = match tokio::time::timeout(PLUGIN_MAX, run).await {
            Ok(output) => output.map_err(|error| failed(&error.to_string()))?,
            Err(_) => return Err(failed(&format!("no answer in {} s", PLUGIN_MAX.as_secs()))),
        };
        let answer: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        if !output.status.success() {
            let said = answer.as_ref().and_then(reason).unwrap_or_else(|| messages(log, written));
            return Err(failed(&said));
        }
        match (verb, answer) {
            ("ADD", None) => Err(failed("the answer is no result")),
            (_, answer) => Ok(answer.unwrap_or_default()),
        }
    }

    /// A plugin's configuration as it is passed: with the network's name and version, the parameters of its
    /// capabilities, and the result of the plugin before.
    fn request(&self, plugin: &Map<String, Value>, previous: Option<&Value>) -> Value {
        let mut request = plugin.clone();
        request.insert("name".to_owned(), self.list.name.as_str().into());
        request.insert("cniVersion".to_owned(), self.list.version.as_str().into());
        let has = |name: &String| plugin.get("capabilities").is_some_and(|all| all[name] == Value::Bool(true));
        let parameters: Map<String, Value> = self
            .capabilities
            .iter()
            .filter(|(name, _)| has(name))
            .map(|(name, of)| (name.clone(), of.clone()))
            .collect();
        if !parameters.is_empty() {
            request.insert("runtimeConfig".to_owned(), parameters.into());
        }
        if let Some(previous) = previous {
            request.insert("prevResult".to_owned(), previous.clone());
        }
        request.into()
    }
}

/// Text of an error that a plugin answered.
fn reason(answer: &Value) -> Option<String> {
    let message = answer["msg"].as_str().filter(|message| !message.is_empty())?;
    Some(match answer["details"].as_str().filter(|details| !details.is_empty()) {
        Some(details) => format!("{message}; {details}"),
        None => message.to_owned(),
    })
}

/// Standard error of a plugin, from this position in the log.
fn messages(log: &File, from: u64) -> String {
    let mut buffer = [0; MESSAGE_BYTES_MAX];
    let bytes = log.read_at(&mut buffer, from).unwrap_or(0);
    let said = String::from_utf8_lossy(&buffer[..bytes]);
    match said.trim() {
        "" => "the plugin gave no reason".to_owned(),
        said => said.to_owned(),
    }
}

#[cfg(test)]
mod tests;
