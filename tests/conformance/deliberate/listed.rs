//! Checks that each line of the lists of differences has a test of its name. Not here: those tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::lists;

/// Folders of the tests, below the root of the repository.
const FOLDERS: [&str; 2] = ["tests/conformance/deliberate", "api/tests/it/deliberate"];
/// A test that needs a node with a CSI plugin, which no agent runs yet.
const BESIDE: &str = "scheduler/src/feasible/volumes/tests.rs";

#[test]
fn each_deliberate_difference_has_a_test_of_its_name() -> Result<()> {
    let folder = crate::folder();
    let masks = lists::read_masks(&folder.join("deliberate.txt"))?;
    let defects = lists::read(&folder.join("defects.txt"))?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut tests: BTreeSet<String> = tests_in(&root.join(BESIDE))?.into_iter().collect();
    for start in FOLDERS {
        let path = root.join(start);
        tests.extend(tests_in(&path.with_extension("rs"))?);
        for entry in fs::read_dir(&path).with_context(|| format!("listing {start}"))? {
            tests.extend(tests_in(&entry?.path())?);
        }
    }
    let untested = masks.keys().chain(defects.keys()).filter(|case| !tests.contains(&case.replace('/', "_")));
    let untested: Vec<&str> = untested.map(String::as_str).collect();
    ensure!(untested.is_empty(), "no test shows what these lines claim: {}", untested.join(", "));
    Ok(())
}

#[test]
fn a_defect_is_listed_once_and_its_recording_is_not_among_the_cases() -> Result<()> {
    let folder = crate::folder();
    let masks = lists::read_masks(&folder.join("deliberate.txt"))?;
    for case in lists::read(&folder.join("defects.txt"))?.into_keys() {
        ensure!(!masks.contains_key(&case), "{case} is in both lists");
        ensure!(
            !folder.join("cases").join(format!("{case}.json")).exists(),
            "{case} can be replayed: mask its steps in deliberate.txt"
        );
    }
    Ok(())
}

/// The names of the tests in a file.
fn tests_in(file: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let mut names = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if !matches!(line.trim(), "#[test]" | "#[tokio::test]") {
            continue;
        }
        let signature = lines.next().unwrap_or_default().trim_start_matches("async ");
        let name = signature.strip_prefix("fn ").and_then(|rest| rest.split_once('('));
        names.extend(name.map(|(name, _)| name.to_string()));
    }
    Ok(names)
}
