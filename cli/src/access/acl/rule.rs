//! `acl binding-rule create`, `update`, `delete`, `info`, `list`.

use clap::Args;
use serde_json::{Value, json};
use songline_model::quote;

use super::{field, listed, must_change};
use crate::client::{escape, text};
use crate::exit::{Failure, Outcome, Tried};
use crate::format::Format;
use crate::layout::block;
use crate::values::time_of;
use crate::{Context, General, Run};

/// Settings of a binding rule.
#[derive(Args)]
pub(crate) struct Settings {
    /// Description of the rule.
    #[arg(long)]
    description: Option<String>,
    /// Condition on the claims of an identity; every identity matches without one.
    #[arg(long)]
    selector: Option<String>,
    /// Kind of right that the rule gives: `role`, `policy` or `management`.
    #[arg(long)]
    bind_type: Option<String>,
    /// Name of the role or policy; may have claims in it.
    #[arg(long)]
    bind_name: Option<String>,
}

impl Settings {
    fn each(&self) -> [(&'static str, &Option<String>); 4] {
        [
            ("Description", &self.description),
            ("Selector", &self.selector),
            ("BindType", &self.bind_type),
            ("BindName", &self.bind_name),
        ]
    }

    /// Puts what is said over what is there.
    fn over(&self, rule: &mut Value) {
        for (key, given) in self.each() {
            if let Some(given) = given {
                rule[key] = json!(given);
            }
        }
    }
}

/// Arguments of `acl binding-rule create`.
#[derive(Args)]
pub(crate) struct Create {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    settings: Settings,
    /// Name of the auth method.
    #[arg(long, default_value = "")]
    auth_method: String,
}

impl Run for Create {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        if self.auth_method.is_empty() {
            return Err(Failure::arguments(
                "ACL binding rule auth method must be specified using the -auth-method flag",
            ));
        }
        if self.settings.bind_type.as_ref().is_none_or(String::is_empty) {
            return Err(Failure::arguments("ACL binding rule bind type must be specified using the -bind-type flag"));
        }
        let mut rule = json!({ "AuthMethod": self.auth_method });
        self.settings.over(&mut rule);
        let client = self.general.client()?;
        let made = client.put("/v1/acl/binding-rule", &rule).await.tried("Error creating ACL binding rule")?;
        self.format.show(&made, words)
    }
}

/// Arguments of `acl binding-rule update`.
#[derive(Args)]
pub(crate) struct Update {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    settings: Settings,
    /// Replace the whole rule by what is said.
    #[arg(long)]
    no_merge: bool,
    /// Id of the rule.
    id: String,
}

impl Run for Update {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let client = self.general.client()?;
        let path = format!("/v1/acl/binding-rule/{}", escape(&self.id));
        let mut rule = client.get(&path).await.tried("Error reading ACL binding rule")?;
        if self.no_merge {
            if self.settings.bind_type.is_none() {
                return Err(Failure::new("ACL binding rule bind type must be specified using the -bind-type flag"));
            }
            rule = json!({ "ID": rule["ID"], "AuthMethod": rule["AuthMethod"] });
        } else {
            must_change(self.settings.each().iter().any(|(_, given)| given.is_some()), "ACL binding rule")?;
        }
        self.settings.over(&mut rule);
        let changed = client.put(&path, &rule).await.tried("Error updating ACL binding rule")?;
        self.format.show(&changed, words)
    }
}

/// Arguments of `acl binding-rule delete`.
#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    general: General,
    /// Id of the rule.
    id: String,
}

impl Run for Delete {
    async fn run(self, _: &Context) -> Outcome {
        let path = format!("/v1/acl/binding-rule/{}", escape(&self.id));
        self.general
            .delete(
                &path,
                "Error deleting ACL binding rule",
                &format!("ACL binding rule {} successfully deleted", self.id),
            )
            .await
    }
}

/// Arguments of `acl binding-rule info`.
#[derive(Args)]
pub(crate) struct Info {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Id of the rule.
    id: String,
}

impl Run for Info {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let path = format!("/v1/acl/binding-rule/{}", escape(&self.id));
        let rule = self.general.client()?.get(&path).await.tried("Error reading ACL binding rule")?;
        self.format.show(&rule, words)
    }
}

/// Arguments of `acl binding-rule list`.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
}

impl Run for List {
    async fn run(self, _: &Context) -> Outcome {
        let headings = ["ID", "Description", "Auth Method"];
        let row = |one: &Value| ["ID", "Description", "AuthMethod"].map(|key| field(one, key));
        let what = ("/v1/acl/binding-rules", "ACL binding rules");
        listed((&self.general, &self.format), what, "No ACL binding rules found", headings, row).await
    }
}

fn words(rule: &Value) -> String {
    block(&[
        ("ID", field(rule, "ID")),
        ("Description", field(rule, "Description")),
        ("Auth Method", field(rule, "AuthMethod")),
        ("Selector", quote(&field(rule, "Selector"))),
        ("Bind Type", field(rule, "BindType")),
        ("Bind Name", field(rule, "BindName")),
        ("Create Time", time_of(text(&rule["CreateTime"]))),
        ("Modify Time", time_of(text(&rule["ModifyTime"]))),
        ("Create Index", field(rule, "CreateIndex")),
        ("Modify Index", field(rule, "ModifyIndex")),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_seconds_of_the_local_zone() {
        let written = "2026-11-29T01:44:36.801833977Z";
        let shown = words(&json!({ "Selector": "a == \"b\"", "CreateTime": written, "ModifyTime": written }));
        let expected = time_of(written);
        assert!(expected.len() > 10 && !expected.contains('.'), "{expected}");
        for line in [
            format!("Create Time  = {expected}"),
            format!("Modify Time  = {expected}"),
            "Selector     = \"a == \\\"b\\\"\"".to_owned(),
        ] {
            assert!(shown.lines().any(|shown| shown == line), "no {line} in {shown}");
        }
    }
}
