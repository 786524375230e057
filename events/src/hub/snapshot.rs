//! Rows of a view as events of type `Snapshot`, in pieces, for streams that begin with the state. The view does not
//! change, so all rows have one index however long the subscriber takes. The subscription reads the entries after
//! that index.

use std::sync::Arc;

use bytes::Bytes;
use songline_projections::{Change, State, Table};

use super::batch::{Batch, Dialect, Format};
use super::filter::Interest;
use crate::event;

/// Number of bytes at which a piece is sent.
const PIECE_BYTES: usize = 32 * 1024;
/// Rows read between two checks of the clock and the permit.
const ROWS_AT_ONCE: usize = 32;

/// Rest of a snapshot that is still to be sent.
pub(super) struct Snapshot {
    view: Arc<State>,
    /// Tables still to be sent, the next one last.
    tables: Vec<Table>,
    /// Row of the next table that was read last.
    after: Option<Change>,
}

/// A piece of a snapshot.
pub(super) enum Piece {
    /// A frame of the wanted rows; `None` when none of the rows that were read is wanted.
    Rows(Option<Bytes>),
    /// The end of the snapshot.
    End,
}

impl Snapshot {
    pub(super) fn new(view: Arc<State>) -> Self {
        Self { view, tables: Table::ALL.iter().rev().copied().collect(), after: None }
    }

    /// Index of all rows.
    pub(super) fn index(&self) -> u64 {
        self.view.applied_index()
    }

    /// The next wanted rows, as one frame.
    pub(super) fn next(&mut self, interest: &Interest, format: Format, dialect: Dialect) -> Piece {
        let (mut events, mut bytes) = (Vec::new(), 0);
        let index = self.index();
        let mut looked = 0;
        while let Some(&table) = self.tables.last() {
            if bytes >= PIECE_BYTES || looked >= ROWS_AT_ONCE {
                break;
            }
            // Rows are read in small pages: paging by single rows near the bound would be slower, and a few rows
            // above it do no harm.
            let rows = self.view.page(table, self.after.as_ref(), ROWS_AT_ONCE / 4);
            looked += rows.len().max(1);
            let shown = rows.iter().filter_map(event::snapshot).filter(|event| dialect.shows(event.audience));
            let wanted: Vec<_> = shown.filter(|event| interest.wants_topic(event.topic.word)).collect();
            if rows.is_empty() || wanted.is_empty() {
                // All rows of a table have one topic, so a reader without this topic skips the table.
                self.tables.pop();
                self.after = None;
                continue;
            }
            for row in wanted {
                let batch = Batch::of(index, 0, vec![row]);
                let wanted = batch.events.into_iter().filter(|event| interest.wants(index, event));
                events.extend(wanted.inspect(|event| bytes += event.msgpack().len()));
            }
            self.after = rows.into_iter().next_back();
        }
        if !events.is_empty() {
            return Piece::Rows(Some(super::batch::frame_of(format, index, &events)));
        }
        if self.tables.is_empty() { Piece::End } else { Piece::Rows(None) }
    }
}
