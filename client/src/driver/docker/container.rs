//! A task's container: its end, signals, usage and output. The engine keeps it when the agent ends.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bollard::models::{ContainerStateStatusEnum, EndpointSettings};
use bollard::query_parameters::{KillContainerOptionsBuilder, StatsOptionsBuilder};
use futures_util::StreamExt;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use songline_model::{Blob, Dur};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::engine::{Engine, Failure};
use super::logs::{self, Stream};
use super::{session, stats};
use crate::core::ExitResult;
use crate::driver::{Boxed, Command, CommandEnd, DriverNetwork, Ends, Process};
use crate::executor::place::LogSpec;
use crate::stats::{Detail, TaskUsage};

/// Stop signal of images that name none.
const STOP_SIGNAL: &str = "SIGTERM";
/// Time after the final signal at which a container that still runs is an error.
const AFTER_KILL_MAX: Duration = Duration::from_secs(15);
/// Longest wait for the rest of a container's output after its end.
const LOGS_MAX: Duration = Duration::from_secs(10);
/// Pause before the engine is asked again after a failure.
const RETRY: Duration = Duration::from_secs(1);
/// Pause after which an engine surely knows that a container was killed for its memory.
const OOM_KNOWN_AFTER: Duration = Duration::from_millis(200);
/// Exit code of a container that SIGKILL ended.
const KILLED: i64 = 137;

/// Handle by which a container is found again.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Handle {
    /// The container's id; empty before the engine has made it.
    pub container: String,
    /// The container's name.
    pub name: String,
    /// Id of its image.
    pub image: String,
    /// Log files of its output; `None` leaves the output to the engine.
    pub logs: Option<LogSpec>,
    /// The run's directory of the agent.
    pub run_dir: PathBuf,
    /// Place of the container in the engine's networks, once it runs.
    #[serde(default)]
    pub network: DriverNetwork,
}

/// A container that was started.
pub(super) struct Container {
    engine: Arc<Engine>,
    handle: Handle,
    ended: watch::Receiver<Option<ExitResult>>,
    /// The last known usage.
    usage: Mutex<Option<TaskUsage>>,
    watcher: AbortHandle,
}

impl Drop for Container {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

impl Container {
    /// Watches a container, and copies its output to the task's log files.
    pub fn watch(engine: Arc<Engine>, handle: Handle) -> Self {
        let (tell, ended) = watch::channel(None);
        let (asked, about) = (Arc::clone(&engine), handle.clone());
        let watcher = tokio::spawn(async move {
            let mut copies = JoinSet::new();
            if let Some(logs) = &about.logs {
                for stream in Stream::ALL {
                    let (engine, container) = (Arc::clone(&asked), about.container.clone());
                    copies.spawn(logs::follow(engine, container, stream, logs.clone(), about.run_dir.clone()));
                }
            }
            let exit = await_end(&asked, &about.container).await;
            let copied = async { while copies.join_next().await.is_some() {} };
            if tokio::time::timeout(LOGS_MAX, copied).await.is_err() {
                tracing::warn!(container = about.container, "the engine does not pass on the last output");
            }
            let _ = tell.send(Some(exit));
        });
        Self { engine, handle, ended, usage: Mutex::default(), watcher: watcher.abort_handle() }
    }

    /// The container's id.
    pub fn id(&self) -> &str {
        &self.handle.container
    }

    async fn ended(&self) -> ExitResult {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(exit) => exit.clone().unwrap_or_default(),
            Err(_) => ExitResult::lost("the agent is shutting down"),
        }
    }

    async fn kill(&self, signal: &str) -> Result<(), Failure> {
        let options = KillContainerOptionsBuilder::default().signal(signal).build();
        Ok(self.engine.client().await?.kill_container(self.id(), Some(options)).await?)
    }

    /// The signal with which the image wants its containers to be stopped.
    async fn stop_signal(&self) -> Result<String, Failure> {
        let found = self.engine.client().await?.inspect_container(self.id(), None).await?;
        let told = found.config.and_then(|config| config.stop_signal).filter(|signal| !signal.is_empty());
        Ok(told.unwrap_or_else(|| STOP_SIGNAL.to_owned()))
    }

    /// Signals the container and waits for its end; `false` if it still runs after the timeout.
    async fn stop_with(&self, signal: &str, timeout: Duration) -> Result<bool, Failure> {
        match self.kill(signal).await {
            Ok(()) => {}
            // It has ended meanwhile, or is gone.
            Err(failure) if failure.is_not_found() || failure.is_conflict() => {}
            Err(failure) => return Err(failure),
        }
        Ok(tokio::time::timeout(timeout, self.ended()).await.is_ok())
    }

    async fn read_usage(&self) -> Result<Option<TaskUsage>, Failure> {
        let client = self.engine.client().await?;
        let options = StatsOptionsBuilder::default().stream(false).one_shot(true).build();
        let answer = client.stats(self.id(), Some(options)).boxed().next().await;
        Ok(answer.transpose()?.as_ref().and_then(stats::usage))
    }
}

/// Waits until a container has ended, however long the engine is away.
async fn await_end(engine: &Engine, container: &str) -> ExitResult {
    loop {
        match look(engine, container).await {
            Ok(Some(exit)) => return exit,
            Ok(None) => {}
            Err(failure) => {
                tracing::debug!(container, %failure, "waiting for a container");
                engine.forget();
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// Waits for the engine's word that a container has ended; `None` if it has not.
async fn look(engine: &Engine, container: &str) -> Result<Option<ExitResult>, Failure> {
    let client = engine.client().await?;
    let waited = client.wait_container(container, None).boxed().next().await;
    let code = match waited {
        Some(Ok(answer)) => answer.status_code,
        Some(Err(bollard::errors::Error::DockerContainerWaitError { code, .. })) => code,
        Some(Err(error)) => {
            let failure = Failure::from(error);
            if failure.is_not_found() {
                return Ok(Some(ExitResult::lost("the container was removed")));
            }
            return Err(failure);
        }
        None => return Err(Failure::new("the engine ended the connection")),
    };
    let mut state = state(engine, container).await?;
    if code == KILLED && state.as_ref().is_some_and(|state| !state.oom_killed) {
        tokio::time::sleep(OOM_KNOWN_AFTER).await;
        state = self::state(engine, container).await?;
    }
    Ok(match state {
        Some(State { running: true, .. }) => None,
        Some(State { exit_code, oom_killed, .. }) => Some(exit(exit_code, oom_killed)),
        // It was removed while it ran.
        None => Some(exit(code, false)),
    })
}

/// State of a container.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct State {
    /// Whether it was made but never started.
    pub created: bool,
    /// Whether its process runs.
    pub running: bool,
    exit_code: i64,
    oom_killed: bool,
}

/// State of a container; `None` if the engine does not know it.
pub(super) async fn state(engine: &Engine, container: &str) -> Result<Option<State>, Failure> {
    Ok(find(engine, container).await?.map(|(_, state)| state))
}

/// Id and state of a container; `None` if the engine does not know it.
pub(super) async fn find(engine: &Engine, name: &str) -> Result<Option<(String, State)>, Failure> {
    match engine.client().await?.inspect_container(name, None).await.map_err(Failure::from) {
        Ok(found) => {
            let state = found.state.unwrap_or_default();
            let known = State {
                created: state.status == Some(ContainerStateStatusEnum::CREATED),
                running: state.running.unwrap_or(false),
                exit_code: state.exit_code.unwrap_or(0),
                oom_killed: state.oom_killed.unwrap_or(false),
            };
            Ok(Some((found.id.unwrap_or_else(|| name.to_owned()), known)))
        }
        Err(failure) if failure.is_not_found() => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Address of a running container in its first network that gives it one; empty if it is in the namespace of another
/// container or of the host.
pub(super) async fn address(engine: &Engine, container: &str) -> Result<String, Failure> {
    let found = engine.client().await?.inspect_container(container, None).await?;
    let networks = found.network_settings.and_then(|settings| settings.networks).unwrap_or_default();
    // The order of networks must not change between two looks.
    let networks: BTreeMap<_, _> = networks.into_iter().collect();
    let of_network = |network: EndpointSettings| {
        let addresses = [network.ip_address, network.global_ipv6_address];
        addresses.into_iter().flatten().find(|address| !address.is_empty())
    };
    Ok(networks.into_values().find_map(of_network).unwrap_or_default())
}

/// The result of a container that has ended.
fn exit(exit_code: i64, oom_killed: bool) -> ExitResult {
    let error = match exit_code {
        _ if oom_killed => Some("OOM Killed".into()),
        0 => None,
        code => Some(format!("Docker container exited with non-zero exit code: {code}").into()),
    };
    ExitResult { exit_code, signal: 0, oom_killed, error }
}

impl Process for Container {
    fn handle(&self) -> Blob {
        Blob(serde_json::to_vec(&self.handle).unwrap_or_default())
    }

    fn wait(&self) -> Boxed<'_, ExitResult> {
        Box::pin(self.ended())
    }

    fn stop(&self, signal: &str, timeout: Dur) -> Boxed<'_, Result<(), String>> {
        let (signal, timeout) = (signal.to_owned(), timeout.to_std());
        Box::pin(async move {
            if self.ended.borrow().is_some() {
                return Ok(());
            }
            let told = |failure: Failure| format!("failed to stop container {}: {failure}", self.id());
            if !timeout.is_zero() {
                let signal = if signal.is_empty() { self.stop_signal().await.map_err(told)? } else { signal };
                if self.stop_with(&signal, timeout).await.map_err(told)? {
                    return Ok(());
                }
            }
            match self.stop_with("SIGKILL", AFTER_KILL_MAX).await.map_err(told)? {
                true => Ok(()),
                false => Err(format!("container {} did not exit after {} s", self.id(), AFTER_KILL_MAX.as_secs())),
            }
        })
    }

    fn signal<'a>(&'a self, signal: &'a str) -> Boxed<'a, Result<(), String>> {
        Box::pin(async move { self.kill(signal).await.map_err(|failure| failure.to_string()) })
    }

    fn exec(&self, command: Command, ends: Ends) -> Boxed<'_, Result<CommandEnd, String>> {
        Box::pin(session::run(Arc::clone(&self.engine), self.id(), command, ends))
    }

    /// A failure of the engine leaves the usage at its last known value; the next call asks again. A container that has
    /// ended is not asked for.
    fn usage(&self, _detail: Detail) -> Boxed<'_, Option<TaskUsage>> {
        Box::pin(async move {
            if self.ended.borrow().is_none() {
                match self.read_usage().await {
                    Ok(Some(usage)) => *self.usage.lock() = Some(usage),
                    Ok(None) => {}
                    Err(failure) => {
                        tracing::debug!(container = self.id(), %failure, "reading the usage of a container")
                    }
                }
            }
            self.usage.lock().clone()
        })
    }

    fn network(&self) -> Option<DriverNetwork> {
        Some(self.handle.network.clone())
    }
}
