//! Printing of lists and blocks, for commands of this program's own.

use crate::{layout, outln};

/// Prints headings and rows below them.
pub fn print(headings: &[&str], rows: &[Vec<String>]) {
    outln!("{}", layout::resources(headings, rows));
}

/// Prints names and values, the values in one column.
pub fn pairs(pairs: &[(&str, String)]) {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in pairs {
        outln!("{name:<width$} = {value}");
    }
}
