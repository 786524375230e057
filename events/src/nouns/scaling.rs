//! Announcements of scaling policies and of the scaling events of jobs.

use songline_model::{JobScalingEvents, ScalingPolicy, Str};
use songline_projections::tables;

use super::Announce;
use crate::event::Topic;
use crate::watch::WatchKey;

// Readers wait only on lists, so the table's key is enough.
impl Announce for tables::ScalingPolicy {
    const TOPIC: Option<Topic> = Some(Topic::of_full("ScalingPolicy"));

    fn key(row: &ScalingPolicy) -> Str {
        row.id.clone()
    }

    fn namespace(row: &ScalingPolicy) -> Str {
        row.target_key().job.namespace.0
    }

    fn filter_keys(row: &ScalingPolicy) -> Option<Vec<Str>> {
        Some(vec![row.target_key().job.id.0])
    }
}

impl Announce for tables::ScalingEvent {
    const TOPIC: Option<Topic> = Some(Topic::of_full("ScalingEvent").shown_as("ScalingEvents"));

    fn key(row: &JobScalingEvents) -> Str {
        row.job_id.0.clone()
    }

    fn namespace(row: &JobScalingEvents) -> Str {
        row.namespace.0.clone()
    }

    fn watch_keys(row: &JobScalingEvents, watch: &mut impl FnMut(WatchKey)) {
        watch(WatchKey::JobScaling(row.job_key()));
    }
}
