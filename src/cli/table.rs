//! Digests of a state's tables.

use songline_cli::table;
use songline_projections::State;

/// Prints the rows and the digest of each table of a state.
pub(crate) fn digests(state: &State) {
    let rows: Vec<_> = state
        .table_digests()
        .into_iter()
        .map(|(table, digest)| vec![table.name().to_owned(), state.table_len(table).to_string(), digest.to_string()])
        .collect();
    table::print(&["Table", "Rows", "Digest"], &rows);
}
