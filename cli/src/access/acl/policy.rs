//! `acl policy apply`, `delete`, `info`, `list`.

use clap::Subcommand;
use serde_json::{Value, json};

use super::{read, segment, shown};
use crate::client::text;
use crate::{General, table};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Make or change a policy.
    Apply {
        #[command(flatten)]
        target: General,
        /// Description of the policy.
        #[arg(long, default_value = "")]
        description: String,
        /// The job whose tasks have the policy without a token, in the namespace.
        #[arg(long, default_value = "")]
        job: String,
        /// Only the tasks of this group of the job.
        #[arg(long, default_value = "", requires = "job")]
        group: String,
        /// Only this task of the group.
        #[arg(long, default_value = "", requires = "group")]
        task: String,
        /// The policy's name.
        name: String,
        /// A file with its rules; `-` is the standard input.
        rules: String,
    },
    /// Delete a policy.
    Delete {
        #[command(flatten)]
        target: General,
        /// Its name.
        name: String,
    },
    /// Show a policy.
    Info {
        #[command(flatten)]
        target: General,
        /// Print the answer as it came.
        #[arg(long)]
        json: bool,
        /// Its name.
        name: String,
    },
    /// Show all policies.
    List {
        #[command(flatten)]
        target: General,
        /// Print the answer as it came.
        #[arg(long)]
        json: bool,
    },
}

pub(super) async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Apply { target, description, job, group, task, name, rules } => {
            let mut policy = json!({ "Name": name, "Description": description, "Rules": read(&rules)? });
            if !job.is_empty() {
                policy["JobACL"] = json!({ "Namespace": target.namespace, "JobID": job, "Group": group, "Task": task });
            }
            target.client()?.put(&format!("/v1/acl/policy/{}", segment(&name)?), &policy).await?;
            crate::outln!("Successfully wrote {name:?} ACL policy!");
        }
        Command::Delete { target, name } => {
            target.client()?.delete(&format!("/v1/acl/policy/{}", segment(&name)?)).await?;
            crate::outln!("Successfully deleted {name} policy!");
        }
        Command::Info { target, json, name } => {
            let policy = target.client()?.get(&format!("/v1/acl/policy/{}", segment(&name)?)).await?;
            shown(&policy, json, show)?;
        }
        Command::List { target, json } => {
            let policies = target.client()?.get("/v1/acl/policies").await?;
            shown(&policies, json, list)?;
        }
    }
    Ok(())
}

fn show(policy: &Value) {
    let mut pairs = vec![
        ("Name", text(&policy["Name"]).to_owned()),
        ("Description", text(&policy["Description"]).to_owned()),
        ("CreateIndex", policy["CreateIndex"].to_string()),
        ("ModifyIndex", policy["ModifyIndex"].to_string()),
    ];
    let of = &policy["JobACL"];
    for (name, key) in [("Namespace", "Namespace"), ("JobID", "JobID"), ("Group", "Group"), ("Task", "Task")] {
        if !text(&of[key]).is_empty() {
            pairs.push((name, text(&of[key]).to_owned()));
        }
    }
    table::pairs(&pairs);
    crate::outln!("\nRules\n\n{}", text(&policy["Rules"]).trim_end());
}

fn list(policies: &Value) {
    let rows: Vec<_> = policies
        .as_array()
        .into_iter()
        .flatten()
        .map(|policy| vec![text(&policy["Name"]).to_owned(), text(&policy["Description"]).to_owned()])
        .collect();
    if rows.is_empty() {
        crate::outln!("No policies found");
        return;
    }
    table::print(&["Name", "Description"], &rows);
}
