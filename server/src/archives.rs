//! Saving the state as an archive, and restoring it from one. An archive of Nomad is turned into one of ours first.
//!
//! A log entry only names the archive that it restores. The archive's content is a file in the server's directory,
//! which is durable before the entry is written.

mod unneeded;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use songline_api::{
    NotCarried, Proposal, ProposeError, RestoreChoices, RestoreError, RestoreReport, RestoredTable, SavedArchive,
};
use songline_commands::{Actor, Idempotency, ImportedArchive, RestoreArchive};
use songline_model::{Blob, Time, with_sources};
use songline_projections::State;

use super::Core;
use super::machine::Archive;
use crate::ahead::read_state;
use crate::archive::{self, Configuration, Member, Meta, Sum, Summed};
use crate::hex::hex;
use crate::import::{self, Bundle, ContentKind, RootKeys};

pub(crate) use unneeded::{NamedArchives, Tidying, remove_unfinished, touch};

/// Buffer size of file reads and writes, in bytes.
const BUFFER_BYTES: usize = 256 * 1024;

/// The archive that was read last; kept until its entry is applied.
pub(super) struct ReadArchive {
    digest: String,
    state: Box<State>,
}

/// Frees millions of rows on another thread than the one that answers requests.
fn free<T: Send + 'static>(rows: Option<T>) {
    if rows.is_some() {
        tokio::task::spawn_blocking(move || drop(rows));
    }
}

/// Description and digest of an archive that was read to its end.
struct Kept {
    meta: Meta,
    state: State,
    /// Lower-case hexadecimal BLAKE3 of the archive's content.
    digest: String,
    /// The archive of Nomad that the content was made of, with what it does not carry.
    imported: Option<(ImportedArchive, Vec<NotCarried>)>,
}

impl Core {
    /// Saves an archive of the newest state in an unnamed file. Applying continues meanwhile.
    pub(crate) async fn save_archive(&self) -> Result<SavedArchive, ProposeError> {
        let view = self.view();
        let term = self.log().leadership().borrow().term;
        let address = self.rpc_addr();
        let now = self.now();
        let dir = self.facts.dir.clone();
        let written = tokio::task::spawn_blocking(move || {
            save(&view, &dir, term, address, now).map_err(|error| error.to_string())
        });
        let result = written.await.map_err(|error| error.to_string());
        result
            .and_then(|inner| inner)
            .map_err(|error| ProposeError::Unavailable(format!("failed to save snapshot: {error}")))
    }

    /// Verifies an archive, keeps its content and writes the entry that restores it. A dry run only verifies.
    pub(crate) async fn restore_archive(
        self: &Arc<Self>,
        archive: File,
        actor: Actor,
        idempotency: Option<Idempotency>,
        choices: RestoreChoices,
    ) -> Result<RestoreReport, RestoreError> {
        let core = Arc::clone(self);
        let stored = tokio::task::spawn_blocking(move || core.keep(archive, choices)).await;
        let Kept { meta, state, digest, imported } =
            stored.map_err(|error| RestoreError::Archive(error.to_string()))?.map_err(RestoreError::Archive)?;
        let (imported, not_carried) = imported.unzip();
        let not_carried = not_carried.unwrap_or_default();
        let report = report(&meta, &state, choices.dry_run, not_carried);
        if choices.dry_run {
            free(Some(state));
            return Ok(report);
        }
        for NotCarried { what, count, reason } in &report.not_carried {
            tracing::info!(archive = meta.id, what, count, reason, "an import leaves something behind");
        }
        // The entry is applied here soon. Keeping the decoded state avoids reading it a second time while applying
        // waits.
        free(self.stores.read_archive.lock().replace(ReadArchive { digest: digest.clone(), state: Box::new(state) }));
        self.spread_archive(&digest).await?;
        // Nodes of an imported cluster know the indexes of its rows, and keep what they run.
        let renews_allocs = imported.is_none();
        let command = RestoreArchive { archive: Blob::default(), digest: digest.into(), imported, renews_allocs };
        let written = self.write(Proposal { actor, cause: None, idempotency, command: command.into() }).await;
        free(self.stores.read_archive.lock().take());
        written?;
        Ok(report)
    }

    /// Reads an archive to its end and stores its content under its digest. A dry run leaves no file.
    fn keep(&self, archive: File, choices: RestoreChoices) -> Result<Kept, String> {
        let dir = self.archives_dir();
        let failed = |error: io::Error| format!("keeping the snapshot: {error}");
        std::fs::create_dir_all(&dir).map_err(failed)?;
        let Bundle { archive, keys } = Bundle::open(archive, || tempfile::tempfile_in(&dir))
            .map_err(|error| format!("failed to read snapshot: {error}"))?;
        let content_file = || tempfile::Builder::new().suffix(".tmp").tempfile_in(&dir).map_err(failed);
        let mut content = content_file()?;
        let mut unpacked = Summed::new(BufWriter::with_capacity(BUFFER_BYTES, content.as_file_mut()));
        let meta = archive::read(BufReader::with_capacity(BUFFER_BYTES, archive), &mut unpacked)
            .map_err(|error| with_sources(&error))?;
        let (_, Sum { sha256, .. }) = unpacked.finish();
        let mut imported = None;
        if kind_of(content.as_file_mut()).map_err(failed)? == ContentKind::Nomad {
            let mut converted = content_file()?;
            let view = self.view();
            let keys = self.keyring.nomad_keys(&view, keys);
            let not_carried =
                convert(content.as_file_mut(), &meta, &keys, choices.skip_unknown, converted.as_file_mut())?;
            let source = ImportedArchive { id: meta.id.clone().into(), index: meta.index, sha256: hex(&sha256).into() };
            imported = Some((source, not_carried));
            content = converted;
        }
        let (state, digest) = verified(content.as_file_mut())?;
        if !choices.dry_run {
            content.as_file().sync_all().map_err(failed)?;
            self.stores.named_archives.expect(&digest);
            content.persist(dir.join(format!("{digest}.state"))).map_err(|error| failed(error.error))?;
            File::open(&dir).and_then(|dir| dir.sync_all()).map_err(failed)?;
        }
        Ok(Kept { meta, state, digest, imported })
    }

    /// Opens the archive that an entry names; `None` when it is not here.
    pub(super) fn archive(&self, digest: &str) -> Option<Archive> {
        match self.stores.read_archive.lock().take_if(|read| read.digest == digest) {
            Some(read) => Some(Archive::Read(read.state)),
            None => self.load_archive(digest).or_else(|| self.fetched_archive(digest)).map(Archive::Content),
        }
    }

    fn fetched_archive(&self, digest: &str) -> Option<Vec<u8>> {
        self.own.upgrade()?.await_archive(digest)?;
        self.load_archive(digest)
    }

    /// The content of an archive that an entry names.
    pub(crate) fn load_archive(&self, digest: &str) -> Option<Vec<u8>> {
        load(&self.facts.dir, digest)
    }

    /// Path of an archive's content file, existing or not; `None` for a text that cannot be a digest.
    pub(super) fn archive_path(&self, digest: &str) -> Option<PathBuf> {
        let is_digest = !digest.is_empty() && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_digest.then(|| self.archives_dir().join(format!("{digest}.state")))
    }

    fn archives_dir(&self) -> PathBuf {
        self.facts.dir.join("archives")
    }
}

/// Content of an archive that an entry names, from a server's directory; `None` when it is missing or its digest
/// differs.
pub fn load(server_dir: &Path, digest: &str) -> Option<Vec<u8>> {
    // The digest comes from the log, where only `keep` put it, so it is hexadecimal and safe in a path.
    let content = std::fs::read(server_dir.join("archives").join(format!("{digest}.state"))).ok()?;
    (blake3::hash(&content).to_hex().as_str() == digest).then_some(content)
}

/// Writes the state, then the archive. Two files are needed, because a tar names the size of its content before the
/// content, and HTTP sends the archive's SHA-256 before the archive.
fn save(view: &State, dir: &Path, term: u64, address: String, now: Time) -> io::Result<SavedArchive> {
    let mut content = Summed::new(BufWriter::with_capacity(BUFFER_BYTES, tempfile::tempfile_in(dir)?));
    view.write_checkpoint(&mut content).map_err(io::Error::other)?;
    let (content, sum) = content.finish();
    let mut content = content.into_inner()?;
    content.rewind()?;
    let meta = describe(view, term, address, now.nanos() / 1_000_000);
    let mut out = Summed::new(BufWriter::with_capacity(BUFFER_BYTES, tempfile::tempfile_in(dir)?));
    let unix_secs = u64::try_from(now.secs()).unwrap_or(0);
    archive::write(meta, BufReader::with_capacity(BUFFER_BYTES, content), sum, unix_secs, &mut out)?;
    let (out, Sum { bytes, sha256 }) = out.finish();
    let mut file = out.into_inner()?;
    file.rewind()?;
    Ok(SavedArchive { file, bytes, sha256 })
}

/// The kind of a content, from its first bytes.
fn kind_of(content: &mut File) -> io::Result<ContentKind> {
    content.rewind()?;
    let mut first = Vec::new();
    content.take(2).read_to_end(&mut first)?;
    Ok(ContentKind::of(&first))
}

/// Writes the state of an archive of Nomad as a content of ours. Returns what is not carried.
fn convert(
    records: &mut File,
    meta: &Meta,
    keys: &dyn RootKeys,
    skip_unknown: bool,
    out: &mut File,
) -> Result<Vec<NotCarried>, String> {
    let unreadable = |error: &dyn std::error::Error| format!("failed to read snapshot: {}", with_sources(error));
    let imported =
        import::read(records, meta, keys, import::Options { skip_unknown }).map_err(|error| unreadable(&error))?;
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
    imported.state.write_checkpoint(&mut out).map_err(|error| unreadable(&error))?;
    out.flush().map_err(|error| unreadable(&error))?;
    Ok(imported.not_carried)
}

/// Reads a content to its end. Returns its state and its digest.
fn verified(content: &mut File) -> Result<(State, String), String> {
    let failed = |error: io::Error| format!("keeping the snapshot: {error}");
    content.rewind().map_err(failed)?;
    let mut hashed = Hashed { inner: BufReader::with_capacity(BUFFER_BYTES, content), hasher: blake3::Hasher::new() };
    let state =
        read_state(&mut hashed).map_err(|error| format!("failed to read snapshot: {}", with_sources(&error)))?;
    if io::copy(&mut hashed, &mut io::sink()).map_err(failed)? > 0 {
        return Err("failed to read snapshot: bytes follow the state".to_owned());
    }
    Ok((state, hashed.hasher.finalize().to_hex().to_string()))
}

/// Passes bytes through and hashes them.
struct Hashed<R> {
    inner: R,
    hasher: blake3::Hasher,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(out)?;
        self.hasher.update(&out[..read]);
        Ok(read)
    }
}

fn report(meta: &Meta, state: &State, dry_run: bool, not_carried: Vec<NotCarried>) -> RestoreReport {
    let table = |(table, digest): (songline_projections::Table, songline_projections::Digest)| RestoredTable {
        name: table.name(),
        rows: state.table_len(table),
        digest: digest.to_string(),
    };
    RestoreReport {
        id: meta.id.clone(),
        index: state.applied_index(),
        term: meta.term,
        dry_run,
        digest: state.digest().to_string(),
        tables: state.table_digests().into_iter().map(table).collect(),
        not_carried,
    }
}

fn describe(view: &State, term: u64, address: String, unix_ms: i64) -> Meta {
    let index = view.applied_index();
    let id = view.cluster_metadata().map_or_else(String::new, |cluster| cluster.cluster_id.to_string());
    // A msgpack list of one binary, for old readers that look for it.
    let mut peers = vec![0x91, 0xa0 | u8::try_from(address.len().min(31)).unwrap_or(31)];
    peers.extend(address.bytes().take(31));
    Meta {
        version: 1,
        id: format!("{term}-{index}-{unix_ms}"),
        index,
        term,
        peers: STANDARD.encode(peers),
        configuration: Configuration { servers: vec![Member { suffrage: 0, id, address }] },
        configuration_index: 1,
        size: 0,
    }
}
