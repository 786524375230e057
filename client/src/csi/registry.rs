//! The CSI plugins that run on this node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use songline_model::Str;
use songline_rpc::CSI_RETRYABLE;
use tokio::sync::watch;

use super::fingerprint::{Fingerprint, Instance, Parts};
use super::plugin::Plugin;
use super::supervisor::Place;

/// Longest wait for a plugin that is expected to run, as after a restart of the agent.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A healthy instance of a plugin.
pub(crate) struct Running {
    pub alloc_id: Str,
    pub plugin: Plugin,
    pub place: Place,
}

/// Instances of one plugin with one part, the newest last.
type Instances = Vec<Arc<Running>>;

/// Healthy instances of plugins on this node, the newest of each plugin last. Only the newest is asked, and has rows on
/// the node.
pub(crate) struct Registry {
    running: Mutex<BTreeMap<(Parts, Str), Instances>>,
    /// Changes when an instance comes or goes.
    changes: watch::Sender<()>,
}

/// A plugin that does not run on this node. Servers ask another one, or again later.
#[derive(Debug, thiserror::Error)]
#[error("{CSI_RETRYABLE}: plugin {id} for type csi-{part} not found", part = .part.as_str())]
pub struct NoInstance {
    pub part: Parts,
    pub id: Str,
}

impl Default for Registry {
    fn default() -> Self {
        Self { running: Mutex::default(), changes: watch::channel(()).0 }
    }
}

impl Registry {
    pub(super) fn enter(&self, instance: &Instance, plugin: &Plugin, place: &Place) {
        let entry =
            Arc::new(Running { alloc_id: instance.alloc_id.clone(), plugin: plugin.clone(), place: place.clone() });
        {
            let mut running = self.running.lock();
            for &part in instance.parts.each() {
                running.entry((part, instance.plugin_id.clone())).or_default().push(Arc::clone(&entry));
            }
        }
        self.changes.send_replace(());
    }

    pub(super) fn leave(&self, instance: &Instance) {
        {
            let mut running = self.running.lock();
            for &part in instance.parts.each() {
                if let Some(instances) = running.get_mut(&(part, instance.plugin_id.clone())) {
                    instances.retain(|one| one.alloc_id != instance.alloc_id);
                }
            }
        }
        self.changes.send_replace(());
    }

    /// Tells when an instance has come or gone.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// The newest instance of a plugin that has this part.
    pub(super) fn newest(&self, part: Parts, id: &str) -> Result<Arc<Running>, NoInstance> {
        let key = (part, Str::from(id));
        let newest = self.running.lock().get(&key).and_then(|instances| instances.last().cloned());
        newest.ok_or(NoInstance { part, id: key.1 })
    }

    /// As [`Registry::newest`], after a wait for an instance that is expected to come.
    pub(super) async fn expected(&self, part: Parts, id: &str) -> Result<Arc<Running>, NoInstance> {
        let mut changes = self.changes();
        let found = async {
            loop {
                if let Ok(running) = self.newest(part, id) {
                    return running;
                }
                // An error would mean that the registry is gone.
                let _ = changes.changed().await;
            }
        };
        tokio::time::timeout(WAIT_MAX, found).await.map_err(|_| NoInstance { part, id: id.into() })
    }

    /// The rows of an instance that it may report: those of parts that no other instance is newer in. An instance that
    /// has left has them if no other one is there.
    pub(super) fn rows(&self, mut rows: Fingerprint, instance: &Instance) -> Fingerprint {
        let is_newest = |part| {
            let newest = self.newest(part, &instance.plugin_id);
            newest.map_or(true, |running| running.alloc_id == instance.alloc_id)
        };
        rows.controller = rows.controller.filter(|_| is_newest(Parts::Controller));
        rows.node = rows.node.filter(|_| is_newest(Parts::Node));
        rows
    }
}
