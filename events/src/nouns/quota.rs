//! Announcements of quotas and of what their namespaces use.

use songline_model::{QuotaSpec, QuotaUsage, Str};
use songline_projections::tables;

use super::Announce;
use crate::event::Topic;
use crate::watch::WatchKey;

impl Announce for tables::QuotaSpecs {
    const TOPIC: Option<Topic> = Some(Topic::of_full("Quota"));

    fn key(row: &QuotaSpec) -> Str {
        row.name.0.clone()
    }

    fn watch_keys(row: &QuotaSpec, watch: &mut impl FnMut(WatchKey)) {
        watch(Self::named(&row.name.0));
    }
}

// Without events: derived from allocations, variables and namespaces, whose own events say what has changed.
impl Announce for tables::QuotaUsages {
    fn watch_keys(row: &QuotaUsage, watch: &mut impl FnMut(WatchKey)) {
        watch(Self::named(&row.name.0));
    }
}
