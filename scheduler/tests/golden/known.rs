//! The list of rows that do not match yet. Lines are `row: reason`; empty lines and lines that begin with `#` are
//! ignored.

use std::collections::BTreeMap;

/// Deviations from the list; empty when there are none. `rows` has the differences of each row.
pub(crate) fn complaints(rows: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let listed = read(include_str!("known.txt"));
    let mut complaints = Vec::new();
    for (row, differences) in rows {
        match (differences.is_empty(), listed.contains_key(row.as_str())) {
            (false, false) => complaints.extend(differences.iter().cloned()),
            (true, true) => complaints.push(format!("{row} matches now: remove its line from known.txt")),
            (true, false) | (false, true) => {}
        }
    }
    let unknown = listed.keys().filter(|row| !rows.contains_key(**row));
    complaints.extend(unknown.map(|row| format!("{row} is listed, but there is no such row")));
    complaints
}

fn read(text: &str) -> BTreeMap<&str, &str> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(": ").unwrap_or_else(|| panic!("not `row: reason`: {line}"))).collect()
}
