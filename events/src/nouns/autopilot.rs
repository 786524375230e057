//! Announcements of the autopilot configuration, which is one row.

use songline_model::{AutopilotConfig, Str};
use songline_projections::tables;

use super::Announce;
use crate::event::Topic;

impl Announce for tables::AutopilotConfig {
    const TOPIC: Option<Topic> = Some(Topic::of_full("AutopilotConfiguration"));

    fn key(_row: &AutopilotConfig) -> Str {
        Str::new_static("autopilot")
    }
}
