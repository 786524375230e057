//! `docker`: a container of an engine with Docker's API. The engine keeps containers while the agent is away; the driver
//! finds them again by their handles.

mod auth;
mod container;
mod create;
mod dangling;
mod engine;
mod image;
mod images;
mod infra;
mod logs;
mod mounts;
mod options;
mod podman;
mod ports;
mod print;
mod progress;
mod resolver;
mod session;
mod settings;
mod start;
mod stats;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bollard::query_parameters::RemoveContainerOptionsBuilder;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use songline_model::{AllocId, Blob};

use self::container::{Container, Handle};
use self::engine::{Engine, Failure};
use self::image::ImageName;
use self::images::{Image, Images};
use self::settings::Settings;
use super::{AllocNetwork, Boxed, Driver, Fingerprint, Listener, Process, RunId, TaskConfig};
use crate::beneath::Dir;
use crate::config::ClientConfig;
use crate::core::StartFailure;

/// File of a run's directory with the handle of its container.
const HANDLE_FILE: &str = "container.json";
/// Longest wait for an engine that does not answer when a run is recovered, and the pause between tries.
const ENGINE_WAIT_MAX: Duration = Duration::from_secs(60);
const ENGINE_PAUSE: Duration = Duration::from_millis(500);

/// The driver.
pub struct Docker {
    inner: Arc<Inner>,
    /// Set when the search for dangling containers was started.
    reconciles: OnceLock<()>,
}

/// State that background work shares with the driver.
struct Inner {
    settings: Settings,
    engine: Arc<Engine>,
    images: Images,
    /// Parent of the allocations' directories.
    alloc_dir: PathBuf,
    runs_dir: PathBuf,
    /// Containers of runs that are not destroyed.
    known: Mutex<BTreeMap<String, Arc<Container>>>,
    /// Whether the engine has answered before.
    seen: Mutex<bool>,
}

impl Docker {
    /// Creates the driver without a connection to the engine.
    pub fn new(config: &ClientConfig) -> Self {
        let settings = Settings::new(config);
        let engine = Arc::new(Engine::new(&settings.endpoint));
        let delay = settings.image_gc.then_some(settings.image_delay);
        let images = Images::new(Arc::clone(&engine), settings.pull_activity_timeout, delay);
        let inner = Inner {
            engine,
            images,
            alloc_dir: config.alloc_dir(),
            runs_dir: config.runs_dir(),
            known: Mutex::default(),
            seen: Mutex::default(),
            settings,
        };
        Self { inner: Arc::new(inner), reconciles: OnceLock::new() }
    }

    /// Starts the search for dangling containers, once; it ends with the driver.
    fn reconcile(&self) {
        let dangling = self.inner.settings.dangling;
        if dangling.enabled && self.reconciles.set(()).is_ok() {
            tokio::spawn(dangling::reconcile(Arc::downgrade(&self.inner), dangling.period));
        }
    }
}

/// Text that identifies a run.
fn key(run: &RunId) -> String {
    format!("{}/{}/{}", run.alloc, run.task, run.run)
}

impl Inner {
    fn run_dir(&self, run: &RunId) -> PathBuf {
        self.runs_dir.join(key(run))
    }

    /// Containers of all runs that are not destroyed.
    fn known_containers(&self) -> BTreeSet<String> {
        self.known.lock().values().map(|container| container.id().to_owned()).collect()
    }

    /// Watches a container and remembers it.
    fn watch(&self, run: &RunId, handle: Handle) -> Arc<Container> {
        self.images.keep(&handle.image, &key(run));
        let container = Arc::new(Container::watch(Arc::clone(&self.engine), handle));
        self.known.lock().insert(key(run), Arc::clone(&container));
        container
    }

    /// Removes a container, running or not. One that is gone is no error.
    async fn remove(&self, container: &str) -> Result<(), Failure> {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        match self.engine.client().await?.remove_container(container, Some(options)).await.map_err(Failure::from) {
            // A conflict: it is being removed.
            Err(failure) if !failure.is_not_found() && !failure.is_conflict() => Err(failure),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// An image, which is pulled if it is not here, if its tag may have moved, or if the task wants it pulled.
    async fn image(
        &self,
        told: &str,
        task: &Map<String, Value>,
        timeout: Duration,
        listener: &Listener,
    ) -> Result<Image, Failure> {
        let image = ImageName::parse(told);
        let forced = super::block::flag(task, "force_pull").unwrap_or(false);
        if !forced
            && !image.may_change()
            && let Some(found) = self.images.find(told).await?
        {
            return Ok(found);
        }
        let credentials = match auth::credentials(task, &self.settings, &image).await {
            Ok(credentials) => credentials,
            Err(error) if super::block::flag(task, "auth_soft_fail") == Some(true) => {
                tracing::warn!(image = told, error, "pulling without credentials");
                None
            }
            Err(error) => {
                return Err(Failure::new(format!(
                    "Failed to find docker auth for repo {:?}: {error}",
                    image.repository
                )));
            }
        };
        let pulled = self.images.pull(&image, credentials, timeout, listener).await;
        pulled.map_err(|failure| failure.with(|text| format!("Failed to pull `{told}`: {text}")))
    }

    /// The handle that is kept beside a run, as of before its container was made.
    fn noted(&self, run: &RunId) -> Option<Handle> {
        let bytes = std::fs::read(self.run_dir(run).join(HANDLE_FILE)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    async fn recover(&self, run: &RunId, handle: Option<Blob>) -> Result<Option<Arc<Container>>, String> {
        if let Some(container) = self.known.lock().get(&key(run)).map(Arc::clone) {
            return Ok(Some(container));
        }
        let given = handle.is_some();
        let handle = match handle {
            Some(handle) => serde_json::from_slice(&handle.0)
                .map_err(|error| format!("failed to decode driver task state from handle: {error}"))?,
            None => match self.noted(run) {
                Some(noted) => noted,
                None => return Ok(None),
            },
        };
        let name = if handle.container.is_empty() { handle.name.clone() } else { handle.container.clone() };
        let found = self.found(&name).await.map_err(|failure| failure.to_string())?;
        match found {
            None if given => Err(format!("failed to inspect container for id {name:?}: the container is gone")),
            None => Ok(None),
            Some((id, state)) if state.created && !given => {
                // The agent was killed before the container started.
                self.remove(&id).await.map_err(|failure| failure.to_string())?;
                Ok(None)
            }
            Some((id, _)) => Ok(Some(self.watch(run, Handle { container: id, ..handle }))),
        }
    }

    /// Id and state of a container; waits for an engine that does not answer yet.
    async fn found(&self, name: &str) -> Result<Option<(String, container::State)>, Failure> {
        let deadline = tokio::time::Instant::now() + ENGINE_WAIT_MAX;
        loop {
            match container::find(&self.engine, name).await {
                Err(failure) if failure.status.is_none() && tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(ENGINE_PAUSE).await;
                }
                found => return found,
            }
        }
    }

    async fn destroy(&self, run: &RunId) {
        let known = self.known.lock().remove(&key(run));
        let noted = self.noted(run);
        self.images.release(&key(run));
        let id = known.as_ref().map(|container| container.id().to_owned());
        let id = id.or_else(|| noted.map(|noted| noted.container).filter(|id| !id.is_empty()));
        if let Some(id) = id.filter(|_| self.settings.container_gc)
            && let Err(failure) = self.remove(&id).await
        {
            tracing::warn!(?run, %failure, "removing the container of a run");
        }
        let dir = self.run_dir(run);
        let (Some(parent), Some(name)) = (dir.parent().map(PathBuf::from), dir.file_name().map(ToOwned::to_owned))
        else {
            return;
        };
        let removed = tokio::task::spawn_blocking(move || Dir::open(&parent).and_then(|runs| runs.remove_all(&name)));
        if let Ok(Err(error)) = removed.await
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(?run, %error, "removing the directory of a run");
        }
    }
}

impl Driver for Docker {
    fn fingerprint(&self) -> Boxed<'_, Fingerprint> {
        Box::pin(async move {
            self.reconcile();
            print::print(&self.inner).await
        })
    }

    fn validate(&self, config: &Map<String, Value>) -> Result<(), String> {
        options::validate(config)
    }

    fn has_own_root(&self) -> bool {
        true
    }

    fn start(&self, task: TaskConfig) -> Boxed<'_, Result<Arc<dyn Process>, StartFailure>> {
        Box::pin(async move { Ok(start::start(&self.inner, task).await? as Arc<dyn Process>) })
    }

    fn recover(&self, run: RunId, handle: Option<Blob>) -> Boxed<'_, Result<Option<Arc<dyn Process>>, String>> {
        Box::pin(async move {
            let found = self.inner.recover(&run, handle).await?;
            Ok(found.map(|container| container as Arc<dyn Process>))
        })
    }

    fn destroy(&self, run: RunId) -> Boxed<'_, ()> {
        Box::pin(async move { self.inner.destroy(&run).await })
    }

    fn owns_network(&self) -> bool {
        true
    }

    fn create_network(&self, alloc: &AllocId, hostname: &str) -> Boxed<'_, Result<AllocNetwork, String>> {
        let (alloc, hostname) = (*alloc, hostname.to_owned());
        Box::pin(
            async move { infra::create(&self.inner, &alloc, &hostname).await.map_err(|failure| failure.to_string()) },
        )
    }

    fn destroy_network(&self, alloc: &AllocId, network: &AllocNetwork) -> Boxed<'_, Result<(), String>> {
        let (alloc, network) = (*alloc, network.clone());
        Box::pin(
            async move { infra::destroy(&self.inner, &alloc, &network).await.map_err(|failure| failure.to_string()) },
        )
    }
}

#[cfg(test)]
mod tests;
