//! Form of files: place of modules, length, first line, and forbidden content. Not here: formatting, which rustfmt
//! checks.

use anyhow::Result;

use crate::tree::{self, File};

/// Longest source file, in lines. Split a file long before it reaches this.
const LINES_MAX: usize = 600;

/// Suffixes of the files that are read as text.
const TEXT: &[&str] = &[".rs", ".md", ".toml", ".hcl", ".json", ".txt", ".yml", ".sh"];

fn check(rule: impl Fn(&File) -> Vec<String>) -> Result<()> {
    let files = tree::files(&[".rs"])?;
    assert!(files.len() > 20, "this is not the whole tree");
    tree::no_complaints(files.iter().flat_map(rule).collect())
}

#[test]
fn a_module_is_a_file_beside_its_folder() -> Result<()> {
    check(|file| {
        let old = file.path.ends_with("/mod.rs");
        old.then(|| format!("{}: `foo.rs` + `foo/`, no `mod.rs`", file.path)).into_iter().collect()
    })
}

#[test]
fn every_file_starts_with_a_module_comment() -> Result<()> {
    check(|file| {
        let says = file.text.starts_with("//!") || file.text.is_empty();
        (!says).then(|| format!("{}: the first line is not `//!`", file.path)).into_iter().collect()
    })
}

#[test]
fn a_file_is_not_longer_than_600_lines() -> Result<()> {
    check(|file| {
        let lines = file.text.lines().count();
        (lines > LINES_MAX).then(|| format!("{}: {lines} lines", file.path)).into_iter().collect()
    })
}

#[test]
fn code_has_no_todo_and_no_ignored_test() -> Result<()> {
    let words = [concat!("#[ig", "nore"), concat!("to", "do!("), concat!("unimple", "mented!(")];
    check(|file| {
        let lines = file.text.lines().enumerate();
        lines
            .filter(|(_, line)| words.iter().any(|word| line.contains(word)))
            .map(|(at, line)| format!("{}:{}: {}", file.path, at + 1, line.trim()))
            .collect()
    })
}

#[test]
fn only_tests_unwrap() -> Result<()> {
    check(|file| {
        file.code()
            .filter(|(_, line)| line.contains(".unwrap()"))
            .map(|(at, line)| format!("{}:{at}: {}", file.path, line.trim()))
            .collect()
    })
}

/// Paths and names that exist on one machine only.
#[test]
fn files_name_no_path_of_the_authors_machine() -> Result<()> {
    let words =
        [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("../sha", "red"), concat!(".car", "go/registry")];
    let mut complaints = Vec::new();
    for file in tree::files(TEXT)? {
        // The recordings are the reference's answers, paths included.
        if file.path.starts_with("tests/conformance/cases/") {
            continue;
        }
        for (at, line) in file.text.lines().enumerate() {
            for word in words.iter().filter(|word| line.contains(**word)) {
                complaints.push(format!("{}:{}: {word}", file.path, at + 1));
            }
        }
    }
    tree::no_complaints(complaints)
}
