//! Weaknesses of the reference that `defects.txt` lists: each has a test, or waits for a part that is not built. Not
//! here: whether a test shows what its name says.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};

use crate::tree;

const LIST: &str = include_str!("defects.txt");

/// The numbers of tests, which are named `defect_N_..`.
fn tested() -> Result<BTreeSet<u32>> {
    let files = tree::files(&[".rs"])?;
    let lines = files.iter().flat_map(|file| file.text.lines());
    let names = lines.filter_map(|line| line.split_once("fn defect_")).filter_map(|(_, rest)| rest.split_once('_'));
    Ok(names.filter_map(|(number, _)| number.parse().ok()).collect())
}

/// The numbers of the list, each with the missing part that it waits for.
fn listed() -> Result<BTreeMap<u32, Option<&'static str>>> {
    let lines = LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entry = |line: &'static str| {
        let (number, rest) = line.split_once(' ').context("a number and what it is about")?;
        Ok((number.parse().with_context(|| format!("reading {line:?}"))?, rest.split_once(" = ").map(|(_, part)| part)))
    };
    lines.map(entry).collect()
}

#[test]
fn each_listed_weakness_has_a_test_or_waits_for_a_part_that_is_not_built() -> Result<()> {
    let (tested, listed) = (tested()?, listed()?);
    let refusals: Vec<String> =
        tree::files(&[".rs"])?.iter().filter(|file| !file.is_test()).map(|file| file.text.clone()).collect();
    let is_unbuilt = |part: &str| refusals.iter().any(|text| text.contains(&format!("not_built(\"{part}\")")));
    let mut complaints = Vec::new();
    for (number, waits) in &listed {
        match (waits, tested.contains(number)) {
            (None, false) => complaints.push(format!("no test is named `defect_{number}_..`")),
            (Some(part), true) => complaints.push(format!("{number} has a test and is listed as waiting for {part}")),
            (Some(part), false) if !is_unbuilt(part) => {
                complaints.push(format!("{number} waits for {part}, which nothing refuses"))
            }
            (None, true) | (Some(_), false) => {}
        }
    }
    complaints.extend(
        tested
            .iter()
            .filter(|number| !listed.contains_key(number))
            .map(|number| format!("{number} is not in defects.txt")),
    );
    let count = u32::try_from(listed.len()).context("few")?;
    complaints.extend(
        (1..=count)
            .filter(|number| !listed.contains_key(number))
            .map(|number| format!("{number} is left out of defects.txt")),
    );
    tree::no_complaints(complaints)
}
