//! Networks of allocations: a namespace that the tasks of an allocation share, an interface of CNI plugins in it, mapped
//! ports, and the files for name resolution. Tasks join the namespace through their drivers ([`AllocNetwork`]).
//!
//! Every step is recorded before it is taken ([`record`]). A step that fails, an allocation that ends, and the next
//! agent after a crash all undo what the record says; an allocation that still runs finds its network again.

mod admin;
mod files;
mod list;
pub(crate) mod namespace;
mod outcome;
mod plugins;
mod print;
mod record;
mod settings;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use songline_model::{AllocId, AllocNetworkStatus, DnsConfig, Str};
use tokio::sync::watch;

use self::list::NetworkList;
use self::plugins::Attachment;
use self::record::{Held, Record};
use crate::config::ClientConfig;
use crate::driver::{AllocNetwork, Driver};

pub(crate) use namespace::enter;
pub(crate) use print::{Print, host_addresses};
pub use settings::{HostNetwork, NetworkSettings};
pub(crate) use wanted::{Mode, Wanted, is_wanted, of, refusal};

/// Name of the interface in a namespace.
const INTERFACE: &str = "eth0";
/// Attempts to add a namespace to a network: plugins that run at the same time may disturb each other.
const ADD_TRIES: u32 = 3;
/// Delay between these attempts.
const ADD_RETRY: Duration = Duration::from_millis(500);
/// Names of the files that tasks mount.
const HOSTS: &str = "hosts";
const RESOLV_CONF: &str = "resolv.conf";
/// The host's settings of name resolution.
const HOST_RESOLV_CONF: &str = "/etc/resolv.conf";

/// The networks of this node's allocations.
pub(crate) struct Networks {
    /// Parent of the records.
    dir: PathBuf,
    settings: NetworkSettings,
    drivers: BTreeMap<Str, Arc<dyn Driver>>,
    /// Whether the remains of earlier agents are removed.
    swept: watch::Sender<bool>,
}

/// A network as the tasks of an allocation use it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Made {
    /// The namespace; `None` is the host's network.
    pub network: Option<AllocNetwork>,
    /// Name resolution that the job asks for.
    pub dns: Option<DnsConfig>,
    /// File with these settings.
    pub resolv_conf: Option<PathBuf>,
    /// Interface and address, if there is an interface.
    pub status: Option<AllocNetworkStatus>,
}

impl Networks {
    pub fn new(config: &ClientConfig, drivers: &BTreeMap<Str, Arc<dyn Driver>>) -> Self {
        Self {
            dir: config.state_dir().join("networks"),
            settings: config.network.clone(),
            drivers: drivers.clone(),
            swept: watch::Sender::new(false),
        }
    }

    /// Makes the network of an allocation, or finds it again. The error is the reason that the tasks' events show;
    /// nothing is left of a network that could not be made.
    pub async fn create(&self, alloc: &AllocId, wanted: &Wanted) -> Result<Made, String> {
        // The network of an allocation that the earlier agent had forgotten is removed first.
        let _ = self.swept.subscribe().wait_for(|swept| *swept).await;
        let held = Held::make(self.dir.join(alloc.to_string())).await.map_err(not_made)?;
        let resolv_conf = match &wanted.dns {
            Some(dns) => {
                let of_host = std::fs::read_to_string(HOST_RESOLV_CONF).unwrap_or_default();
                Some(held.write(RESOLV_CONF, &files::resolv_conf(dns, &of_host)).map_err(not_made)?)
            }
            None => None,
        };
        let made = Made { resolv_conf, dns: wanted.dns.clone(), ..Made::default() };
        if wanted.mode == Mode::Host {
            return Ok(made);
        }
        let left = held.read().map_err(not_made)?;
        if let Some(network) = left.network.clone().filter(|network| left.complete && namespace::exists(&network.path))
        {
            return Ok(Made { network: Some(network), status: left.status, ..made });
        }
        if left.begun {
            self.undo(alloc, &held, left).await.map_err(not_made)?;
        }
        let mut record = Record::default();
        match self.make(alloc, wanted, &held, &mut record).await {
            Ok(()) => Ok(Made { network: record.network, status: record.status, ..made }),
            Err(error) => {
                match self.undo(alloc, &held, record).await {
                    Ok(()) => drop(held.remove()),
                    Err(error) => tracing::warn!(%alloc, error, "removing a network that could not be made"),
                }
                Err(error)
            }
        }
    }

    /// Removes the network of an allocation, if it has one. A failure is logged; the next agent tries again.
    pub async fn destroy(&self, alloc: &AllocId) {
        let held = match Held::existing(self.dir.join(alloc.to_string())).await {
            Ok(Some(held)) => held,
            Ok(None) => return,
            Err(error) => return tracing::warn!(%alloc, %error, "locking the network of an allocation"),
        };
        let record = held.read().unwrap_or_else(|error| {
            tracing::warn!(%alloc, %error, "reading the record of a network");
            Record::default()
        });
        match self.undo(alloc, &held, record).await {
            Ok(()) => {
                if let Err(error) = held.remove() {
                    tracing::warn!(%alloc, %error, "removing the record of a network");
                }
            }
            Err(error) => tracing::warn!(%alloc, error, "removing the network of an allocation"),
        }
    }

    /// Removes the networks of all allocations that are not `kept`, then lets new ones be made.
    pub async fn sweep(&self, kept: BTreeSet<AllocId>) {
        for alloc in record::all(&self.dir).into_iter().filter(|alloc| !kept.contains(alloc)) {
            self.destroy(&alloc).await;
        }
        self.swept.send_replace(true);
    }

    async fn make(&self, alloc: &AllocId, wanted: &Wanted, held: &Held, record: &mut Record) -> Result<(), String> {
        record.begun = true;
        record.owner = wanted.owner.clone();
        held.put(record).map_err(not_made)?;
        let mut network = self.namespace(alloc, wanted, held).await.map_err(not_made)?;
        record.network = Some(network.clone());
        held.put(record).map_err(not_made)?;
        if let Some(list) = self.list(&wanted.mode).map_err(not_configured)? {
            if wanted.mode == Mode::Bridge {
                admin::ensure(&self.settings).await.map_err(not_configured)?;
            }
            let attachment = self.attachment(alloc, wanted, &network, list);
            record.attachment = Some(attachment.clone());
            held.put(record).map_err(not_made)?;
            let result = self.add(&attachment, held, record).await.map_err(not_configured)?;
            let mut status = outcome::status(&result, INTERFACE).map_err(not_configured)?;
            let short: String = alloc.to_string().chars().take(8).collect();
            let hostname = if network.hostname.is_empty() { &short } else { &network.hostname };
            let hosts = files::hosts(&status.address, hostname);
            network.hosts_file = Some(held.write(HOSTS, &hosts).map_err(not_made)?);
            if wanted.dns.is_some() {
                status.dns.clone_from(&wanted.dns);
            }
            record.network = Some(network);
            record.status = Some(status);
        }
        record.complete = true;
        held.put(record).map_err(not_made)
    }

    /// Creates the namespace, by the driver that has to, or by the agent.
    async fn namespace(&self, alloc: &AllocId, wanted: &Wanted, held: &Held) -> Result<AllocNetwork, String> {
        let lock = held.log().try_clone().map_err(|error| error.to_string())?;
        // Neither ends early when the set-up is aborted: the lock keeps the removal waiting.
        let Some(owner) = wanted.owner.as_ref().and_then(|name| self.drivers.get(name)).cloned() else {
            let path = namespace::path(alloc);
            let at = path.clone();
            let create = move || {
                let _lock = lock;
                namespace::create(&at)
            };
            let made = tokio::task::spawn_blocking(create).await.unwrap_or_else(|error| Err(io::Error::other(error)));
            made.map_err(|error| error.to_string())?;
            return Ok(AllocNetwork { path, hostname: wanted.hostname.clone(), ..AllocNetwork::default() });
        };
        let (alloc, hostname) = (*alloc, wanted.hostname.clone());
        let create = async move {
            let _lock = lock;
            owner.create_network(&alloc, &hostname).await
        };
        tokio::spawn(create).await.map_err(|error| error.to_string())?
    }

    /// The plugins of a mode; `None` if a namespace of the mode has no interface.
    fn list(&self, mode: &Mode) -> Result<Option<NetworkList>, String> {
        match mode {
            Mode::Host | Mode::None => Ok(None),
            Mode::Bridge => Ok(Some(NetworkList::bridge(&self.settings))),
            Mode::Cni(name) => {
                let found = list::configured(&self.settings.cni_config_dir).remove(name);
                found.map(Some).ok_or_else(|| {
                    let dir = self.settings.cni_config_dir.display();
                    format!("no configuration of network {name:?} in {dir}")
                })
            }
        }
    }

    fn attachment(&self, alloc: &AllocId, wanted: &Wanted, network: &AllocNetwork, list: NetworkList) -> Attachment {
        Attachment {
            container: alloc.to_string(),
            namespace: network.path.clone(),
            interface: INTERFACE.to_owned(),
            args: format!("IgnoreUnknown=true;NOMAD_ALLOC_ID={alloc}"),
            capabilities: wanted.capabilities(&self.settings),
            list,
        }
    }

    /// Adds the namespace to its network. Each result is recorded, because plugins need it to undo what they did.
    async fn add(
        &self,
        attachment: &Attachment,
        held: &Held,
        record: &mut Record,
    ) -> Result<serde_json::Value, String> {
        let mut tries = 1;
        loop {
            let noted = |result: &serde_json::Value| {
                record.result = Some(result.clone());
                held.put(record).map_err(|error| error.to_string())
            };
            let error = match attachment.add(&self.settings, held.log(), noted).await {
                Ok(result) => return Ok(result),
                Err(error) => error,
            };
            if tries == ADD_TRIES {
                return Err(error);
            }
            tracing::warn!(alloc = attachment.container, error, "adding an allocation to its network; trying again");
            if let Err(error) = attachment.del(&self.settings, held.log(), record.result.as_ref()).await {
                tracing::warn!(alloc = attachment.container, error, "undoing a failed attempt");
            }
            record.result = None;
            tries += 1;
            tokio::time::sleep(ADD_RETRY).await;
        }
    }

    /// Undoes all that is recorded. Everything is tried; the error has all reasons, and the record then stays.
    async fn undo(&self, alloc: &AllocId, held: &Held, record: Record) -> Result<(), String> {
        if !record.begun {
            return Ok(());
        }
        let mut errors = Vec::new();
        if let Some(attachment) = &record.attachment {
            let undone = attachment.del(&self.settings, held.log(), record.result.as_ref()).await;
            errors.extend(undone.err());
        }
        let removed = match record.owner.as_ref().map(|name| self.drivers.get(name).ok_or(name)) {
            Some(Ok(owner)) => owner.destroy_network(alloc, &record.network.unwrap_or_default()).await,
            Some(Err(name)) => Err(format!("driver {name:?}, which made the network, is not available")),
            None => {
                let path = namespace::path(alloc);
                let removed = tokio::task::spawn_blocking(move || namespace::remove(&path)).await;
                removed.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| error.to_string())
            }
        };
        errors.extend(removed.err());
        if !errors.is_empty() {
            return Err(errors.join("; "));
        }
        held.put(&Record::default()).map_err(|error| error.to_string())
    }
}

fn not_made(error: impl ToString) -> String {
    format!("failed to create network for alloc: {}", error.to_string())
}

fn not_configured(error: impl ToString) -> String {
    format!("failed to configure networking for alloc: {}", error.to_string())
}

#[cfg(test)]
mod tests;
