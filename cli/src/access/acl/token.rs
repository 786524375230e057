//! `acl token create`, `update`, `delete`, `info`, `list`, `self`.

use clap::Args;
use serde_json::{Value, json};

use super::{field, listed, must_change, told};
use crate::client::{Client, escape, text};
use crate::exit::{Failure, Outcome, Tried};
use crate::format::Format;
use crate::jobs::lists::items;
use crate::layout::{block, heading, list};
use crate::values::{nanos_of, now, time_of};
use crate::{Context, General, Run};

/// Arguments of `acl token create`.
#[derive(Args)]
pub(crate) struct Create {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Name of the token, for people.
    #[arg(long, default_value = "")]
    name: String,
    /// `client` or `management`.
    #[arg(long = "type", default_value = "client")]
    kind: String,
    /// Valid in every region.
    #[arg(long)]
    global: bool,
    /// Name of a policy; may be repeated.
    #[arg(long)]
    policy: Vec<String>,
    /// Id of a role; may be repeated.
    #[arg(long)]
    role_id: Vec<String>,
    /// Name of a role; may be repeated.
    #[arg(long)]
    role_name: Vec<String>,
    /// Time until the token expires, such as `8h`; without one it does not expire.
    #[arg(long, default_value = "")]
    ttl: String,
}

impl Run for Create {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        if !self.ttl.is_empty() {
            songline_lang::duration::parse(&self.ttl)
                .map_err(|error| Failure::new(format!("Failed to parse TTL as time duration: {error}")))?;
        }
        let ids = self.role_id.iter().map(|id| json!({ "ID": id }));
        let roles: Vec<Value> = ids.chain(self.role_name.iter().map(|name| json!({ "Name": name }))).collect();
        let mut token = json!({
            "Name": self.name, "Type": self.kind, "Policies": self.policy, "Roles": roles, "Global": self.global,
        });
        if !self.ttl.is_empty() {
            token["ExpirationTTL"] = json!(self.ttl);
        }
        let made = self.general.client()?.put("/v1/acl/token", &token).await.tried("Error creating token")?;
        told(&self.format, &made, words)
    }
}

/// Arguments of `acl token update`.
#[derive(Args)]
pub(crate) struct Update {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Name of the token, for people.
    #[arg(long)]
    name: Option<String>,
    /// `client` or `management`.
    #[arg(long = "type")]
    kind: Option<String>,
    /// Valid in every region.
    #[arg(long)]
    global: Option<bool>,
    /// Name of a policy; may be repeated.
    #[arg(long)]
    policy: Vec<String>,
    /// Accessor of the token.
    accessor: String,
}

impl Run for Update {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let changes = self.name.is_some() || self.kind.is_some() || self.global.is_some() || !self.policy.is_empty();
        must_change(changes, "ACL token")?;
        let client = self.general.client()?;
        let mut token = by_accessor(&client, &self.accessor).await?;
        if let Some(name) = self.name {
            token["Name"] = json!(name);
        }
        if let Some(kind) = self.kind {
            token["Type"] = json!(kind);
        }
        if let Some(global) = self.global {
            token["Global"] = json!(global);
        }
        if !self.policy.is_empty() {
            token["Policies"] = json!(self.policy);
        }
        let path = format!("/v1/acl/token/{}", escape(text(&token["AccessorID"])));
        let changed = client.put(&path, &token).await.tried("Error updating token")?;
        told(&self.format, &changed, words)
    }
}

async fn by_accessor(client: &Client, accessor: &str) -> Result<Value, Failure> {
    client.get(&format!("/v1/acl/token/{}", escape(accessor))).await.tried("Error fetching token")
}

/// Arguments of `acl token delete`.
#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    general: General,
    /// Accessor of the token.
    accessor: String,
}

impl Run for Delete {
    async fn run(self, _: &Context) -> Outcome {
        let path = format!("/v1/acl/token/{}", escape(&self.accessor));
        self.general
            .delete(&path, "Error deleting token", &format!("Token {} successfully deleted", self.accessor))
            .await
    }
}

/// Arguments of `acl token info`.
#[derive(Args)]
pub(crate) struct Info {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Accessor of the token.
    accessor: String,
}

impl Run for Info {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let token = by_accessor(&self.general.client()?, &self.accessor).await?;
        told(&self.format, &token, words)
    }
}

/// Arguments of `acl token self`.
#[derive(Args)]
pub(crate) struct Own {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
}

impl Run for Own {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let token = self.general.client()?.get("/v1/acl/token/self").await.tried("Error fetching self token")?;
        told(&self.format, &token, words)
    }
}

/// Arguments of `acl token list`.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
}

impl Run for List {
    async fn run(self, _: &Context) -> Outcome {
        let now = now();
        let headings = ["Name", "Type", "Global", "Accessor ID", "Expired"];
        let row = |one: &Value| {
            let expired = nanos_of(text(&one["ExpirationTime"])).is_some_and(|at| at < now);
            let [name, kind, global, accessor] = ["Name", "Type", "Global", "AccessorID"].map(|key| field(one, key));
            [name, kind, global, accessor, expired.to_string()]
        };
        let what = ("/v1/acl/tokens", "ACL tokens");
        listed((&self.general, &self.format), what, "No tokens found", headings, row).await
    }
}

/// A token with its secret: who asks owns it or manages all.
pub(crate) fn words(token: &Value) -> String {
    let is_management = text(&token["Type"]) == "management";
    let mut pairs = vec![
        ("Accessor ID", field(token, "AccessorID")),
        ("Secret ID", field(token, "SecretID")),
        ("Name", field(token, "Name")),
        ("Type", field(token, "Type")),
        ("Global", field(token, "Global")),
        ("Create Time", time_of(text(&token["CreateTime"]))),
        ("Expiry Time", time_of(text(&token["ExpirationTime"]))),
        ("Create Index", field(token, "CreateIndex")),
        ("Modify Index", field(token, "ModifyIndex")),
    ];
    if is_management {
        pairs.extend([("Policies", "n/a".to_owned()), ("Roles", "n/a".to_owned())]);
        return block(&pairs);
    }
    let policies: Vec<&str> = items(&token["Policies"]).iter().map(text).collect();
    pairs.push(("Policies", format!("[{}]", policies.join(" "))));
    let roles = match items(&token["Roles"]) {
        [] => "<none>".to_owned(),
        roles => {
            let row = |role: &Value| vec![field(role, "ID"), field(role, "Name")];
            list(&["ID", "Name"], &roles.iter().map(row).collect::<Vec<_>>())
        }
    };
    format!("{}\n\n{}\n{roles}", block(&pairs), heading("Roles"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_seconds_of_the_local_zone() {
        let written = "2026-11-29T01:44:36.801833977Z";
        let shown = words(&json!({ "Type": "management", "CreateTime": written, "ExpirationTime": null }));
        let expected = crate::values::time(nanos_of(written).expect("it is a time"));
        assert!(shown.contains(&format!("Create Time  = {expected}\n")) && !expected.contains('.'), "{shown}");
        assert!(shown.contains("Expiry Time  = <none>\n"), "{shown}");
    }
}
