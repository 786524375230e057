//! `job scale` and `job scaling-events`.

use clap::Args;
use serde_json::{Value, json};

use super::act::Follow;
use super::lists::items;
use super::run::route;
use super::stop::found;
use crate::client::text;
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::layout::list;
use crate::values::time;
use crate::{Context, General, monitor, outln};

/// Arguments of `job scale`.
#[derive(Args)]
pub(crate) struct Scale {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    follow: Follow,
    /// Id of the job or its beginning, the group where the job has several, and the count.
    #[arg(required = true, num_args = 2..=3)]
    words: Vec<String>,
}

impl crate::Run for Scale {
    async fn run(self, _: &Context) -> Outcome {
        let (typed, group, count) = match self.words.as_slice() {
            [job, group, count] => (job, group.as_str(), count),
            [job, count] => (job, "", count),
            _ => return Err(Failure::arguments("Command requires at least two arguments and no more than three")),
        };
        let count: i64 = count.parse().tried("Failed to convert count string to int")?;
        let (client, id) = found(&self.general, typed).await?;
        let job = client.get(&route(&id, "")).await.tried("Error querying job")?;
        let groups: Vec<&str> = items(&job["TaskGroups"]).iter().map(|group| text(&group["Name"])).collect();
        let group = match (group, groups.as_slice()) {
            ("", [only]) => (*only).to_owned(),
            ("", _) => return Err(Failure::new("Group name required")),
            (named, known) if known.contains(&named) => named.to_owned(),
            (named, _) => return Err(Failure::new(format!("Group {named} not found within job"))),
        };
        let body = json!({
            "Count": count,
            "Target": {"Group": group},
            "Message": "submitted using the Nomad CLI",
        });
        let answer = client.put(&route(&id, "/scale"), &body).await.tried("Error submitting scaling request")?;
        monitor::warnings(&answer);
        self.follow.end(&client, &answer).await
    }
}

/// Arguments of `job scaling-events`.
#[derive(Args)]
pub(crate) struct Events {
    #[command(flatten)]
    general: General,
    /// Show errors, messages and evaluations, too.
    #[arg(long)]
    verbose: bool,
    /// Id of the job, or its beginning.
    job: String,
}

impl crate::Run for Events {
    async fn run(self, _: &Context) -> Outcome {
        let (client, id) = found(&self.general, &self.job).await?;
        let answer = client.get(&route(&id, "/scale")).await.tried("Error listing scaling events")?;
        let mut events: Vec<(&String, &Value)> = Vec::new();
        for (group, state) in answer["TaskGroups"].as_object().into_iter().flatten() {
            events.extend(items(&state["Events"]).iter().map(|event| (group, event)));
        }
        if events.is_empty() {
            outln!("No events found");
            return Ok(Exit::DONE);
        }
        events.sort_by_key(|(_, event)| std::cmp::Reverse(event["Time"].as_u64()));
        let row = |(group, event): &(&String, &Value)| {
            let mut cells = vec![
                (*group).clone(),
                plain(&event["Count"]),
                event["PreviousCount"].as_i64().unwrap_or(0).to_string(),
            ];
            if self.verbose {
                cells.extend([
                    (event["Error"] == true).to_string(),
                    text(&event["Message"]).to_owned(),
                    text(&event["EvalID"]).to_owned(),
                ]);
            }
            cells.push(time(event["Time"].as_i64().unwrap_or(0)));
            cells
        };
        let mut headings = vec!["Task Group", "Count", "PrevCount"];
        if self.verbose {
            headings.extend(["Error", "Message", "Eval ID"]);
        }
        headings.push("Date");
        outln!("{}", list(&headings, &events.iter().map(row).collect::<Vec<_>>()));
        Ok(Exit::DONE)
    }
}

/// A count, empty where an event has none.
fn plain(value: &Value) -> String {
    value.as_i64().map(|count| count.to_string()).unwrap_or_default()
}
