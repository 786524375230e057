//! Tasks as the machine sees them: processes with the id of their allocation, and the words that each start leaves.
//! Not here: what the agent says of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::process::{self, Process};

/// Programs that the scripts of tasks become.
const PROGRAMS: &[&str] = &["sleep", "busybox"];
const VARIABLE: &[u8] = b"NOMAD_ALLOC_ID=";

/// Processes of tasks of these allocations. A supervisor has the variables of its task as well; its program is
/// another.
pub fn all(allocs: &BTreeSet<String>) -> BTreeMap<String, Vec<Process>> {
    let mut found: BTreeMap<String, Vec<Process>> = BTreeMap::new();
    for pid in process::all() {
        let program = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if !PROGRAMS.contains(&program.trim()) {
            continue;
        }
        let env = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let id = env.split(|byte| *byte == 0).find_map(|variable| variable.strip_prefix(VARIABLE));
        let id = id.map(|id| String::from_utf8_lossy(id).into_owned()).filter(|id| allocs.contains(id));
        if let (Some(id), Some(process)) = (id, Process::find(pid)) {
            found.entry(id).or_default().push(process);
        }
    }
    for of in found.values_mut() {
        // A web server has a child for each connection.
        let pids: BTreeSet<i32> = of.iter().map(|process| process.pid).collect();
        of.retain(|process| process.parent().is_some_and(|parent| !pids.contains(&parent)));
    }
    found
}

/// Number of starts of each allocation's task, by the words that they left in the folder.
pub fn starts(told: &Path) -> BTreeMap<String, usize> {
    let text = fs::read_to_string(told.join("starts")).unwrap_or_default();
    let mut starts = BTreeMap::new();
    for id in text.lines() {
        *starts.entry(id.to_owned()).or_default() += 1;
    }
    starts
}
