//! Long work: pieces that are running or have ended, waiting for their end, stopping them. These routes are ours.

use std::sync::Arc;

use axum::response::Response;
use serde::Serialize;
use songline_commands::{StopWork, WorkId};
use songline_events::watch::WatchKey;
use songline_model::Time;
use songline_projections::{Table, Work};
use songline_wire::work::WorkView;

use crate::error::ApiError;
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta, empty_written};
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::http::shown::Shown;
use crate::server::{Reads, Refilling, Upkeep, Writes};
use songline_lang::acl::Access;

pub(super) fn routes<S: Writes + Upkeep>(mux: &mut Mux<S>) {
    mux.add(Methods::Get, "/v1/operator/pending-work", "", Capability::Operator(Access::Read), |call| {
        Box::pin(list(call))
    });
    mux.add(Methods::Get, "/v1/operator/pending-work/", "{}", Capability::Operator(Access::Read), |call| {
        Box::pin(read(call))
    });
    mux.add(Methods::Delete, "/v1/operator/pending-work/", "{}", Capability::Management, |call| Box::pin(stop(call)));
}

/// A store that this server is refilling. It has the fields of long work, so that one list shows both. It has no id:
/// it belongs to no entry and cannot be stopped.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct RefillView {
    #[serde(rename = "ID")]
    id: u64,
    kind: &'static str,
    filter: &'static str,
    status: &'static str,
    status_description: String,
    actor: &'static str,
    /// Number of wanted entries.
    total: u64,
    /// Number of entries that were read.
    looked: u64,
    deleted: u64,
    opened_at: Option<Time>,
    ended_at: Option<Time>,
    /// Index of the oldest filled entry; 0 while there is none.
    create_index: u64,
    /// Index of the newest filled entry.
    modify_index: u64,
}

impl RefillView {
    /// Makes the view of a refill.
    fn new(refilling: &Refilling) -> Self {
        let filling = &refilling.filling;
        let looked = if filling.from == 0 { 0 } else { filling.through + 1 - filling.from };
        Self {
            id: 0,
            kind: match refilling.store {
                "events" => "refill-events",
                _ => "refill-touches",
            },
            filter: "",
            status: "running",
            status_description: format!("complete from index {} on", filling.before),
            actor: "",
            total: filling.before.saturating_sub(filling.from.max(1)),
            looked,
            deleted: 0,
            opened_at: refilling.since,
            ended_at: None,
            create_index: filling.from,
            modify_index: filling.through,
        }
    }
}

/// A row of the list.
#[derive(Serialize)]
#[serde(untagged)]
enum Pending<'a> {
    Work(WorkView<'a>),
    Refill(RefillView),
}

async fn list<S: Reads + Upkeep>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let found = blocking::run(&call, &params, &[WatchKey::Table(Table::PendingWork)], |view| {
        Ok(At { index: view.table_index(Table::PendingWork), value: view.all_work().cloned().collect::<Vec<_>>() })
    })
    .await?;
    let shown = Shown::to(&call.caller()?);
    let work = found.value.iter().map(|work| Pending::Work(WorkView::new(work, |actor| shown.actor(actor))));
    // Refills belong to the present of this server and are no part of any state: an answer about the past has none.
    let refillings = if call.past.is_some() { Vec::new() } else { call.server.refillings() };
    let rows: Vec<Pending<'_>> =
        work.chain(refillings.iter().map(|refilling| Pending::Refill(RefillView::new(refilling)))).collect();
    call.read(&Meta::at(found.index), &rows)
}

async fn read<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let id = work_id(call.id())?;
    let found = blocking::run(&call, &params, &[WatchKey::Table(Table::PendingWork)], |view| {
        let row = view.work(id).cloned();
        let index = row.as_ref().map_or_else(|| view.table_index(Table::PendingWork), |row| row.modify_index);
        Ok(At { index, value: row })
    })
    .await?;
    match &found.value {
        Some(work) => {
            let shown = Shown::to(&call.caller()?);
            call.read(&Meta::at(found.index), &WorkView::new(work, |actor| shown.actor(actor)))
        }
        None => Err(ApiError::missing("work not found", found.index)),
    }
}

async fn stop<S: Writes>(call: Call<S>) -> Result<Response, ApiError> {
    call.write_namespace()?;
    let written = call.propose(StopWork { work: work_id(call.id())? }).await?;
    Ok(empty_written(written.index))
}

fn work_id(text: &str) -> Result<WorkId, ApiError> {
    text.parse().map(WorkId).map_err(|_| ApiError::bad_request(format!("invalid id of work: {text:?}")))
}

/// Waits until a piece of work ends, however long that takes. The work continues when the caller disconnects.
pub(super) async fn ended<S: Reads>(server: &S, id: WorkId) -> Result<Arc<Work>, ApiError> {
    let row = |server: &S| {
        server.view().work(id).cloned().ok_or_else(|| ApiError::internal("the work is no longer remembered"))
    };
    let first = row(server)?;
    if first.ended.is_some() {
        return Ok(first);
    }
    let watcher = server.watches().register(&[WatchKey::Table(Table::PendingWork)]);
    loop {
        // The watcher was registered before: a change after this view leaves a permit, so no wake-up is lost.
        let work = row(server)?;
        if work.ended.is_some() {
            return Ok(work);
        }
        tokio::select! {
            () = watcher.changed() => {}
            () = server.shutdown().cancelled() => {
                return Err(ApiError::internal(format!("the server is going down; work {} goes on when it is back", id.0)));
            }
        }
    }
}
