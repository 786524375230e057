//! `snapshot save`, `snapshot restore`, `snapshot inspect`. Archives go through files, never into memory as a whole.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Subcommand;
use serde_json::Value;
use songline_projections::State;
use songline_server::archive::{self, Meta, Summed};

use songline_cli::client::text;
use songline_cli::progress::Progress;
use songline_cli::table::{pairs, print};

use super::{General, offline, table};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Save the cluster's state into a file.
    Save {
        #[command(flatten)]
        target: General,
        /// The file; it must not exist.
        file: PathBuf,
    },
    /// Replace the cluster's state by that of a file.
    Restore {
        #[command(flatten)]
        target: General,
        /// Let the servers verify the file and say what is in it; nothing changes.
        #[arg(long)]
        dry_run: bool,
        /// The file.
        file: PathBuf,
    },
    /// Verify a file and show what is in it.
    Inspect {
        /// The file.
        file: PathBuf,
    },
}

pub(crate) async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Save { target, file } => save(&target, &file).await,
        Command::Restore { target, dry_run, file } => restore(&target, &file, dry_run).await,
        Command::Inspect { file } => inspect(&file),
    }
}

async fn save(target: &General, file: &Path) -> anyhow::Result<()> {
    let mut response = target.client()?.open("/v1/operator/snapshot").await?;
    let promised = response.headers().get("digest").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let out = File::create_new(file).with_context(|| format!("making {}", file.display()))?;
    let mut out = Summed::new(BufWriter::new(out));
    let progress = Progress::of_stream("Saving");
    let taken = async {
        while let Some(piece) = response.chunk().await? {
            progress.advance(piece.len() as u64);
            out.write_all(&piece)?;
        }
        drop(progress);
        let (out, sum) = out.finish();
        out.into_inner()?.sync_all()?;
        if promised.is_some_and(|promised| promised != archive::digest_header(&sum.sha256)) {
            anyhow::bail!("the archive was damaged on its way: its digest does not match");
        }
        let (meta, _) = verified(file)?;
        songline_cli::outln!("State up to index {} saved to {} ({} bytes)", meta.index, file.display(), sum.bytes);
        Ok(())
    };
    let taken = taken.await;
    if taken.is_err() {
        // An incomplete file must not be taken for an archive later.
        std::fs::remove_file(file).with_context(|| format!("removing the unfinished {}", file.display()))?;
    }
    taken
}

async fn restore(target: &General, file: &Path, dry_run: bool) -> anyhow::Result<()> {
    // What cannot be restored is not sent.
    verified(file)?;
    let bytes = tokio::fs::File::open(file).await.with_context(|| format!("reading {}", file.display()))?;
    let path = if dry_run { "/v1/operator/snapshot?dry_run=true" } else { "/v1/operator/snapshot" };
    let report = target.client()?.put_file(path, bytes).await?;
    if !dry_run {
        songline_cli::outln!("State of {} restored", file.display());
        return Ok(());
    }
    songline_cli::outln!("{} would be restored; nothing was changed", file.display());
    show(
        &[
            ("ID", text(&report["ID"]).to_owned()),
            ("Index", report["Index"].to_string()),
            ("Term", report["Term"].to_string()),
        ],
        &report,
    );
    Ok(())
}

fn show(head: &[(&str, String)], report: &Value) {
    let mut lines = head.to_vec();
    lines.push(("Digest", text(&report["Digest"]).to_owned()));
    pairs(&lines);
    songline_cli::outln!();
    let tables = report["Tables"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<_> = tables
        .iter()
        .map(|row| vec![text(&row["Name"]).to_owned(), row["Rows"].to_string(), text(&row["Digest"]).to_owned()])
        .collect();
    print(&["Table", "Rows", "Digest"], &rows);
}

fn inspect(file: &Path) -> anyhow::Result<()> {
    let (meta, state) = verified(file)?;
    pairs(&[
        ("ID", meta.id),
        ("Index", meta.index.to_string()),
        ("Term", meta.term.to_string()),
        ("Size", meta.size.to_string()),
        ("Digest", state.digest().to_string()),
    ]);
    songline_cli::outln!();
    table::digests(&state);
    Ok(())
}

/// Reads a file to its end: every sum in it, and every row.
fn verified(file: &Path) -> anyhow::Result<(Meta, State)> {
    let archive = File::open(file).with_context(|| format!("reading {}", file.display()))?;
    offline::own_archive(&archive).with_context(|| format!("reading {}", file.display()))
}
