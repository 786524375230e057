//! Story words for event sinks.

use songline_commands::{Command, DeleteEventSinks, EventSinkChange, MoveEventSink, UpsertEventSinks};
use songline_model::{EventSink, EventSinkName, EventSinkType};

use super::Words;
use crate::State;

/// `sink upsert s file=audit at-index=1`, `sink delete s t`, `sink delivered s run=2 position=9 events=3 gaps=1`,
/// `sink failed s run=2 error=refused`, `sink reset s position=4`.
pub(super) fn command(words: &Words<'_>) -> Command {
    let number = |name| words.number(name).unwrap_or(0);
    let name: EventSinkName = words.plain[2].into();
    let run = number("run");
    let change = match words.plain[1] {
        "upsert" => {
            let (kind, address) = match words.get("file") {
                Some(file) => (EventSinkType::File, file),
                None => (EventSinkType::Webhook, words.get("url").unwrap_or("http://receiver")),
            };
            let sink = EventSink { id: name, kind, address: address.into(), ..EventSink::default() };
            return UpsertEventSinks { sinks: vec![sink], position: words.number("at-index") }.into();
        }
        "delete" => {
            return DeleteEventSinks { names: words.plain[2..].iter().map(EventSinkName::from).collect() }.into();
        }
        "delivered" => EventSinkChange::Delivered {
            run,
            position: number("position"),
            delivered: number("events"),
            gaps: number("gaps"),
        },
        "failed" => EventSinkChange::Failed { run, error: words.get("error").unwrap_or_default().into() },
        "reset" => EventSinkChange::Reset { position: number("position") },
        other => panic!("no command sink {other}"),
    };
    MoveEventSink { name, change }.into()
}

pub(super) fn show(state: &State, what: &str) -> String {
    let Some((sink, row)) = state.event_sink(what).zip(state.event_sink_progress(what)) else {
        return format!("sink {what}: none");
    };
    format!(
        "sink {what}: {} {} create={} modify={} run={} position={} delivered={} gaps={} error={:?}",
        sink.kind,
        row.status,
        sink.create_index,
        sink.modify_index,
        row.run,
        row.position,
        row.delivered,
        row.gaps,
        row.last_error.as_str()
    )
}
