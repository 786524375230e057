//! `node meta read` and `node meta apply`.

use clap::Args;
use serde_json::{Map, Value, json};

use super::find::id_of;
use crate::client::{Client, text, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::format::Format;
use crate::layout::{block, heading};
use crate::{Context, General, outln};

/// Path of a node's metadata; without an id that of the agent's own node.
async fn path(client: &Client, typed: Option<&str>) -> Result<String, Failure> {
    let id = match typed.filter(|typed| !typed.is_empty()) {
        Some(typed) => id_of(client, Some(typed), false).await?,
        None => String::new(),
    };
    Ok(with_query("/v1/client/metadata", &[("node_id", &id)]))
}

/// Arguments of `node meta read`.
#[derive(Args)]
pub(crate) struct Read {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Id of the node, or its beginning; by default the agent's own.
    #[arg(long)]
    node_id: Option<String>,
}

impl crate::Run for Read {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let client = self.general.client()?;
        let path = path(&client, self.node_id.as_deref()).await?;
        let meta = client.get(&path).await.tried("Error reading dynamic node metadata")?;
        if self.format.print(&meta)? {
            return Ok(Exit::DONE);
        }
        for (at, (title, key)) in
            [("All Meta", "Meta"), ("Dynamic Meta", "Dynamic"), ("Static Meta", "Static")].iter().enumerate()
        {
            if at > 0 {
                outln!();
            }
            let mut pairs: Vec<(&str, &str)> = meta[*key]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, value)| (name.as_str(), text(value)))
                .collect();
            pairs.sort_unstable();
            outln!("{}\n{}", heading(title), block(&pairs));
        }
        Ok(Exit::DONE)
    }
}

/// Arguments of `node meta apply`.
#[derive(Args)]
pub(crate) struct Apply {
    #[command(flatten)]
    general: General,
    /// Id of the node, or its beginning; by default the agent's own.
    #[arg(long)]
    node_id: Option<String>,
    /// Keys to remove, with commas between.
    #[arg(long)]
    unset: Option<String>,
    /// Keys to set, `key=value`.
    pairs: Vec<String>,
}

impl crate::Run for Apply {
    async fn run(self, _: &Context) -> Outcome {
        let unset = self.unset.as_deref().unwrap_or_default();
        if unset.is_empty() && self.pairs.is_empty() {
            return Err(Failure::arguments("Must specify -unset or at least 1 key=value pair"));
        }
        let mut meta = Map::new();
        for key in unset.split(',').filter(|key| !key.is_empty()) {
            meta.insert(key.to_owned(), Value::Null);
        }
        for pair in &self.pairs {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            meta.insert(key.to_owned(), json!(value));
        }
        let client = self.general.client()?;
        let path = path(&client, self.node_id.as_deref()).await?;
        client.post(&path, &json!({ "Meta": meta })).await.tried("Error applying dynamic node metadata")?;
        Ok(Exit::DONE)
    }
}
