//! Quotas: the limits of namespaces, and what the namespaces use. The use of each namespace is kept with every written
//! alloc, and the use of a quota is the sum over its namespaces, so neither is ever recounted. The scheduler and the
//! plan applier leave out what would exceed a limit; `check` is the last word.

#[cfg(test)]
pub(crate) mod check;

use std::collections::BTreeSet;
use std::sync::Arc;

use songline_commands::{DeleteQuotaSpecs, UpsertQuotaSpecs};
use songline_model::{Allocation, NamespaceName, QuotaLimit, QuotaName, QuotaSpec, QuotaUsage, QuotaUsed, Str};

use crate::change::Change;
use crate::rejected::Rejected;
use crate::state::{Indexes, State};
use crate::table::{Rules, tables};
use crate::tx::Tx;

impl Rules<QuotaName, QuotaSpec> for tables::QuotaSpecs {
    fn key(row: &QuotaSpec) -> QuotaName {
        row.name.clone()
    }

    #[cfg(test)]
    fn in_story(row: &QuotaSpec) -> String {
        format!("spec:{}", row.name)
    }
}

impl Rules<QuotaName, QuotaUsage> for tables::QuotaUsages {
    fn key(row: &QuotaUsage) -> QuotaName {
        row.name.clone()
    }

    #[cfg(test)]
    fn in_story(row: &QuotaUsage) -> String {
        format!("usage:{}", row.name)
    }
}

/// A quota that limits a namespace in the region of the servers.
#[derive(Debug, Clone, Copy)]
pub struct LimitedBy<'a> {
    /// Name of the quota.
    pub quota: &'a QuotaName,
    /// The limit in the region.
    pub limit: &'a QuotaLimit,
}

impl State {
    /// The quota of this name.
    pub fn quota_spec(&self, name: &str) -> Option<&Arc<QuotaSpec>> {
        self.tables.quota_specs.get(&QuotaName::from(name))
    }

    /// All quotas, by name.
    pub fn quota_specs(&self) -> impl DoubleEndedIterator<Item = &Arc<QuotaSpec>> {
        self.tables.quota_specs.iter()
    }

    /// Row with the amounts that the namespaces of a quota use.
    pub fn quota_usage(&self, name: &str) -> Option<&Arc<QuotaUsage>> {
        self.tables.quota_usages.get(&QuotaName::from(name))
    }

    /// The use of all quotas, by name.
    pub fn quota_usages(&self) -> impl DoubleEndedIterator<Item = &Arc<QuotaUsage>> {
        self.tables.quota_usages.iter()
    }

    /// The namespaces that use a quota, by name.
    pub fn namespaces_of_quota(&self, name: &QuotaName) -> impl Iterator<Item = &NamespaceName> {
        let first = (name.clone(), NamespaceName::default());
        self.by.namespaces_by_quota.range(first..).take_while(move |(of, _)| of == name).map(|(_, name)| name)
    }

    /// The quota that limits a namespace; `None` without one, or when it has no limit in this region.
    pub fn quota_of_namespace(&self, namespace: &str) -> Option<LimitedBy<'_>> {
        let quota = &self.namespace(namespace)?.quota;
        let region = &self.tables.quota_usages.get(quota)?.region;
        let limit = self.tables.quota_specs.get(quota)?.limit(region)?;
        Some(LimitedBy { quota, limit })
    }

    /// Whether a namespace uses this quota.
    pub fn is_in_quota(&self, namespace: &str, quota: &QuotaName) -> bool {
        self.namespace(namespace).is_some_and(|row| row.quota == *quota)
    }

    /// Amounts that the namespaces of a quota use together in this state.
    pub fn used_of_quota(&self, name: &QuotaName) -> QuotaUsed {
        let mut sum = QuotaUsed::default();
        for namespace in self.namespaces_of_quota(name) {
            if let Some(used) = self.by.used_by_namespace.get(namespace) {
                sum.add(used);
            }
            let variables_bytes = self.variables_quota(namespace).map_or(0, |row| row.size);
            sum.add(&QuotaUsed { variables_bytes, ..QuotaUsed::default() });
        }
        sum
    }
}

/// Counts a written alloc in the use of its namespace.
pub(crate) fn count_alloc(by: &mut Indexes, before: Option<&Arc<Allocation>>, after: Option<&Arc<Allocation>>) {
    if let (Some(before), Some(after)) = (before, after)
        && before.terminal() == after.terminal()
        && before.namespace == after.namespace
        && same_resources(before, after)
    {
        return;
    }
    if let Some(row) = before {
        change(by, row, QuotaUsed::subtract);
    }
    if let Some(row) = after {
        change(by, row, QuotaUsed::add);
    }
}

fn same_resources(one: &Allocation, other: &Allocation) -> bool {
    match (&one.allocated_resources, &other.allocated_resources) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn change(by: &mut Indexes, row: &Allocation, change: fn(&mut QuotaUsed, &QuotaUsed)) {
    let used = QuotaUsed::of(row);
    if used.is_zero() {
        return;
    }
    let known = by.used_by_namespace.entry(row.namespace.clone()).or_default();
    change(known, &used);
    if known.is_zero() {
        by.used_by_namespace.remove(&row.namespace);
    }
}

pub(crate) fn upsert(tx: &mut Tx<'_>, cmd: &UpsertQuotaSpecs) -> Result<(), Rejected> {
    for quota in &cmd.quotas {
        let create_index = tx.quota_spec(&quota.name).map_or(tx.index(), |stored| stored.create_index);
        let row = QuotaSpec { create_index, modify_index: tx.index(), ..quota.clone() };
        tx.put::<tables::QuotaSpecs>(row);
        if tx.quota_usage(&quota.name).is_none_or(|usage| usage.region != cmd.region) {
            tx.put::<tables::QuotaUsages>(QuotaUsage {
                name: quota.name.clone(),
                region: cmd.region.clone(),
                used: tx.used_of_quota(&quota.name),
                create_index,
                modify_index: tx.index(),
            });
        }
    }
    Ok(())
}

pub(crate) fn delete(tx: &mut Tx<'_>, cmd: &DeleteQuotaSpecs) -> Result<(), Rejected> {
    for name in &cmd.names {
        if let Some(namespace) = tx.namespaces_of_quota(name).next() {
            return Err(Rejected::QuotaInUse { quota: name.clone(), namespace: namespace.clone() });
        }
        if !tx.delete::<tables::QuotaSpecs>(name) {
            return Err(Rejected::QuotaNotFound(name.clone()));
        }
        tx.delete::<tables::QuotaUsages>(name);
    }
    Ok(())
}

/// Refuses an entry that makes the use of a quota grow above its limit. The stored usage rows are those before the
/// entry, because `follow` has not run yet.
pub(crate) fn check(tx: &Tx<'_>) -> Result<(), Rejected> {
    for quota in touched(tx) {
        let (Some(spec), Some(usage)) = (tx.quota_spec(&quota), tx.quota_usage(&quota)) else { continue };
        let Some(limit) = spec.limit(&usage.region) else { continue };
        let exceeded = limit.exceeded(&usage.used, &tx.used_of_quota(&quota));
        if !exceeded.is_empty() {
            let exceeded: Vec<&str> = exceeded.iter().map(Str::as_str).collect();
            return Err(Rejected::QuotaExceeded { exceeded: exceeded.join(", "), quota });
        }
    }
    Ok(())
}

/// Writes the usage rows of the quotas whose use the entry has changed.
pub(crate) fn follow(tx: &mut Tx<'_>) {
    for quota in touched(tx) {
        let Some(stored) = tx.quota_usage(&quota) else { continue };
        let used = tx.used_of_quota(&quota);
        if used != stored.used {
            let row = QuotaUsage { used, modify_index: tx.index(), ..QuotaUsage::clone(stored) };
            tx.put::<tables::QuotaUsages>(row);
        }
    }
}

/// The quotas whose use the entry may have changed.
fn touched(tx: &Tx<'_>) -> BTreeSet<QuotaName> {
    let mut quotas = BTreeSet::new();
    if tx.quota_specs().next().is_none() {
        return quotas;
    }
    let mut namespaces = BTreeSet::new();
    for change in tx.changes() {
        if let Change::Alloc { before, after } = change {
            namespaces.extend(before.iter().chain(after).map(|row| row.namespace.clone()));
        } else if let Change::VariablesQuota { before, after } = change {
            namespaces.extend(before.iter().chain(after).map(|row| row.namespace.clone()));
        } else if let Change::Namespace { before, after } = change {
            quotas.extend(before.iter().chain(after).map(|row| row.quota.clone()));
        }
    }
    quotas.extend(namespaces.iter().filter_map(|name| tx.namespace(name)).map(|row| row.quota.clone()));
    quotas
}

#[cfg(test)]
mod tests;
