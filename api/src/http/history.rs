//! `history/KIND/ID`: all changes of one object, with actor and cause. The changed fields come from the object history, the
//! rest from the log.

use std::sync::Arc;

use axum::response::Response;
use serde::Serialize;
use songline_commands::{Cause, Kind};
use songline_events::object_history::{
    FieldChange, Object, ObjectChange, ObjectDiff, ObjectHistory, ObjectKind, Order,
};
use songline_events::past::{LoggedCommand, Past, PastError};
use songline_events::refill::Refill as _;
use songline_model::{Str, Time};

use crate::error::ApiError;
use crate::http::call::{Call, Meta};
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::http::params::{namespace, quote};
use crate::http::past::{changes_complete_from, recorded_with_rows, say_complete_from};
use crate::http::shown::Shown;
use crate::server::Reads;
use songline_lang::acl::{Access, NamespaceCapability, NodePoolCapability};

/// Default number of changes per page; the constant below it bounds the page.
const PER_PAGE: usize = 100;
const PER_PAGE_MAX: usize = 1000;

pub(super) fn routes<S: Reads>(mux: &mut Mux<S>) {
    let (root, read_job) = ("/v1/history/", Capability::Namespace(&[NamespaceCapability::ReadJob]));
    mux.add(Methods::Get, root, "allocation/{}", read_job, |call| Box::pin(history(call, ObjectKind::Allocation)));
    mux.add(Methods::Get, root, "deployment/{}", read_job, |call| Box::pin(history(call, ObjectKind::Deployment)));
    mux.add(Methods::Get, root, "evaluation/{}", read_job, |call| Box::pin(history(call, ObjectKind::Evaluation)));
    mux.add(Methods::Get, root, "job/{}", read_job, |call| Box::pin(history(call, ObjectKind::Job)));
    mux.add(Methods::Get, root, "namespace/{}", Capability::Management, |call| {
        Box::pin(history(call, ObjectKind::Namespace))
    });
    mux.add(Methods::Get, root, "node/{}", Capability::Node(Access::Read), |call| {
        Box::pin(history(call, ObjectKind::Node))
    });
    mux.add(Methods::Get, root, "node_pool/{}", Capability::NodePool(NodePoolCapability::Read), |call| {
        Box::pin(history(call, ObjectKind::NodePool))
    });
}

/// Cause of an entry.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct CauseView {
    index: u64,
    command: &'static str,
}

impl CauseView {
    /// The view of a cause. The record knows the kind better than the cause's writer, which knew only the index.
    /// Reads files.
    pub(super) fn new(object_history: &ObjectHistory, cause: Cause, shown: &Shown) -> Result<Self, PastError> {
        let mark = object_history.entry(cause.index).map_err(|error| PastError::Failed(error.to_string()))?;
        let kind = mark.map(|mark| mark.kind).or_else(|| Kind::from_number(cause.kind));
        Ok(Self { index: cause.index, command: kind.map_or("", |kind| shown.command(kind)) })
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ChangeView {
    index: u64,
    time: Option<Time>,
    command: &'static str,
    actor: Option<String>,
    cause: Option<CauseView>,
    change: &'static str,
    diff: Vec<FieldChange>,
}

/// Parameters of a list that is ordered by index.
pub(super) struct IndexPage {
    /// Newest first by default.
    pub(super) order: Order,
    /// Number of rows.
    pub(super) per_page: usize,
    /// Start index.
    pub(super) from: u64,
}

impl IndexPage {
    /// Parses the parameters. `newest` is the index of the state.
    pub(super) fn of<S>(call: &Call<S>, newest: u64) -> Result<Self, ApiError> {
        let query = call.query();
        let order = match &*query.text("order") {
            "" | "newest" => Order::NewestFirst,
            "oldest" => Order::OldestFirst,
            other => {
                return Err(ApiError::bad_request(format!(
                    "Expect `newest` or `oldest` for order, got {}",
                    quote(other)
                )));
            }
        };
        let number = |name: &str| -> Result<Option<u64>, ApiError> {
            let text = query.text(name);
            let bad = |_| ApiError::bad_request(format!("Unable to parse {name}: {}", quote(&text)));
            if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(bad) }
        };
        let per_page = number("per_page")?
            .filter(|rows| *rows > 0)
            .map_or(PER_PAGE, |rows| usize::try_from(rows).unwrap_or(PER_PAGE_MAX));
        let first = match order {
            Order::NewestFirst => newest,
            Order::OldestFirst => 0,
        };
        let from = number("next_token")?.unwrap_or(first);
        Ok(Self { order, per_page: per_page.min(PER_PAGE_MAX), from: from.min(newest) })
    }
}

/// Reads the record on a thread that may block on files.
pub(super) async fn changes_of(
    past: &dyn Past,
    object: Object,
    from: u64,
    order: Order,
    changes_max: usize,
) -> Result<Vec<ObjectChange>, PastError> {
    let (object_history, events) = (Arc::clone(past.object_history()), Arc::clone(past.events()));
    let work = move || object_history.of_object(&events, &object, from, order, changes_max);
    let read = tokio::task::spawn_blocking(work).await;
    let read = read.map_err(|error| PastError::Failed(error.to_string()))?;
    read.map_err(|error| PastError::Failed(error.to_string()))
}

/// The command of one entry, and the time at which it was applied. `None`: the entry is no longer in the log.
pub(super) async fn command_at(past: &dyn Past, index: u64) -> Result<Option<(LoggedCommand, Time)>, PastError> {
    if index < past.oldest_entry() {
        return Ok(None);
    }
    let Some(command) = past.commands(index..index + 1).await?.pop() else { return Ok(None) };
    let mark = past.object_history().entry(index).map_err(|error| PastError::Failed(error.to_string()))?;
    let at = mark.map_or(command.envelope.at, |mark| mark.at);
    Ok(Some((command, at)))
}

async fn history<S: Reads>(call: Call<S>, kind: ObjectKind) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let (past, now) = recorded_with_rows(&call, &params).await?;
    // Taken before the record is read: entries that are filled in meanwhile only make the answer longer.
    let complete_from = changes_complete_from(past);
    let newest = now.applied_index();
    let page = IndexPage::of(&call, newest)?;
    let object = object(&call, kind)?;
    let mut changes = changes_of(past, object.clone(), page.from, page.order, page.per_page + 1).await?;
    // A caller that may read one namespace does not see another namespace's objects.
    let shown = Shown::to(&call.caller()?);
    let in_sight = |namespace: &str| namespace.is_empty() || params.in_namespace(namespace) && shown.jobs_in(namespace);
    changes.retain(|change| change.index <= newest && in_sight(&change.namespace));
    if changes.is_empty() {
        let text = format!(
            "no change of {} {:?} is known: changes are kept from index {complete_from} on",
            kind.as_str(),
            object.id.as_str()
        );
        let more =
            if *past.object_history().losses().borrow() { "; older ones are being read from the log" } else { "" };
        return Err(ApiError::missing(text + more, newest));
    }
    let next_token = changes.get(page.per_page).map(|change| change.index.to_string());
    changes.truncate(page.per_page);
    let mut rows = Vec::with_capacity(changes.len());
    for change in changes {
        rows.push(view(past, change, &shown).await?);
    }
    Ok(say_complete_from(call.read(&Meta::page(newest, next_token), &rows)?, complete_from))
}

/// Field of an allocation that names its node.
const NODE_NAME: &str = "NodeName";

async fn view(past: &dyn Past, change: ObjectChange, shown: &Shown) -> Result<ChangeView, ApiError> {
    let command = command_at(past, change.index).await?;
    let cause = command.as_ref().and_then(|(command, _)| command.envelope.cause);
    let (word, mut diff) = match change.diff {
        ObjectDiff::Created(diff) => ("created", diff),
        ObjectDiff::Updated(diff) => ("updated", diff),
        ObjectDiff::Deleted => ("deleted", Vec::new()),
    };
    diff.retain(|field| shown.nodes() || field.path != NODE_NAME);
    Ok(ChangeView {
        index: change.index,
        time: command.as_ref().map(|(_, at)| *at),
        command: shown.command(change.kind),
        actor: command.as_ref().map(|(command, _)| shown.actor(&command.envelope.actor.to_string()).to_owned()),
        cause: cause.map(|cause| CauseView::new(past.object_history(), cause, shown)).transpose()?,
        change: word,
        diff,
    })
}

fn object<S>(call: &Call<S>, kind: ObjectKind) -> Result<Object, ApiError> {
    match kind {
        ObjectKind::Job => Ok(Object::job(&namespace(call.query()), call.id())),
        ObjectKind::Namespace | ObjectKind::NodePool => {
            Ok(Object { kind, namespace: Str::default(), id: Str::new(call.id()) })
        }
        ObjectKind::Allocation | ObjectKind::Deployment | ObjectKind::Evaluation | ObjectKind::Node => {
            Ok(Object::new(kind, whole_id(call.id())?))
        }
    }
}

/// Parses a whole id into the record's form.
pub(super) fn whole_id(text: &str) -> Result<uuid::Uuid, ApiError> {
    let id = crate::http::ids::exact(text).map_err(ApiError::bad_request)?;
    id.ok_or_else(|| ApiError::bad_request(format!("{} is no id", quote(text))))
}
