//! Wire form of long work, for operators.

use std::borrow::Cow;

use serde::Serialize;
use songline_commands::EvalChoice;
use songline_model::Time;
use songline_projections::{STOPPED_BY, Work, WorkTask};

/// One piece of long work.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct WorkView<'a> {
    #[serde(rename = "ID")]
    id: u64,
    kind: &'static str,
    filter: &'a str,
    /// `running`, `complete` or `stopped`.
    status: &'static str,
    /// Reason for the stop; empty otherwise.
    status_description: Cow<'a, str>,
    actor: &'a str,
    total: u64,
    looked: u64,
    deleted: u64,
    opened_at: Time,
    ended_at: Option<Time>,
    create_index: u64,
    modify_index: u64,
}

impl<'a> WorkView<'a> {
    /// Makes the view of a row. `shown` maps an actor to the part that the caller may see.
    pub fn new(work: &'a Work, shown: impl Fn(&'a str) -> &'a str) -> Self {
        let WorkTask::DeleteEvals(choice) = &work.task;
        let filter = match &**choice {
            EvalChoice::Ids(_) => "",
            EvalChoice::Filter(text) => text,
        };
        let refused = work.ended.as_ref().map(|ended| ended.refused.as_str());
        let status = match refused {
            None => "running",
            Some("") => "complete",
            Some(_) => "stopped",
        };
        Self {
            id: work.id.0,
            kind: "eval-delete",
            filter,
            status,
            status_description: match refused.and_then(|text| text.strip_prefix(STOPPED_BY)) {
                Some(actor) => format!("{STOPPED_BY}{}", shown(actor)).into(),
                None => refused.unwrap_or_default().into(),
            },
            actor: shown(&work.actor),
            total: work.total,
            looked: work.looked,
            deleted: work.deleted,
            opened_at: work.opened_at,
            ended_at: work.ended.as_ref().map(|ended| ended.at),
            create_index: work.id.0,
            modify_index: work.modify_index,
        }
    }
}
