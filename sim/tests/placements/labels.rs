//! Names that are the same in every run: `NAME#K` for an allocation's id, a node's name for its id and its class, and
//! `PARENT/dispatch-K` for a derived job's id.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::{Map, Value};
use songline_model::Node;
use songline_sim::simulation::Stage;

use crate::play::ask;

/// Length of a UUID as text.
const UUID_LEN: usize = 36;

/// A job with the ids of its allocations by label.
pub struct LabelledJob {
    pub id: String,
    pub label: String,
    /// Ids of its allocations by their labels.
    pub allocs: BTreeMap<String, String>,
}

/// The labels at one time.
pub struct Labels {
    /// All jobs.
    pub jobs: Vec<LabelledJob>,
    /// Names of the nodes by computed class.
    pub classes: Map<String, Value>,
    /// Labels of allocations and names of nodes, by id.
    by_id: BTreeMap<String, String>,
    /// Ids and labels of derived jobs.
    derived: Vec<(String, String)>,
    /// Nodes by name.
    pub nodes: BTreeMap<String, Arc<Node>>,
}

impl Labels {
    /// Reads what there is.
    pub async fn learn(stage: &Stage, classes: &Map<String, Value>) -> Result<Self> {
        let mut labels = Self {
            jobs: Vec::new(),
            classes: classes.clone(),
            by_id: BTreeMap::new(),
            derived: Vec::new(),
            nodes: BTreeMap::new(),
        };
        let view = stage.view().context("the server is away")?;
        labels.nodes = view.nodes().map(|node| (node.name.to_string(), Arc::clone(node))).collect();
        for (name, id) in classes.values().filter_map(|name| Some((name.as_str()?, stage.node(name.as_str()?)?))) {
            labels.by_id.insert(id.to_string(), name.to_owned());
        }
        let mut rows = list(stage, "/v1/jobs").await?;
        rows.sort_by_key(|row| row["CreateIndex"].as_u64());
        labels.name_jobs(&rows);
        for at in 0..labels.jobs.len() {
            let path = format!("/v1/job/{}/allocations?all=true", encoded(&labels.jobs[at].id));
            labels.name_allocs(at, list(stage, &path).await?);
        }
        Ok(labels)
    }

    fn name_jobs(&mut self, rows: &[Value]) {
        let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
        for row in rows {
            let (id, parent) = (text(row, "ID"), text(row, "ParentID"));
            let mut label = id.clone();
            if !parent.is_empty() {
                let kind = if id.contains("/dispatch-") { "dispatch" } else { "periodic" };
                let number = numbers.entry(parent.clone()).or_default();
                *number += 1;
                label = format!("{parent}/{kind}-{number}");
                self.derived.push((id.clone(), label.clone()));
            }
            self.jobs.push(LabelledJob { id, label, allocs: BTreeMap::new() });
        }
    }

    fn name_allocs(&mut self, at: usize, mut rows: Vec<Value>) {
        rows.sort_by_cached_key(|row| (row["CreateIndex"].as_u64(), text(row, "NodeName")));
        let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
        for row in rows {
            let name = self.text(&text(&row, "Name"));
            let on_every_node = matches!(row["JobType"].as_str(), Some("system" | "sysbatch"));
            let name = if on_every_node { format!("{name}@{}", text(&row, "NodeName")) } else { name };
            let number = numbers.entry(name.clone()).or_default();
            *number += 1;
            let label = format!("{name}#{number}");
            let id = text(&row, "ID");
            self.by_id.insert(id.clone(), label.clone());
            self.jobs[at].allocs.insert(label, id);
        }
    }

    /// Id of the allocation with this label.
    pub fn alloc(&self, label: &str) -> Option<&str> {
        self.jobs.iter().find_map(|job| job.allocs.get(label)).map(String::as_str)
    }

    /// A text with labels and names in place of ids; `<uuid>` for other ids.
    pub fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (id, label) in &self.derived {
            text = text.replace(id, label);
        }
        let mut told = String::new();
        let mut rest = text.as_str();
        while let Some(next) = rest.chars().next() {
            if let Some(id) = rest.get(..UUID_LEN).filter(|id| is_uuid(id)) {
                told.push_str(self.by_id.get(id).map_or("<uuid>", String::as_str));
                rest = &rest[UUID_LEN..];
            } else {
                told.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
        told
    }

    /// Names of the nodes of a computed class.
    pub fn class(&self, class: &str) -> String {
        self.classes.get(class).and_then(Value::as_str).unwrap_or(class).to_owned()
    }
}

/// Rows of a list over HTTP.
pub async fn list(stage: &Stage, path: &str) -> Result<Vec<Value>> {
    match ask(stage, "GET", path, Value::Null).await?.done()? {
        Value::Array(rows) => Ok(rows),
        _ => Ok(Vec::new()),
    }
}

/// A job's id in a path.
pub fn encoded(id: &str) -> String {
    id.replace('/', "%2F")
}

/// A text of a row, empty if there is none.
pub fn text(row: &Value, key: &str) -> String {
    row[key].as_str().unwrap_or_default().to_owned()
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}
