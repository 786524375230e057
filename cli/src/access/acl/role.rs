//! `acl role create`, `update`, `delete`, `info`, `list`.

use clap::Args;
use serde_json::{Value, json};

use super::{field, linked, listed, must_change};
use crate::client::escape;
use crate::exit::{Failure, Outcome, Tried};
use crate::format::Format;
use crate::jobs::lists::items;
use crate::layout::block;
use crate::{Context, General, Run};

/// Settings of a role.
#[derive(Args)]
pub(crate) struct Settings {
    /// Name of the role.
    #[arg(long)]
    name: Option<String>,
    /// Description of the role.
    #[arg(long)]
    description: Option<String>,
    /// Name of a policy; may be repeated.
    #[arg(long)]
    policy: Vec<String>,
}

impl Settings {
    /// Puts what is said over what is there.
    fn over(&self, role: &mut Value) {
        for (key, given) in [("Name", &self.name), ("Description", &self.description)] {
            if let Some(given) = given {
                role[key] = json!(given);
            }
        }
    }

    fn policies(&self) -> Vec<Value> {
        self.policy.iter().map(|name| json!({ "Name": name })).collect()
    }
}

/// Arguments of `acl role create`.
#[derive(Args)]
pub(crate) struct Create {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    settings: Settings,
}

impl Run for Create {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        if self.settings.name.as_ref().is_none_or(String::is_empty) {
            return Err(Failure::arguments("ACL role name must be specified using the -name flag"));
        }
        if self.settings.policy.is_empty() {
            return Err(Failure::arguments("At least one policy name must be specified using the -policy flag"));
        }
        let mut role = json!({ "Policies": self.settings.policies() });
        self.settings.over(&mut role);
        let made = self.general.client()?.put("/v1/acl/role", &role).await.tried("Error creating ACL role")?;
        self.format.show(&made, words)
    }
}

/// Arguments of `acl role update`.
#[derive(Args)]
pub(crate) struct Update {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    settings: Settings,
    /// Replace the whole role by what is said.
    #[arg(long)]
    no_merge: bool,
    /// Id of the role.
    id: String,
}

impl Run for Update {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let Settings { name, description, policy } = &self.settings;
        let client = self.general.client()?;
        let path = format!("/v1/acl/role/{}", escape(&self.id));
        let mut role = client.get(&path).await.tried("Error reading ACL role")?;
        if self.no_merge {
            if name.as_ref().is_none_or(String::is_empty) {
                return Err(Failure::new("ACL role name must be specified using the -name flag"));
            }
            if policy.is_empty() {
                return Err(Failure::new("At least one policy name must be specified using the -policy flag"));
            }
            role = json!({ "ID": role["ID"], "Policies": self.settings.policies() });
        } else {
            must_change(name.is_some() || description.is_some() || !policy.is_empty(), "ACL role")?;
            let mut policies = items(&role["Policies"]).to_vec();
            for one in self.settings.policies() {
                if !policies.iter().any(|known| known["Name"] == one["Name"]) {
                    policies.push(one);
                }
            }
            role["Policies"] = json!(policies);
        }
        self.settings.over(&mut role);
        let changed = client.put(&path, &role).await.tried("Error updating ACL role")?;
        self.format.show(&changed, words)
    }
}

/// Arguments of `acl role delete`.
#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    general: General,
    /// Id of the role.
    id: String,
}

impl Run for Delete {
    async fn run(self, _: &Context) -> Outcome {
        let path = format!("/v1/acl/role/{}", escape(&self.id));
        self.general
            .delete(&path, "Error deleting ACL role", &format!("ACL role {} successfully deleted", self.id))
            .await
    }
}

/// Arguments of `acl role info`.
#[derive(Args)]
pub(crate) struct Info {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// The argument is the name of the role.
    #[arg(long)]
    by_name: bool,
    /// Id of the role.
    id: String,
}

impl Run for Info {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let by = if self.by_name { "name/" } else { "" };
        let path = format!("/v1/acl/role/{by}{}", escape(&self.id));
        let role = self.general.client()?.get(&path).await.tried("Error reading ACL role")?;
        self.format.show(&role, words)
    }
}

/// Arguments of `acl role list`.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
}

impl Run for List {
    async fn run(self, _: &Context) -> Outcome {
        let headings = ["ID", "Name", "Description", "Policies"];
        let row =
            |one: &Value| [field(one, "ID"), field(one, "Name"), field(one, "Description"), linked(&one["Policies"])];
        let what = ("/v1/acl/roles", "ACL roles");
        listed((&self.general, &self.format), what, "No ACL roles found", headings, row).await
    }
}

fn words(role: &Value) -> String {
    block(&[
        ("ID", field(role, "ID")),
        ("Name", field(role, "Name")),
        ("Description", field(role, "Description")),
        ("Policies", linked(&role["Policies"])),
        ("Create Index", field(role, "CreateIndex")),
        ("Modify Index", field(role, "ModifyIndex")),
    ])
}
