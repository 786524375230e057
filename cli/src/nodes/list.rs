//! Lists of nodes.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::client::text;
use crate::ids::shown;
use crate::layout::list;

/// Columns that not every list has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Columns {
    /// Full ids, addresses and versions.
    pub(super) verbose: bool,
    /// Names of operating systems.
    pub(super) os: bool,
}

/// A list of nodes; `running` has the number of running allocations by node.
pub(super) fn table(nodes: &[Value], columns: &Columns, running: Option<&BTreeMap<String, u64>>) -> String {
    let mut headings = vec!["ID", "Node Pool", "DC", "Name", "Class"];
    if columns.os {
        headings.push("OS");
    }
    if columns.verbose {
        headings.extend(["Address", "Version"]);
    }
    headings.extend(["Drain", "Eligibility", "Status"]);
    if running.is_some() {
        headings.push("Running Allocs");
    }
    let row = |node: &Value| {
        let word = |key: &str| text(&node[key]).to_owned();
        let mut cells = vec![
            shown(text(&node["ID"]), columns.verbose),
            word("NodePool"),
            word("Datacenter"),
            word("Name"),
            word("NodeClass"),
        ];
        if columns.os {
            cells.push(text(&node["Attributes"]["os.name"]).to_owned());
        }
        if columns.verbose {
            cells.extend([word("Address"), word("Version")]);
        }
        cells.extend([(node["Drain"] == true).to_string(), word("SchedulingEligibility"), word("Status")]);
        if let Some(running) = running {
            cells.push(running.get(text(&node["ID"])).copied().unwrap_or(0).to_string());
        }
        cells
    };
    list(&headings, &nodes.iter().map(row).collect::<Vec<_>>())
}
