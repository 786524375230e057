//! Announcements of root keys, without their material.

use serde::Serialize;
use songline_model::{RootKey, Str};
use songline_projections::tables;

use super::{Announce, text};
use crate::event::Topic;

impl Announce for tables::RootKeys {
    const TOPIC: Option<Topic> = Some(Topic::of_full("RootKey"));

    fn key(row: &RootKey) -> Str {
        text(row.meta.key_id)
    }

    fn view(row: &RootKey) -> impl Serialize {
        &row.meta
    }
}
