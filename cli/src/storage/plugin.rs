//! `plugin status`.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::Value;

use super::find::{self, count};
use crate::client::{escape, text};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::format::Format;
use crate::jobs::lists::{self, items};
use crate::layout::{block, heading, list, section};
use crate::{Context, General, Run, out, outln};

/// Capabilities of controllers: the field, and its name in the protocol.
const CONTROLLER: &[(&str, &str)] = &[
    ("SupportsCreateDelete", "CREATE_DELETE_VOLUME"),
    ("SupportsAttachDetach", "CONTROLLER_ATTACH_DETACH"),
    ("SupportsListVolumes", "LIST_VOLUMES"),
    ("SupportsGetCapacity", "GET_CAPACITY"),
    ("SupportsCreateDeleteSnapshot", "CREATE_DELETE_SNAPSHOT"),
    ("SupportsListSnapshots", "LIST_SNAPSHOTS"),
    ("SupportsClone", "CLONE_VOLUME"),
    ("SupportsReadOnlyAttach", "ATTACH_READONLY"),
    ("SupportsExpand", "EXPAND_VOLUME"),
    ("SupportsListVolumesAttachedNodes", "LIST_VOLUMES_PUBLISHED_NODES"),
    ("SupportsCondition", "VOLUME_CONDITION"),
    ("SupportsGet", "GET_VOLUME"),
];

/// Capabilities of nodes.
const NODE: &[(&str, &str)] = &[
    ("RequiresNodeStageVolume", "STAGE_UNSTAGE_VOLUME"),
    ("SupportsStats", "GET_VOLUME_STATS"),
    ("SupportsExpand", "EXPAND_VOLUME"),
    ("SupportsCondition", "VOLUME_CONDITION"),
];

/// Arguments of `plugin status`.
#[derive(Args)]
pub(crate) struct Status {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Leave out capabilities and allocations.
    #[arg(long)]
    short: bool,
    /// Print full ids, capabilities and topologies.
    #[arg(long)]
    verbose: bool,
    /// Kind of the plugins: `csi`.
    #[arg(long = "type", default_value = "csi")]
    kind: String,
    /// Id of the plugin, or its beginning.
    plugin: Option<String>,
}

impl Run for Status {
    async fn run(self, _: &Context) -> Outcome {
        if self.kind != "csi" {
            return Err(Failure::new(format!("Unsupported plugin type: {}", self.kind)));
        }
        self.format.wanted()?;
        let client = self.general.client()?;
        let Some(typed) = &self.plugin else {
            let found = client.get("/v1/plugins?type=csi").await.tried("Error querying CSI plugins")?;
            if self.format.print(&found)? {
                return Ok(Exit::DONE);
            }
            outln!("{}", heading("Container Storage Interface"));
            match items(&found) {
                [] => out::error("No CSI plugins"),
                found => outln!("{}", find::plugins(found)),
            }
            return Ok(Exit::DONE);
        };
        let found = find::plugin(&client, typed).await?;
        let path = format!("/v1/plugin/csi/{}", escape(text(&found["ID"])));
        let plugin = client.get(&path).await.tried("Error querying CSI plugin")?;
        if self.format.print(&plugin)? {
            return Ok(Exit::DONE);
        }
        self.show(&plugin);
        Ok(Exit::DONE)
    }
}

impl Status {
    fn show(&self, plugin: &Value) {
        let of = |part: &str, what: &str| count(plugin, part, what).to_string();
        outln!(
            "{}",
            block(&[
                ("ID", text(&plugin["ID"]).to_owned()),
                ("Provider", text(&plugin["Provider"]).to_owned()),
                ("Version", text(&plugin["Version"]).to_owned()),
                ("Controllers Healthy", of("Controllers", "Healthy")),
                ("Controllers Expected", of("Controllers", "Expected")),
                ("Nodes Healthy", of("Nodes", "Healthy")),
                ("Nodes Expected", of("Nodes", "Expected")),
            ])
        );
        if self.short {
            return;
        }
        if self.verbose {
            let has = |instances: &str, info: &str, names: &[(&str, &'static str)]| {
                let all: Vec<&Value> =
                    plugin[instances].as_object().into_iter().flatten().map(|(_, one)| &one[info]).collect();
                let named = names.iter().filter(|(field, _)| all.iter().any(|info| info[*field] == true));
                let mut named: Vec<&str> = named.map(|(_, name)| *name).collect();
                named.sort_unstable();
                named.join("\n")
            };
            for (title, names) in [
                ("Controller Capabilities", has("Controllers", "ControllerInfo", CONTROLLER)),
                ("Node Capabilities", has("Nodes", "NodeInfo", NODE)),
                ("Accessible Topologies", topologies(plugin)),
            ] {
                if !names.is_empty() {
                    section(title, &names);
                }
            }
        }
        section("Allocations", &lists::allocs(items(&plugin["Allocations"]), self.verbose, true));
    }
}

/// Topologies of the plugin's nodes, by node.
fn topologies(plugin: &Value) -> String {
    let rows: Vec<Vec<String>> = plugin["Nodes"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(node, info)| {
            let segments = segments(&info["NodeInfo"]["AccessibleTopology"]);
            let id: String = node.chars().take(8).collect();
            (!segments.is_empty()).then(|| vec![id, segments])
        })
        .collect();
    if rows.is_empty() { String::new() } else { list(&["Node ID", "Accessible Topology"], &rows) }
}

/// Segments of a topology: `rack=r1,zone=a`.
pub(super) fn segments(topology: &Value) -> String {
    let segments: BTreeMap<&str, &str> = topology["Segments"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), text(value)))
        .collect();
    segments.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}
