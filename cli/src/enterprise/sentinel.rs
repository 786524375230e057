//! `sentinel apply`, `delete`, `list`, `read`.

use clap::Args;
use serde_json::{Value, json};

use crate::client::{escape, text};
use crate::exit::{Exit, Outcome, Tried};
use crate::jobs::lists::items;
use crate::layout::{block, list};
use crate::{Context, General, Run, input, outln};

/// Arguments of `sentinel apply`.
#[derive(Args)]
pub(crate) struct Apply {
    #[command(flatten)]
    general: General,
    /// Words about the policy.
    #[arg(long, default_value = "")]
    description: String,
    /// Event that the policy is asked about.
    #[arg(long, default_value = "submit-job")]
    scope: String,
    /// How strict it is: `advisory`, `soft-mandatory`, `hard-mandatory`.
    #[arg(long, default_value = "advisory")]
    level: String,
    /// Name of the policy.
    name: String,
    /// The file with its text; `-` is standard input.
    file: String,
}

impl Run for Apply {
    async fn run(self, _: &Context) -> Outcome {
        let policy =
            if self.file == "-" { input::read("-")? } else { input::open(&self.file).tried("Error reading file")? };
        let body = json!({
            "Name": self.name, "Description": self.description, "Scope": self.scope,
            "EnforcementLevel": self.level, "Policy": policy,
        });
        let path = format!("/v1/sentinel/policy/{}", escape(&self.name));
        self.general.client()?.put(&path, &body).await.tried("Error writing Sentinel policy")?;
        outln!("Successfully wrote {:?} Sentinel policy!", self.name);
        Ok(Exit::DONE)
    }
}

/// Arguments of `sentinel delete`.
#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    general: General,
    /// Name of the policy.
    name: String,
}

impl Run for Delete {
    async fn run(self, _: &Context) -> Outcome {
        let path = format!("/v1/sentinel/policy/{}", escape(&self.name));
        let done = format!("Successfully deleted {:?} Sentinel policy!", self.name);
        self.general.delete(&path, "Error deleting Sentinel policy", &done).await
    }
}

/// Arguments of `sentinel list`.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    general: General,
}

impl Run for List {
    async fn run(self, _: &Context) -> Outcome {
        let found = self.general.client()?.get("/v1/sentinel/policies").await;
        let found = found.tried("Error listing Sentinel policies")?;
        let cell = |policy: &Value, key: &str| text(&policy[key]).to_owned();
        let row =
            |policy: &Value| ["Name", "Scope", "EnforcementLevel", "Description"].map(|key| cell(policy, key)).to_vec();
        match items(&found) {
            [] => outln!("No policies found"),
            found => outln!(
                "{}",
                list(
                    &["Name", "Scope", "Enforcement Level", "Description"],
                    &found.iter().map(row).collect::<Vec<_>>()
                )
            ),
        }
        Ok(Exit::DONE)
    }
}

/// Arguments of `sentinel read`.
#[derive(Args)]
pub(crate) struct Read {
    #[command(flatten)]
    general: General,
    /// Print the policy's text alone.
    #[arg(long)]
    raw: bool,
    /// Name of the policy.
    name: String,
}

impl Run for Read {
    async fn run(self, _: &Context) -> Outcome {
        let path = format!("/v1/sentinel/policy/{}", escape(&self.name));
        let policy = self.general.client()?.get(&path).await.tried("Error querying Sentinel policy")?;
        let field = |key: &str| text(&policy[key]).to_owned();
        if !self.raw {
            outln!(
                "{}\nPolicy:\n",
                block(&[
                    ("Name", field("Name")),
                    ("Scope", field("Scope")),
                    ("Enforcement Level", field("EnforcementLevel")),
                    ("Description", field("Description")),
                ])
            );
        }
        outln!("{}", field("Policy"));
        Ok(Exit::DONE)
    }
}
