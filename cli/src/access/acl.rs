//! `acl bootstrap`, and what the commands about access have in common; each kind is in its file.

pub(super) mod method;
pub(super) mod policy;
pub(super) mod role;
pub(super) mod rule;
pub(super) mod token;

use clap::Args;
use serde_json::{Value, json};

use crate::client::text;
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::format::Format;
use crate::jobs::lists::items;
use crate::layout::list;
use crate::{Context, General, Run, input, outln};

/// Arguments of `acl bootstrap`.
#[derive(Args)]
pub(crate) struct Bootstrap {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// A file with the secret that the token is to have; `-` is standard input.
    secret: Option<String>,
}

impl Run for Bootstrap {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let body = match &self.secret {
            Some(file) => {
                let secret = input::read_for("Error reading provided token", file)?;
                json!({ "BootstrapSecret": secret.trim() })
            }
            None => json!({}),
        };
        let made = self.general.client()?.put("/v1/acl/bootstrap", &body).await.tried("Error bootstrapping")?;
        told(&self.format, &made, token::words)
    }
}

/// Prints a single token or auth method: JSON is one line in the order of the API.
fn told(format: &Format, one: &Value, in_words: impl FnOnce(&Value) -> String) -> Outcome {
    if format.json && format.wanted()? {
        outln!("{one}");
    } else if !format.print(one)? {
        outln!("{}", in_words(one));
    }
    Ok(Exit::DONE)
}

/// Prints the list at a path: a row for each object, or `none`.
async fn listed<const N: usize>(
    (general, format): (&General, &Format),
    (path, nouns): (&str, &str),
    none: &str,
    headings: [&str; N],
    row: impl Fn(&Value) -> [String; N],
) -> Outcome {
    format.wanted()?;
    let found = general.client()?.get(path).await.tried(&format!("Error listing {nouns}"))?;
    format.show(&found, |found| match items(found) {
        [] => none.to_owned(),
        found => list(&headings, &found.iter().map(|one| row(one).to_vec()).collect::<Vec<_>>()),
    })
}

/// Names that links have, with commas between.
fn linked(links: &Value) -> String {
    links.as_array().into_iter().flatten().map(|link| text(&link["Name"])).collect::<Vec<_>>().join(",")
}

/// A field of an answer as text: numbers as they are.
fn field(one: &Value, key: &str) -> String {
    match &one[key] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Refuses an update that changes nothing.
fn must_change(changes: bool, noun: &str) -> Result<(), Failure> {
    if changes { Ok(()) } else { Err(Failure::new(format!("Please provide at least one flag to update the {noun}"))) }
}
