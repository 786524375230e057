//! Checkpoints: a state as self-contained bytes, verified whenever they are read.
//!
//! A checkpoint is a sequence of frames: kind (1 byte), length (4 bytes, little endian), payload, and 16 bytes of
//! BLAKE3 over these. First a header, then every distinct job once, then the rows of each table in blocks, last the
//! digests. Rows pass through `songline-migrations` when read. Blocks of jobs and rows are compressed one by one, so
//! that a reader holds a single block. The caller provides the archive format around the checkpoint.

mod ahead;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use songline_migrations::{MigrationError, SCHEMA};
use songline_model::{Job, Time};

use crate::digest::{self, Digest};
use crate::state::State;
use crate::table::{Rows, Table, TableType, TableVisitor, VisitsTable};
pub use ahead::{Ahead, Done, Piece};
use ahead::{EncodedRows, InTurn};

const MAGIC: &[u8; 16] = b"songline state 1";
/// Size in bytes at which a block is written. Bounds the memory that a reader needs besides the state.
const BLOCK_BYTES: usize = 256 * 1024;
/// Largest accepted frame in bytes. A block may exceed `BLOCK_BYTES` by one row, and rows are far smaller than this.
const FRAME_BYTES_MAX: u32 = 256 * 1024 * 1024;
/// Job number of a row without a job.
const NO_JOB: u32 = u32::MAX;

const HEADER: u8 = 1;
const JOBS: u8 = 2;
const ROWS: u8 = 3;
const END: u8 = 4;
/// Flag in the kind of a compressed frame. Its payload is the uncompressed length (4 bytes, little endian) and an LZ4
/// block.
const COMPRESSED: u8 = 0x80;

/// Reason why a checkpoint could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Writing failed.
    #[error("writing the checkpoint at index {index}")]
    Write {
        /// Applied index of the state.
        index: u64,
        #[source]
        source: io::Error,
    },
    /// Reading failed, or the bytes end too early.
    #[error("reading the checkpoint")]
    Read(#[source] io::Error),
    /// The bytes are not a checkpoint.
    #[error("this is not a state that Songline wrote")]
    NotACheckpoint,
    /// A newer version wrote the checkpoint.
    #[error("the state has schema {schema}, this version knows up to {SCHEMA}: upgrade first")]
    Newer {
        /// Schema of the checkpoint.
        schema: u16,
    },
    /// The hash of a frame does not match.
    #[error("frame {frame} of the checkpoint is damaged")]
    Damaged {
        /// Number of the frame, from 0.
        frame: u64,
    },
    /// A frame has a valid hash but is not one that this version writes.
    #[error("frame {frame} of the checkpoint makes no sense: {what}")]
    Malformed {
        /// Number of the frame, from 0.
        frame: u64,
        /// Description of the defect.
        what: String,
    },
    /// A row does not decode as one of its table.
    #[error("reading a row of `{table}` from the checkpoint")]
    Row {
        /// Name of the table.
        table: &'static str,
        #[source]
        source: rmp_serde::decode::Error,
    },
    /// A row of an older version could not be migrated.
    #[error("migrating a row of the checkpoint")]
    Migration(#[from] MigrationError),
    /// The digest of a table does not match its rows.
    #[error("table `{table}` has digest {found} after reading, the checkpoint says {written}")]
    Digest {
        /// Name of the table.
        table: &'static str,
        /// Digest that the checkpoint states.
        written: Digest,
        /// Digest of the rows read.
        found: Digest,
    },
}

/// Summary of a written checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointSummary {
    /// Applied index of the state, as users see it.
    pub applied_index: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Rows by table.
    pub rows: Vec<(Table, u64)>,
    /// Digest over all tables.
    pub digest: Digest,
}

#[derive(Serialize, Deserialize)]
struct Header {
    schema: u16,
    raft_index: u64,
    base: u64,
    at: Time,
    table_index: BTreeMap<String, u64>,
}

#[derive(Serialize, Deserialize)]
struct End {
    jobs: u64,
    tables: BTreeMap<String, TableEnd>,
}

#[derive(Serialize, Deserialize)]
struct TableEnd {
    rows: u64,
    #[serde(with = "serde_bytes")]
    digest: [u8; 16],
}

impl State {
    /// Writes the state. The state is an immutable view, so entries applied meanwhile are not included.
    pub fn write_checkpoint(&self, out: &mut dyn io::Write) -> Result<CheckpointSummary, CheckpointError> {
        let mut writer = Writer {
            state: self,
            out,
            bytes: 0,
            block: Vec::new(),
            packed: Vec::new(),
            row: Vec::new(),
            jobs: JobIds::default(),
            ends: BTreeMap::new(),
        };
        writer.write_all().map_err(|source| CheckpointError::Write { index: self.applied_index(), source })?;
        let rows = Table::ALL.iter().map(|&table| (table, self.table_len(table) as u64)).collect();
        Ok(CheckpointSummary { applied_index: self.applied_index(), bytes: writer.bytes, rows, digest: self.digest() })
    }

    /// Reads a state. Bytes after the checkpoint are left unread.
    pub fn read_checkpoint(input: &mut dyn io::Read) -> Result<State, CheckpointError> {
        Self::read_checkpoint_with(input, &mut InTurn::default())
    }

    /// Same as [`State::read_checkpoint`]; `ahead` decides on which threads blocks of rows are decoded while earlier
    /// blocks are inserted.
    pub fn read_checkpoint_with(input: &mut dyn io::Read, ahead: &mut dyn Ahead) -> Result<State, CheckpointError> {
        Reader {
            input,
            ahead,
            state: State::empty(),
            frame: 0,
            schema: SCHEMA,
            jobs: Arc::default(),
            has_rows: false,
            block: Vec::new(),
            unpacked: Vec::new(),
        }
        .read_all()
    }
}

/// Numbers of the distinct jobs: looked up by address first, because most rows share one copy, then by content.
#[derive(Default)]
struct JobIds {
    by_address: BTreeMap<*const Job, u32>,
    by_content: BTreeMap<[u8; 32], u32>,
}

struct Writer<'a> {
    state: &'a State,
    out: &'a mut dyn io::Write,
    bytes: u64,
    block: Vec<u8>,
    packed: Vec<u8>,
    row: Vec<u8>,
    jobs: JobIds,
    ends: BTreeMap<String, TableEnd>,
}

impl Writer<'_> {
    fn write_all(&mut self) -> io::Result<()> {
        let state = self.state;
        self.raw(MAGIC)?;
        let table_index = Table::ALL.iter().map(|&table| (table.name().to_owned(), state.table_index(table))).collect();
        self.message(
            HEADER,
            &Header { schema: SCHEMA, raft_index: state.raft_index, base: state.base, at: state.at, table_index },
        )?;
        for table in Table::ALL {
            table.visit(WriteJobs(self))?;
        }
        self.flush(JOBS)?;
        for table in Table::ALL {
            table.visit(WriteRows(self))?;
        }
        let end = End { jobs: self.jobs.by_content.len() as u64, tables: std::mem::take(&mut self.ends) };
        self.message(END, &end)
    }

    fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn message<M: Serialize>(&mut self, kind: u8, message: &M) -> io::Result<()> {
        self.block.clear();
        digest::encode(message, &mut self.block);
        self.flush(kind)
    }

    /// Writes the block as a frame, unless it is empty.
    fn flush(&mut self, kind: u8) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let length = u32::try_from(self.block.len()).map_err(io::Error::other)?;
        self.packed.clear();
        let compressed = matches!(kind, JOBS | ROWS);
        if compressed {
            self.packed.resize(4 + lz4_flex::block::get_maximum_output_size(self.block.len()), 0);
            self.packed[..4].copy_from_slice(&length.to_le_bytes());
            let written =
                lz4_flex::block::compress_into(&self.block, &mut self.packed[4..]).map_err(io::Error::other)?;
            self.packed.truncate(4 + written);
            std::mem::swap(&mut self.block, &mut self.packed);
        }
        let payload = std::mem::take(&mut self.block);
        let kind = if compressed { kind | COMPRESSED } else { kind };
        let head = head(kind, u32::try_from(payload.len()).map_err(io::Error::other)?);
        self.raw(&head)?;
        self.raw(&payload)?;
        self.raw(seal(&head, &payload).as_bytes())?;
        self.block = payload;
        self.block.clear();
        Ok(())
    }

    /// Appends the row buffer to the block, after its length.
    fn push_row(&mut self) -> io::Result<()> {
        let length = u32::try_from(self.row.len()).map_err(io::Error::other)?;
        self.block.extend_from_slice(&length.to_le_bytes());
        self.block.extend_from_slice(&self.row);
        Ok(())
    }

    fn add_job(&mut self, job: &Arc<Job>) -> io::Result<()> {
        if self.jobs.by_address.contains_key(&Arc::as_ptr(job)) {
            return Ok(());
        }
        self.row.clear();
        digest::encode(job, &mut self.row);
        let content = *blake3::hash(&self.row).as_bytes();
        let next = u32::try_from(self.jobs.by_content.len()).map_err(io::Error::other)?;
        let id = *self.jobs.by_content.entry(content).or_insert(next);
        self.jobs.by_address.insert(Arc::as_ptr(job), id);
        if id == next {
            self.push_row()?;
            if self.block.len() >= BLOCK_BYTES {
                self.flush(JOBS)?;
            }
        }
        Ok(())
    }
}

struct WriteJobs<'a, 'b>(&'a mut Writer<'b>);

impl TableVisitor for WriteJobs<'_, '_> {
    type Out = io::Result<()>;
}

impl<T: TableType> VisitsTable<T> for WriteJobs<'_, '_> {
    fn visit(self) -> io::Result<()> {
        let state = self.0.state;
        Rows::<T>::rows(state).try_for_each(|row| T::job(&row).map_or(Ok(()), |job| self.0.add_job(job)))
    }
}

struct WriteRows<'a, 'b>(&'a mut Writer<'b>);

impl TableVisitor for WriteRows<'_, '_> {
    type Out = io::Result<()>;
}

impl<T: TableType> VisitsTable<T> for WriteRows<'_, '_> {
    fn visit(self) -> io::Result<()> {
        let writer = &mut *self.0;
        let state = writer.state;
        let name = T::TABLE.name();
        for row in Rows::<T>::rows(state) {
            let row = &row;
            if writer.block.is_empty() {
                writer.block.push(u8::try_from(name.len()).map_err(io::Error::other)?);
                writer.block.extend_from_slice(name.as_bytes());
            }
            let job =
                T::job(row).and_then(|job| writer.jobs.by_address.get(&Arc::as_ptr(job)).copied()).unwrap_or(NO_JOB);
            writer.row.clear();
            writer.row.extend_from_slice(&job.to_le_bytes());
            T::store(row, &mut writer.row);
            writer.push_row()?;
            if writer.block.len() >= BLOCK_BYTES {
                writer.flush(ROWS)?;
            }
        }
        writer.flush(ROWS)?;
        let end =
            TableEnd { rows: state.table_len(T::TABLE) as u64, digest: *state.digests[T::TABLE as usize].as_bytes() };
        writer.ends.insert(name.to_owned(), end);
        Ok(())
    }
}

fn head(kind: u8, length: u32) -> [u8; 5] {
    let [a, b, c, d] = length.to_le_bytes();
    [kind, a, b, c, d]
}

fn seal(head: &[u8; 5], payload: &[u8]) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(head).update(payload);
    let (first, _) = hasher
        .finalize()
        .as_bytes()
        .split_first_chunk()
        .map(|(first, rest)| (*first, rest.len()))
        .expect("a BLAKE3 hash has 32 bytes");
    Digest::from_bytes(first)
}

struct Reader<'a> {
    input: &'a mut dyn io::Read,
    ahead: &'a mut dyn Ahead,
    state: State,
    frame: u64,
    schema: u16,
    jobs: Arc<Vec<Arc<Job>>>,
    has_rows: bool,
    block: Vec<u8>,
    unpacked: Vec<u8>,
}

impl Reader<'_> {
    fn read_all(mut self) -> Result<State, CheckpointError> {
        let mut magic = [0; 16];
        self.input.read_exact(&mut magic).map_err(CheckpointError::Read)?;
        if magic != *MAGIC {
            return Err(CheckpointError::NotACheckpoint);
        }
        let HEADER = self.next()? else {
            return Err(self.malformed("it should be the header"));
        };
        self.header()?;
        loop {
            match self.next()? {
                JOBS => self.job_block()?,
                ROWS => self.row_block()?,
                END => {
                    while self.put_next()? {}
                    return self.end();
                }
                other => return Err(self.malformed(format!("kind {other}"))),
            }
        }
    }

    fn malformed(&self, what: impl ToString) -> CheckpointError {
        CheckpointError::Malformed { frame: self.frame - 1, what: what.to_string() }
    }

    /// Reads the next frame into the block and returns its kind.
    fn next(&mut self) -> Result<u8, CheckpointError> {
        let mut head = [0; 5];
        self.input.read_exact(&mut head).map_err(CheckpointError::Read)?;
        let [kind, a, b, c, d] = head;
        let length = u32::from_le_bytes([a, b, c, d]);
        if length > FRAME_BYTES_MAX {
            return Err(CheckpointError::Damaged { frame: self.frame });
        }
        self.block.clear();
        let limited = &mut io::Read::take(&mut *self.input, u64::from(length) + 16);
        let read = io::Read::read_to_end(limited, &mut self.block).map_err(CheckpointError::Read)?;
        let (payload, written) = match self.block.split_last_chunk::<16>() {
            Some((payload, written)) if read == length as usize + 16 => (payload, *written),
            Some(_) | None => return Err(CheckpointError::Read(io::ErrorKind::UnexpectedEof.into())),
        };
        if seal(&head, payload) != Digest::from_bytes(written) {
            return Err(CheckpointError::Damaged { frame: self.frame });
        }
        self.block.truncate(length as usize);
        if kind & COMPRESSED != 0 {
            self.unpack()?;
        }
        self.frame += 1;
        Ok(kind & !COMPRESSED)
    }

    /// Decompresses the block.
    fn unpack(&mut self) -> Result<(), CheckpointError> {
        let malformed = |what: &str| CheckpointError::Malformed { frame: self.frame, what: what.to_owned() };
        let (length, packed) = self.block.split_first_chunk().ok_or_else(|| malformed("it has no length"))?;
        let length = u32::from_le_bytes(*length);
        if length > FRAME_BYTES_MAX {
            return Err(malformed("it is too long"));
        }
        self.unpacked.resize(length as usize, 0);
        match lz4_flex::block::decompress_into(packed, &mut self.unpacked) {
            Ok(written) if written == length as usize => {}
            Ok(_) | Err(_) => return Err(malformed("it cannot be decompressed")),
        }
        std::mem::swap(&mut self.block, &mut self.unpacked);
        Ok(())
    }

    fn message<M: serde::de::DeserializeOwned>(&self) -> Result<M, CheckpointError> {
        rmp_serde::from_slice(&self.block).map_err(|error| self.malformed(error))
    }

    fn header(&mut self) -> Result<(), CheckpointError> {
        let header: Header = self.message()?;
        if header.schema > SCHEMA {
            return Err(CheckpointError::Newer { schema: header.schema });
        }
        self.schema = header.schema;
        self.state.raft_index = header.raft_index;
        self.state.base = header.base;
        self.state.at = header.at;
        for (name, index) in header.table_index {
            let table = Table::from_name(&name).ok_or_else(|| self.malformed(format!("unknown table {name:?}")))?;
            self.state.table_index[table as usize] = index;
        }
        Ok(())
    }

    fn job_block(&mut self) -> Result<(), CheckpointError> {
        if self.has_rows {
            return Err(self.malformed("jobs come before rows"));
        }
        let block = std::mem::take(&mut self.block);
        let mut jobs = Arc::unwrap_or_clone(std::mem::take(&mut self.jobs));
        for row in rows(&block) {
            let row = row.ok_or_else(|| self.malformed("a row is cut off"))?;
            let bytes = songline_migrations::row(Table::Jobs.name(), self.schema, row)?;
            let job = rmp_serde::from_slice(&bytes)
                .map_err(|source| CheckpointError::Row { table: Table::Jobs.name(), source })?;
            jobs.push(Arc::new(job));
        }
        self.jobs = Arc::new(jobs);
        self.block = block;
        Ok(())
    }

    /// Hands the block over for decoding, and inserts the rows of blocks that are decoded.
    fn row_block(&mut self) -> Result<(), CheckpointError> {
        self.has_rows = true;
        let rows = EncodedRows {
            block: std::mem::take(&mut self.block),
            frame: self.frame - 1,
            schema: self.schema,
            jobs: Arc::clone(&self.jobs),
        };
        self.ahead.give(Piece(Box::new(move || Done(rows.decode()))));
        while !self.ahead.has_room() && self.put_next()? {}
        Ok(())
    }

    /// Inserts the rows of the next decoded block. Returns false if there is none.
    fn put_next(&mut self) -> Result<bool, CheckpointError> {
        let Some(Done(put)) = self.ahead.take() else { return Ok(false) };
        put?(&mut self.state)?;
        Ok(true)
    }

    fn end(mut self) -> Result<State, CheckpointError> {
        let end: End = self.message()?;
        crate::alloc::index_loaded(&mut self.state);
        crate::eval::index_loaded(&mut self.state);
        if end.jobs != self.jobs.len() as u64 {
            return Err(self.malformed("jobs are missing"));
        }
        for (name, written) in end.tables {
            let table = Table::from_name(&name).ok_or_else(|| self.malformed(format!("unknown table {name:?}")))?;
            if written.rows != self.state.table_len(table) as u64 {
                return Err(self.malformed(format!("rows of table {name:?} are missing")));
            }
            let (written, found) = (Digest::from_bytes(written.digest), self.state.digests[table as usize]);
            // Migrated rows have another digest, the one they have on every server of this version.
            if self.schema == SCHEMA && written != found {
                return Err(CheckpointError::Digest { table: table.name(), written, found });
            }
        }
        Ok(self.state)
    }
}

/// The rows of a block, each stored after its length. `None`: the block ends inside a row.
fn rows(mut block: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    std::iter::from_fn(move || {
        if block.is_empty() {
            return None;
        }
        let row = block
            .split_first_chunk()
            .and_then(|(length, rest)| rest.split_at_checked(u32::from_le_bytes(*length) as usize));
        block = row.map_or(&[][..], |(_, rest)| rest);
        Some(row.map(|(row, _)| row))
    })
}

#[cfg(test)]
mod tests;
