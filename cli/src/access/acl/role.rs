//! `acl role create`, `update`, `delete`, `info`, `list`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{segment, shown};
use crate::client::text;
use crate::{General, table};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Make a role.
    Create {
        #[command(flatten)]
        target: General,
        #[command(flatten)]
        wish: Wish,
    },
    /// Change a role: its name, description and policies, where they are said.
    Update {
        #[command(flatten)]
        target: General,
        #[command(flatten)]
        wish: Wish,
        /// Its id.
        id: String,
    },
    /// Delete a role.
    Delete {
        #[command(flatten)]
        target: General,
        /// Its id.
        id: String,
    },
    /// Show a role.
    Info {
        #[command(flatten)]
        target: General,
        /// Print the answer as it came.
        #[arg(long)]
        json: bool,
        /// It is its name that is given.
        #[arg(long)]
        by_name: bool,
        /// Its id.
        id: String,
    },
    /// Show all roles.
    List {
        #[command(flatten)]
        target: General,
        /// Print the answer as it came.
        #[arg(long)]
        json: bool,
    },
}

/// Settings of a role.
#[derive(Args)]
pub(crate) struct Wish {
    /// Its name.
    #[arg(long)]
    name: Option<String>,
    /// Description of the role.
    #[arg(long)]
    description: Option<String>,
    /// A policy's name; several are several options.
    #[arg(long)]
    policy: Vec<String>,
    /// Print the answer as it came.
    #[arg(long)]
    json: bool,
}

impl Wish {
    /// Puts what is said over what is there.
    fn over(&self, role: &mut Value) {
        if let Some(name) = &self.name {
            role["Name"] = json!(name);
        }
        if let Some(description) = &self.description {
            role["Description"] = json!(description);
        }
        if !self.policy.is_empty() {
            role["Policies"] = self.policy.iter().map(|name| json!({ "Name": name })).collect();
        }
    }
}

pub(super) async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Create { target, wish } => {
            let mut role = json!({});
            wish.over(&mut role);
            let made = target.client()?.put("/v1/acl/role", &role).await?;
            shown(&made, wish.json, show)
        }
        Command::Update { target, wish, id } => {
            let (api, path) = (target.client()?, format!("/v1/acl/role/{}", segment(&id)?));
            let mut role = api.get(&path).await?;
            wish.over(&mut role);
            let changed = api.put(&path, &role).await?;
            shown(&changed, wish.json, show)
        }
        Command::Delete { target, id } => {
            target.client()?.delete(&format!("/v1/acl/role/{}", segment(&id)?)).await?;
            crate::outln!("ACL role {id} successfully deleted");
            Ok(())
        }
        Command::Info { target, json, by_name, id } => {
            let by = if by_name { "name/" } else { "" };
            let role = target.client()?.get(&format!("/v1/acl/role/{by}{}", segment(&id)?)).await?;
            shown(&role, json, show)
        }
        Command::List { target, json } => {
            let roles = target.client()?.get("/v1/acl/roles").await?;
            shown(&roles, json, list)
        }
    }
}

fn policies(role: &Value) -> String {
    role["Policies"].as_array().into_iter().flatten().map(|link| text(&link["Name"])).collect::<Vec<_>>().join(",")
}

fn show(role: &Value) {
    table::pairs(&[
        ("ID", text(&role["ID"]).to_owned()),
        ("Name", text(&role["Name"]).to_owned()),
        ("Description", text(&role["Description"]).to_owned()),
        ("Policies", policies(role)),
        ("Create Index", role["CreateIndex"].to_string()),
        ("Modify Index", role["ModifyIndex"].to_string()),
    ]);
}

fn list(roles: &Value) {
    let row = |role: &Value| {
        let cells = [&role["ID"], &role["Name"], &role["Description"]].map(|cell| text(cell).to_owned());
        cells.into_iter().chain([policies(role)]).collect::<Vec<_>>()
    };
    let rows: Vec<_> = roles.as_array().into_iter().flatten().map(row).collect();
    if rows.is_empty() {
        crate::outln!("No ACL roles found");
        return;
    }
    table::print(&["ID", "Name", "Description", "Policies"], &rows);
}
