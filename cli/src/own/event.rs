//! `event follow`, and the readable form of an event.

use std::io::Write;

use clap::Subcommand;
use serde_json::Value;

use crate::General;
use crate::client::{Client, short, text};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Print change events as they happen.
    Follow {
        #[command(flatten)]
        target: General,
        /// `Topic` or `Topic:key`; may be given several times. All topics without it.
        #[arg(long)]
        topic: Vec<String>,
        /// Start behind this index instead of now.
        #[arg(long)]
        after_index: Option<u64>,
        /// Only events that pass this expression, such as `Payload.Job.Priority == 70`.
        #[arg(long)]
        filter: Option<String>,
        /// Begin with all rows there are.
        #[arg(long, conflicts_with = "after_index")]
        snapshot: bool,
        /// Also what the reference has no event for.
        #[arg(long)]
        full: bool,
        /// Print the frames as they come, as JSON lines.
        #[arg(long)]
        json: bool,
    },
}

async fn run(command: Command) -> anyhow::Result<()> {
    let Command::Follow { target, topic, after_index, filter, snapshot, full, json } = command;
    let mut query = match (after_index, snapshot) {
        (Some(index), _) => format!("after_index={index}"),
        (None, true) => "snapshot=true".to_owned(),
        (None, false) => "from=now".to_owned(),
    };
    topic.iter().for_each(|topic| query.push_str(&format!("&topic={}", escaped(topic))));
    if let Some(filter) = filter {
        query.push_str(&format!("&filter={}", escaped(&filter)));
    }
    if full {
        query.push_str("&full=true");
    }
    let mut lines = follow(&target.client()?, &query).await?;
    let mut out = std::io::stdout();
    while let Some(line) = lines.next().await? {
        if json {
            writeln!(out, "{line}")?;
        } else {
            for text in readable(&serde_json::from_str(&line)?) {
                writeln!(out, "{text}")?;
            }
        }
    }
    Ok(())
}

/// A text as the value of a query parameter.
fn escaped(text: &str) -> String {
    let byte =
        |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(byte).collect()
}

/// The lines of an event stream.
pub struct Lines {
    response: reqwest::Response,
    rest: Vec<u8>,
}

/// Opens the event stream with these parameters.
pub async fn follow(api: &Client, query: &str) -> anyhow::Result<Lines> {
    let response = api.open(&format!("/v1/event/stream?{query}")).await?;
    Ok(Lines { response, rest: Vec::new() })
}

impl Lines {
    /// The next line, or nothing when the agent ended the stream.
    pub async fn next(&mut self) -> anyhow::Result<Option<String>> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Ok(Some(String::from_utf8_lossy(&line[..end]).into_owned()));
            }
            match self.response.chunk().await? {
                Some(chunk) => self.rest.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }
}

/// One line for each event of a frame, and for its marks.
pub fn readable(frame: &Value) -> Vec<String> {
    if let Some(oldest) = frame["Gap"]["Oldest"].as_u64() {
        return vec![format!("-- older events are gone: the oldest is at index {oldest}")];
    }
    if let Some(why) = frame["Closed"].as_str() {
        return vec![format!("-- the server ended the stream: {why}")];
    }
    let events = frame["Events"].as_array().into_iter().flatten();
    events
        .map(|event| {
            format!(
                "{:>6}  {:<10}  {:<24}  {}",
                event["Index"].to_string(),
                text(&event["Topic"]),
                text(&event["Type"]),
                what(event)
            )
        })
        .collect()
}

fn what(event: &Value) -> String {
    let payload = &event["Payload"];
    match text(&event["Topic"]) {
        "Job" => {
            let job = &payload["Job"];
            format!("{} version {} is {}", text(&job["ID"]), job["Version"], text(&job["Status"]))
        }
        "Evaluation" => {
            let eval = &payload["Evaluation"];
            let note = text(&eval["StatusDescription"]);
            format!(
                "{} of {} ({}) is {} {note}",
                short(&eval["ID"]),
                text(&eval["JobID"]),
                text(&eval["TriggeredBy"]),
                text(&eval["Status"])
            )
        }
        "Allocation" => {
            let alloc = &payload["Allocation"];
            let last = alloc["TaskStates"]
                .as_object()
                .into_iter()
                .flatten()
                .filter_map(|(_, state)| state["Events"].as_array()?.last());
            let said: Vec<_> = last.map(|event| text(&event["Type"])).collect();
            let said = if said.is_empty() { String::new() } else { format!(" [{}]", said.join(", ")) };
            let (desired, client) = (text(&alloc["DesiredStatus"]), text(&alloc["ClientStatus"]));
            format!("{} {} wants {desired}, is {client}{said}", short(&alloc["ID"]), text(&alloc["Name"]))
        }
        "Deployment" => {
            let deployment = &payload["Deployment"];
            let groups = deployment["TaskGroups"].as_object().into_iter().flatten();
            let healthy: Vec<_> = groups
                .map(|(name, group)| format!("{name} {}/{} healthy", group["HealthyAllocs"], group["DesiredTotal"]))
                .collect();
            format!(
                "{} of {} is {}: {}",
                short(&deployment["ID"]),
                text(&deployment["JobID"]),
                text(&deployment["Status"]),
                healthy.join(", ")
            )
        }
        "Node" => {
            let node = &payload["Node"];
            format!(
                "{} {} is {}, {}",
                short(&node["ID"]),
                text(&node["Name"]),
                text(&node["Status"]),
                text(&node["SchedulingEligibility"])
            )
        }
        _ => text(&event["Key"]).to_owned(),
    }
    .trim_end()
    .to_owned()
}

impl crate::Run for Command {
    async fn run(self, _: &crate::Context) -> crate::Outcome {
        run(self).await?;
        Ok(crate::Exit::DONE)
    }
}
