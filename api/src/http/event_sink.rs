//! Event sinks: list, read, create, update, delete, and set the position. These routes are ours. Delivery is the
//! leader's work in `server`.

mod admission;

use std::sync::Arc;

use axum::response::Response;
use songline_commands::{DeleteEventSinks, EventSinkChange, MoveEventSink, UpsertEventSinks};
use songline_events::watch::WatchKey;
use songline_lang::acl::Access;
use songline_model::{EventSink, EventSinkName, EventSinkProgress};
use songline_projections::{State, Table};
use songline_wire::event_sink::{EventSinkRequest, EventSinkReset, EventSinkStanding};

use crate::error::ApiError;
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta, empty_written};
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::http::paging::{self, Token};
use crate::server::{Reads, Writes};

pub(super) fn routes<S: Writes>(mux: &mut Mux<S>) {
    let (read_only, write) = (Capability::Operator(Access::Read), Capability::Operator(Access::Write));
    mux.add(Methods::Get, "/v1/event-sinks", "", read_only, |call| Box::pin(list(call)));
    mux.add(Methods::Write, "/v1/event-sink/", "{}/reset", write, |call| Box::pin(reset(call)));
    mux.add(Methods::Get, "/v1/event-sink/", "{}", read_only, |call| Box::pin(read(call)));
    mux.add(Methods::Write, "/v1/event-sink/", "{}", write, |call| Box::pin(upsert(call)));
    mux.add(Methods::Delete, "/v1/event-sink/", "{}", write, |call| Box::pin(delete(call)));
}

/// A sink with its progress, as it is at the newest entry of a view.
#[derive(Debug, Clone)]
struct Found {
    sink: Arc<EventSink>,
    progress: Arc<EventSinkProgress>,
    newest: u64,
}

impl Found {
    fn of(view: &State, name: &str) -> Option<Self> {
        let (sink, progress) = view.event_sink(name).zip(view.event_sink_progress(name))?;
        let newest = view.applied_index();
        Some(Self { sink: Arc::clone(sink), progress: Arc::clone(progress), newest })
    }

    /// Number of entries that the sink is behind. The leader knows of entries without events for the sink, which the
    /// row has only from time to time.
    fn lag<S: Reads>(&self, call: &Call<S>) -> u64 {
        let reached = match call.past {
            Some(_) => None,
            None => call.server.event_sink_reached(&self.sink.id),
        };
        self.newest.saturating_sub(self.progress.position.max(reached.unwrap_or(0)))
    }

    fn index(&self) -> u64 {
        self.sink.modify_index.max(self.progress.modify_index)
    }
}

fn tables_index(view: &State) -> u64 {
    view.table_index(Table::EventSinks).max(view.table_index(Table::EventSinkProgress)).max(1)
}

async fn list<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let keys = [Table::EventSinks, Table::EventSinkProgress].map(WatchKey::Table);
    let found = blocking::run(&call, &params, &keys, |view| {
        let names = view.event_sinks().filter(|sink| sink.id.starts_with(&params.prefix));
        let mut rows: Vec<Found> = names.filter_map(|sink| Found::of(view, &sink.id)).collect();
        if params.reverse {
            rows.reverse();
        }
        let rows = rows.iter().map(|found| Arc::new(found.shown(&call)));
        let page = paging::page(&params, rows, |row| Token::Text(row.name().to_string()), |_| true)?;
        Ok(At { index: tables_index(view), value: page })
    })
    .await?;
    call.read(&Meta::page(found.index, found.value.next_token), &found.value.rows)
}

async fn read<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let name = required_name(&call)?;
    let params = call.read_params()?;
    let keys = [Table::EventSinks, Table::EventSinkProgress].map(|table| WatchKey::Named(table, name.0.clone()));
    let found = blocking::run(&call, &params, &keys, |view| {
        let found = Found::of(view, &name);
        let index = found.as_ref().map_or_else(|| tables_index(view), Found::index);
        Ok(At { index, value: found })
    })
    .await?;
    match found.value {
        Some(row) => call.read(&Meta::at(found.index), &row.shown(&call)),
        None => Err(ApiError::missing(format!("event sink {:?} not found", name.as_str()), found.index)),
    }
}

async fn upsert<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let name = required_name(&call)?;
    let request: EventSinkRequest = call.json().await?;
    let position = request.position;
    let view = call.view();
    let sink = admission::admitted(request, &name, view.event_sink(&name).map(|sink| &**sink))?;
    call.server.takes_event_sink(&sink).map_err(|why| admission::refused(&name, &why))?;
    // A sink has no token: its rights are those of the caller that writes it.
    let caller = call.caller()?;
    admission::permitted(&sink, caller.acl())?;
    let written = call.propose(UpsertEventSinks { sinks: vec![sink], position }).await?;
    Ok(empty_written(written.index))
}

async fn delete<S: Writes>(call: Call<S>) -> Result<Response, ApiError> {
    let name = required_name(&call)?;
    let written = call.propose(DeleteEventSinks { names: vec![name] }).await?;
    Ok(empty_written(written.index))
}

async fn reset<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let name = required_name(&call)?;
    let EventSinkReset { position } = call.json().await?;
    let Some(position) = position else {
        return Err(ApiError::bad_request("Missing Position: the index after which the next event comes"));
    };
    let written = call.propose(MoveEventSink { name, change: EventSinkChange::Reset { position } }).await?;
    Ok(empty_written(written.index))
}

fn required_name<S>(call: &Call<S>) -> Result<EventSinkName, ApiError> {
    match call.id() {
        "" => Err(ApiError::bad_request("Missing Event Sink Name")),
        name => Ok(name.into()),
    }
}

impl Found {
    fn shown<S: Reads>(&self, call: &Call<S>) -> EventSinkStanding {
        EventSinkStanding::new(&self.sink, &self.progress, self.lag(call))
    }
}
