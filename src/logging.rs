//! Log output: standard error, and listeners over HTTP. Lines are formatted for listeners only while there are some.

use std::fmt::Debug;
use std::sync::OnceLock;
use std::time::SystemTime;

use songline_api::monitor::{LogLine, Monitor};
use songline_model::{Time, with_sources};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

use crate::config::AgentConfig;

/// Changes the filter of the lines on standard error.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Starts logging. Standard output is not used: the agent prints its address there.
pub(crate) fn start(config: &AgentConfig) {
    let (filter, changing) = reload::Layer::new(filter_of(&config.log_level));
    // A second call, in a test, keeps the first subscriber and its filter.
    let _ = FILTER.set(changing);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines =
        if config.log_json { lines.json().with_filter(filter).boxed() } else { lines.with_filter(filter).boxed() };
    // A second call, in a test, keeps the first subscriber.
    let _ = tracing_subscriber::registry().with(lines).with(ToListeners.with_filter(Wanted)).try_init();
}

/// Changes the level of the lines on standard error.
pub(crate) fn set_level(level: &str) -> anyhow::Result<()> {
    match FILTER.get() {
        Some(filter) => Ok(filter.reload(filter_of(level))?),
        None => Ok(()),
    }
}

/// Filter with this level, unless the environment (`RUST_LOG`) has one.
fn filter_of(level: &str) -> EnvFilter {
    EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new(format!("error,{}", ours(&level.to_lowercase()))))
}

/// Filter with this level for our own crates; libraries log errors only.
fn ours(level: &str) -> String {
    let crates = [
        "songline",
        "songline_api",
        "songline_client",
        "songline_events",
        "songline_log",
        "songline_projections",
        "songline_scheduler",
        "songline_server",
        "songline_sim",
    ];
    crates.map(|name| format!("{name}={level}")).join(",")
}

/// Passes events that match the level of some listener.
struct Wanted;

impl Wanted {
    fn wants(meta: &Metadata<'_>) -> bool {
        Self::may_want(meta) && *meta.level() <= Monitor::of_this_process().level()
    }

    /// Whether some listener's level could match this event.
    fn may_want(meta: &Metadata<'_>) -> bool {
        meta.target().starts_with("songline") || *meta.level() == Level::ERROR
    }
}

impl<S> Filter<S> for Wanted {
    fn enabled(&self, meta: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        Self::wants(meta)
    }

    fn callsite_enabled(&self, meta: &'static Metadata<'static>) -> Interest {
        // `never` would be cached for good: a call site that is first reached just before a listener connects would
        // stay silent.
        if Self::may_want(meta) { Interest::sometimes() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(Monitor::of_this_process().level())
    }
}

/// Sends log lines to the listeners of `agent/monitor`.
struct ToListeners;

impl<S: Subscriber> Layer<S> for ToListeners {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let meta = event.metadata();
        let mut said = Said::default();
        event.record(&mut said);
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let place = match (meta.file(), meta.line()) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            (Some(_) | None, _) => String::new(),
        };
        Monitor::of_this_process().publish(LogLine {
            at: Time::from_nanos(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)),
            level: *meta.level(),
            module: meta.target().to_owned(),
            place,
            message: LogLine::cut(said.message),
            fields: said.fields,
        });
    }
}

/// Message and fields of an event.
#[derive(Default)]
struct Said {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.to_owned());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put(field, with_sources(value));
    }
}

impl Said {
    fn put(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = text,
            name => self.fields.push((name, LogLine::cut(text))),
        }
    }
}
