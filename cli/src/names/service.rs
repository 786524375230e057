//! `service list`, `info`, `delete`.

use clap::Args;
use serde_json::Value;

use crate::client::{escape, text, with_query};
use crate::exit::{Exit, Outcome, Tried};
use crate::format::Format;
use crate::layout::list;
use crate::{Context, General, Run, outln};

/// Arguments of `service list`.
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
        let found = self.general.client()?.get("/v1/services").await.tried("Error listing service registrations")?;
        let spaces: Vec<&Value> = found.as_array().into_iter().flatten().collect();
        if spaces.is_empty() {
            outln!("No service registrations found");
        } else if !self.format.print(&found)? {
            outln!("{}", rows(&spaces, self.general.namespace.as_deref() == Some("*")));
        }
        Ok(Exit::DONE)
    }
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
        let path = with_query(&path, &[]);
        self.general.client()?.delete(&path).await.tried("Error deleting service registration")?;
        outln!("Successfully deleted service registration");
        Ok(Exit::DONE)
    }
}
