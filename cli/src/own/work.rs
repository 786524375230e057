//! `pending-work list`, `status`, `stop`: long work of the servers.

use clap::Args;
use serde_json::Value;

use crate::client::{escape, text, with_query};
use crate::exit::{Outcome, Tried};
use crate::format::Format;
use crate::jobs::lists::items;
use crate::layout::{block, list};
use crate::{Context, General, Run, values};

/// Arguments of `pending-work list`.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Ask this server, even when it does not lead: each refills its own stores.
    #[arg(long)]
    stale: bool,
}

impl Run for List {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let stale = if self.stale { "true" } else { "" };
        let path = with_query("/v1/operator/pending-work", &[("stale", stale)]);
        let found = self.general.client()?.get(&path).await.tried("Error querying pending work")?;
        self.format.show(&found, |found| match items(found) {
            [] => "No pending work".to_owned(),
            found => {
                let rows: Vec<_> = found.iter().map(row).collect();
                list(&["ID", "Kind", "Status", "Looked", "Deleted", "Opened", "Actor", "Filter"], &rows)
            }
        })
    }
}

fn row(work: &Value) -> Vec<String> {
    vec![
        work["ID"].to_string(),
        text(&work["Kind"]).to_owned(),
        text(&work["Status"]).to_owned(),
        format!("{}/{}", work["Looked"], work["Total"]),
        work["Deleted"].to_string(),
        values::age(values::nanos_of(text(&work["OpenedAt"])).unwrap_or(0), values::now()),
        text(&work["Actor"]).to_owned(),
        text(&work["Filter"]).to_owned(),
    ]
}

/// Arguments of `pending-work status`.
#[derive(Args)]
pub(crate) struct Status {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Id of the work.
    id: String,
}

impl Run for Status {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let path = format!("/v1/operator/pending-work/{}", escape(&self.id));
        let work = self.general.client()?.get(&path).await.tried("Error querying pending work")?;
        self.format.show(&work, |work| {
            let field = |key: &str| text(&work[key]).to_owned();
            block(&[
                ("ID", work["ID"].to_string()),
                ("Kind", field("Kind")),
                ("Filter", field("Filter")),
                ("Status", field("Status")),
                ("Description", field("StatusDescription")),
                ("Actor", field("Actor")),
                ("Looked", format!("{} of {}", work["Looked"], work["Total"])),
                ("Deleted", work["Deleted"].to_string()),
                ("Opened", values::time_of(text(&work["OpenedAt"]))),
                ("Ended", values::time_of(text(&work["EndedAt"]))),
            ])
        })
    }
}

/// Arguments of `pending-work stop`.
#[derive(Args)]
pub(crate) struct Stop {
    #[command(flatten)]
    general: General,
    /// Id of the work.
    id: String,
}

impl Run for Stop {
    async fn run(self, _: &Context) -> Outcome {
        let path = format!("/v1/operator/pending-work/{}", escape(&self.id));
        let done = format!("Stopped pending work {}; what it has done stays done", self.id);
        self.general.delete(&path, "Error stopping pending work", &done).await
    }
}
