//! Announcements of event sinks.

use serde::Serialize;
use songline_model::{EventSink, EventSinkProgress, Str};
use songline_projections::tables;
use songline_wire::event_sink::EventSinkView;

use super::Announce;
use crate::event::Topic;
use crate::watch::WatchKey;

impl Announce for tables::EventSinks {
    const TOPIC: Option<Topic> = Some(Topic::of_full("EventSink"));

    fn key(row: &EventSink) -> Str {
        row.id.0.clone()
    }

    /// Without the secret and the values of headers.
    fn view(row: &EventSink) -> impl Serialize {
        EventSinkView::new(row)
    }

    fn watch_keys(row: &EventSink, watch: &mut impl FnMut(WatchKey)) {
        watch(Self::named(&row.id.0));
    }
}

// Without events: the event of a delivery would itself be delivered, and so on without end.
impl Announce for tables::EventSinkProgress {
    fn watch_keys(row: &EventSinkProgress, watch: &mut impl FnMut(WatchKey)) {
        watch(Self::named(&row.id.0));
    }
}
