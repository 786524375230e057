//! Scaling policies as rows derived from the groups of jobs, and scaling events of groups.

use std::sync::Arc;

use songline_commands::AddScalingEvent;
use songline_model::{Job, JobKey, JobScalingEvents, ScalingEvent, ScalingPolicy, ScalingTarget, Str};

use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;

impl Rules<Str, ScalingPolicy> for tables::ScalingPolicy {
    fn key(row: &ScalingPolicy) -> Str {
        row.id.clone()
    }

    #[cfg(test)]
    fn in_story(row: &ScalingPolicy) -> String {
        format!("policy:{}", row.id)
    }

    fn reindex(state: &mut State, before: Option<&Arc<ScalingPolicy>>, after: Option<&Arc<ScalingPolicy>>) {
        let by = &mut state.by;
        let target = |row: &Arc<ScalingPolicy>| (row.target_key(), row.id.clone());
        crate::index::move_key(&mut by.policies_by_target, before.map(target), after.map(target));
        let kind = |row: &Arc<ScalingPolicy>| (row.kind.clone(), row.id.clone());
        crate::index::move_key(&mut by.policies_by_type, before.map(kind), after.map(kind));
    }
}

impl Rules<JobKey, JobScalingEvents> for tables::ScalingEvent {
    fn key(row: &JobScalingEvents) -> JobKey {
        row.job_key()
    }

    #[cfg(test)]
    fn in_story(row: &JobScalingEvents) -> String {
        format!("scalings:{}", row.job_id)
    }
}

impl State {
    /// The scaling policy with this id.
    pub fn scaling_policy(&self, id: &str) -> Option<&Arc<ScalingPolicy>> {
        self.tables.scaling_policy.get(&Str::new(id))
    }

    /// All scaling policies, by id.
    pub fn scaling_policies(&self) -> impl DoubleEndedIterator<Item = &Arc<ScalingPolicy>> {
        self.tables.scaling_policy.iter()
    }

    /// The scaling policies whose id has this prefix, by id.
    pub fn scaling_policies_with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Arc<ScalingPolicy>> {
        self.tables.scaling_policy.range(Str::new(prefix)..).take_while(move |row| row.id.starts_with(prefix))
    }

    /// The scaling policies of this type, by id.
    pub fn scaling_policies_of_type<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Arc<ScalingPolicy>> {
        let from = (Str::new(kind), Str::default());
        let of_kind = self.by.policies_by_type.range(from..).take_while(move |(found, _)| found == kind);
        of_kind.filter_map(|(_, id)| self.scaling_policy(id))
    }

    /// The scaling policies of a job, by group.
    pub fn scaling_policies_of_job<'a>(
        &'a self,
        namespace: &str,
        id: &str,
    ) -> impl Iterator<Item = &'a Arc<ScalingPolicy>> + 'a {
        let key = JobKey::new(namespace, id);
        let from = (ScalingTarget { job: key.clone(), ..ScalingTarget::default() }, Str::default());
        let of_job = self.by.policies_by_target.range(from..).take_while(move |(target, _)| target.job == key);
        of_job.filter_map(|(_, id)| self.scaling_policy(id))
    }

    /// The scaling events of a job's groups.
    pub fn scaling_events(&self, namespace: &str, id: &str) -> Option<&Arc<JobScalingEvents>> {
        self.tables.scaling_event.get(&JobKey::new(namespace, id))
    }

    fn scaling_policy_about(&self, target: &ScalingTarget) -> Option<&Arc<ScalingPolicy>> {
        let found = self.by.policies_by_target.range((target.clone(), Str::default())..).next();
        found.filter(|(known, _)| known == target).and_then(|(_, id)| self.scaling_policy(id))
    }
}

/// Updates the rows to match a job that is about to be written, and the ids and indexes of its policies to match the
/// rows. A row whose policy is unchanged is not written.
pub(crate) fn follow_job(tx: &mut Tx<'_>, job: &mut Job) {
    let key = job.key();
    let mut kept = Vec::new();
    for group in job.task_groups.iter_mut().flatten() {
        let Some(policy) = &mut group.scaling else { continue };
        let target = policy.target_key();
        // A dispatched child has the policies of its parent, whose rows stay the parent's.
        if target.job != key {
            continue;
        }
        match tx.scaling_policy_about(&target).cloned() {
            Some(stored) => {
                let same = stored.says_the_same(policy);
                policy.id = stored.id.clone();
                policy.create_index = stored.create_index;
                policy.modify_index = if same { stored.modify_index } else { tx.index() };
                if !same {
                    tx.put::<tables::ScalingPolicy>(policy.clone());
                }
            }
            None if policy.id.is_empty() || tx.scaling_policy(&policy.id).is_some() => continue,
            None => {
                (policy.create_index, policy.modify_index) = (tx.index(), tx.index());
                tx.put::<tables::ScalingPolicy>(policy.clone());
            }
        }
        kept.push(target);
    }
    drop_policies(tx, &key, |target| !kept.contains(target));
}

/// Deletes the policies and events of a purged job.
pub(crate) fn drop_all(tx: &mut Tx<'_>, key: &JobKey) {
    drop_policies(tx, key, |_| true);
    tx.delete::<tables::ScalingEvent>(key);
}

fn drop_policies(tx: &mut Tx<'_>, key: &JobKey, gone: impl Fn(&ScalingTarget) -> bool) {
    let rows = tx.scaling_policies_of_job(&key.namespace, &key.id).filter(|row| gone(&row.target_key()));
    let ids: Vec<Str> = rows.map(|row| row.id.clone()).collect();
    for id in ids {
        tx.delete::<tables::ScalingPolicy>(&id);
    }
}

/// Records a scaling event. Refused if the job no longer exists.
pub(crate) fn add_event(tx: &mut Tx<'_>, cmd: &AddScalingEvent) -> Result<(), Rejected> {
    if tx.job_by_key(&cmd.job).is_none() {
        return Err(Rejected::JobNotFound);
    }
    let stored = tx.scaling_events(&cmd.job.namespace, &cmd.job.id);
    let mut row = stored.map(|row| JobScalingEvents::clone(row)).unwrap_or_default();
    row.namespace = cmd.job.namespace.clone();
    row.job_id = cmd.job.id.clone();
    row.modify_index = tx.index();
    row.add(cmd.group.clone(), ScalingEvent { create_index: tx.index(), ..cmd.event.clone() });
    tx.put::<tables::ScalingEvent>(row);
    Ok(())
}

#[cfg(test)]
mod tests;
