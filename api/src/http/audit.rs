//! `audit`: requests to the cluster with their actors and outcomes, refused commands included. It reads the log,
//! newest entry first.

use std::ops::Range;
use std::sync::Arc;

use axum::response::Response;
use serde::Serialize;
use serde_json::{Map, Value, json};
use songline_events::entry::Ending;
use songline_events::object_history::{EntryMark, Order};
use songline_events::past::{LoggedCommand, Past, PastError};
use songline_lang::bexpr::Filter;
use songline_model::Time;

use crate::error::ApiError;
use crate::http::call::{Call, Meta};
use crate::http::capability::Capability;
use crate::http::history::{CauseView, IndexPage};
use crate::http::mux::{Methods, Mux};
use crate::http::params::quote;
use crate::http::past::{recorded, say_complete_from};
use crate::http::shown::Shown;
use crate::http::when::parse_time;
use crate::server::Reads;

/// Number of entries that are read at once.
const ENTRIES_AT_ONCE: u64 = 256;
/// Largest number of entries that one request examines. A page of a selective filter ends there, and the next page
/// continues.
const ENTRIES_MAX: u64 = 20_000;
/// Number of items that a summary shows of a longer list.
const SHOWN_ITEMS: usize = 8;
const SHOWN_CHARS: usize = 256;

pub(super) fn routes<S: Reads>(mux: &mut Mux<S>) {
    mux.add(Methods::Get, "/v1/audit", "", Capability::Management, |call| Box::pin(audit(call)));
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct AuditEntry {
    index: u64,
    time: Time,
    command: &'static str,
    actor: String,
    cause: Option<CauseView>,
    /// Null: the outcome is not known any more.
    refused: Option<bool>,
    /// Outcome: `done`, the text of the refusal, or the write that the entry repeats.
    result: Option<String>,
    request: Value,
}

/// Conditions on the wanted entries.
struct Wanted {
    range: Range<u64>,
    since: Option<Time>,
    until: Option<Time>,
    filter: Option<Filter>,
    /// Whether the filter reads requests.
    needs_request: bool,
    /// Whether requests are shown in full.
    full: bool,
}

async fn audit<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let (past, view) = recorded(&call, &call.read_params()?).await?;
    let newest = view.applied_index();
    let page = IndexPage::of(&call, newest)?;
    let wanted = wanted(&call, past, newest)?;
    // Only management tokens get here, and they see everything. The fields equal those of `history`.
    let shown = Shown::to(&call.caller()?);
    let complete_from = past.object_history().oldest();
    let (rows, next) = read(past, &page, &wanted, &shown).await?;
    let response = call.read(&Meta::page(newest, next.map(|index| index.to_string())), &rows)?;
    Ok(say_complete_from(response, complete_from))
}

fn wanted<S>(call: &Call<S>, past: &dyn Past, newest: u64) -> Result<Wanted, ApiError> {
    let query = call.query();
    let index = |name: &str| -> Result<Option<u64>, ApiError> {
        let text = query.text(name);
        let bad = |_| ApiError::bad_request(format!("Unable to parse {name}: {}", quote(&text)));
        if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(bad) }
    };
    let time = |name: &str| -> Result<Option<Time>, ApiError> {
        let text = query.text(name);
        if text.is_empty() { Ok(None) } else { parse_time(name, &text).map(Some) }
    };
    let oldest = past.oldest_entry();
    let from = match index("from_index")? {
        Some(wanted) if wanted < oldest => return Err(PastError::BelowOldest { wanted, oldest }.into()),
        Some(wanted) => wanted,
        None => oldest,
    };
    let to = index("to_index")?.unwrap_or(newest).min(newest);
    let text = query.text("filter");
    let filter = match &*text {
        "" => None,
        text => Some(
            Filter::parse(text)
                .map_err(|error| ApiError::bad_request(format!("failed to read filter expression: {error}")))?,
        ),
    };
    Ok(Wanted {
        range: from..to.saturating_add(1),
        since: time("since")?,
        until: time("until")?,
        needs_request: text.contains("Request"),
        filter,
        full: query.boolean("full")?.unwrap_or(false),
    })
}

/// Rows of a page, and the start index of the next page.
async fn read(
    past: &dyn Past,
    page: &IndexPage,
    wanted: &Wanted,
    shown: &Shown,
) -> Result<(Vec<AuditEntry>, Option<u64>), ApiError> {
    let mut left = match page.order {
        Order::NewestFirst => wanted.range.start..wanted.range.end.min(page.from.saturating_add(1)),
        Order::OldestFirst => wanted.range.start.max(page.from)..wanted.range.end,
    };
    let (mut rows, mut looked) = (Vec::new(), 0);
    while !left.is_empty() {
        if looked >= ENTRIES_MAX {
            let next = if page.order == Order::NewestFirst { left.end - 1 } else { left.start };
            return Ok((rows, Some(next)));
        }
        let count = ENTRIES_AT_ONCE.min(left.end - left.start);
        let piece = match page.order {
            Order::NewestFirst => left.end - count..left.end,
            Order::OldestFirst => left.start..left.start + count,
        };
        looked += count;
        let mut entries = with_marks(past, piece.clone(), shown).await?;
        if page.order == Order::NewestFirst {
            entries.reverse();
            left.end = piece.start;
        } else {
            left.start = piece.end;
        }
        for marked in entries {
            let Some(row) = row(marked, wanted)? else { continue };
            if rows.len() == page.per_page {
                return Ok((rows, Some(row.index)));
            }
            rows.push(row);
        }
    }
    Ok((rows, None))
}

type Marked = (LoggedCommand, Option<EntryMark>, Option<CauseView>);

async fn with_marks(past: &dyn Past, range: Range<u64>, shown: &Shown) -> Result<Vec<Marked>, PastError> {
    let commands = past.commands(range).await?;
    let (object_history, shown) = (Arc::clone(past.object_history()), shown.clone());
    let marked = move |command: LoggedCommand| -> Result<Marked, PastError> {
        let mark = object_history.entry(command.index).map_err(|error| PastError::Failed(error.to_string()))?;
        let cause = command.envelope.cause.map(|cause| CauseView::new(&object_history, cause, &shown)).transpose()?;
        Ok((command, mark, cause))
    };
    let all = move || commands.into_iter().map(marked).collect();
    tokio::task::spawn_blocking(all).await.map_err(|error| PastError::Failed(error.to_string()))?
}

/// The row of an entry; `None` when the entry does not match.
fn row((command, mark, cause): Marked, wanted: &Wanted) -> Result<Option<AuditEntry>, ApiError> {
    let LoggedCommand { index, envelope } = command;
    let time = mark.as_ref().map_or(envelope.at, |mark| mark.at);
    if wanted.since.is_some_and(|since| time < since) || wanted.until.is_some_and(|until| time > until) {
        return Ok(None);
    }
    let (refused, result) = match mark.map(|mark| mark.ending) {
        Some(Ending::Done) => (Some(false), Some("done".to_owned())),
        Some(Ending::Refused(text)) => (Some(true), Some(text)),
        Some(Ending::Repeated(first)) => (Some(false), Some(format!("repeats the write at index {first}"))),
        None => (None, None),
    };
    let mut row = AuditEntry {
        index,
        time,
        command: envelope.command.kind().name(),
        actor: envelope.actor.to_string(),
        cause,
        refused,
        result,
        request: if wanted.needs_request { envelope.command.to_json() } else { Value::Null },
    };
    if let Some(filter) = &wanted.filter {
        let passes = filter
            .matches(&row)
            .map_err(|error| ApiError::bad_request(format!("failed to read result page: {error}")))?;
        if !passes {
            return Ok(None);
        }
    }
    let whole = if wanted.needs_request { row.request } else { envelope.command.to_json() };
    row.request = if wanted.full { whole } else { summary(whole) };
    Ok(Some(row))
}

/// A request without empty fields, with long lists and strings cut.
fn summary(value: Value) -> Value {
    match value {
        Value::String(text) if text.chars().count() > SHOWN_CHARS => {
            let shown: String = text.chars().take(SHOWN_CHARS).collect();
            Value::String(format!("{shown}.. ({} bytes)", text.len()))
        }
        Value::Array(items) => {
            let more = items.len().saturating_sub(SHOWN_ITEMS);
            let mut shown: Vec<Value> = items.into_iter().take(SHOWN_ITEMS).map(summary).collect();
            if more > 0 {
                shown.push(json!({ "More": more }));
            }
            Value::Array(shown)
        }
        Value::Object(fields) => {
            let said = fields.into_iter().filter(|(_, value)| !is_empty(value));
            Value::Object(said.map(|(name, value)| (name, summary(value))).collect::<Map<_, _>>())
        }
        other => other,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
