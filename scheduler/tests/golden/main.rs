//! The golden cases: decisions of the reference that the scheduler has to repeat, replayed in process.
//!
//! `cases/9.N.txt` has the stories of one section, each named by its row and written in the language that its header
//! names (see [`languages`]). A row matches when all of its stories do. `known.txt` names the rows that do not match
//! yet, with the reason: an unlisted failure and a listed match both fail. Recorded placements of whole clusters are
//! replayed by the simulator's test `placements`.

#![allow(clippy::unwrap_used, reason = "the languages are test code of the crate")]

mod known;
mod languages;
mod story;

#[path = "../../src/generic/tests/asks.rs"]
mod asks;
#[path = "../../src/blocked/tests/story.rs"]
#[allow(dead_code, reason = "the module's own stories use the rest")]
mod blocked_story;
#[path = "../../src/broker/tests/story.rs"]
mod broker_story;
#[path = "../../src/generic/tests/cluster.rs"]
#[allow(dead_code, reason = "the modules' own stories use the rest")]
mod cluster;
#[path = "../../src/leader/tests/draining.rs"]
mod draining;
#[path = "../../src/reconcile/tests/story.rs"]
mod reconcile_story;

use std::collections::BTreeMap;

// The languages are part of the crate's own tests and find its modules under these names.
use songline_scheduler::{applier, attempts, blocked, broker, leader, reconcile, seed};

use cluster::Cluster;

const SECTIONS: [&str; 8] = [
    include_str!("cases/9.1.txt"),
    include_str!("cases/9.2.txt"),
    include_str!("cases/9.3.txt"),
    include_str!("cases/9.4.txt"),
    include_str!("cases/9.5.txt"),
    include_str!("cases/9.6.txt"),
    include_str!("cases/9.7.txt"),
    include_str!("cases/9.8.txt"),
];

/// Number of rows, of which none may be lost.
const ROWS: usize = 151;

#[test]
#[expect(clippy::disallowed_macros, reason = "how many match is worth telling")]
fn golden_cases_match_unless_listed() {
    let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut stories, mut elsewhere) = (0, 0);
    for story in SECTIONS.into_iter().flat_map(story::read) {
        stories += 1;
        elsewhere += usize::from(story.language == "elsewhere");
        rows.entry(story.row.clone()).or_default().extend(story.difference());
    }
    let matching = rows.values().filter(|differences| differences.is_empty()).count();
    println!(
        "{matching} of {ROWS} golden cases match ({stories} stories, {elsewhere} of them told by tests of other files)"
    );
    let complaints = known::complaints(&rows);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert_eq!(rows.len(), ROWS, "rows with stories");
}
