//! `volume snapshot create`, `delete`, `list`.

use clap::Args;
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::assigned;
use super::find;
use super::volume::with_secrets;
use crate::client::{text, with_query};
use crate::exit::{Exit, Outcome, Tried};
use crate::jobs::lists::items;
use crate::layout::list;
use crate::pages::Page;
use crate::values::{size, time};
use crate::{Context, General, Run, outln};

/// Arguments of `volume snapshot create`.
#[derive(Args)]
pub(crate) struct Create {
    #[command(flatten)]
    general: General,
    /// Print full ids.
    #[arg(long)]
    verbose: bool,
    /// A parameter for the provider, `KEY=VALUE`; may be repeated.
    #[arg(long)]
    parameter: Vec<String>,
    /// A secret for the provider, `KEY=VALUE`; may be repeated.
    #[arg(long)]
    secret: Vec<String>,
    /// Id of the volume, or its beginning.
    volume: String,
    /// Name of the snapshot.
    name: Option<String>,
}

impl Run for Create {
    async fn run(self, _: &Context) -> Outcome {
        let map = |pairs: Vec<(String, String)>| -> Map<String, Value> {
            pairs.into_iter().map(|(key, value)| (key, Value::String(value))).collect()
        };
        let secrets = map(assigned(&self.secret, "secret")?);
        let parameters = map(assigned(&self.parameter, "parameter")?);
        let client = self.general.client()?;
        let volume = find::volume(&client, &self.volume).await?;
        let snapshot = json!({
            "SourceVolumeID": volume["ID"],
            "Name": self.name.unwrap_or_default(),
            "Secrets": secrets,
            "Parameters": parameters,
        });
        let body = json!({ "Snapshots": [snapshot] });
        let path = with_query("/v1/volumes/snapshot", &[("namespace", text(&volume["Namespace"]))]);
        let made = client.put(&path, &body).await.tried("Error snapshotting volume")?;
        outln!("{}", rows(items(&made["Snapshots"]), self.verbose));
        Ok(Exit::DONE)
    }
}

fn rows(snapshots: &[Value], verbose: bool) -> String {
    let cut = |id: &str| {
        let length = if verbose { usize::MAX } else { 32 };
        id.chars().take(length).collect::<String>()
    };
    let row = |one: &Value| {
        vec![
            cut(text(&one["ID"])),
            cut(text(&one["ExternalSourceVolumeID"])),
            size(one["SizeBytes"].as_u64().unwrap_or(0)),
            time(one["CreateTime"].as_i64().unwrap_or(0).saturating_mul(1_000_000_000)),
            one["IsReady"].as_bool().unwrap_or(false).to_string(),
        ]
    };
    let headings = ["Snapshot ID", "Volume ID", "Size", "Create Time", "Ready?"];
    list(&headings, &snapshots.iter().map(row).collect::<Vec<_>>())
}

/// Arguments of `volume snapshot delete`.
#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    general: General,
    /// A secret for the provider, `KEY=VALUE`; may be repeated.
    #[arg(long)]
    secret: Vec<String>,
    /// Id of the plugin.
    plugin: String,
    /// Id of the snapshot.
    snapshot: String,
}

impl Run for Delete {
    async fn run(self, _: &Context) -> Outcome {
        let secrets = assigned(&self.secret, "secret")?;
        let path = with_query("/v1/volumes/snapshot", &[("plugin_id", &self.plugin), ("snapshot_id", &self.snapshot)]);
        let client = self.general.client()?;
        let request = with_secrets(client.request(Method::DELETE, &path), &secrets);
        client.completed(request).await.tried("Error deleting volume")?;
        outln!("Snapshot {:?} deleted", self.snapshot);
        Ok(Exit::DONE)
    }
}

/// Arguments of `volume snapshot list`.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    general: General,
    /// Print full ids.
    #[arg(long)]
    verbose: bool,
    /// Id of the plugin, or its beginning.
    #[arg(long, default_value = "")]
    plugin: String,
    /// A secret for the provider, `KEY=VALUE`; may be repeated.
    #[arg(long)]
    secret: Vec<String>,
    /// Number of snapshots on a page.
    #[arg(long, default_value_t = 30)]
    per_page: u32,
    /// Token of the page, which the page before ended with.
    #[arg(long, default_value = "")]
    page_token: String,
}

impl Run for List {
    async fn run(self, context: &Context) -> Outcome {
        let secrets = assigned(&self.secret, "secret")?;
        let client = self.general.client()?;
        let plugin = find::plugin(&client, &self.plugin).await?;
        let path = with_query(
            "/v1/volumes/snapshot",
            &[
                ("plugin_id", text(&plugin["ID"])),
                ("per_page", &self.per_page.to_string()),
                ("next_token", &self.page_token),
            ],
        );
        let request = with_secrets(client.request(Method::GET, &path), &secrets);
        let found = client.completed(request).await.tried("Error querying CSI external snapshots")?;
        match items(&found.value["Snapshots"]) {
            [] => outln!("No snapshots found"),
            snapshots => outln!("{}", rows(snapshots, self.verbose)),
        }
        Page::hint(&found, context);
        Ok(Exit::DONE)
    }
}
