//! Announcements of CSI volumes and plugins.

use songline_model::{CsiPlugin, CsiVolume, Str};
use songline_projections::tables;

use super::Announce;
use crate::event::Topic;
use crate::watch::WatchKey;

impl Announce for tables::CsiVolumes {
    const TOPIC: Option<Topic> = Some(Topic::of_full("CSIVolume"));

    fn key(row: &CsiVolume) -> Str {
        row.id.0.clone()
    }

    fn namespace(row: &CsiVolume) -> Str {
        row.namespace.0.clone()
    }

    fn filter_keys(row: &CsiVolume) -> Option<Vec<Str>> {
        Some(vec![row.plugin_id.0.clone()])
    }

    fn watch_keys(row: &CsiVolume, watch: &mut impl FnMut(WatchKey)) {
        watch(WatchKey::CsiVolume(row.key()));
    }
}

impl Announce for tables::CsiPlugins {
    const TOPIC: Option<Topic> = Some(Topic::of_full("CSIPlugin"));

    fn key(row: &CsiPlugin) -> Str {
        row.id.0.clone()
    }

    fn watch_keys(row: &CsiPlugin, watch: &mut impl FnMut(WatchKey)) {
        watch(Self::named(&row.id.0));
    }
}
