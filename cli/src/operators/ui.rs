//! `ui`, and `status` of any object: both find an object by its id.

use clap::Args;
use serde_json::{Value, json};

use crate::client::{Client, escape, text};
use crate::entry::RunHere;
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::{Context, General, Run, out, outln};

/// Contexts of a search with the words of the command that shows such an object, and its plural.
const KINDS: [(&str, &str, &str); 9] = [
    ("evals", "eval status", "Evaluations"),
    ("nodes", "node status", "Nodes"),
    ("allocs", "alloc status", "Allocations"),
    ("jobs", "job status", "Jobs"),
    ("deployment", "deployment status", "Deployments"),
    ("namespaces", "namespace status", "Namespaces"),
    ("quotas", "quota status", "Quotas"),
    ("plugins", "plugin status", "Plugins"),
    ("volumes", "volume status", "Volumes"),
];

/// Objects whose ids begin with a text, by the context of the search.
async fn search(client: &Client, typed: &str) -> Result<Vec<(&'static str, Vec<String>)>, Failure> {
    let answer = client.put("/v1/search", &json!({"Prefix": typed, "Context": "all"})).await;
    let answer = answer.tried("Error querying search with id")?;
    let of = |kind: &str| -> Vec<String> {
        let ids = answer["Matches"][kind].as_array().into_iter().flatten();
        ids.map(|id| text(id).to_owned()).collect()
    };
    let mut found: Vec<(&str, Vec<String>)> =
        KINDS.iter().map(|(kind, ..)| (*kind, of(kind))).filter(|(_, ids)| !ids.is_empty()).collect();
    // An exact match goes before the beginnings of others.
    if let Some(exact) = found.iter().position(|(_, ids)| ids.iter().any(|id| id == typed)) {
        let (kind, _) = found.swap_remove(exact);
        found = vec![(kind, vec![typed.to_owned()])];
    }
    Ok(found)
}

/// Arguments of `status`.
#[derive(Args)]
pub(crate) struct Status {
    #[command(flatten)]
    general: General,
    /// Show full information.
    #[arg(long)]
    verbose: bool,
    /// Id of any object, or its beginning.
    id: Option<String>,
}

impl RunHere for Status {
    fn run_here(self, context: &Context) -> Outcome {
        let command = match &self.id {
            None => "job status",
            Some(id) => {
                let client = self.general.client()?;
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                command_for(id, &runtime.block_on(search(&client, id))?)?
            }
        };
        // The words behind `status` are those of the other command.
        let behind = context.typed.iter().skip_while(|word| *word != "status").skip(1).cloned();
        let before = context.typed.iter().take_while(|word| *word != "status").cloned();
        let words = command.split(' ').map(str::to_owned).chain(before).chain(behind).collect();
        Ok(crate::main(&context.program, words, &[]))
    }
}

/// The command that shows the only object that was found.
fn command_for(typed: &str, found: &[(&str, Vec<String>)]) -> Result<&'static str, Failure> {
    match found {
        [] => Err(Failure::new(format!("Unable to resolve ID: {typed:?}"))),
        [(kind, ids)] if ids.len() == 1 => Ok(command_of(kind)),
        several => Err(ambiguous(typed, several)),
    }
}

fn command_of(kind: &str) -> &'static str {
    KINDS.iter().find(|(name, ..)| *name == kind).map_or("job status", |(_, command, _)| command)
}

fn ambiguous(id: &str, several: &[(&str, Vec<String>)]) -> Failure {
    let mut message = format!("Multiple matches found for id {id:?}");
    for (kind, ids) in several {
        let plural = KINDS.iter().find(|(name, ..)| name == kind).map_or(*kind, |(.., plural)| plural);
        message.push_str(&format!("\n\n{plural}:\n{}", ids.join(", ")));
    }
    Failure::new(message)
}

/// Arguments of `ui`.
#[derive(Args)]
pub(crate) struct Ui {
    #[command(flatten)]
    general: General,
    /// Log the page in with a token that can be used once.
    #[arg(long)]
    authenticate: bool,
    /// Print the page's address instead of opening it.
    #[arg(long)]
    show_url: bool,
    /// Id of the object to show, or its beginning.
    identifier: Option<String>,
}

impl Run for Ui {
    async fn run(self, _: &Context) -> Outcome {
        let client = self.general.client()?;
        let mut url = client.address().trim_end_matches('/').to_owned();
        if url.starts_with("unix:") {
            return Err(Failure::new("Browser cannot be opened because address is a Unix Domain Socket"));
        }
        if let Some(id) = &self.identifier {
            url.push_str(&page(&client, id).await?);
        }
        let mut query: Vec<(&str, String)> = Vec::new();
        for (name, value) in [("namespace", &self.general.namespace), ("region", &self.general.region)] {
            query.extend(value.iter().map(|value| (name, value.clone())));
        }
        if self.authenticate {
            let token = client.put("/v1/acl/token/onetime", &Value::Null).await;
            let token = token.tried("Could not get one-time token")?;
            if self.identifier.is_none() {
                url.push_str("/ui/");
            }
            query.push(("ott", text(&token["OneTimeToken"]["OneTimeSecretID"]).to_owned()));
        }
        for (at, (name, value)) in query.iter().enumerate() {
            url.push(if at == 0 { '?' } else { '&' });
            url.push_str(&format!("{name}={}", escape(value)));
        }
        if self.show_url {
            outln!("URL for web UI: {url}");
            return Ok(Exit::DONE);
        }
        outln!("Opening URL {url:?}");
        open(&url)
    }
}

/// Path of the page about an object.
async fn page(client: &Client, typed: &str) -> Result<String, Failure> {
    let found = search(client, typed).await?;
    let page_of = |kind: &str, id: &str| match kind {
        "nodes" => Some(format!("/ui/clients/{}", escape(id))),
        "allocs" => Some(format!("/ui/allocations/{}", escape(id))),
        "jobs" => Some(format!("/ui/jobs/{}", escape(id))),
        _ => None,
    };
    let pages: Vec<String> =
        found.iter().flat_map(|(kind, ids)| ids.iter().filter_map(move |id| page_of(kind, id))).collect();
    match pages.as_slice() {
        [] => Err(Failure::new(format!("Unable to resolve ID: {typed:?}"))),
        [only] => Ok(only.clone()),
        _ => Err(ambiguous(typed, &found)),
    }
}

/// Opens a browser.
fn open(url: &str) -> Outcome {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    match std::process::Command::new(program).arg(url).status() {
        Ok(status) if status.success() => Ok(Exit::DONE),
        Ok(status) => Err(Failure::of("Error opening URL", status)),
        Err(error) => {
            out::error(&format!("Error opening URL: {program}: {error}"));
            Ok(Exit::FAILED)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn status_refuses_several_objects_of_one_kind() {
        assert_eq!(command_for("a", &[("jobs", ids(&["a"]))]).expect("it is the only one"), "job status");
        let refused = command_for("a", &[("jobs", ids(&["ab", "ac"]))]).expect_err("there are two");
        assert_eq!(refused.message(), "Multiple matches found for id \"a\"\n\nJobs:\nab, ac");
        let refused = command_for("a", &[]).expect_err("there is none");
        assert_eq!(refused.message(), "Unable to resolve ID: \"a\"");
    }
}
