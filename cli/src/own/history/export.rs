//! `history export`: the events of the retained log as files for analysis, one row an event. The event stream has the
//! events, the audit has time and actor of their entries. The files are partitioned by topic and day. Not here: jobs and
//! variables as files, which `export` writes.

mod columns;
mod entries;
mod parts;
mod record;
mod row;

use std::path::PathBuf;

use chrono::DateTime;
use clap::{Args, ValueEnum};
use serde_json::Value;

use self::entries::Entries;
use self::parts::Parts;
use self::record::{Asked, Gap, Store};
use self::row::Row;
use crate::client::{Client, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::own::event::{Lines, follow};
use crate::progress::Progress;
use crate::{Context, General, Run, out, outln};

/// Arguments of `history export`.
#[derive(Args)]
pub(crate) struct Export {
    #[command(flatten)]
    general: General,
    /// Format of the files: `parquet` or `jsonl`.
    #[arg(long, default_value = "parquet")]
    format: Format,
    /// First entry: a log index, or a time (RFC 3339). The oldest that is kept without it.
    #[arg(long, default_value = "")]
    from: String,
    /// Last entry: a log index, or a time (RFC 3339). The newest without it.
    #[arg(long, default_value = "")]
    to: String,
    /// `Topic` or `Topic:key`; may be given several times. All topics without it.
    #[arg(long, action = clap::ArgAction::Append)]
    topic: Vec<String>,
    /// Only events that pass this expression, such as `Payload.Job.Priority == 70`.
    #[arg(long, default_value = "")]
    filter: String,
    /// Most events between two commits. A file has no more rows than this and one entry's events.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    part_rows: u64,
    /// Directory of the files; it must not exist, be empty, or hold an export to go on with.
    dir: PathBuf,
}

/// Format of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Parquet,
    Jsonl,
}

impl Format {
    /// Name of the format, and ending of its files.
    fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Jsonl => "jsonl",
        }
    }
}

/// One end of the wanted entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    None,
    Index(u64),
    /// Microseconds since 1970, as the column `time` has them.
    Time(i64),
}

impl Bound {
    /// Reads a flag's text. Empty text is no bound.
    fn parse(flag: &str, text: &str) -> Result<Self, Failure> {
        if text.is_empty() {
            return Ok(Self::None);
        }
        if let Ok(index) = text.parse() {
            return Ok(Self::Index(index));
        }
        let time = DateTime::parse_from_rfc3339(text).ok().map(|time| time.timestamp_micros());
        time.map(Self::Time).ok_or_else(|| {
            let example = "a log index, or a time such as 2026-11-26T17:00:00Z";
            Failure::arguments(format!("-{flag} {text:?} is not an end of an export: expected {example}"))
        })
    }
}

impl Run for Export {
    async fn run(self, _: &Context) -> Outcome {
        let from = Bound::parse("from", &self.from)?;
        let to = Bound::parse("to", &self.to)?;
        let client = self.general.client()?;
        let mut store = Store::open(&self.dir, self.asked(&client))?;
        let mut entries = Entries::new(&client);
        let (newest, after) = start(&entries, &store, from).await?;
        let to = match to {
            Bound::None => u64::MAX,
            Bound::Index(index) => index,
            Bound::Time(time) => entries.first_at(time.saturating_add(1)).await?.saturating_sub(1),
        };
        if after >= to {
            outln!("Nothing to export: {} has the events up to index {after}", self.dir.display());
            return Ok(Exit::DONE);
        }
        let lines = follow(&client, &self.query(after)).await?;
        store.begin(after)?;
        let parts = Parts::new(&self.dir, self.format, self.part_rows);
        let until = newest.min(to);
        let mut export = Running { store, parts, cursor: after, to, until, has_caught_up: false, rows: 0, files: 0 };
        let bar = Progress::of("Exporting", until.saturating_sub(after));
        let ended = export.follow(lines, &mut entries, &bar).await;
        drop(bar);
        export.said(&self.dir, ended)
    }
}

/// The newest index, and the index after which the export begins.
async fn start(entries: &Entries<'_>, store: &Store, from: Bound) -> Result<(u64, u64), Failure> {
    let newest = entries.newest().await?;
    let after = match (store.last_index(), from) {
        (Some(last), _) => last,
        (None, Bound::None) => 0,
        (None, Bound::Index(index)) => index.saturating_sub(1),
        (None, Bound::Time(time)) => entries.first_at(time).await?.saturating_sub(1),
    };
    // The stream would wait for the index.
    if after > newest {
        return Err(Failure::new(format!(
            "The export begins after index {after}, but the newest index of the cluster is {newest}"
        )));
    }
    Ok((newest, after))
}

impl Export {
    fn asked(&self, client: &Client) -> Asked {
        let mut topics = self.topic.clone();
        topics.sort();
        topics.dedup();
        Asked {
            format: self.format.name().to_owned(),
            region: client.region().unwrap_or_default().to_owned(),
            namespace: client.namespace().to_owned(),
            topics,
            filter: self.filter.clone(),
            from: self.from.clone(),
        }
    }

    /// The query of the event stream.
    fn query(&self, after: u64) -> String {
        let after = after.to_string();
        let mut pairs = vec![("after_index", after.as_str()), ("full", "true"), ("filter", &self.filter)];
        pairs.extend(self.topic.iter().map(|topic| ("topic", topic.as_str())));
        with_query("", &pairs).trim_start_matches('?').to_owned()
    }
}

/// An export that reads the event stream.
struct Running {
    store: Store,
    parts: Parts,
    /// Last index whose events are all in the parts.
    cursor: u64,
    /// Last wanted index.
    to: u64,
    /// Index that the export reaches at least: the last wanted one, or the newest of the cluster when it began.
    until: u64,
    has_caught_up: bool,
    rows: u64,
    files: usize,
}

impl Running {
    /// Reads frames up to the last wanted entry or the newest one. The asked server may be behind the others: its stream
    /// has caught up with them only when it has reached the index that was the newest at the beginning. Entries before a failure are committed.
    async fn follow(&mut self, mut lines: Lines, entries: &mut Entries<'_>, bar: &Progress) -> Result<(), Failure> {
        loop {
            let before = self.cursor;
            let line = match lines.next().await {
                Ok(Some(line)) => line,
                Ok(None) => return self.broken("the agent closed it"),
                Err(error) => return self.broken(&format!("{error:#}")),
            };
            let frame: Value = serde_json::from_str(&line).tried("Error reading the event stream")?;
            if let Some(why) = frame["Closed"].as_str() {
                return self.broken(why);
            }
            self.frame(&frame, entries).await?;
            bar.advance(self.cursor - before);
            if self.cursor >= self.to || self.has_caught_up && self.cursor >= self.until {
                return self.commit();
            }
        }
    }

    /// Takes one frame.
    async fn frame(&mut self, frame: &Value, entries: &mut Entries<'_>) -> Result<(), Failure> {
        if let Some(oldest) = frame["Gap"]["Oldest"].as_u64() {
            self.gap(oldest);
            return Ok(());
        }
        let Some(index) = frame["Index"].as_u64() else { return Ok(()) };
        let is_mark = frame["CaughtUp"] == true || frame["Checkpoint"] == true;
        if let Some(events) = frame["Events"].as_array() {
            if index > self.to {
                self.cursor = self.to;
                return Ok(());
            }
            self.events(index, events, entries).await?;
        } else if !is_mark {
            return Ok(());
        }
        self.cursor = self.cursor.max(index.min(self.to));
        if frame["Checkpoint"] == true || self.parts.is_full() {
            self.commit()?;
        }
        self.has_caught_up |= frame["CaughtUp"] == true;
        Ok(())
    }

    /// Adds the events of one entry.
    async fn events(&mut self, index: u64, events: &[Value], entries: &mut Entries<'_>) -> Result<(), Failure> {
        let entry = entries.of(index).await?;
        // A commit has the files of one day, so that only the topics decide how many are open.
        let day = row::day(entry.as_ref().map(|entry| entry.time_us));
        if !self.parts.is_of(&day) {
            self.commit()?;
        }
        for event in events {
            self.parts.add(&day, Row::of(index, event, entry.as_ref()))?;
            self.rows += 1;
        }
        Ok(())
    }

    /// Notes that the entries before `oldest` are no longer kept.
    fn gap(&mut self, oldest: u64) {
        let gap = Gap { from: self.cursor + 1, to: oldest.saturating_sub(1).min(self.to) };
        if gap.from > gap.to {
            return;
        }
        out::warning(&format!(
            "Events of indexes {} to {} are no longer kept: the export has a gap there",
            gap.from, gap.to
        ));
        self.cursor = gap.to;
        self.store.add_gap(gap);
    }

    fn commit(&mut self) -> Result<(), Failure> {
        self.files += self.parts.commit()?;
        self.store.advance(self.cursor)
    }

    /// Commits what was read from a stream that ended too early.
    fn broken(&mut self, why: &str) -> Result<(), Failure> {
        self.commit()?;
        let cursor = self.cursor;
        Err(Failure::new(format!(
            "The event stream ended after index {cursor}: {why}\nThe same command goes on after index {cursor}"
        )))
    }

    fn said(self, dir: &std::path::Path, ended: Result<(), Failure>) -> Outcome {
        ended?;
        outln!(
            "Exported {} events to {} files in {}, up to index {}",
            self.rows,
            self.files,
            dir.display(),
            self.cursor
        );
        Ok(Exit::DONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_indexes_or_times() {
        let bound = |text| Bound::parse("from", text).map_err(|failure| failure.message().to_owned());
        assert_eq!(bound(""), Ok(Bound::None));
        assert_eq!(bound("42"), Ok(Bound::Index(42)));
        assert_eq!(bound("1970-01-01T01:00:00.5+01:00"), Ok(Bound::Time(500_000)));
        for wrong in ["-1", "yesterday", "2026-11-26", "99999999999999999999"] {
            let said = format!(
                "-from {wrong:?} is not an end of an export: expected a log index, or a time such as 2026-11-26T17:00:00Z"
            );
            assert_eq!(bound(wrong), Err(said));
        }
    }
}
