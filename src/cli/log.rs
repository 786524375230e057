//! `log inspect` and `log verify`: the log of a server that is not running, read only. What writes to one is in
//! `log/alone.rs`.

mod alone;

use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Subcommand;
use serde_json::json;
use songline_cli::progress::Progress;
use songline_cli::{out, outln};
use songline_commands::{CheckDigest, Envelope, Kind};
use songline_log::{Committed, Payload, Reader};
use songline_projections::State;

use super::{offline, table};
use crate::compare::Comparison;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Print the commands of a log as JSON lines, without their bodies' secrets.
    Inspect {
        /// The agent's data directory.
        #[arg(long)]
        data_dir: PathBuf,
        /// Start at this entry.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Print at most so many.
        #[arg(long)]
        limit: Option<usize>,
    },
    /// Read a log through, replay it and compare the result with its checkpoints.
    Verify {
        /// The agent's data directory.
        #[arg(long)]
        data_dir: PathBuf,
        /// Replay no further than this entry.
        #[arg(long)]
        until: Option<u64>,
    },
    /// Make the server of this directory, which does not run, the only one of its cluster: the others are lost for
    /// good.
    GoAlone {
        /// The agent's data directory.
        #[arg(long)]
        data_dir: PathBuf,
        /// That the other servers will never be started with what they have now.
        #[arg(long)]
        others_are_lost: bool,
    },
}

pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Inspect { data_dir, from, limit } => inspect(&data_dir, from, limit),
        Command::Verify { data_dir, until } => verify(&data_dir, until),
        Command::GoAlone { data_dir, others_are_lost } => alone::run(&data_dir, others_are_lost),
    }
}

fn inspect(data_dir: &Path, from: u64, limit: Option<usize>) -> anyhow::Result<()> {
    let reader = offline::log(&data_dir.join("server"))?;
    print(&reader, from..u64::MAX, limit.unwrap_or(usize::MAX), false)
}

/// Prints entries as JSON, at most `most` of those that the log has in the range.
pub(super) fn print(reader: &Reader, range: Range<u64>, most: usize, pretty: bool) -> anyhow::Result<()> {
    let first = range.start.max(reader.oldest_index());
    let mut out = out::stream();
    for entry in reader.entries(first..range.end.max(first))?.take(most) {
        let entry = describe(&entry?);
        if pretty { writeln!(out, "{entry:#}")? } else { writeln!(out, "{entry}")? }
    }
    Ok(())
}

fn describe(entry: &Committed) -> serde_json::Value {
    let (index, term) = (entry.position.index, entry.position.term);
    match &entry.payload {
        Payload::Blank => json!({ "raft_index": index, "term": term, "kind": "Blank" }),
        Payload::Membership(members) => {
            json!({ "raft_index": index, "term": term, "kind": "Membership", "servers": members.addresses })
        }
        Payload::Command(bytes) => match Envelope::decode(bytes) {
            Ok(envelope) => json!({
                "raft_index": index, "term": term, "kind": envelope.command.kind().name(), "schema": envelope.schema,
                "at": envelope.at, "actor": envelope.actor.to_string(), "cause": envelope.cause,
                "idempotency_key": envelope.idempotency.map(|key| key.key), "bytes": bytes.len(), "body": envelope.command.to_json(),
            }),
            Err(error) => {
                json!({ "raft_index": index, "term": term, "kind": "unreadable", "error": error.to_string() })
            }
        },
    }
}

fn verify(data_dir: &Path, until: Option<u64>) -> anyhow::Result<()> {
    let reader = offline::log(&data_dir.join("server"))?;
    let report = reader.report()?;
    outln!("{} entries from {} on, in {} segments", report.entries, report.oldest, report.segments.len());
    let server_dir = data_dir.join("server");
    let mut state = State::new();
    let mut checkpoints: Vec<(u64, State)> = Vec::new();
    for info in &report.checkpoints {
        let position = info.position.clone().map_err(|error| anyhow::anyhow!("{}: {error}", info.path.display()))?;
        let mut content = reader.checkpoint(&info.path)?;
        let checkpoint =
            State::read_checkpoint(&mut content).with_context(|| format!("reading {}", info.path.display()))?;
        checkpoints.push((position.index, checkpoint));
    }
    checkpoints.sort_by_key(|(index, _)| *index);
    if reader.oldest_index() > 1 {
        let Some((index, oldest)) = checkpoints.first().filter(|(index, _)| *index + 1 >= reader.oldest_index()) else {
            bail!("the log begins at entry {}, and no checkpoint reaches that far", reader.oldest_index());
        };
        outln!("replaying from the checkpoint at entry {index}: older entries are gone");
        state = oldest.clone();
    }
    let mut comparison = Comparison::new(&state);
    let mut agreeing = 0;
    let end = until.map_or(u64::MAX, |until| until.saturating_add(1));
    let first = state.raft_index() + 1;
    let progress = Progress::of("Replaying entries", end.min(reader.last().next).saturating_sub(first));
    for entry in reader.entries(first..end.max(first))? {
        let entry = entry?;
        progress.advance(1);
        let kind =
            songline_server::replay(&mut state, &entry, |digest| songline_server::load_archive(&server_dir, digest));
        comparison.replayed(&state);
        for (index, checkpoint) in checkpoints.iter().filter(|(index, _)| *index == entry.position.index) {
            comparison.compare(
                checkpoint.applied_index(),
                &checkpoint.table_digests(),
                &format!("the checkpoint at entry {index}"),
            )?;
            agreeing += 1;
        }
        if kind == Some(Kind::Digest)
            && let Some(told) = digest_told(&entry)
            && told.schema == songline_projections::SCHEMA
        {
            comparison.compare_told(&told)?;
        }
    }
    drop(progress);
    outln!(
        "replayed up to entry {}, index {}; {agreeing} checkpoints and {} digests in the log agree",
        state.raft_index(),
        state.applied_index(),
        comparison.told
    );
    table::digests(&state);
    outln!("total digest {}", state.digest());
    Ok(())
}

/// The digest that the leader wrote, if this is the entry of one.
fn digest_told(entry: &Committed) -> Option<CheckDigest> {
    let Payload::Command(bytes) = &entry.payload else { return None };
    match Envelope::decode(bytes).ok()?.command {
        songline_commands::Command::Digest(told) => Some(told),
        _ => None,
    }
}
