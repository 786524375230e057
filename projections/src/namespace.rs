//! Namespaces.

use std::sync::Arc;

use songline_commands::{DeleteNamespaces, UpsertNamespaces};
use songline_model::{DEFAULT_NAMESPACE, JobStatus, Namespace, NamespaceName};

use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;

impl Rules<NamespaceName, Namespace> for tables::Namespaces {
    fn key(row: &Namespace) -> NamespaceName {
        row.name.clone()
    }

    #[cfg(test)]
    fn in_story(row: &Namespace) -> String {
        format!("namespace:{}", row.name)
    }

    fn reindex(state: &mut State, before: Option<&Arc<Namespace>>, after: Option<&Arc<Namespace>>) {
        let of = |row: &&Arc<Namespace>| !row.quota.is_empty();
        let key = |row: &Arc<Namespace>| (row.quota.clone(), row.name.clone());
        let (before, after) = (before.filter(of).map(key), after.filter(of).map(key));
        crate::index::move_key(&mut state.by.namespaces_by_quota, before, after);
    }
}

impl State {
    /// The namespace of this name.
    pub fn namespace(&self, name: &str) -> Option<&Arc<Namespace>> {
        self.tables.namespaces.get(&NamespaceName::from(name))
    }

    /// All namespaces, by name.
    pub fn namespaces(&self) -> impl DoubleEndedIterator<Item = &Arc<Namespace>> {
        self.tables.namespaces.iter()
    }
}

pub(crate) fn upsert(tx: &mut Tx<'_>, cmd: &UpsertNamespaces) -> Result<(), Rejected> {
    for namespace in &cmd.namespaces {
        if !namespace.quota.is_empty() && tx.quota_spec(&namespace.quota).is_none() {
            return Err(Rejected::NamespaceQuotaUnknown {
                namespace: namespace.name.clone(),
                quota: namespace.quota.clone(),
            });
        }
        let create_index = tx.namespace(&namespace.name).map_or(tx.index(), |stored| stored.create_index);
        let row = Namespace { create_index, modify_index: tx.index(), ..namespace.clone() };
        tx.put::<tables::Namespaces>(row);
    }
    Ok(())
}

/// Deletes namespaces. An unknown namespace counts as deleted, and clients rely on that response.
pub(crate) fn delete(tx: &mut Tx<'_>, cmd: &DeleteNamespaces) -> Result<(), Rejected> {
    for name in &cmd.names {
        if *name == DEFAULT_NAMESPACE {
            return Err(Rejected::NamespaceDefault);
        }
        if let Some(job) = tx.jobs_in(name).find(|job| job.status != JobStatus::Dead) {
            return Err(Rejected::NamespaceHasJob { namespace: name.clone(), job: job.id.clone() });
        }
        if let Some(volume) = tx.csi_volumes_in(name).next() {
            return Err(Rejected::NamespaceHasCsiVolume { namespace: name.clone(), volume: volume.id.clone() });
        }
        if tx.variables_in(name, "").next().is_some() {
            return Err(Rejected::NamespaceHasVariable(name.clone()));
        }
        tx.delete::<tables::Namespaces>(name);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
