//! Announcements of the leader's long work.

use songline_model::Str;
use songline_projections::{Work, tables};

use super::{Announce, text};
use crate::event::Topic;

impl Announce for tables::PendingWork {
    const TOPIC: Option<Topic> = Some(Topic::of_full("PendingWork"));

    fn key(row: &Work) -> Str {
        text(row.id.0)
    }
}
