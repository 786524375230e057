//! Tasks that are CSI plugins: what they find at their start, their health while they run, and the rows that the node
//! reports about them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use songline_model::{AllocId, TaskCsiPluginConfig, TaskEvent, Time};
use tonic::Status;

use super::fingerprint::{Fingerprint, FingerprintError, Instance, Parts};
use super::plugin::{CallError, Plugin};
use super::registry::Registry;
use crate::beneath::Dir;
use crate::clock::Clock;
use crate::core::event;
use crate::executor::place::{Bind, Propagation};

/// Delay before the second probe of a plugin that is not healthy yet; each later delay is twice the one before.
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// Longest delay between two such probes.
const LONGEST_DELAY: Duration = Duration::from_secs(5);
/// Interval of probes and fingerprints of a healthy plugin.
const PERIOD: Duration = Duration::from_secs(30);
/// Directory of the sockets of all plugins.
const SOCKETS: &str = "plugins";
const SOCKET: &str = "csi.sock";

/// Directories of a plugin's task on this machine.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Directory of all plugins and volumes.
    all: PathBuf,
    alloc: String,
    config: TaskCsiPluginConfig,
}

impl Place {
    pub fn of(state_dir: &Path, alloc: &AllocId, config: &TaskCsiPluginConfig) -> Self {
        Self { all: state_dir.join("csi"), alloc: alloc.to_string(), config: config.clone() }
    }

    fn sockets(&self) -> PathBuf {
        self.all.join(SOCKETS).join(&self.alloc)
    }

    /// Directory of staged and published volumes. The instances of a plugin share it.
    pub fn volumes(&self) -> PathBuf {
        self.all.join(self.config.kind.as_str()).join(self.config.id.as_str())
    }

    /// The same directory in the task. It is told to tasks without a root of their own as well: plugins for such tasks
    /// know that their paths are different.
    pub fn volumes_in_task(&self) -> PathBuf {
        PathBuf::from(self.config.stage_publish_base_dir.as_str())
    }

    fn socket(&self) -> PathBuf {
        self.sockets().join(SOCKET)
    }

    /// Creates the directories.
    pub fn make(&self) -> io::Result<()> {
        let all = Dir::make(&self.all, 0o700)?;
        all.make_dir(SOCKETS, 0o700)?.make_dir(&self.alloc, 0o700)?;
        all.make_dir(self.config.kind.as_str(), 0o700)?.make_dir(self.config.id.as_str(), 0o700)?;
        Ok(())
    }

    /// Removes the socket that an earlier run left, at which the next one could not serve.
    fn clear(&self) -> io::Result<()> {
        Dir::open(&self.sockets())?.remove(SOCKET)
    }

    /// Removes the socket and its directory.
    fn remove(&self) -> io::Result<()> {
        Dir::open(&self.all.join(SOCKETS))?.remove_all(&self.alloc)
    }

    /// Address at which the plugin has to serve: the value of `CSI_ENDPOINT`. A task without a root of its own gets the
    /// path on this machine.
    pub fn endpoint(&self, own_root: bool) -> String {
        let dir = if own_root { PathBuf::from(self.config.mount_dir.as_str()) } else { self.sockets() };
        format!("unix://{}", dir.join(SOCKET).display())
    }

    /// Mounts of a task with a root of its own. What the plugin mounts below the directory of volumes is seen by other
    /// tasks, so it is shared in both directions. The machine's devices are left out for a driver that makes its own.
    pub fn mounts(&self, own_devices: bool) -> Vec<Bind> {
        let bind = |from: &Path, to: &str, propagation| Bind {
            from: from.to_owned(),
            to: to.into(),
            read_only: false,
            propagation,
        };
        let mut mounts = vec![
            bind(&self.sockets(), &self.config.mount_dir, Propagation::Private),
            bind(&self.volumes(), &self.config.stage_publish_base_dir, Propagation::Bidirectional),
        ];
        if !own_devices {
            mounts.push(bind(Path::new("/dev"), "/dev", Propagation::Private));
        }
        mounts
    }
}

/// Reports of the supervision.
pub(crate) enum Told {
    /// For the users of the task.
    Event(TaskEvent),
    /// The task has to be stopped, for this reason.
    Failed(TaskEvent),
    /// New rows of the node.
    Rows(Box<Fingerprint>),
}

/// Supervision of one run of a plugin's task.
pub(crate) struct Supervision {
    instance: Instance,
    place: Place,
    registry: Arc<Registry>,
    clock: Clock,
    /// The last rows of a plugin that answered.
    known: Mutex<Option<Fingerprint>>,
    tell: Box<dyn Fn(Told) + Send + Sync>,
}

impl Supervision {
    pub fn new(
        alloc: &AllocId,
        place: Place,
        registry: Arc<Registry>,
        clock: Clock,
        tell: impl Fn(Told) + Send + Sync + 'static,
    ) -> Self {
        let parts = match place.config.kind.as_str() {
            "controller" => Parts::Controller,
            "node" => Parts::Node,
            _ => Parts::Monolith,
        };
        let instance =
            Instance { plugin_id: place.config.id.clone(), alloc_id: alloc.to_string().as_str().into(), parts };
        Self { instance, place, registry, clock, known: Mutex::default(), tell: Box::new(tell) }
    }

    /// Comes before each start of the task.
    pub fn starting(&self) {
        if let Err(error) = self.place.clear() {
            self.warn(&error, "removing the socket of an earlier run of a CSI plugin");
        }
    }

    /// Probes the plugin until it is healthy, then keeps its rows up to date. Returns only if the task has to be stopped.
    pub async fn run(&self) {
        let plugin = match Plugin::at(&self.place.socket()) {
            Ok(plugin) => plugin,
            Err(error) => return self.fail(&error.to_string()),
        };
        let limit = self.place.config.health_timeout;
        if tokio::time::timeout(limit.to_std(), until_healthy(&plugin)).await.is_err() {
            return self.fail(&format!("CSI plugin did not become healthy before configured {limit} health timeout"));
        }
        self.registry.enter(&self.instance, &plugin, &self.place);
        let mut changes = self.registry.changes();
        let mut healthy = true;
        loop {
            self.report(&plugin).await;
            tokio::select! {
                () = tokio::time::sleep(PERIOD) => {}
                // Another instance may have taken the rows over, or left them to this one.
                Ok(()) = changes.changed() => continue,
            }
            let (is_healthy, why) = match plugin.probe().await {
                Ok(true) => (true, String::new()),
                Ok(false) => (false, "the plugin is not ready".to_owned()),
                Err(error) => (false, error.to_string()),
            };
            if is_healthy != healthy {
                let kind = if is_healthy { event::PLUGIN_HEALTHY } else { event::PLUGIN_UNHEALTHY };
                (self.tell)(Told::Event(event::message(kind, self.now(), &why)));
            }
            healthy = is_healthy;
        }
    }

    /// The task has ended. Its rows stay on the node, as not healthy.
    pub fn ended(self) {
        self.registry.leave(&self.instance);
        let error = FingerprintError::Call(CallError(Status::cancelled("context canceled")));
        self.tell_rows(self.failed(&error));
        if let Err(error) = self.place.remove() {
            self.warn(&error, "removing the socket of a CSI plugin");
        }
    }

    async fn report(&self, plugin: &Plugin) {
        let rows = match self.instance.fingerprint(plugin, self.now()).await {
            Ok(rows) => {
                *self.known.lock() = Some(rows.clone());
                rows
            }
            Err(error) => self.failed(&error),
        };
        self.tell_rows(rows);
    }

    fn failed(&self, error: &FingerprintError) -> Fingerprint {
        self.instance.failed(self.known.lock().as_ref(), error, self.now())
    }

    fn tell_rows(&self, rows: Fingerprint) {
        (self.tell)(Told::Rows(Box::new(self.registry.rows(rows, &self.instance))));
    }

    fn fail(&self, reason: &str) {
        (self.tell)(Told::Failed(event::killing_because(self.now(), reason)));
    }

    fn warn(&self, error: &io::Error, what: &str) {
        tracing::warn!(%error, plugin = self.instance.plugin_id.as_str(), "{what}");
    }

    fn now(&self) -> Time {
        self.clock.now()
    }
}

async fn until_healthy(plugin: &Plugin) {
    let mut delay = FIRST_DELAY;
    while !matches!(plugin.probe().await, Ok(true)) {
        tokio::time::sleep(delay).await;
        delay = (delay * 2).min(LONGEST_DELAY);
    }
}
