//! Announcements of variables, without their items.

use serde::Serialize;
use songline_model::{Str, Variable};
use songline_projections::tables;

use super::Announce;
use crate::event::Topic;
use crate::watch::WatchKey;

impl Announce for tables::Variables {
    const TOPIC: Option<Topic> = Some(Topic::of_full("Variable"));

    fn key(row: &Variable) -> Str {
        row.meta.path.clone()
    }

    fn namespace(row: &Variable) -> Str {
        row.meta.namespace.0.clone()
    }

    fn view(row: &Variable) -> impl Serialize {
        &row.meta
    }

    fn watch_keys(row: &Variable, watch: &mut impl FnMut(WatchKey)) {
        watch(WatchKey::Variable(row.key()));
    }
}

// Derived from the variables.
impl Announce for tables::VariablesQuota {}
