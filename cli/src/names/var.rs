//! `var put`, `get`, `list`, `purge`, `init`.

mod input;
mod print;

use std::io::IsTerminal;

use clap::Args;
use serde_json::{Value, json};
use songline_model::quote;

use self::input::Spec;
use self::print::Out;
use crate::client::{Client, RequestError, escape, text, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::jobs::lists::items;
use crate::pages::Page;
use crate::{Context, General, errln, out, outln};

/// Path of a variable's route.
fn route(path: &str) -> String {
    let parts: Vec<String> = path.split('/').map(escape).collect();
    format!("/v1/var/{}", parts.join("/"))
}

/// Refuses the namespace `*`: a variable is in one namespace.
fn in_one_namespace(client: &Client) -> Result<(), Failure> {
    if client.namespace() == "*" {
        return Err(Failure::new("The wildcard namespace (\"*\") is not valid for this command."));
    }
    Ok(())
}

/// The index that `-check-index` names.
fn index_of(typed: Option<&str>) -> Result<Option<u64>, Failure> {
    let Some(typed) = typed.filter(|typed| !typed.is_empty()) else { return Ok(None) };
    typed.parse::<u64>().map(Some).map_err(|error| {
        let reason = match error.kind() {
            std::num::IntErrorKind::PosOverflow => "out of range for uint64",
            _ => "not parsable as uint64",
        };
        Failure::new(format!("Invalid -check-index value {typed:?}: {reason}"))
    })
}

/// Arguments of `var put`.
#[derive(Args)]
pub(crate) struct Put {
    #[command(flatten)]
    general: General,
    /// Write whatever is there.
    #[arg(long)]
    force: bool,
    /// Only write while the variable was last changed at this index; 0: while there is none.
    #[arg(long)]
    check_index: Option<String>,
    /// Format of standard input: `hcl` or `json`.
    #[arg(long = "in", default_value = "json")]
    format: String,
    /// `go-template`, `hcl`, `json`, `none` or `table`.
    #[arg(long)]
    out: Option<String>,
    /// Go template of the output.
    #[arg(long)]
    template: Option<String>,
    /// Say what is done on standard error.
    #[arg(long)]
    verbose: bool,
    /// Path, `@FILE` or `-`, then items `key=value`.
    words: Vec<String>,
}

impl crate::Run for Put {
    async fn run(self, _: &Context) -> Outcome {
        let default = if std::io::stdout().is_terminal() { "none" } else { "json" };
        let out = Out::of(self.out.as_deref(), default, self.template.clone())?;
        let check_index = index_of(self.check_index.as_deref())?;
        let spec = Spec::of(&self.words, &self.format)?;
        let namespace = Some(spec.namespace.as_str()).filter(|name| !name.is_empty());
        let client = self.general.client()?;
        // A flag or a variable goes before the specification.
        let client = if self.general.namespace.is_some() { client } else { client.with_scope(None, namespace) };
        in_one_namespace(&client)?;
        if self.verbose {
            errln!("Writing to path {}", quote(&spec.path));
        }
        let cas = match (self.force, check_index, spec.index) {
            (true, ..) => None,
            (false, Some(index), _) | (false, None, Some(index)) => Some(index),
            // A variable without an index is created.
            (false, None, None) => Some(0),
        };
        let sent = cas.map(|index| index.to_string()).unwrap_or_default();
        let body = json!({"Namespace": client.namespace(), "Path": spec.path, "Items": spec.items});
        let path = with_query(&route(&spec.path), &[("cas", &sent)]);
        let written = match client.put(&path, &body).await {
            Err(RequestError::Refused { status: 409, body }) => return Err(conflict(&body, &spec.path, cas)),
            other => other.tried("Error creating variable")?,
        };
        warn(&spec);
        if self.verbose {
            let index = &written["ModifyIndex"];
            let verb = if written["CreateIndex"] == *index { "Created" } else { "Updated" };
            errln!("{verb} variable {} with modify index {index}", quote(&spec.path));
        }
        out.print(&written)?;
        Ok(Exit::DONE)
    }
}

/// Warns of keys that templates cannot name directly.
fn warn(spec: &Spec) {
    let odd: Vec<String> = spec
        .items
        .keys()
        .filter_map(|key| {
            let mut found: Vec<String> = Vec::new();
            for c in key.chars().filter(|c| !c.is_alphanumeric() && *c != '_') {
                let quoted = quote(&c.to_string());
                if !found.contains(&quoted) {
                    found.push(quoted);
                }
            }
            let all = found.join(",");
            (!found.is_empty()).then(|| {
                let key = quote(key);
                format!(
                    "* {key} contains characters [{all}] \
                     that require the 'index' function for direct access in templates"
                )
            })
        })
        .collect();
    if !odd.is_empty() {
        let plural = if odd.len() == 1 { "" } else { "s" };
        out::warning(&format!("Variable Warnings:\n{} warning{plural}:\n\n{}\n", odd.len(), odd.join("\n")));
    }
}

/// The explanation of a write that another one went before. `sent` is the index that the write was to be at.
fn conflict(body: &str, path: &str, sent: Option<u64>) -> Failure {
    let there: Value = serde_json::from_str(body).unwrap_or_default();
    let index = &there["ModifyIndex"];
    // A write without an index is one that creates the variable.
    let (sent, path) = (sent.unwrap_or(0), quote(path));
    Failure::new(format!(
        "\nCheck-and-Set conflict\n\n    \
         Your provided check-index ({sent}) does not match the server-side index {index} of\n    \
         variable {path}. Get it, and write it again with -check-index={index}; or use\n    -force to overwrite it.\n"
    ))
}

/// Arguments of `var get`.
#[derive(Args)]
pub(crate) struct Get {
    #[command(flatten)]
    general: General,
    /// Print the value of this item only.
    #[arg(long)]
    item: Option<String>,
    /// `go-template`, `hcl`, `json`, `none` or `table`.
    #[arg(long)]
    out: Option<String>,
    /// Go template of the output.
    #[arg(long)]
    template: Option<String>,
    /// Path of the variable.
    path: String,
}

impl crate::Run for Get {
    async fn run(self, _: &Context) -> Outcome {
        let default = if std::io::stdout().is_terminal() { "table" } else { "json" };
        let out = Out::of(self.out.as_deref(), default, self.template.clone())?;
        let client = self.general.client()?;
        in_one_namespace(&client)?;
        let found = match client.get(&route(&self.path)).await {
            Err(error) if error.is_status(404) || error.is_status(403) => {
                return Err(Failure::new("Variable not found"));
            }
            other => other.tried("Error retrieving variable")?,
        };
        let Some(item) = self.item.as_deref().filter(|item| !item.is_empty()) else {
            out.print(&found)?;
            return Ok(Exit::DONE);
        };
        match found["Items"].get(item) {
            // The value alone: scripts take it as it is.
            Some(value) => crate::out::bytes(text(value).as_bytes()),
            None => {
                return Err(Failure::new(format!("Variable {} has no item {}", quote(&self.path), quote(item))));
            }
        }
        Ok(Exit::DONE)
    }
}

/// Arguments of `var purge`.
#[derive(Args)]
pub(crate) struct Purge {
    #[command(flatten)]
    general: General,
    /// Only purge while the variable was last changed at this index.
    #[arg(long)]
    check_index: Option<String>,
    /// Path of the variable.
    path: String,
}

impl crate::Run for Purge {
    async fn run(self, _: &Context) -> Outcome {
        let index = index_of(self.check_index.as_deref())?;
        let client = self.general.client()?;
        in_one_namespace(&client)?;
        let sent = index.map(|index| index.to_string()).unwrap_or_default();
        let path = with_query(&route(&self.path), &[("cas", &sent)]);
        match client.delete(&path).await {
            Err(RequestError::Refused { status: 409, body }) => return Err(conflict(&body, &self.path, index)),
            other => other.tried("Error purging variable")?,
        };
        outln!("Successfully purged variable {}!", quote(&self.path));
        Ok(Exit::DONE)
    }
}

/// Arguments of `var list`.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    page: Page,
    /// `go-template`, `json`, `table` or `terse`.
    #[arg(long)]
    out: Option<String>,
    /// Go template of the output.
    #[arg(long)]
    template: Option<String>,
    /// Beginning of the paths.
    prefix: Option<String>,
}

impl crate::Run for List {
    async fn run(self, _: &Context) -> Outcome {
        let default = if std::io::stdout().is_terminal() { "table" } else { "json" };
        let kind = self.out.as_deref().unwrap_or(default);
        if !["go-template", "json", "table", "terse"].contains(&kind) {
            return Err(Failure::new("Invalid value for \"-out\"; valid values are [go-template, json, table, terse]"));
        }
        if self.page.filter.as_deref().is_some_and(|filter| !filter.is_empty()) {
            out::warning("Filter queries require a full scan of the data; use prefix searching where possible");
        }
        let prefix = self.prefix.as_deref().unwrap_or_default();
        let started = std::time::Instant::now();
        let path = self.page.path("/v1/vars", &[("prefix", prefix)]);
        let answer = self.general.client()?.ask(&path).await.tried("Error retrieving vars")?;
        let mut found = items(&answer.value).to_vec();
        found.sort_by_key(|one| (text(&one["Namespace"]).to_owned(), text(&one["Path"]).to_owned()));
        let all = Value::Array(found.clone());
        match kind {
            "json" if self.page.per_page.is_some() => {
                let meta = json!({
                    "KnownLeader": answer.known_leader,
                    "LastContact": answer.last_contact_ms,
                    "LastIndex": answer.index,
                    "NextToken": answer.next_token.clone().unwrap_or_default(),
                    "RequestTime": u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX),
                });
                outln!("{}", crate::format::json(&json!({"Data": all, "QueryMeta": meta})));
                return Ok(Exit::DONE);
            }
            "json" => outln!("{}", crate::format::json(&all)),
            "go-template" => {
                let template = print::template_of(self.template.as_deref())?;
                outln!("{}", crate::format::render(template, &all)?);
            }
            _ if found.is_empty() => {
                outln!("No matching variables found");
                return Ok(Exit::DONE);
            }
            "terse" => found.iter().for_each(|one| outln!("{}", text(&one["Path"]))),
            _ => outln!("{}", print::rows(&found)),
        }
        if let Some(token) = &answer.next_token {
            out::warning(&format!("Next page token: {token}"));
        }
        Ok(Exit::DONE)
    }
}

/// Arguments of `var init`.
#[derive(Args)]
pub(crate) struct Init {
    /// `hcl` or `json`.
    #[arg(long, default_value = "hcl")]
    out: String,
    /// Leave comments out.
    #[arg(long)]
    quiet: bool,
    /// The file; by default `spec.nv.hcl`, or `.json`.
    file: Option<String>,
}

const EXAMPLE: &str = "\
# Path of the variable.
path = \"path/to/variable\"

# Items of the variable: all of them are encrypted.
items {
  key1 = \"value 1\"
  key2 = \"value 2\"
}
";

impl crate::Run for Init {
    async fn run(self, _: &Context) -> Outcome {
        let is_json = self.out == "json";
        let file = self.file.unwrap_or_else(|| if is_json { "spec.nv.json" } else { "spec.nv.hcl" }.to_owned());
        if std::path::Path::new(&file).exists() {
            return Err(Failure::new(format!("File {file:?} already exists")));
        }
        let example = json!({"Path": "path/to/variable", "Items": {"key1": "value 1", "key2": "value 2"}});
        let content = if is_json { format!("{}\n", crate::format::json(&example)) } else { EXAMPLE.to_owned() };
        std::fs::write(&file, content).tried(&format!("Failed to write {file:?}"))?;
        if !self.quiet {
            outln!("Example variable specification written to {file}");
        }
        Ok(Exit::DONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflict_names_both_indexes() {
        let there = r#"{"Path": "a/b", "ModifyIndex": 673}"#;
        for (sent, shown) in [(Some(1), "(1)"), (None, "(0)")] {
            let message = conflict(there, "a/b", sent).message().to_owned();
            let line = format!("    Your provided check-index {shown} does not match the server-side index 673 of\n");
            assert!(message.starts_with(&format!("\nCheck-and-Set conflict\n\n{line}")), "{message}");
        }
    }

    #[test]
    fn check_index_is_a_decimal_number() {
        assert_eq!(index_of(None).expect("there is none"), None);
        assert_eq!(index_of(Some("")).expect("there is none"), None);
        assert_eq!(index_of(Some("7")).expect("it is a number"), Some(7));
        for (typed, reason) in [("x", "not parsable as uint64"), ("18446744073709551616", "out of range for uint64")] {
            let refused = index_of(Some(typed)).expect_err("it is no index");
            assert_eq!(refused.message(), format!("Invalid -check-index value {typed:?}: {reason}"));
        }
    }
}
