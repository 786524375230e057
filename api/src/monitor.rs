//! Log of this process, line by line, for HTTP callers. The shell formats the log and writes it elsewhere.
//!
//! Listeners never block the process: a slow listener misses lines and gets their number.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use songline_model::Time;
use tokio::sync::mpsc;
use tracing::Level;
use tracing::level_filters::LevelFilter;

/// Number of lines that wait for a listener. Further lines are missed.
pub const LINES_MAX: usize = 512;
/// Largest length of a message or of a field's value in bytes; the rest is cut.
const TEXT_BYTES_MAX: usize = 8 << 10;

/// One line of the log.
#[derive(Debug, Clone)]
pub struct LogLine {
    /// Time of the line.
    pub at: Time,
    /// Level of the line.
    pub level: Level,
    /// Module that logged the line.
    pub module: String,
    /// File and line of the source.
    pub place: String,
    /// Message.
    pub message: String,
    /// Fields by name.
    pub fields: Vec<(&'static str, String)>,
}

/// Distributes log lines to listeners.
#[derive(Default)]
pub struct Monitor {
    listeners: Mutex<Vec<Arc<Listener>>>,
    /// Most verbose level that a listener wants; 0 for none.
    level: AtomicU8,
}

struct Listener {
    level: Level,
    to: mpsc::Sender<Arc<LogLine>>,
    missed: AtomicU64,
}

/// Stream of log lines from now on, down to a level.
pub struct Lines {
    monitor: &'static Monitor,
    listener: Arc<Listener>,
    lines: mpsc::Receiver<Arc<LogLine>>,
}

/// An item of [`Lines`].
#[derive(Debug, Clone)]
pub enum Heard {
    /// A line.
    Line(Arc<LogLine>),
    /// Number of missed lines.
    Missed(u64),
}

impl Monitor {
    /// The monitor of this process.
    pub fn of_this_process() -> &'static Monitor {
        static MONITOR: LazyLock<Monitor> = LazyLock::new(Monitor::default);
        &MONITOR
    }

    /// Subscribes to lines from now on, down to `level`.
    pub fn listen(&'static self, level: Level) -> Lines {
        let (to, lines) = mpsc::channel(LINES_MAX);
        let listener = Arc::new(Listener { level, to, missed: AtomicU64::new(0) });
        self.change(|listeners| listeners.push(Arc::clone(&listener)));
        Lines { monitor: self, listener, lines }
    }

    /// Most verbose level that a listener wants. Callsites that cached it are told to ask again when it changes.
    pub fn level(&self) -> LevelFilter {
        match self.level.load(Ordering::Relaxed) {
            0 => LevelFilter::OFF,
            1 => LevelFilter::ERROR,
            2 => LevelFilter::WARN,
            3 => LevelFilter::INFO,
            4 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        }
    }

    /// Passes a line to all listeners of its level. Never blocks.
    pub fn publish(&self, line: LogLine) {
        let listeners = self.listeners.lock();
        let line = Arc::new(line);
        for listener in listeners.iter().filter(|listener| line.level <= listener.level) {
            if listener.to.try_send(Arc::clone(&line)).is_err() {
                listener.missed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn change(&self, how: impl FnOnce(&mut Vec<Arc<Listener>>)) {
        let mut listeners = self.listeners.lock();
        how(&mut listeners);
        let level = listeners.iter().map(|listener| number(listener.level)).max().unwrap_or(0);
        let before = self.level.swap(level, Ordering::Relaxed);
        drop(listeners);
        if before != level {
            tracing::callsite::rebuild_interest_cache();
        }
    }
}

fn number(level: Level) -> u8 {
    match level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        _ => 5,
    }
}

impl Lines {
    /// The next line, or the number of lines missed before it.
    pub async fn next(&mut self) -> Option<Heard> {
        let missed = self.listener.missed.swap(0, Ordering::Relaxed);
        if missed > 0 {
            return Some(Heard::Missed(missed));
        }
        self.lines.recv().await.map(Heard::Line)
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let own = Arc::clone(&self.listener);
        self.monitor.change(|listeners| listeners.retain(|listener| !Arc::ptr_eq(listener, &own)));
    }
}

/// Parses the name of a level.
pub fn level_named(name: &str) -> Option<Level> {
    match name.trim().to_ascii_lowercase().as_str() {
        "trace" => Some(Level::TRACE),
        "debug" => Some(Level::DEBUG),
        "info" => Some(Level::INFO),
        "warn" => Some(Level::WARN),
        "error" | "off" => Some(Level::ERROR),
        _ => None,
    }
}

impl LogLine {
    /// Cuts a text for a message or field to the bound, at a character boundary.
    pub fn cut(mut text: String) -> String {
        if text.len() > TEXT_BYTES_MAX {
            let mut end = TEXT_BYTES_MAX;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push_str("..");
        }
        text
    }

    fn word(&self) -> &'static str {
        match self.level {
            Level::ERROR => "ERROR",
            Level::WARN => "WARN",
            Level::INFO => "INFO",
            Level::DEBUG => "DEBUG",
            _ => "TRACE",
        }
    }

    /// The line as text: `TIME [LEVEL] module: message: key=value`.
    pub fn text(&self, with_place: bool) -> String {
        // Line breaks become spaces, so that a message cannot look like another log line.
        let flat = |text: &str| text.replace(['\n', '\r'], " ");
        let level = format!("[{}]", self.word());
        let mut line = format!("{} {level:<7} ", self.at);
        if with_place && !self.place.is_empty() {
            let _ = write!(line, "{}: ", self.place);
        }
        let _ = write!(line, "{}: {}", self.module, flat(&self.message));
        for (nth, (key, value)) in self.fields.iter().enumerate() {
            let value = flat(value);
            let quoted = value.is_empty() || value.contains([' ', '"', '=']);
            let value = if quoted { format!("{value:?}") } else { value };
            let _ = write!(line, "{} {key}={value}", if nth == 0 { ":" } else { "" });
        }
        line.push('\n');
        line
    }

    /// The line as a JSON object.
    pub fn json(&self, with_place: bool) -> String {
        let mut object = Map::new();
        if with_place && !self.place.is_empty() {
            object.insert("@caller".to_owned(), json!(self.place));
        }
        object.insert("@level".to_owned(), json!(self.word().to_ascii_lowercase()));
        object.insert("@message".to_owned(), json!(self.message));
        object.insert("@module".to_owned(), json!(self.module));
        object.insert("@timestamp".to_owned(), json!(self.at.to_string()));
        for (key, value) in &self.fields {
            object.insert((*key).to_owned(), json!(value));
        }
        let mut line = Value::Object(object).to_string();
        line.push('\n');
        line
    }
}

#[cfg(test)]
mod tests;
