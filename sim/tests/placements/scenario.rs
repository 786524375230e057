//! Scenarios as they are recorded. Not here: playing them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::Value;
use songline_model::Node;

/// One recorded scenario.
pub struct Scenario {
    /// Topic and name.
    pub name: String,
    /// Descriptions of the nodes by name.
    pub nodes: BTreeMap<String, Node>,
    /// Steps with their expectations.
    pub steps: Vec<Value>,
}

/// Loads all scenarios of a folder.
pub fn load(folder: &Path) -> Result<Vec<Scenario>> {
    let mut scenarios = Vec::new();
    for entry in folder.read_dir().with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = std::fs::read_to_string(&path)?;
            let read = serde_json::from_str(&text).map_err(anyhow::Error::from).and_then(parse);
            scenarios.push(read.with_context(|| format!("reading {}", path.display()))?);
        }
    }
    scenarios.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(scenarios)
}

fn parse(row: Value) -> Result<Scenario> {
    let rows = row["nodes"].as_object().context("nodes")?;
    let nodes = rows.iter().map(|(name, row)| Ok((name.clone(), node(name, row)?)));
    Ok(Scenario {
        name: row["name"].as_str().context("a name")?.to_owned(),
        nodes: nodes.collect::<Result<_>>()?,
        steps: row["steps"].as_array().context("steps")?.clone(),
    })
}

/// A node with a computed class of its own, as the recorded ones had.
fn node(name: &str, row: &Value) -> Result<Node> {
    let mut node: Node = serde_json::from_value(row.clone()).with_context(|| format!("node {name}"))?;
    node.name = name.into();
    node.computed_class = "".into();
    let mut attributes = BTreeMap::clone(node.attributes.as_deref().context("attributes")?);
    attributes.insert("os.signals".into(), name.into());
    node.attributes = Some(Arc::new(attributes));
    Ok(node)
}

impl Scenario {
    /// The node that joins in some scenarios: dc2, class `delta`, 2800 MHz, 2600 MB, otherwise like `n1`.
    pub fn joining(&self, name: &str) -> Option<Node> {
        let mut node = self.nodes.get("n1")?.clone();
        node.name = name.into();
        node.datacenter = "dc2".into();
        node.node_class = "delta".into();
        let meta = [("rack", "r4"), ("version", "1.5.0"), ("number", "8"), ("ssd", "false")];
        node.meta = Some(meta.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect());
        let resources = Arc::make_mut(node.node_resources.as_mut()?);
        resources.cpu.cpu_shares = 2800;
        resources.memory.memory_mb = 2600;
        resources.disk.disk_mb = 20_000;
        let raw_exec = self.nodes.get("n0")?.drivers.as_ref()?.get("raw_exec")?.clone();
        node.drivers.as_mut()?.insert("raw_exec".into(), raw_exec);
        let attributes = Arc::make_mut(node.attributes.as_mut()?);
        attributes.insert("driver.raw_exec".into(), "1".into());
        attributes.insert("cpu.totalcompute".into(), "2800".into());
        attributes.insert("memory.totalbytes".into(), (2600_i64 << 20).to_string().into());
        attributes.insert("os.signals".into(), name.into());
        Some(node)
    }
}
