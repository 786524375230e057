//! Launches of periodic jobs: the time of the last launch, or of the first registration. The leader schedules and
//! starts launches.

use std::sync::Arc;

use songline_model::{Job, JobKey, PeriodicLaunch, Time};

use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;

impl Rules<JobKey, PeriodicLaunch> for tables::PeriodicLaunch {
    fn key(row: &PeriodicLaunch) -> JobKey {
        row.key()
    }

    #[cfg(test)]
    fn in_story(row: &PeriodicLaunch) -> String {
        format!("launch:{}", row.id)
    }
}

impl State {
    /// The last launch of a periodic job.
    pub fn periodic_launch(&self, namespace: &str, id: &str) -> Option<&Arc<PeriodicLaunch>> {
        self.tables.periodic_launch.get(&JobKey::new(namespace, id))
    }

    /// The last launches of all periodic jobs, by namespace and id.
    pub fn periodic_launches(&self) -> impl DoubleEndedIterator<Item = &Arc<PeriodicLaunch>> {
        self.tables.periodic_launch.iter()
    }
}

/// Records the first registration of a periodic job, so that a new leader does not take every launch since 1970 as
/// missed; and the launch of a parent, when its child is registered.
pub(crate) fn registered(tx: &mut Tx<'_>, job: &Job) -> Result<(), Rejected> {
    if job.is_periodic_active() && tx.periodic_launch(&job.namespace, &job.id).is_none() {
        launched(tx, &job.key(), tx.at());
    }
    if job.parent_id.is_empty() {
        return Ok(());
    }
    let parent =
        tx.job(&job.namespace, &job.parent_id).filter(|parent| parent.is_periodic() && !parent.is_parameterized());
    let Some(parent) = parent.map(|parent| parent.key()) else { return Ok(()) };
    let at = PeriodicLaunch::launch_of(&parent.id, &job.id).ok_or_else(|| Rejected::PeriodicChildId(job.id.clone()))?;
    launched(tx, &parent, at);
    Ok(())
}

fn launched(tx: &mut Tx<'_>, key: &JobKey, launch: Time) {
    let create_index = tx.tables.periodic_launch.get(key).map_or(tx.index(), |stored| stored.create_index);
    let row = PeriodicLaunch {
        id: key.id.clone(),
        namespace: key.namespace.clone(),
        launch,
        create_index,
        modify_index: tx.index(),
    };
    tx.put::<tables::PeriodicLaunch>(row);
}

/// Deletes the row of a purged job. The job may have been periodic in an earlier version only, so the row is always
/// looked up.
pub(crate) fn purged(tx: &mut Tx<'_>, key: &JobKey) {
    tx.delete::<tables::PeriodicLaunch>(key);
}

#[cfg(test)]
mod tests;
