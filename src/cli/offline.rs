//! Data directories and archives that commands read without a server: the log's place, the state at an entry, and the
//! tables of a state as JSON. Nothing here writes to what it reads.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use serde::ser::{Error as _, SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::Value;
use songline_cli::out;
use songline_cli::progress::Progress;
use songline_lang::bexpr::Filter;
use songline_log::Reader;
use songline_projections::{Change, Noun, State, Table, Visitor, Visits};
use songline_server::archive::{self, Meta};
use songline_server::import::{self, ContentKind};
use songline_server::{ahead, load_archive, replay};

use super::import::Files;

/// Rows of a table that are taken at a time.
const ROWS_AT_ONCE: usize = 1024;

/// The directory of a server's data: `path` is that directory, the agent's data directory above it, or the log's
/// directory in it.
pub(crate) fn server_dir(path: &Path) -> anyhow::Result<PathBuf> {
    let candidates = [Some(path.join("server")), Some(path.to_owned()), path.parent().map(Path::to_owned)];
    let is_log = |dir: &PathBuf| dir.join("log").join("format").is_file();
    let found = candidates.into_iter().flatten().find(is_log);
    found.with_context(|| format!("no log of a server in {0}: looked for {0}/server/log", path.display()))
}

/// The log of a server's directory, read to its end. A warning says if a server has it open: then its newest entries
/// may be missing.
pub(crate) fn log(server_dir: &Path) -> anyhow::Result<Reader> {
    if Reader::is_in_use(server_dir).unwrap_or(false) {
        let dir = server_dir.display();
        out::warning(&format!("A server that runs has the log in {dir} open: its newest entries may be missing"));
    }
    Reader::open(server_dir).with_context(|| format!("opening the log in {}", server_dir.display()))
}

/// The state after the entry `last`: from the newest sound checkpoint that reaches no further, and the entries behind
/// it.
pub(crate) fn state_at(reader: &Reader, server_dir: &Path, last: u64) -> anyhow::Result<State> {
    let mut state = None;
    for info in reader.report()?.checkpoints {
        let reached = info.position.as_ref().is_ok_and(|at| at.index <= last && at.index + 1 >= reader.oldest_index());
        if reached {
            let mut content = reader.checkpoint(&info.path)?;
            state = Some(ahead::read_state(&mut content).with_context(|| format!("reading {}", info.path.display()))?);
            break;
        }
    }
    let oldest = reader.oldest_index();
    ensure!(state.is_some() || oldest <= 1, "the log begins at entry {oldest}, and no checkpoint reaches entry {last}");
    let mut state = state.unwrap_or_else(State::new);
    let first = state.raft_index() + 1;
    let end = last.saturating_add(1).max(first);
    let progress = Progress::of("Replaying entries", end - first);
    for entry in reader.entries(first..end)? {
        progress.advance(1);
        replay(&mut state, &entry?, |digest| load_archive(server_dir, digest));
    }
    Ok(state)
}

/// Description and state of an archive, of ours or of Nomad, read to its end. Root keys of Nomad, which are in files
/// beside its archives, are left out.
pub(crate) fn any_archive(archive: &File) -> anyhow::Result<(Meta, State)> {
    let (meta, mut content, kind) = unpacked(archive)?;
    if kind == ContentKind::Ours {
        return Ok((meta, own_state(content)?));
    }
    let (keys, options) = (import::KeyFiles::new(), import::Options { skip_unknown: true });
    let imported = import::read(&mut content, &meta, &Files(&keys), options)?;
    Ok((meta, imported.state))
}

/// Description and state of an archive of ours, read to its end.
pub(crate) fn own_archive(archive: &File) -> anyhow::Result<(Meta, State)> {
    let (meta, content, _) = unpacked(archive)?;
    Ok((meta, own_state(content)?))
}

/// Description and content of an archive, with every sum verified.
pub(crate) fn unpacked(archive: &File) -> anyhow::Result<(Meta, File, ContentKind)> {
    let mut content = tempfile::tempfile().context("making a file for the content of the archive")?;
    let progress = Progress::of_bytes("Reading the archive", archive.metadata().map_or(0, |about| about.len()));
    let meta = archive::read(BufReader::new(progress.reading(archive)), BufWriter::new(&mut content))?;
    let mut first = [0; 2];
    content.rewind()?;
    let length = content.read(&mut first)?;
    content.rewind()?;
    Ok((meta, content, ContentKind::of(&first[..length])))
}

fn own_state(content: File) -> anyhow::Result<State> {
    let mut content = BufReader::new(content);
    let state = ahead::read_state(&mut content).context("reading the state")?;
    ensure!(content.read(&mut [0])? == 0, "bytes follow the state");
    Ok(state)
}

/// Bytes of a table's rows, written as JSON.
pub(crate) fn bytes_of(state: &State, table: Table) -> u64 {
    let rows = pages(state, table).filter_map(|change| change.visit(Shown).ok());
    rows.map(|row| row.to_string().len() as u64).sum()
}

/// All rows of a state as JSON: index and tables, without secrets. Written row by row.
pub(crate) struct Rows<'a> {
    /// The state.
    pub state: &'a State,
    /// Test of rows; the field `Table` is the name of a row's table. Rows that lack a field of it fail it.
    pub filter: Option<&'a Filter>,
}

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("Index", &self.state.applied_index())?;
        map.serialize_entry("RaftIndex", &self.state.raft_index())?;
        map.serialize_entry("Tables", &Tables(self))?;
        map.end()
    }
}

struct Tables<'a>(&'a Rows<'a>);

impl Serialize for Tables<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Table::ALL.iter().map(|table| (table.name(), OfTable(self.0, *table))))
    }
}

struct OfTable<'a>(&'a Rows<'a>, Table);

impl Serialize for OfTable<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let OfTable(rows, table) = self;
        let mut list = serializer.serialize_seq(None)?;
        for change in pages(rows.state, *table) {
            let row = change.visit(Shown).map_err(S::Error::custom)?;
            if rows.filter.is_none_or(|filter| passes(filter, *table, &row)) {
                list.serialize_element(&row)?;
            }
        }
        list.end()
    }
}

/// All rows of a table, as creating changes.
fn pages(state: &State, table: Table) -> impl Iterator<Item = Change> {
    let mut page = state.page(table, None, ROWS_AT_ONCE).into_iter();
    std::iter::from_fn(move || {
        let change = page.next()?;
        if page.len() == 0 {
            page = state.page(table, Some(&change), ROWS_AT_ONCE).into_iter();
        }
        Some(change)
    })
}

fn passes(filter: &Filter, table: Table, row: &Value) -> bool {
    let mut row = row.clone();
    if let Value::Object(fields) = &mut row {
        fields.insert("Table".to_owned(), table.name().into());
    }
    filter.matches(&row).unwrap_or(false)
}

/// The row of a change as JSON: secrets are left out of readable forms.
struct Shown;

impl Visitor for Shown {
    type Out = serde_json::Result<Value>;

    fn restored(self) -> Self::Out {
        Ok(Value::Null)
    }
}

impl<T: Noun> Visits<T> for Shown {
    fn visit(self, _before: Option<&Arc<T::Row>>, after: Option<&Arc<T::Row>>) -> Self::Out {
        after.map_or(Ok(Value::Null), |row| serde_json::to_value(&**row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state with rows of many tables, as an earlier version wrote it.
    fn stored() -> State {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/fixtures/checkpoint-3.bin");
        let bytes = std::fs::read(fixture).expect("the fixture is there");
        State::read_checkpoint(&mut bytes.as_slice()).expect("it is a checkpoint")
    }

    #[test]
    fn rows_of_all_tables_are_json_and_a_filter_selects_among_them() {
        let state = stored();
        let all = serde_json::to_value(Rows { state: &state, filter: None }).expect("rows are JSON");
        for table in Table::ALL {
            let rows = all["Tables"][table.name()].as_array().expect("every table is there");
            assert_eq!(rows.len(), state.table_len(*table), "{}", table.name());
        }
        assert_eq!(all["Index"], state.applied_index());

        let filter = Filter::parse(r#"Table == "namespaces" and Name == "default""#).expect("it is a filter");
        let some = serde_json::to_value(Rows { state: &state, filter: Some(&filter) }).expect("rows are JSON");
        let kept: Vec<_> = some["Tables"].as_object().expect("tables").values().filter_map(Value::as_array).collect();
        assert_eq!(kept.iter().map(|rows| rows.len()).sum::<usize>(), 1, "{some}");
        assert_eq!(some["Tables"]["namespaces"][0]["Name"], "default");
    }

    #[test]
    fn log_is_found_from_any_of_its_directories() {
        let data = tempfile::tempdir().expect("a directory");
        let server = data.path().join("server");
        std::fs::create_dir_all(server.join("log")).expect("it is made");
        assert!(server_dir(data.path()).expect_err("it has no log").to_string().starts_with("no log of a server in "));
        std::fs::write(server.join("log/format"), "").expect("it is written");
        for path in [data.path(), &server, &server.join("log")] {
            assert_eq!(server_dir(path).expect("it has a log"), server);
        }
    }
}
