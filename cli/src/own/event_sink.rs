//! `event sink list`, `register`, `deregister`, `status`: receivers of the events of the log.

use clap::Args;
use serde_json::Value;

use crate::client::{escape, text};
use crate::exit::{Failure, Outcome, Tried};
use crate::format::Format;
use crate::jobs::lists::items;
use crate::layout::{block, list};
use crate::{Context, Exit, General, Run, input, outln, values};

/// Arguments of `event sink list`.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
}

impl Run for List {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let found = self.general.client()?.get("/v1/event-sinks").await.tried("Error querying event sinks")?;
        self.format.show(&found, |found| match items(found) {
            [] => "No event sinks found".to_owned(),
            found => {
                let rows: Vec<_> = found.iter().map(row).collect();
                list(&["ID", "Type", "Status", "Position", "Lag", "Delivered", "Address"], &rows)
            }
        })
    }
}

fn row(sink: &Value) -> Vec<String> {
    let field = |key: &str| text(&sink[key]).to_owned();
    let number = |key: &str| sink[key].to_string();
    vec![
        field("ID"),
        field("Type"),
        field("Status"),
        number("Position"),
        number("Lag"),
        number("Delivered"),
        field("Address"),
    ]
}

/// Arguments of `event sink register`.
#[derive(Args)]
pub(crate) struct Register {
    #[command(flatten)]
    general: General,
    /// A file with the sink in the JSON of the HTTP API, with its name as ID; `-` is the standard input.
    file: String,
}

impl Run for Register {
    async fn run(self, _: &Context) -> Outcome {
        let source = input::read(&self.file)?;
        let sink: Value = serde_json::from_str(&source)
            .map_err(|error| Failure::of(&format!("Error reading {}", self.file), error))?;
        let name = text(&sink["ID"]);
        if name.is_empty() {
            return Err(Failure::new(format!("Error reading {}: the event sink has no ID", self.file)));
        }
        let path = format!("/v1/event-sink/{}", escape(name));
        self.general.client()?.put(&path, &sink).await.tried("Error registering event sink")?;
        outln!("Successfully registered event sink {name:?}!");
        Ok(Exit::DONE)
    }
}

/// Arguments of `event sink deregister`.
#[derive(Args)]
pub(crate) struct Deregister {
    #[command(flatten)]
    general: General,
    /// Name of the sink.
    name: String,
}

impl Run for Deregister {
    async fn run(self, _: &Context) -> Outcome {
        let path = format!("/v1/event-sink/{}", escape(&self.name));
        let done = format!("Successfully deregistered event sink {:?}!", self.name);
        self.general.delete(&path, "Error deregistering event sink", &done).await
    }
}

/// Arguments of `event sink status`.
#[derive(Args)]
pub(crate) struct Status {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Name of the sink.
    name: String,
}

impl Run for Status {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let path = format!("/v1/event-sink/{}", escape(&self.name));
        let sink = self.general.client()?.get(&path).await.tried("Error querying event sink")?;
        self.format.show(&sink, described)
    }
}

fn described(sink: &Value) -> String {
    let field = |key: &str| text(&sink[key]).to_owned();
    let number = |key: &str| sink[key].to_string();
    let topics = sink["Topics"].as_object().into_iter().flatten();
    let topics: Vec<String> = topics
        .map(|(topic, keys)| {
            let keys: Vec<&str> = keys.as_array().into_iter().flatten().map(text).collect();
            if keys.is_empty() { topic.clone() } else { format!("{topic}:{}", keys.join(",")) }
        })
        .collect();
    let headers: Vec<&str> = sink["Headers"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    block(&[
        ("ID", field("ID")),
        ("Type", field("Type")),
        ("Address", field("Address")),
        ("Subject", field("Subject")),
        ("Partition Key", field("PartitionKey")),
        ("Namespace", field("Namespace")),
        ("Topics", if topics.is_empty() { "*".to_owned() } else { topics.join(" ") }),
        ("Filter", field("Filter")),
        ("Full", number("Full")),
        ("Secret", field("Secret")),
        ("Headers", headers.join(" ")),
        ("Batch Size", number("BatchSize")),
        ("Status", field("Status")),
        ("Position", number("Position")),
        ("Lag", number("Lag")),
        ("Delivered", number("Delivered")),
        ("Gaps", number("Gaps")),
        ("Last Error", field("LastError")),
        ("Last Error At", values::time_of(text(&sink["LastErrorTime"]))),
    ])
}
