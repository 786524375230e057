//! Registration of an allocation's services at the servers: builds the registrations, and runs one worker for each
//! allocation that writes and deletes them in order. The allocation's state machine decides when.

pub(crate) mod address;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use songline_model::{Allocation, NamespaceName, Node, Service, ServiceRegistration, Str};
use songline_rpc::{NodeAuth, RpcError, Servers};
use tokio::sync::{mpsc, oneshot};

use crate::clock::Clock;
use crate::core::{NOMAD_PROVIDER, Workload};
use crate::driver::Boxed;
use crate::env::TaskEnv;
pub(crate) use address::Located;

/// Delay after a call that reached no leader; up to the same time is added at random.
const RETRY: songline_model::Dur = songline_model::Dur::from_secs(1);
/// Longest wait of a task's stop for the withdrawal of its services. A longer wait keeps requests from a task that is
/// gone, but delays every stop while servers are unreachable; the withdrawal itself continues in any case.
pub(crate) const WITHDRAW_WAIT: Duration = Duration::from_secs(5);

/// Calls of a worker to the servers.
pub(crate) trait Registrar: Send + Sync {
    fn upsert(&self, rows: Vec<ServiceRegistration>) -> Boxed<'_, Result<u64, RpcError>>;
    fn delete(&self, namespace: NamespaceName, id: Str) -> Boxed<'_, Result<u64, RpcError>>;
}

/// Calls to the servers in the name of this node.
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

/// Registrations of a workload. If one address cannot be determined, the result is an error for all of them.
pub(crate) fn registrations(
    located: Located<'_>,
    node: &Node,
    env: &TaskEnv,
    of: &Workload,
) -> Result<Vec<ServiceRegistration>, String> {
    let alloc = located.alloc;
    let canary = alloc.is_canary();
    let services = of.services_of(alloc, NOMAD_PROVIDER);
    services.map(|service| registration(located, node, env, of, service, canary)).collect()
}

/// Id of a service's registration, with resolved name and port label.
pub(crate) fn service_id(alloc: &Allocation, of: &Workload, name: &str, port_label: &str) -> String {
    let owner = match of {
        Workload::Group => format!("group-{}", alloc.task_group),
        Workload::Task(name) => name.to_string(),
    };
    format!("_nomad-task-{}-{owner}-{name}-{port_label}", alloc.id)
}

fn registration(
    located: Located<'_>,
    node: &Node,
    env: &TaskEnv,
    of: &Workload,
    service: &Service,
    canary: bool,
) -> Result<ServiceRegistration, String> {
    let (name, port_label) = (env.replace(&service.name), env.replace(&service.port_label));
    let alloc = located.alloc;
    let (address, port) = address::of(located, &env.replace(&service.address), &service.address_mode, &port_label)
        .map_err(|error| format!("unable to get address for service {name:?}: {error}"))?;
    let canary_tags = service.canary_tags.as_ref().filter(|tags| canary && !tags.is_empty());
    let tags = canary_tags.or(service.tags.as_ref());
    Ok(ServiceRegistration {
        id: service_id(alloc, of, &name, &port_label).into(),
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

/// Handle of an allocation's worker. The worker ends after the handle is dropped, once all its orders are done.
pub(crate) struct Announcer {
    orders: mpsc::UnboundedSender<Order>,
}

impl Announcer {
    /// Creates the handle and the worker, which the caller has to run.
    pub fn new(registrar: Arc<dyn Registrar>, clock: Clock) -> (Self, Worker) {
        let (orders, queue) = mpsc::unbounded_channel();
        (Self { orders }, Worker { registrar, clock, queue, announced: BTreeMap::new() })
    }

    /// Makes `rows` the announced registrations of a workload.
    pub fn announce(&self, of: Workload, rows: Vec<ServiceRegistration>) {
        let _ = self.orders.send(Order::Announce { of, rows });
    }

    /// Withdraws all registrations of a workload. `rows` are those that an earlier agent may have announced. The
    /// receiver resolves when the servers have withdrawn them.
    pub fn withdraw(&self, of: Workload, rows: Vec<ServiceRegistration>) -> oneshot::Receiver<()> {
        let (done, wait) = oneshot::channel();
        let _ = self.orders.send(Order::Withdraw { of, rows, done });
        wait
    }
}

/// Carries out the orders one after another.
pub(crate) struct Worker {
    registrar: Arc<dyn Registrar>,
    clock: Clock,
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

    /// Announces new registrations before it deletes old ones, so that the service can be found at any time.
    async fn announce(&mut self, of: Workload, rows: Vec<ServiceRegistration>) {
        let before = self.announced.get(&of).map(Vec::as_slice).unwrap_or_default();
        if before == rows {
            return;
        }
        let now = keys(&rows);
        let gone: BTreeSet<Key> = keys(before).into_iter().filter(|key| !now.contains(key)).collect();
        let registrar = &*self.registrar;
        if !rows.is_empty()
            && until_answered("announcing services", &self.clock, || registrar.upsert(rows.clone())).await.is_some()
        {
            self.announced.insert(of, rows);
        }
        self.delete(gone).await;
    }

    async fn delete(&self, keys: BTreeSet<Key>) {
        let registrar = &*self.registrar;
        let each = keys.into_iter().map(|(namespace, id)| async move {
            until_answered("withdrawing a service", &self.clock, || registrar.delete(namespace.clone(), id.clone()))
                .await;
        });
        futures_util::future::join_all(each).await;
    }
}

/// Repeats a call until it is answered. `None` when the answer is a refusal, which a repetition would not change.
async fn until_answered<'a>(
    what: &str,
    clock: &Clock,
    mut call: impl FnMut() -> Boxed<'a, Result<u64, RpcError>>,
) -> Option<u64> {
    loop {
        match call().await {
            Ok(index) => return Some(index),
            Err(RpcError::Remote(text) | RpcError::Coded { text, .. }) => {
                // A registration that is already gone needs no deletion.
                if !text.contains("service registration not found") {
                    tracing::warn!(error = text, "{what}");
                }
                return None;
            }
            Err(RpcError::NoLeader | RpcError::Lost(_)) => {
                tokio::time::sleep(clock.jitter().stretched(RETRY).to_std()).await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
