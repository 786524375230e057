//! Layouts of answers: lists, blocks, sections, cards.

use crate::out::{Colour, paint};
use crate::outln;

/// The text of an empty cell.
pub const NONE: &str = "<none>";

/// A list: the headings, then a row per item, two spaces between columns. Empty cells are `<none>`.
pub fn list(headings: &[&str], rows: &[Vec<String>]) -> String {
    table(headings, rows, NONE)
}

/// A list whose empty cells stay empty: tables of resources.
pub fn resources(headings: &[&str], rows: &[Vec<String>]) -> String {
    table(headings, rows, "")
}

fn table(headings: &[&str], rows: &[Vec<String>], empty: &str) -> String {
    let first = headings.iter().map(|cell| (*cell).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(first)
        .chain(rows.iter().map(|row| row.iter().map(|cell| filled(cell, empty)).collect()))
        .collect();
    columns(&rows)
}

/// Rows without headings, in columns.
pub fn columns(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A block: `Key   = Value` lines, keys padded to the longest. Empty values are `<none>`.
pub fn block<K: AsRef<str>, V: AsRef<str>>(pairs: &[(K, V)]) -> String {
    lines(pairs, " = ")
}

/// A card: a block whose `=` stands in a column of its own.
pub fn card<K: AsRef<str>, V: AsRef<str>>(pairs: &[(K, V)]) -> String {
    lines(pairs, "  =  ")
}

fn lines<K: AsRef<str>, V: AsRef<str>>(pairs: &[(K, V)], joint: &str) -> String {
    let width = pairs.iter().map(|(key, _)| key.as_ref().chars().count()).max().unwrap_or(0);
    let line = |(key, value): &(K, V)| format!("{:<width$}{joint}{}", key.as_ref(), filled(value.as_ref(), NONE));
    pairs.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn filled(cell: &str, empty: &str) -> String {
    if cell.is_empty() { empty.to_owned() } else { cell.to_owned() }
}

/// A bold heading.
pub fn heading(text: &str) -> String {
    paint(Colour::Bold, text)
}

/// Prints a section: an empty line, a bold heading, the body.
pub fn section(title: &str, body: &str) {
    outln!("\n{}\n{body}", heading(title));
}

/// Each line behind a prefix.
pub fn indented(text: &str, prefix: &str) -> String {
    text.lines().map(|line| format!("{prefix}{line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|cell| (*cell).to_owned()).collect()
    }

    #[test]
    fn cells_of_lists_are_as_wide_as_the_widest() {
        let rows = [row(&["web|1", "", "x"]), row(&["a", "é", "long cell"])];
        expect![[r#"
            ID     Type    Status
            web|1  <none>  x
            a      é       long cell"#]]
        .assert_eq(&list(&["ID", "Type", "Status"], &rows));
        expect![[r#"
            CPU  Memory
                 1 MiB"#]]
        .assert_eq(&resources(&["CPU", "Memory"], &[row(&["", "1 MiB"])]));
    }

    #[test]
    fn keys_of_blocks_are_padded() {
        expect![[r#"
            ID   = x
            Name = <none>"#]]
        .assert_eq(&block(&[("ID", "x"), ("Name", "")]));
        expect![[r#"
            ID      =  x
            Status  =  success"#]]
        .assert_eq(&card(&[("ID", "x"), ("Status", "success")]));
    }
}
