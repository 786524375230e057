//! Columns of text, as wide as they need to be.

use songline_projections::State;

/// Prints a title line and rows below it.
pub(crate) fn print(title: &[&str], rows: &[Vec<String>]) {
    let mut widths: Vec<usize> = title.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: Vec<&str>| {
        let padded: Vec<_> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        println!("{}", padded.join("  ").trim_end());
    };
    line(title.to_vec());
    for row in rows {
        line(row.iter().map(String::as_str).collect());
    }
}

/// Prints the rows and the digest of each table of a state.
pub(crate) fn digests(state: &State) {
    let rows: Vec<_> = state
        .table_digests()
        .into_iter()
        .map(|(table, digest)| vec![table.name().to_owned(), state.table_len(table).to_string(), digest.to_string()])
        .collect();
    print(&["Table", "Rows", "Digest"], &rows);
}

/// Prints names and values, the values in one column.
pub(crate) fn pairs(pairs: &[(&str, String)]) {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in pairs {
        println!("{name:<width$} = {value}");
    }
}
