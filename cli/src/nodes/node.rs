//! `node status`.

use clap::Subcommand;
use serde_json::Value;

use crate::client::{short, text};
use crate::{General, table};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show all nodes, or one.
    Status {
        #[command(flatten)]
        target: General,
        /// The node's whole id.
        node: Option<String>,
    },
}

async fn run(command: Command) -> anyhow::Result<()> {
    let Command::Status { target, node } = command;
    let api = target.client()?;
    match node {
        None => {
            let nodes = api.get("/v1/nodes").await?;
            let rows: Vec<_> = nodes.as_array().into_iter().flatten().map(row).collect();
            table::print(&["ID", "Pool", "DC", "Name", "Class", "Drain", "Eligibility", "Status"], &rows);
        }
        Some(id) => show(&api.get(&format!("/v1/node/{id}")).await?),
    }
    Ok(())
}

fn row(node: &Value) -> Vec<String> {
    let cells = [&node["NodePool"], &node["Datacenter"], &node["Name"], &node["NodeClass"]];
    let mut row = vec![short(&node["ID"]).to_owned()];
    row.extend(cells.iter().map(|cell| text(cell).to_owned()));
    row.extend([
        node["Drain"].to_string(),
        text(&node["SchedulingEligibility"]).to_owned(),
        text(&node["Status"]).to_owned(),
    ]);
    row
}

fn show(node: &Value) {
    table::pairs(&[
        ("ID", text(&node["ID"]).to_owned()),
        ("Name", text(&node["Name"]).to_owned()),
        ("Datacenter", text(&node["Datacenter"]).to_owned()),
        ("Node Pool", text(&node["NodePool"]).to_owned()),
        ("Drain", node["Drain"].to_string()),
        ("Eligibility", text(&node["SchedulingEligibility"]).to_owned()),
        ("Status", text(&node["Status"]).to_owned()),
    ]);
    let drivers: Vec<_> = node["Drivers"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, driver)| {
            vec![
                name.clone(),
                driver["Detected"].to_string(),
                driver["Healthy"].to_string(),
                text(&driver["HealthDescription"]).to_owned(),
            ]
        })
        .collect();
    crate::outln!("\nDrivers");
    table::print(&["Driver", "Detected", "Healthy", "Message"], &drivers);
    let events: Vec<_> = node["Events"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|event| {
            vec![
                text(&event["Timestamp"]).to_owned(),
                text(&event["Subsystem"]).to_owned(),
                text(&event["Message"]).to_owned(),
            ]
        })
        .collect();
    crate::outln!("\nNode Events");
    table::print(&["Time", "Subsystem", "Message"], &events);
}

impl crate::Run for Command {
    async fn run(self, _: &crate::Context) -> crate::Outcome {
        run(self).await?;
        Ok(crate::Exit::DONE)
    }
}
