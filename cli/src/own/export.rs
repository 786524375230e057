//! `export`: what was registered with a cluster, as files that Nomad's own command line takes: jobs, variables,
//! namespaces, node pools, ACL policies, quotas. `apply.sh` beside them has the commands in the order in which the
//! objects need each other.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use crate::client::{Client, escape, text, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::jobs::lists::items;
use crate::pages::quoted;
use crate::{Context, General, Run, format, outln};

/// Fields of jobs that the servers set.
const OF_SERVERS: [&str; 13] = [
    "ConsulToken",
    "CreateIndex",
    "DispatchIdempotencyToken",
    "Dispatched",
    "JobModifyIndex",
    "ModifyIndex",
    "NomadTokenID",
    "Stable",
    "Status",
    "StatusDescription",
    "SubmitTime",
    "VaultToken",
    "Version",
];

/// Arguments of `export`.
#[derive(Args)]
pub(crate) struct Export {
    #[command(flatten)]
    general: General,
    /// Leave variables out: their files hold secrets.
    #[arg(long)]
    without_variables: bool,
    /// Write stopped jobs, too.
    #[arg(long)]
    stopped: bool,
    /// Directory of the files; it must not exist, or be empty.
    dir: PathBuf,
}

impl Run for Export {
    async fn run(self, _: &Context) -> Outcome {
        let client = self.general.client()?;
        let mut out = Files::begin(&self.dir)?;
        quotas(&client, &mut out).await?;
        namespaces(&client, &mut out).await?;
        pools(&client, &mut out).await?;
        policies(&client, &mut out).await?;
        if !self.without_variables {
            variables(&client, &mut out).await?;
        }
        jobs(&client, self.stopped, &mut out).await?;
        out.finish()?;
        Ok(Exit::DONE)
    }
}

/// Files below a directory, and the commands that take them.
struct Files {
    dir: PathBuf,
    commands: Vec<String>,
    counts: Vec<(&'static str, usize)>,
}

impl Files {
    fn begin(dir: &Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(dir).tried(&format!("Error creating {}", dir.display()))?;
        let mut inside = std::fs::read_dir(dir).tried(&format!("Error reading {}", dir.display()))?;
        if inside.next().is_some() {
            return Err(Failure::new(format!(
                "{} is not empty: an export does not mix with other files",
                dir.display()
            )));
        }
        Ok(Self { dir: dir.to_owned(), commands: Vec::new(), counts: Vec::new() })
    }

    /// Writes a file that only its owner can read, and notes the command that takes it, with the file's name behind.
    fn add(&mut self, kind: &'static str, file: &str, content: &str, command: &str) -> Result<(), Failure> {
        self.write(file, content, 0o600)?;
        self.commands.push(format!("\"$nomad\" {command}{}", quoted(file)));
        match self.counts.last_mut() {
            Some((last, count)) if *last == kind => *count += 1,
            _ => self.counts.push((kind, 1)),
        }
        Ok(())
    }

    fn write(&self, file: &str, content: &str, mode: u32) -> Result<(), Failure> {
        let path = self.dir.join(file);
        let written = || -> std::io::Result<()> {
            path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            let mut out = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&path)?;
            out.write_all(content.as_bytes())
        };
        written().tried(&format!("Error writing {}", path.display()))
    }

    /// Writes the script, and prints what was written.
    fn finish(self) -> Result<(), Failure> {
        let script = format!(
            "#!/bin/sh\n# Registers everything in this directory with the cluster at NOMAD_ADDR, in the order in which the objects\n\
             # need each other. NOMAD names the program, if it is not `nomad`.\nset -eu\ncd \"$(dirname \"$0\")\"\n\
             nomad=${{NOMAD:-nomad}}\n\n{}\n",
            self.commands.join("\n")
        );
        self.write("apply.sh", &script, 0o755)?;
        for (kind, count) in &self.counts {
            outln!("{count:>6} {kind}");
        }
        outln!("Exported to {}; `apply.sh` there registers everything again", self.dir.display());
        Ok(())
    }
}

/// The object without some of its fields.
fn without(object: &Value, fields: &[&str]) -> Value {
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        members.retain(|key, _| !fields.contains(&key.as_str()));
    }
    object
}

async fn quotas(client: &Client, out: &mut Files) -> Result<(), Failure> {
    let found = match client.get("/v1/quotas").await {
        // A cluster of Nomad without a license has none.
        Err(error) if error.is_status(501) => return Ok(()),
        found => found.tried("Error retrieving quotas")?,
    };
    for quota in items(&found) {
        let mut quota = without(quota, &["CreateIndex", "ModifyIndex", "Hash"]);
        for limit in quota["Limits"].as_array_mut().into_iter().flatten() {
            *limit = without(limit, &["Hash"]);
        }
        let file = format!("quotas/{}.json", escape(text(&quota["Name"])));
        out.add("quotas", &file, &(format::json(&quota) + "\n"), "quota apply -json ")?;
    }
    Ok(())
}

async fn namespaces(client: &Client, out: &mut Files) -> Result<(), Failure> {
    let found = client.get("/v1/namespaces").await.tried("Error retrieving namespaces")?;
    for namespace in items(&found) {
        let namespace = without(namespace, &["CreateIndex", "ModifyIndex", "Hash"]);
        let file = format!("namespaces/{}.json", escape(text(&namespace["Name"])));
        out.add("namespaces", &file, &(format::json(&namespace) + "\n"), "namespace apply -json ")?;
    }
    Ok(())
}

async fn pools(client: &Client, out: &mut Files) -> Result<(), Failure> {
    let found = client.get("/v1/node/pools").await.tried("Error retrieving node pools")?;
    for pool in items(&found).iter().filter(|pool| !matches!(text(&pool["Name"]), "all" | "default")) {
        let pool = without(pool, &["CreateIndex", "ModifyIndex", "Hash"]);
        let file = format!("pools/{}.json", escape(text(&pool["Name"])));
        out.add("node pools", &file, &(format::json(&pool) + "\n"), "node pool apply -json ")?;
    }
    Ok(())
}

async fn policies(client: &Client, out: &mut Files) -> Result<(), Failure> {
    let found = match client.get("/v1/acl/policies").await {
        // Without ACLs there are none.
        Err(crate::client::RequestError::Refused { status: 400, .. }) => return Ok(()),
        found => found.tried("Error retrieving ACL policies")?,
    };
    for stub in items(&found) {
        let name = text(&stub["Name"]);
        let policy = client.get(&format!("/v1/acl/policy/{}", escape(name))).await;
        let policy = policy.tried(&format!("Error retrieving ACL policy {name:?}"))?;
        let mut command = String::from("acl policy apply ");
        let flags = [
            ("description", &policy["Description"]),
            ("namespace", &policy["JobACL"]["Namespace"]),
            ("job", &policy["JobACL"]["JobID"]),
            ("group", &policy["JobACL"]["Group"]),
            ("task", &policy["JobACL"]["Task"]),
        ];
        for (flag, value) in flags.into_iter().filter(|(_, value)| !text(value).is_empty()) {
            command.push_str(&format!("-{flag}={} ", quoted(text(value))));
        }
        command.push_str(&format!("{} ", quoted(name)));
        out.add("ACL policies", &format!("policies/{}.hcl", escape(name)), text(&policy["Rules"]), &command)?;
    }
    Ok(())
}

async fn variables(client: &Client, out: &mut Files) -> Result<(), Failure> {
    let found = client.get("/v1/vars?namespace=*").await.tried("Error retrieving variables")?;
    for stub in items(&found) {
        let (namespace, path) = (text(&stub["Namespace"]), text(&stub["Path"]));
        let parts: Vec<String> = path.split('/').map(escape).collect();
        let read = with_query(&format!("/v1/var/{}", parts.join("/")), &[("namespace", namespace)]);
        let variable = client.get(&read).await.tried(&format!("Error retrieving variable {path:?}"))?;
        let spec = json!({ "Namespace": namespace, "Path": path, "Items": variable["Items"] });
        let file = format!("variables/{}/{}.nv.json", escape(namespace), escape(path));
        let command = format!("var put -force -out=none -namespace={} @", quoted(namespace));
        out.add("variables", &file, &(format::json(&spec) + "\n"), &command)?;
    }
    Ok(())
}

async fn jobs(client: &Client, stopped: bool, out: &mut Files) -> Result<(), Failure> {
    let found = client.get("/v1/jobs?namespace=*").await.tried("Error retrieving jobs")?;
    for stub in items(&found) {
        let (namespace, id) = (stub["JobSummary"]["Namespace"].as_str(), text(&stub["ID"]));
        let namespace = namespace.or(stub["Namespace"].as_str()).unwrap_or("default");
        let is_child = !text(&stub["ParentID"]).is_empty();
        if is_child || stub["Stop"] == true && !stopped {
            continue;
        }
        let read = with_query(&format!("/v1/job/{}", escape(id)), &[("namespace", namespace)]);
        let job = client.get(&read).await.tried(&format!("Error retrieving job {id:?}"))?;
        let file = format!("jobs/{}/{}.nomad.json", escape(namespace), escape(id));
        let body = json!({ "Job": without(&job, &OF_SERVERS) });
        out.add("jobs", &file, &(format::json(&body) + "\n"), "job run -detach -json ")?;
    }
    Ok(())
}
