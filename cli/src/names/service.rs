//! `service list`, `info`, `delete`.

use clap::Args;
use serde_json::Value;

use crate::client::{escape, text};
use crate::exit::{Exit, Outcome, Tried};
use crate::format::Format;
use crate::ids::shown;
use crate::jobs::lists::items;
use crate::layout::{block, list};
use crate::pages::Page;
use crate::{Context, General, Run, outln};

/// Arguments of `service list`.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// List the service with this name only.
    #[arg(long)]
    name: Option<String>,
}

impl Run for List {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let listed = self.general.client()?.get("/v1/services").await;
        let mut found = listed.tried("Error listing service registrations")?;
        if let Some(name) = self.name.as_deref().filter(|name| !name.is_empty()) {
            keep_only(&mut found, name);
        }
        if self.format.print(&found)? {
            return Ok(Exit::DONE);
        }
        let spaces: Vec<&Value> = items(&found).iter().collect();
        if spaces.is_empty() {
            outln!("No service registrations found");
        } else {
            outln!("{}", rows(&spaces, self.general.all_namespaces()));
        }
        Ok(Exit::DONE)
    }
}

/// Keeps the services with a name, and the namespaces that have one.
fn keep_only(spaces: &mut Value, name: &str) {
    let Some(spaces) = spaces.as_array_mut() else { return };
    for space in spaces.iter_mut() {
        if let Some(services) = space.get_mut("Services").and_then(Value::as_array_mut) {
            services.retain(|service| text(&service["ServiceName"]) == name);
        }
    }
    spaces.retain(|space| !items(&space["Services"]).is_empty());
}

fn rows(spaces: &[&Value], all: bool) -> String {
    let mut rows = Vec::new();
    for space in spaces {
        for service in space["Services"].as_array().into_iter().flatten() {
            let mut row = vec![text(&service["ServiceName"]).to_owned()];
            row.extend(all.then(|| text(&space["Namespace"]).to_owned()));
            row.push(tags(&service["Tags"]));
            rows.push(row);
        }
    }
    rows.sort();
    if all { list(&["Service Name", "Namespace", "Tags"], &rows) } else { list(&["Service Name", "Tags"], &rows) }
}

/// Sorted tags in brackets.
fn tags(tags: &Value) -> String {
    let mut tags: Vec<&str> = tags.as_array().into_iter().flatten().map(text).collect();
    tags.sort_unstable();
    format!("[{}]", tags.join(","))
}

/// Arguments of `service info`.
#[derive(Args)]
pub(crate) struct Info {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    page: Page,
    /// Print full ids and everything else.
    #[arg(long)]
    verbose: bool,
    /// Name of the service.
    service_name: String,
}

impl Run for Info {
    async fn run(self, context: &Context) -> Outcome {
        self.format.wanted()?;
        let path = self.page.path(&format!("/v1/service/{}", escape(&self.service_name)), &[]);
        let answer = self.general.client()?.ask(&path).await.tried("Error listing service registrations")?;
        let found = items(&answer.value);
        if found.is_empty() {
            outln!("No service registrations found");
            return Ok(Exit::DONE);
        }
        if self.format.print(&answer.value)? {
            return Ok(Exit::DONE);
        }
        if self.verbose {
            let blocks: Vec<String> = found.iter().map(|one| block(&pairs(one))).collect();
            outln!("{}", blocks.join("\n\n"));
        } else {
            let row = |one: &Value| {
                let id = |key: &str| shown(text(&one[key]), false);
                let port = one["Port"].as_u64().unwrap_or(0);
                let address = if port > 0 { address(one) } else { String::new() };
                vec![text(&one["JobID"]).to_owned(), address, tags(&one["Tags"]), id("NodeID"), id("AllocID")]
            };
            let headings = ["Job ID", "Address", "Tags", "Node ID", "Alloc ID"];
            outln!("{}", list(&headings, &found.iter().map(row).collect::<Vec<_>>()));
        }
        Page::hint(&answer, context);
        Ok(Exit::DONE)
    }
}

fn address(one: &Value) -> String {
    format!("{}:{}", text(&one["Address"]), one["Port"].as_u64().unwrap_or(0))
}

fn pairs(one: &Value) -> [(&'static str, String); 9] {
    let word = |key: &str| text(&one[key]).to_owned();
    [
        ("ID", word("ID")),
        ("Service Name", word("ServiceName")),
        ("Namespace", word("Namespace")),
        ("Job ID", word("JobID")),
        ("Alloc ID", word("AllocID")),
        ("Node ID", word("NodeID")),
        ("Datacenter", word("Datacenter")),
        ("Address", address(one)),
        ("Tags", tags(&one["Tags"])),
    ]
}

/// Arguments of `service delete`.
#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    general: General,
    /// Name of the service.
    service_name: String,
    /// Id of the registration.
    service_id: String,
}

impl Run for Delete {
    async fn run(self, _: &Context) -> Outcome {
        let path = format!("/v1/service/{}/{}", escape(&self.service_name), escape(&self.service_id));
        self.general.client()?.delete(&path).await.tried("Error deleting service registration")?;
        outln!("Successfully deleted service registration");
        Ok(Exit::DONE)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn name_keeps_namespaces_that_have_the_service() {
        let service = |name: &str| json!({ "ServiceName": name, "Tags": [] });
        let mut spaces = json!([
            { "Namespace": "a", "Services": [service("web"), service("web2")] },
            { "Namespace": "b", "Services": [service("db")] },
        ]);
        keep_only(&mut spaces, "web");
        assert_eq!(spaces, json!([{ "Namespace": "a", "Services": [service("web")] }]));
    }
}
