//! Service registrations of nodes. Nodes choose the ids and run the checks.

use std::sync::Arc;

use imbl::OrdSet;
use songline_commands::{DeleteServiceRegistration, DeleteServiceRegistrationsOfNode, UpsertServiceRegistrations};
use songline_model::{AllocId, JobKey, NamespaceName, NodeId, ServiceRegistration, Str};

use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;

/// Key of a registration: ids are unique within their namespace.
pub(crate) type ServiceKey = (NamespaceName, Str);

impl Rules<ServiceKey, ServiceRegistration> for tables::ServiceRegistrations {
    fn key(row: &ServiceRegistration) -> ServiceKey {
        (row.namespace.clone(), row.id.clone())
    }

    #[cfg(test)]
    fn in_story(row: &ServiceRegistration) -> String {
        format!("service:{}", row.id)
    }

    fn reindex(state: &mut State, before: Option<&Arc<ServiceRegistration>>, after: Option<&Arc<ServiceRegistration>>) {
        let by = &mut state.by;
        let name = |row: &Arc<ServiceRegistration>| (row.namespace.clone(), row.service_name.clone(), row.id.clone());
        crate::index::move_key(&mut by.services_by_name, before.map(name), after.map(name));
        let job = |row: &Arc<ServiceRegistration>| (row.job_key(), row.id.clone());
        crate::index::move_key(&mut by.services_by_job, before.map(job), after.map(job));
        let node = |row: &Arc<ServiceRegistration>| (row.node_id, (row.namespace.clone(), row.id.clone()));
        crate::index::move_key(&mut by.services_by_node, before.map(node), after.map(node));
        let alloc = |row: &Arc<ServiceRegistration>| (row.alloc_id, (row.namespace.clone(), row.id.clone()));
        crate::index::move_key(&mut by.services_by_alloc, before.map(alloc), after.map(alloc));
    }
}

impl State {
    /// The registration with this id.
    pub fn service_registration(&self, namespace: &str, id: &str) -> Option<&Arc<ServiceRegistration>> {
        self.tables.service_registrations.get(&(NamespaceName::from(namespace), Str::new(id)))
    }

    /// All registrations, by namespace and id.
    pub fn service_registrations(&self) -> impl DoubleEndedIterator<Item = &Arc<ServiceRegistration>> {
        self.tables.service_registrations.iter()
    }

    /// The registrations of a service, by id.
    pub fn registrations_of_service<'a>(
        &'a self,
        namespace: &str,
        name: &'a str,
    ) -> impl Iterator<Item = &'a Arc<ServiceRegistration>> + use<'a> {
        let namespace = NamespaceName::from(namespace);
        let from = (namespace.clone(), Str::new(name), Str::default());
        let of_name = self
            .by
            .services_by_name
            .range(from..)
            .take_while(move |(within, found, _)| *within == namespace && found == name);
        of_name.filter_map(|(within, _, id)| self.service_registration(within, id))
    }

    /// The registrations of a job's allocations, by id.
    pub fn service_registrations_of_job(
        &self,
        namespace: &str,
        id: &str,
    ) -> impl Iterator<Item = &Arc<ServiceRegistration>> + use<'_> {
        let key = JobKey::new(namespace, id);
        let of_job =
            self.by.services_by_job.range((key.clone(), Str::default())..).take_while(move |(job, _)| *job == key);
        of_job.filter_map(|(job, id)| self.service_registration(&job.namespace, id))
    }

    /// The registrations of an allocation, by namespace and id.
    pub fn service_registrations_of_alloc(&self, id: AllocId) -> impl Iterator<Item = &Arc<ServiceRegistration>> {
        below(&self.by.services_by_alloc, id).filter_map(|(namespace, id)| self.service_registration(namespace, id))
    }

    /// The registrations of a node, by namespace and id.
    pub fn service_registrations_of_node(&self, id: NodeId) -> impl Iterator<Item = &Arc<ServiceRegistration>> {
        below(&self.by.services_by_node, id).filter_map(|(namespace, id)| self.service_registration(namespace, id))
    }

    /// The nodes with registrations, by id, once per registration.
    pub fn nodes_with_services(&self) -> impl Iterator<Item = NodeId> {
        self.by.services_by_node.iter().map(|(node, _)| *node)
    }
}

fn below<K: Ord + Copy>(set: &OrdSet<(K, ServiceKey)>, key: K) -> impl Iterator<Item = &ServiceKey> {
    set.range((key, ServiceKey::default())..).take_while(move |(found, _)| *found == key).map(|(_, row)| row)
}

/// Writes registrations. An unchanged one is skipped, so that it wakes no blocking query and produces no event.
pub(crate) fn upsert(tx: &mut Tx<'_>, cmd: &UpsertServiceRegistrations) -> Result<(), Rejected> {
    for service in &cmd.services {
        let stored = tx.service_registration(&service.namespace, &service.id);
        if stored.is_some_and(|stored| stored.says_the_same(service)) {
            continue;
        }
        let create_index = stored.map_or(tx.index(), |stored| stored.create_index);
        let row = ServiceRegistration { create_index, modify_index: tx.index(), ..service.clone() };
        tx.put::<tables::ServiceRegistrations>(row);
    }
    Ok(())
}

pub(crate) fn delete(tx: &mut Tx<'_>, cmd: &DeleteServiceRegistration) -> Result<(), Rejected> {
    if tx.delete::<tables::ServiceRegistrations>(&(cmd.namespace.clone(), cmd.id.clone())) {
        return Ok(());
    }
    Err(Rejected::ServiceRegistrationNotFound)
}

pub(crate) fn delete_of_node(tx: &mut Tx<'_>, cmd: &DeleteServiceRegistrationsOfNode) -> Result<(), Rejected> {
    let keys: Vec<ServiceKey> = below(&tx.by.services_by_node, cmd.node_id).cloned().collect();
    for key in keys {
        tx.delete::<tables::ServiceRegistrations>(&key);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
