//! Decoding of row blocks ahead of their insertion into a state: decoding a block depends only on the jobs, so blocks
//! may be decoded in parallel, while their rows are inserted in order. The caller provides the threads.

use std::sync::Arc;

use songline_model::Job;

use super::{CheckpointError, NO_JOB, rows};
use crate::digest::{self, Digest};
use crate::row_map::RowMap;
use crate::state::State;
use crate::table::{Entry, Kept, Table, TableType, TableVisitor, VisitsTable};

/// Executor of independent pieces of work that returns the results in the order in which the pieces were given.
pub trait Ahead {
    /// Accepts a piece.
    fn give(&mut self, piece: Piece);

    /// Whether another piece may be given before a result is taken. Bounds the memory of pieces and results.
    fn has_room(&self) -> bool;

    /// Waits for the result of the oldest piece. `None`: no piece is left.
    fn take(&mut self) -> Option<Done>;
}

/// A block to decode.
pub struct Piece(pub(super) Box<dyn FnOnce() -> Done + Send>);

impl Piece {
    /// Decodes the block.
    pub fn run(self) -> Done {
        (self.0)()
    }
}

/// A decoded block, or the decode error.
pub struct Done(pub(super) Result<Put, CheckpointError>);

/// Inserts the rows of a block into the state.
pub(super) type Put = Box<dyn FnOnce(&mut State) -> Result<(), CheckpointError> + Send>;

/// Executor that decodes each block on the calling thread when it is given.
#[derive(Default)]
pub(super) struct InTurn(Option<Done>);

impl Ahead for InTurn {
    fn give(&mut self, piece: Piece) {
        self.0 = Some(piece.run());
    }

    fn has_room(&self) -> bool {
        self.0.is_none()
    }

    fn take(&mut self) -> Option<Done> {
        self.0.take()
    }
}

/// A block of rows in its encoded form.
pub(super) struct EncodedRows {
    pub(super) block: Vec<u8>,
    pub(super) frame: u64,
    pub(super) schema: u16,
    pub(super) jobs: Arc<Vec<Arc<Job>>>,
}

impl EncodedRows {
    pub(super) fn decode(self) -> Result<Put, CheckpointError> {
        let (name, rows) = self
            .block
            .split_first()
            .and_then(|(length, rest)| rest.split_at_checked(usize::from(*length)))
            .ok_or_else(|| self.malformed("the table's name is cut off"))?;
        let name = String::from_utf8_lossy(name);
        let table = Table::from_name(&name).ok_or_else(|| self.malformed(format!("unknown table {name:?}")))?;
        table.visit(Decode { encoded: &self, rows })
    }

    fn malformed(&self, what: impl ToString) -> CheckpointError {
        CheckpointError::Malformed { frame: self.frame, what: what.to_string() }
    }
}

struct Decode<'a> {
    encoded: &'a EncodedRows,
    rows: &'a [u8],
}

impl TableVisitor for Decode<'_> {
    type Out = Result<Put, CheckpointError>;
}

impl<T: TableType> VisitsTable<T> for Decode<'_> {
    fn visit(self) -> Result<Put, CheckpointError> {
        let encoded = self.encoded;
        let mut decoded = Vec::new();
        let mut scratch = Vec::new();
        for row in rows(self.rows) {
            let (job, stored) =
                row.and_then(|row| row.split_first_chunk()).ok_or_else(|| encoded.malformed("a row is cut off"))?;
            let job = match u32::from_le_bytes(*job) {
                NO_JOB => None,
                id => Some(Arc::clone(
                    encoded
                        .jobs
                        .get(id as usize)
                        .ok_or_else(|| encoded.malformed("a row names a job that is not there"))?,
                )),
            };
            let table = T::TABLE.name();
            // A row with no bytes of its own consists of its job, which was migrated already.
            let bytes = if stored.is_empty() {
                stored.into()
            } else {
                songline_migrations::row(table, encoded.schema, stored)?
            };
            let row = T::load(&bytes, job).map_err(|source| CheckpointError::Row { table, source })?;
            let key = T::key(&row);
            let hash = digest::row::<T>(&key, &row, &mut scratch);
            decoded.push((key, row, hash));
        }
        let frame = encoded.frame;
        Ok(Box::new(move |state| put::<T>(state, decoded, frame)))
    }
}

fn put<T: TableType>(
    state: &mut State,
    decoded: Vec<(T::Key, Arc<T::Row>, Digest)>,
    frame: u64,
) -> Result<(), CheckpointError> {
    for (key, row, hash) in decoded {
        state.digests[T::TABLE as usize] = state.digests[T::TABLE as usize].plus(hash);
        let row = T::share(state, row);
        let kept = T::Kept::keep(state, &row);
        if T::rows_mut(state).0.insert(key, Entry { kept, hash }).is_some() {
            let what = format!("a row of table {:?} is there twice", T::TABLE.name());
            return Err(CheckpointError::Malformed { frame, what });
        }
        T::index_row(state, &row);
    }
    Ok(())
}
