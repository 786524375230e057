//! `acl policy apply`, `delete`, `info`, `list`.

use clap::Args;
use serde_json::{Value, json};

use super::{field, listed};
use crate::client::{escape, text};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::format::Format;
use crate::layout::{block, heading};
use crate::{Context, General, Run, input, outln};

/// Arguments of `acl policy apply`.
#[derive(Args)]
pub(crate) struct Apply {
    #[command(flatten)]
    general: General,
    /// Description of the policy.
    #[arg(long, default_value = "")]
    description: String,
    /// The job whose tasks have the policy without a token, in the namespace.
    #[arg(long, default_value = "")]
    job: String,
    /// Only the tasks of this group of the job.
    #[arg(long, default_value = "")]
    group: String,
    /// Only this task of the group.
    #[arg(long, default_value = "")]
    task: String,
    /// Name of the policy.
    name: String,
    /// A file with its rules, `-` for standard input.
    path: String,
}

impl Run for Apply {
    async fn run(self, _: &Context) -> Outcome {
        let namespace = self.general.namespace.clone().unwrap_or_default();
        for (given, flag, needed, other) in [
            (&self.job, "job", &namespace, "namespace"),
            (&self.group, "group", &self.job, "job"),
            (&self.task, "task", &self.group, "group"),
        ] {
            if !given.is_empty() && needed.is_empty() {
                return Err(Failure::new(format!("-{other} is required if -{flag} is set")));
            }
        }
        let rules = input::read(&self.path)?;
        let mut policy = json!({ "Name": self.name, "Description": self.description, "Rules": rules });
        if !namespace.is_empty() && !self.job.is_empty() {
            policy["JobACL"] =
                json!({ "Namespace": namespace, "JobID": self.job, "Group": self.group, "Task": self.task });
        }
        let path = format!("/v1/acl/policy/{}", escape(&self.name));
        self.general.client()?.put(&path, &policy).await.tried("Error writing ACL policy")?;
        outln!("Successfully wrote {:?} ACL policy!", self.name);
        Ok(Exit::DONE)
    }
}

/// Arguments of `acl policy delete`.
#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    general: General,
    /// Name of the policy.
    name: String,
}

impl Run for Delete {
    async fn run(self, _: &Context) -> Outcome {
        let path = format!("/v1/acl/policy/{}", escape(&self.name));
        self.general
            .delete(&path, "Error deleting ACL policy", &format!("Successfully deleted {} policy!", self.name))
            .await
    }
}

/// Arguments of `acl policy info`.
#[derive(Args)]
pub(crate) struct Info {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Name of the policy.
    name: String,
}

impl Run for Info {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let path = format!("/v1/acl/policy/{}", escape(&self.name));
        let policy = self.general.client()?.get(&path).await.tried("Error fetching info on ACL policy")?;
        self.format.show(&policy, words)
    }
}

fn words(policy: &Value) -> String {
    let mut out = block(&[
        ("Name", field(policy, "Name")),
        ("Description", field(policy, "Description")),
        ("CreateIndex", field(policy, "CreateIndex")),
        ("ModifyIndex", field(policy, "ModifyIndex")),
    ]);
    let of = &policy["JobACL"];
    if of.is_object() {
        let workload = ["Namespace", "JobID", "Group", "Task"].map(|key| (key, field(of, key)));
        out += &format!("\n\n{}\n{}", heading("Associated Workload"), block(&workload));
    }
    format!("{out}\n\n{}\n\n{}", heading("Rules"), text(&policy["Rules"]).trim_end_matches('\n'))
}

/// Arguments of `acl policy list`.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
}

impl Run for List {
    async fn run(self, _: &Context) -> Outcome {
        let headings = ["Name", "Description"];
        let row = |one: &Value| ["Name", "Description"].map(|key| field(one, key));
        let what = ("/v1/acl/policies", "ACL policies");
        listed((&self.general, &self.format), what, "No policies found", headings, row).await
    }
}
