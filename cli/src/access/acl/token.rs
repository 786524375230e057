//! `acl token create`, `update`, `delete`, `info`, `list`, `self`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{segment, shown};
use crate::client::text;
use crate::{General, table};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Make a token.
    Create {
        #[command(flatten)]
        target: General,
        #[command(flatten)]
        wish: Wish,
        /// Valid in every region.
        #[arg(long)]
        global: bool,
        /// How long it lives, such as `8h`; for ever when this is not said.
        #[arg(long, default_value = "")]
        ttl: String,
    },
    /// Change a token: its name, type, policies and roles, where they are said.
    Update {
        #[command(flatten)]
        target: General,
        #[command(flatten)]
        wish: Wish,
        /// Its accessor.
        accessor: String,
    },
    /// Delete a token.
    Delete {
        #[command(flatten)]
        target: General,
        /// Its accessor.
        accessor: String,
    },
    /// Show a token.
    Info {
        #[command(flatten)]
        target: General,
        /// Print the answer as it came.
        #[arg(long)]
        json: bool,
        /// Its accessor.
        accessor: String,
    },
    /// Show all tokens.
    List {
        #[command(flatten)]
        target: General,
        /// Print the answer as it came.
        #[arg(long)]
        json: bool,
    },
    /// Show the token whose secret is used.
    #[command(name = "self")]
    Own {
        #[command(flatten)]
        target: General,
        /// Print the answer as it came.
        #[arg(long)]
        json: bool,
    },
}

/// Settings of a token.
#[derive(Args)]
pub(crate) struct Wish {
    /// Name of the token, for people.
    #[arg(long)]
    name: Option<String>,
    /// `client` or `management`.
    #[arg(long = "type")]
    kind: Option<String>,
    /// A policy's name; several are several options.
    #[arg(long)]
    policy: Vec<String>,
    /// A role's id; several are several options.
    #[arg(long)]
    role_id: Vec<String>,
    /// A role's name; several are several options.
    #[arg(long)]
    role_name: Vec<String>,
    /// Print the answer as it came.
    #[arg(long)]
    json: bool,
}

impl Wish {
    /// Puts what is said over what is there.
    fn over(&self, token: &mut Value) {
        if let Some(name) = &self.name {
            token["Name"] = json!(name);
        }
        if let Some(kind) = &self.kind {
            token["Type"] = json!(kind);
        }
        if !self.policy.is_empty() {
            token["Policies"] = json!(self.policy);
        }
        let ids = self.role_id.iter().map(|id| json!({ "ID": id }));
        let roles: Vec<Value> = ids.chain(self.role_name.iter().map(|name| json!({ "Name": name }))).collect();
        if !roles.is_empty() {
            token["Roles"] = json!(roles);
        }
    }
}

pub(super) async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Create { target, wish, global, ttl } => {
            let mut token = json!({ "Type": "client", "Global": global, "ExpirationTTL": ttl });
            wish.over(&mut token);
            let made = target.client()?.put("/v1/acl/token", &token).await?;
            shown(&made, wish.json, show)
        }
        Command::Update { target, wish, accessor } => {
            let (api, path) = (target.client()?, format!("/v1/acl/token/{}", segment(&accessor)?));
            let mut token = api.get(&path).await?;
            wish.over(&mut token);
            let changed = api.put(&path, &token).await?;
            shown(&changed, wish.json, show)
        }
        Command::Delete { target, accessor } => {
            target.client()?.delete(&format!("/v1/acl/token/{}", segment(&accessor)?)).await?;
            crate::outln!("Token {accessor} successfully deleted");
            Ok(())
        }
        Command::Info { target, json, accessor } => {
            let token = target.client()?.get(&format!("/v1/acl/token/{}", segment(&accessor)?)).await?;
            shown(&token, json, show)
        }
        Command::List { target, json } => {
            let tokens = target.client()?.get("/v1/acl/tokens").await?;
            shown(&tokens, json, list)
        }
        Command::Own { target, json } => {
            let token = target.client()?.get("/v1/acl/token/self").await?;
            shown(&token, json, show)
        }
    }
}

/// Prints a token, its secret too: who asks owns it or manages all.
pub(super) fn show(token: &Value) {
    let is_management = text(&token["Type"]) == "management";
    let names = |list: &Value| list.as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(" ");
    table::pairs(&[
        ("Accessor ID", text(&token["AccessorID"]).to_owned()),
        ("Secret ID", text(&token["SecretID"]).to_owned()),
        ("Name", text(&token["Name"]).to_owned()),
        ("Type", text(&token["Type"]).to_owned()),
        ("Global", token["Global"].to_string()),
        ("Create Time", text(&token["CreateTime"]).to_owned()),
        ("Expiry Time", token["ExpirationTime"].as_str().unwrap_or("<none>").to_owned()),
        ("Create Index", token["CreateIndex"].to_string()),
        ("Modify Index", token["ModifyIndex"].to_string()),
        ("Policies", if is_management { "n/a".to_owned() } else { format!("[{}]", names(&token["Policies"])) }),
    ]);
    let roles: Vec<_> = token["Roles"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|role| vec![text(&role["ID"]).to_owned(), text(&role["Name"]).to_owned()])
        .collect();
    crate::outln!("\nRoles");
    if roles.is_empty() {
        crate::outln!("{}", if is_management { "n/a" } else { "<none>" });
    } else {
        table::print(&["ID", "Name"], &roles);
    }
}

fn list(tokens: &Value) {
    let row = |token: &Value| {
        let cells = [&token["Name"], &token["Type"]].map(|cell| text(cell).to_owned());
        let ends = token["ExpirationTime"].as_str().unwrap_or("<none>").to_owned();
        cells
            .into_iter()
            .chain([token["Global"].to_string(), text(&token["AccessorID"]).to_owned(), ends])
            .collect::<Vec<_>>()
    };
    let rows: Vec<_> = tokens.as_array().into_iter().flatten().map(row).collect();
    if rows.is_empty() {
        crate::outln!("No tokens found");
        return;
    }
    table::print(&["Name", "Type", "Global", "Accessor ID", "Expiry Time"], &rows);
}
