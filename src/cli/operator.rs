//! `operator raft info`, `logs` and `state`, `operator snapshot inspect` and `state`, `operator client-state`: files of
//! a server or a node, read where they lie. No server is asked, and nothing is written.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use songline_cli::layout::{columns, resources};
use songline_cli::values::size;
use songline_cli::{Context, Exit, Failure, Outcome, RunHere, Tried, input, out, outln};
use songline_lang::bexpr::Filter;
use songline_log::Reader;
use songline_projections::Table;
use songline_server::archive::Meta;

use super::{log, offline};

/// Arguments of `operator raft info`.
#[derive(clap::Args)]
pub(crate) struct RaftInfo {
    /// The agent's data directory, or the server's directory in it.
    path: PathBuf,
}

impl RunHere for RaftInfo {
    fn run_here(self, _: &Context) -> Outcome {
        let (dir, reader) = open(&self.path)?;
        let (first, next) = (reader.oldest_index(), reader.last().next);
        outln!("path:        {}", dir.join("log").display());
        outln!("length:      {}", next.saturating_sub(first));
        outln!("first index: {first}");
        outln!("last index:  {}", next.saturating_sub(1));
        Ok(Exit::DONE)
    }
}

/// Arguments of `operator raft logs`.
#[derive(clap::Args)]
pub(crate) struct RaftLogs {
    /// Print entries over several lines.
    #[arg(long)]
    pretty: bool,
    /// First entry.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Last entry.
    #[arg(long)]
    to: Option<u64>,
    /// The agent's data directory, or the server's directory in it.
    path: PathBuf,
}

impl RunHere for RaftLogs {
    fn run_here(self, _: &Context) -> Outcome {
        let (_, reader) = open(&self.path)?;
        let end = self.to.map_or(u64::MAX, |to| to.saturating_add(1));
        log::print(&reader, self.from..end, usize::MAX, self.pretty)?;
        Ok(Exit::DONE)
    }
}

/// Arguments of `operator raft state`.
#[derive(clap::Args)]
pub(crate) struct RaftState {
    /// Replay no further than this entry. Zero and less count from the last entry.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    last_index: i64,
    /// Print over several lines.
    #[arg(long)]
    pretty: bool,
    /// The agent's data directory, or the server's directory in it.
    path: PathBuf,
}

impl RunHere for RaftState {
    fn run_here(self, _: &Context) -> Outcome {
        let (dir, reader) = open(&self.path)?;
        let newest = reader.last().next.saturating_sub(1);
        let last = match u64::try_from(self.last_index) {
            Ok(last) if last > 0 => last.min(newest),
            _ => newest.saturating_sub(self.last_index.unsigned_abs()),
        };
        let state = offline::state_at(&reader, &dir, last)?;
        json(&offline::Rows { state: &state, filter: None }, self.pretty)
    }
}

/// Arguments of `operator snapshot inspect`.
#[derive(clap::Args)]
pub(crate) struct SnapshotInspect {
    /// The archive, of Songline or of Nomad.
    file: PathBuf,
}

impl RunHere for SnapshotInspect {
    fn run_here(self, _: &Context) -> Outcome {
        let file = open_archive(&self.file)?;
        let (meta, state) = offline::any_archive(&file).map_err(unreadable)?;
        outln!("{}", about(&meta));
        let mut rows = Vec::new();
        let mut bytes_total = 0;
        for table in Table::ALL.iter().filter(|table| state.table_len(**table) > 0) {
            let bytes = offline::bytes_of(&state, *table);
            bytes_total += bytes;
            rows.push(vec![table.name().to_owned(), state.table_len(*table).to_string(), size(bytes)]);
        }
        rows.push(vec!["Total".to_owned(), String::new(), size(bytes_total)]);
        outln!("\n{}", resources(&["Type", "Count", "Size"], &rows));
        Ok(Exit::DONE)
    }
}

/// Arguments of `operator snapshot state`.
#[derive(clap::Args)]
pub(crate) struct SnapshotState {
    /// Only rows that pass this expression, such as `Table == "jobs" and Status == "running"`.
    #[arg(long)]
    filter: Option<String>,
    /// The archive, of Songline or of Nomad.
    file: PathBuf,
}

impl RunHere for SnapshotState {
    fn run_here(self, _: &Context) -> Outcome {
        let filter = self.filter.as_deref().map(Filter::parse).transpose().tried("Error parsing filter")?;
        let file = open_archive(&self.file)?;
        let (_, state) = offline::any_archive(&file).map_err(unreadable)?;
        json(&offline::Rows { state: &state, filter: filter.as_ref() }, true)
    }
}

/// Arguments of `operator client-state`.
#[derive(clap::Args)]
pub(crate) struct ClientState {
    /// The agent's data directory, or the node's directory of state.
    #[arg(value_name = "NOMAD-DATA-DIR")]
    dir: PathBuf,
}

impl RunHere for ClientState {
    fn run_here(self, _: &Context) -> Outcome {
        let candidates = [self.dir.join("client/state"), self.dir.join("state"), self.dir.clone()];
        let failed = |why: String| Failure::of("failed to open client state", why);
        let Some(dir) = candidates.iter().find(|dir| dir.join("client.db").is_dir()) else {
            let shown = self.dir.display();
            return Err(failed(format!(
                "failed to create state database: open {shown}/state.db: no such file or directory"
            )));
        };
        let state =
            songline_client::read_state(dir).map_err(|error| failed(format!("{:#}", anyhow::Error::from(error))))?;
        json(&state, true)
    }
}

/// The server's directory and its log.
fn open(path: &Path) -> Result<(PathBuf, Reader), Failure> {
    if let Err(error) = path.symlink_metadata() {
        return Err(Failure::new(format!("lstat {}: {}", path.display(), input::words(&error))));
    }
    let dir = offline::server_dir(path)?;
    let reader = offline::log(&dir)?;
    Ok((dir, reader))
}

fn open_archive(file: &Path) -> Result<File, Failure> {
    let words = |error| format!("open {}: {}", file.display(), input::words(&error));
    File::open(file).map_err(words).tried("Error opening snapshot file")
}

fn unreadable(error: anyhow::Error) -> Failure {
    Failure::of("Error reading snapshot", format_args!("{error:#}"))
}

fn about(meta: &Meta) -> String {
    let pairs = [
        ("ID", meta.id.clone()),
        ("Size", meta.size.to_string()),
        ("Index", meta.index.to_string()),
        ("Term", meta.term.to_string()),
        ("Version", meta.version.to_string()),
    ];
    columns(&pairs.map(|(name, value)| vec![name.to_owned(), value]))
}

fn json(value: &impl Serialize, pretty: bool) -> Outcome {
    let mut out = out::stream();
    let written =
        if pretty { serde_json::to_writer_pretty(&mut out, value) } else { serde_json::to_writer(&mut out, value) };
    written.tried("Error writing JSON")?;
    writeln!(out)?;
    Ok(Exit::DONE)
}
