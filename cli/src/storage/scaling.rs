//! `scaling policy list`, `info`.

use clap::Args;
use serde_json::Value;

use crate::client::{escape, text, with_query};
use crate::exit::{Exit, Outcome, Tried};
use crate::format::{self, Format};
use crate::ids::{Kind, by_uuid, shown};
use crate::jobs::lists::items;
use crate::layout::{block, list};
use crate::{Context, General, Run, outln};

/// Arguments of `scaling policy list`.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Print full ids.
    #[arg(long)]
    verbose: bool,
    /// Only policies of this job.
    #[arg(long, default_value = "")]
    job: String,
    /// Only policies of this type.
    #[arg(long = "type", default_value = "")]
    kind: String,
}

impl Run for List {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let path = with_query("/v1/scaling/policies", &[("job", &self.job), ("type", &self.kind)]);
        let found = self.general.client()?.get(&path).await.tried("Error listing scaling policies")?;
        if self.format.print(&found)? {
            return Ok(Exit::DONE);
        }
        match items(&found) {
            [] => outln!("No policies found"),
            found => outln!("{}", rows(found, self.verbose)),
        }
        Ok(Exit::DONE)
    }
}

fn rows(found: &[Value], verbose: bool) -> String {
    let mut found: Vec<&Value> = found.iter().collect();
    found.sort_by_key(|one| text(&one["ID"]));
    let row = |one: &&Value| {
        let enabled = one["Enabled"].as_bool().unwrap_or(false).to_string();
        vec![shown(text(&one["ID"]), verbose), enabled, text(&one["Type"]).to_owned(), target(one)]
    };
    list(&["ID", "Enabled", "Type", "Target"], &found.iter().map(row).collect::<Vec<_>>())
}

/// Target of a scaling policy: `Namespace:default,Job:web,Group:g`.
fn target(policy: &Value) -> String {
    let parts = ["Namespace", "Job", "Group", "Task"].into_iter().filter_map(|key| {
        let value = text(&policy["Target"][key]);
        (!value.is_empty()).then(|| format!("{key}:{value}"))
    });
    parts.collect::<Vec<_>>().join(",")
}

/// Arguments of `scaling policy info`.
#[derive(Args)]
pub(crate) struct Info {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Print full ids.
    #[arg(long)]
    verbose: bool,
    /// Id of the policy, or its beginning.
    policy: String,
}

impl Run for Info {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let client = self.general.client()?;
        let kind = Kind {
            list: "/v1/scaling/policies",
            tried: "Error querying scaling policy",
            noun: "scaling policies",
            none: Some("No scaling policies with prefix or id \"{}\" found"),
            nouns: "scaling policies",
            rows: |found| rows(found, false),
        };
        let found = by_uuid(&client, &kind, &self.policy).await?;
        let path = format!("/v1/scaling/policy/{}", escape(text(&found["ID"])));
        let policy = client.get(&path).await.tried("Error querying scaling policy")?;
        if self.format.print(&policy)? {
            return Ok(Exit::DONE);
        }
        let number = |key: &str| policy[key].as_i64().map(|number| number.to_string()).unwrap_or_default();
        outln!(
            "{}\n\nPolicy:\n{}",
            block(&[
                ("ID", shown(text(&policy["ID"]), self.verbose)),
                ("Enabled", policy["Enabled"].as_bool().unwrap_or(false).to_string()),
                ("Target", target(&policy)),
                ("Min", number("Min")),
                ("Max", number("Max")),
            ]),
            match &policy["Policy"] {
                Value::Null => "<empty>".to_owned(),
                policy => format::json(policy),
            }
        );
        Ok(Exit::DONE)
    }
}
