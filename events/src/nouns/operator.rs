//! Announcements of the scheduler configuration and of the cluster's metadata: tables with one row.

use songline_model::{SchedulerConfiguration, Str};
use songline_projections::{ClusterMetadata, tables};

use super::Announce;
use crate::event::Topic;

impl Announce for tables::SchedulerConfig {
    const TOPIC: Option<Topic> = Some(Topic::of_full("SchedulerConfiguration"));

    fn key(_row: &SchedulerConfiguration) -> Str {
        Str::new_static("scheduler")
    }
}

impl Announce for tables::ClusterMeta {
    const TOPIC: Option<Topic> = Some(Topic::of_full("ClusterMetadata"));

    fn key(_row: &ClusterMetadata) -> Str {
        Str::new_static("cluster")
    }
}
