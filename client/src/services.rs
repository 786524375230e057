//! Announcing the services of an allocation at the servers: which registrations it has, and one worker an allocation that writes them and
//! takes them back in order. When that is due is the machine's to say.

mod address;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use songline_model::{Allocation, NamespaceName, Node, Service, ServiceRegistration, Str};
use songline_rpc::{NodeAuth, RpcError, Servers};
use tokio::sync::{mpsc, oneshot};

use crate::core::{Jitter, Workload};
use crate::driver::Boxed;
use crate::env::TaskEnv;

/// Wait after a call that reached no leader, and up to once more.
const RETRY: songline_model::Dur = songline_model::Dur::from_secs(1);
/// How long stopping a task waits until nobody finds its services any more. Longer keeps requests from a task that is gone, but with
/// servers out of reach every stop takes as long; the withdrawal itself goes on.
pub(crate) const WITHDRAW_WAIT: Duration = Duration::from_secs(5);

/// What a worker needs of the servers.
pub(crate) trait Registrar: Send + Sync {
    fn upsert(&self, rows: Vec<ServiceRegistration>) -> Boxed<'_, Result<u64, RpcError>>;
    fn delete(&self, namespace: NamespaceName, id: Str) -> Boxed<'_, Result<u64, RpcError>>;
}

/// The servers, asked in the name of this node.
pub(crate) struct AtServers<S> {
    pub servers: Arc<S>,
    pub auth: NodeAuth,
}

impl<S: Servers> Registrar for AtServers<S> {
    fn upsert(&self, rows: Vec<ServiceRegistration>) -> Boxed<'_, Result<u64, RpcError>> {
        Box::pin(self.servers.service_registration_upsert(&self.auth, rows))
    }

    fn delete(&self, namespace: NamespaceName, id: Str) -> Boxed<'_, Result<u64, RpcError>> {
        Box::pin(self.servers.service_registration_delete_by_id(&self.auth, namespace, id))
    }
}

/// The registrations of a workload. One address that cannot be told is enough for none of them.
pub(crate) fn registrations(alloc: &Allocation, node: &Node, env: &TaskEnv, of: &Workload) -> Result<Vec<ServiceRegistration>, String> {
    let owner = match of {
        Workload::Group => format!("group-{}", alloc.task_group),
        Workload::Task(name) => name.to_string(),
    };
    let canary = alloc.is_canary();
    of.services(alloc).map(|service| registration(alloc, node, env, &owner, service, canary)).collect()
}

fn registration(
    alloc: &Allocation,
    node: &Node,
    env: &TaskEnv,
    owner: &str,
    service: &Service,
    canary: bool,
) -> Result<ServiceRegistration, String> {
    let (name, port_label) = (env.replace(&service.name), env.replace(&service.port_label));
    let (address, port) = address::of(alloc, &env.replace(&service.address), &service.address_mode, &port_label)
        .map_err(|error| format!("unable to get address for service {name:?}: {error}"))?;
    let canary_tags = service.canary_tags.as_ref().filter(|tags| canary && !tags.is_empty());
    let tags = canary_tags.or(service.tags.as_ref());
    Ok(ServiceRegistration {
        id: format!("_nomad-task-{}-{owner}-{name}-{port_label}", alloc.id).into(),
        service_name: name.into(),
        namespace: alloc.namespace.clone(),
        node_id: node.id,
        datacenter: node.datacenter.clone(),
        job_id: alloc.job_id.clone(),
        alloc_id: alloc.id,
        tags: tags.into_iter().flatten().map(|tag| env.replace(tag).into()).collect(),
        address: address.into(),
        port,
        create_index: 0,
        modify_index: 0,
    })
}

enum Order {
    Announce { of: Workload, rows: Vec<ServiceRegistration> },
    Withdraw { of: Workload, rows: Vec<ServiceRegistration>, done: oneshot::Sender<()> },
}

/// The way to the worker of an allocation. The worker ends with it, once it has done all it was told.
pub(crate) struct Announcer {
    orders: mpsc::UnboundedSender<Order>,
}

impl Announcer {
    /// The way, and the worker, which has to be run.
    pub fn new(registrar: Arc<dyn Registrar>) -> (Self, Worker) {
        let (orders, queue) = mpsc::unbounded_channel();
        (Self { orders }, Worker { registrar, queue, announced: BTreeMap::new() })
    }

    /// From now on these are what is to be found of a workload.
    pub fn announce(&self, of: Workload, rows: Vec<ServiceRegistration>) {
        let _ = self.orders.send(Order::Announce { of, rows });
    }

    /// Nothing of a workload is to be found any more. `rows` are those that an earlier agent may have announced. The answer comes when
    /// the servers have it.
    pub fn withdraw(&self, of: Workload, rows: Vec<ServiceRegistration>) -> oneshot::Receiver<()> {
        let (done, wait) = oneshot::channel();
        let _ = self.orders.send(Order::Withdraw { of, rows, done });
        wait
    }
}

/// Carries out what it is told, one after another.
pub(crate) struct Worker {
    registrar: Arc<dyn Registrar>,
    queue: mpsc::UnboundedReceiver<Order>,
    announced: BTreeMap<Workload, Vec<ServiceRegistration>>,
}

type Key = (NamespaceName, Str);

fn keys(rows: &[ServiceRegistration]) -> BTreeSet<Key> {
    rows.iter().map(|row| (row.namespace.clone(), row.id.clone())).collect()
}

impl Worker {
    pub async fn run(mut self) {
        while let Some(order) = self.queue.recv().await {
            match order {
                Order::Announce { of, rows } => self.announce(of, rows).await,
                Order::Withdraw { of, rows, done } => {
                    let mut gone = keys(&rows);
                    gone.extend(keys(&self.announced.remove(&of).unwrap_or_default()));
                    self.delete(gone).await;
                    let _ = done.send(());
                }
            }
        }
    }

    /// What is new is there before what is old goes, so that somebody always is found.
    async fn announce(&mut self, of: Workload, rows: Vec<ServiceRegistration>) {
        let before = self.announced.get(&of).map(Vec::as_slice).unwrap_or_default();
        if before == rows {
            return;
        }
        let now = keys(&rows);
        let gone: BTreeSet<Key> = keys(before).into_iter().filter(|key| !now.contains(key)).collect();
        let registrar = &*self.registrar;
        if !rows.is_empty() && until_answered("announcing services", || registrar.upsert(rows.clone())).await.is_some() {
            self.announced.insert(of, rows);
        }
        self.delete(gone).await;
    }

    async fn delete(&self, keys: BTreeSet<Key>) {
        let registrar = &*self.registrar;
        let each = keys.into_iter().map(|(namespace, id)| async move {
            until_answered("withdrawing a service", || registrar.delete(namespace.clone(), id.clone())).await;
        });
        futures_util::future::join_all(each).await;
    }
}

/// Calls until somebody answers. `None`: the answer was a refusal, which asking again would not change.
async fn until_answered<'a>(what: &str, mut call: impl FnMut() -> Boxed<'a, Result<u64, RpcError>>) -> Option<u64> {
    loop {
        match call().await {
            Ok(index) => return Some(index),
            Err(RpcError::Remote(text) | RpcError::Coded { text, .. }) => {
                // One that is gone already is as it should be.
                if !text.contains("service registration not found") {
                    tracing::warn!(error = text, "{what}");
                }
                return None;
            }
            Err(RpcError::NoLeader | RpcError::Lost(_)) => {
                tokio::time::sleep(Jitter::new(rand::random()).stretched(RETRY).to_std()).await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
