//! `event follow`, and the readable form of an event.

use serde_json::Value;

use crate::client::{Client, escape, short, text};
use crate::{General, out, outln};

/// Arguments of `event follow`.
#[derive(clap::Args)]
pub(crate) struct Follow {
    #[command(flatten)]
    target: General,
    #[command(flatten)]
    wanted: Wanted,
    /// Print the frames as they come, as JSON lines.
    #[arg(long)]
    json: bool,
    /// Print the frames as they come, in msgpack.
    #[arg(long, conflicts_with = "json")]
    msgpack: bool,
    /// End when the stream has caught up with the present, instead of waiting for news.
    #[arg(long, conflicts_with_all = ["plain", "msgpack"])]
    until_now: bool,
}

/// Choice of events and of the stream's beginning.
#[derive(clap::Args)]
pub(crate) struct Wanted {
    /// `Topic` or `Topic:key`; may be given several times. All topics without it.
    #[arg(long, action = clap::ArgAction::Append)]
    topic: Vec<String>,
    /// Start with the first entry after this index instead of now; 0 is the oldest that is kept.
    #[arg(long, conflicts_with_all = ["index", "from", "snapshot"])]
    after_index: Option<u64>,
    /// Start with the entry at this index.
    #[arg(long, conflicts_with_all = ["from", "snapshot"])]
    index: Option<u64>,
    /// Start with the next entry: `now`, which is the default.
    #[arg(long)]
    from: Option<String>,
    /// Only events that pass this expression, such as `Payload.Job.Priority == 70`.
    #[arg(long)]
    filter: Option<String>,
    /// Begin with all rows there are.
    #[arg(long)]
    snapshot: bool,
    /// Also the events that Nomad does not have.
    #[arg(long)]
    full: bool,
    /// Nomad's own frames: several for one entry, only of events in memory, without marks.
    #[arg(long, conflicts_with_all = ["after_index", "from", "filter", "snapshot", "full"])]
    plain: bool,
}

impl Wanted {
    /// The query of the event stream.
    fn query(&self) -> String {
        let mut pairs: Vec<(&str, String)> = Vec::new();
        if let Some(index) = self.after_index {
            pairs.push(("after_index", index.to_string()));
        } else if let Some(index) = self.index {
            pairs.push(("index", index.to_string()));
        } else if self.snapshot {
            pairs.push(("snapshot", "true".to_owned()));
        }
        let has_begin = self.after_index.is_some() || self.index.is_some();
        match &self.from {
            Some(from) => pairs.push(("from", from.clone())),
            None if has_begin || self.snapshot || self.plain => {}
            None => pairs.push(("from", "now".to_owned())),
        }
        if self.full {
            pairs.push(("full", "true".to_owned()));
        }
        pairs.extend(self.topic.iter().map(|topic| ("topic", topic.clone())));
        pairs.extend(self.filter.iter().map(|filter| ("filter", filter.clone())));
        pairs.iter().map(|(key, value)| format!("{key}={}", escape(value))).collect::<Vec<_>>().join("&")
    }
}

async fn run(asked: Follow) -> anyhow::Result<()> {
    let Follow { target, wanted, json, msgpack, until_now } = asked;
    let client = target.client()?;
    if msgpack {
        let mut frames = client.open(&format!("/v1/event/stream?format=msgpack&{}", wanted.query())).await?;
        while let Some(piece) = frames.chunk().await? {
            out::bytes(&piece);
        }
        return Ok(());
    }
    let mut lines = follow(&client, &wanted.query()).await?;
    while let Some(line) = lines.next().await? {
        // A plain stream ends with a sentence.
        let frame = serde_json::from_str(&line).unwrap_or_else(|_| serde_json::json!({ "Closed": line }));
        if json {
            outln!("{line}");
        } else {
            readable(&frame).iter().for_each(|text| outln!("{text}"));
        }
        if until_now && frame["CaughtUp"] == true {
            break;
        }
    }
    Ok(())
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

impl crate::Run for Follow {
    async fn run(self, _: &crate::Context) -> crate::Outcome {
        run(self).await?;
        Ok(crate::Exit::DONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(change: impl FnOnce(&mut Wanted)) -> String {
        let (topic, filter) = (Vec::new(), None);
        let mut wanted = Wanted {
            topic,
            after_index: None,
            index: None,
            from: None,
            filter,
            snapshot: false,
            full: false,
            plain: false,
        };
        change(&mut wanted);
        wanted.query()
    }

    #[test]
    fn a_stream_begins_now_unless_another_begin_is_asked_for() {
        assert_eq!(query(|_| {}), "from=now");
        assert_eq!(query(|wanted| wanted.plain = true), "");
        assert_eq!(query(|wanted| wanted.after_index = Some(0)), "after_index=0");
        assert_eq!(query(|wanted| wanted.snapshot = true), "snapshot=true");
        let both = query(|wanted| {
            (wanted.index, wanted.full) = (Some(7), true);
            (wanted.topic, wanted.filter) = (vec!["Job:a b".to_owned()], Some("Topic == Job".to_owned()));
        });
        assert_eq!(both, "index=7&full=true&topic=Job%3Aa%20b&filter=Topic%20%3D%3D%20Job");
    }
}
