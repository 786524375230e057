//! `operator root keyring` and `operator gossip keyring`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use reqwest::Method;
use ring::rand::SecureRandom;
use serde_json::{Value, json};

use crate::client::{escape, text};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::ids::shown;
use crate::layout::list;
use crate::{Context, General, Run, outln, values};

/// Arguments of `operator root keyring list`.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    general: General,
    /// Show full ids.
    #[arg(long)]
    verbose: bool,
}

impl Run for List {
    async fn run(self, _: &Context) -> Outcome {
        let keys = self.general.client()?.get("/v1/operator/keyring/keys").await.tried("error")?;
        outln!("{}", rows(keys.as_array().map(Vec::as_slice).unwrap_or_default(), self.verbose));
        Ok(Exit::DONE)
    }
}

fn rows(keys: &[Value], verbose: bool) -> String {
    let row = |key: &Value| {
        vec![
            shown(text(&key["KeyID"]), verbose),
            text(&key["State"]).to_owned(),
            values::time(key["CreateTime"].as_i64().unwrap_or(0)),
        ]
    };
    list(&["Key", "State", "Create Time"], &keys.iter().map(row).collect::<Vec<_>>())
}

/// Arguments of `operator root keyring rotate`.
#[derive(Args)]
pub(crate) struct Rotate {
    #[command(flatten)]
    general: General,
    /// Encrypt all variables anew with the new key.
    #[arg(long)]
    full: bool,
    /// Show full ids.
    #[arg(long)]
    verbose: bool,
}

impl Run for Rotate {
    async fn run(self, _: &Context) -> Outcome {
        let path = if self.full { "/v1/operator/keyring/rotate?full=true" } else { "/v1/operator/keyring/rotate" };
        let answer = self.general.client()?.put(path, &Value::Null).await.tried("error")?;
        outln!("{}", rows(std::slice::from_ref(&answer["Key"]), self.verbose));
        Ok(Exit::DONE)
    }
}

/// Arguments of `operator root keyring remove`.
#[derive(Args)]
pub(crate) struct Remove {
    #[command(flatten)]
    general: General,
    /// Id of the key.
    key: String,
}

impl Run for Remove {
    async fn run(self, _: &Context) -> Outcome {
        let path = format!("/v1/operator/keyring/key/{}", escape(&self.key));
        self.general.client()?.delete(&path).await.tried("error")?;
        outln!("Removed encryption key {}", self.key);
        Ok(Exit::DONE)
    }
}

/// Arguments of `operator gossip keyring generate`.
#[derive(Args)]
pub(crate) struct Generate {}

impl Run for Generate {
    async fn run(self, _: &Context) -> Outcome {
        let mut bytes = [0; 32];
        let random = ring::rand::SystemRandom::new();
        random.fill(&mut bytes).map_err(|_| Failure::new("the system has no randomness"))?;
        outln!("{}", STANDARD.encode(bytes));
        Ok(Exit::DONE)
    }
}

/// Arguments of `operator gossip keyring list`.
#[derive(Args)]
pub(crate) struct GossipList {
    #[command(flatten)]
    general: General,
}

impl Run for GossipList {
    async fn run(self, _: &Context) -> Outcome {
        outln!("Gathering installed encryption keys...");
        let answer = self.general.client()?.get("/v1/agent/keyring/list").await.tried("error")?;
        let keys = answer["Keys"].as_object().into_iter().flatten();
        let mut rows: Vec<Vec<String>> = keys.map(|(key, _)| vec![key.clone()]).collect();
        rows.sort();
        outln!("{}", list(&["Key"], &rows));
        Ok(Exit::DONE)
    }
}

/// Arguments of the commands about one gossip key.
#[derive(Args)]
struct OneKey {
    #[command(flatten)]
    general: General,
    /// The key, in base64.
    key: String,
}

impl OneKey {
    async fn change(self, verb: &str, saying: &str) -> Outcome {
        outln!("{saying} gossip encryption key...");
        let client = self.general.client()?;
        let method = if verb == "remove" { Method::DELETE } else { Method::PUT };
        client.send(method, &format!("/v1/agent/keyring/{verb}"), &json!({"Key": self.key})).await.tried("error")?;
        Ok(Exit::DONE)
    }
}

/// Arguments of `operator gossip keyring install`.
#[derive(Args)]
pub(crate) struct Install {
    #[command(flatten)]
    key: OneKey,
}

impl Run for Install {
    async fn run(self, _: &Context) -> Outcome {
        self.key.change("install", "Installing new").await
    }
}

/// Arguments of `operator gossip keyring use`.
#[derive(Args)]
pub(crate) struct Use {
    #[command(flatten)]
    key: OneKey,
}

impl Run for Use {
    async fn run(self, _: &Context) -> Outcome {
        self.key.change("use", "Changing primary").await
    }
}

/// Arguments of `operator gossip keyring remove`.
#[derive(Args)]
pub(crate) struct GossipRemove {
    #[command(flatten)]
    key: OneKey,
}

impl Run for GossipRemove {
    async fn run(self, _: &Context) -> Outcome {
        self.key.change("remove", "Removing").await
    }
}
