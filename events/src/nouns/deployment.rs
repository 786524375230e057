//! Announcements of deployments.

use songline_model::{Deployment, JobKey, Str};
use songline_projections::tables;

use super::{Announce, text};
use crate::event::{Right, Topic};
use crate::object_history::{Object, ObjectKind};
use crate::watch::WatchKey;

impl Announce for tables::Deployment {
    const TOPIC: Option<Topic> = Some(Topic::of_nomad("Deployment").needs(Right::ReadJob));

    fn key(row: &Deployment) -> Str {
        text(row.id)
    }

    fn namespace(row: &Deployment) -> Str {
        row.namespace.0.clone()
    }

    fn filter_keys(row: &Deployment) -> Option<Vec<Str>> {
        Some(vec![row.job_id.0.clone()])
    }

    fn object(row: &Deployment) -> Option<Object> {
        Some(Object::new(ObjectKind::Deployment, row.id))
    }

    fn written_at(row: &Deployment) -> u64 {
        row.modify_index
    }

    fn watch_keys(row: &Deployment, watch: &mut impl FnMut(WatchKey)) {
        watch(WatchKey::Deployment(row.id));
        watch(WatchKey::JobDeployments(JobKey { namespace: row.namespace.clone(), id: row.job_id.clone() }));
    }
}
