//! `volume status`, `register`, `create`, `deregister`, `delete`, `detach`, `init`.

use std::path::Path;

use clap::Args;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::assigned;
use super::find::{self, count};
use super::plugin::segments;
use super::spec;
use crate::client::{Client, escape, text, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::format::Format;
use crate::jobs::lists::{self, items};
use crate::layout::{block, heading, list, section};
use crate::{Context, General, Run, ask, input, out, outln};

/// Adds secrets for the provider to a request.
pub(super) fn with_secrets(request: RequestBuilder, secrets: &[(String, String)]) -> RequestBuilder {
    if secrets.is_empty() {
        return request;
    }
    let pairs: Vec<String> = secrets.iter().map(|(key, value)| format!("{key}={value}")).collect();
    request.header("X-Nomad-CSI-Secrets", pairs.join(","))
}

/// Arguments of `volume status`.
#[derive(Args)]
pub(crate) struct Status {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Leave out topologies and allocations.
    #[arg(long)]
    short: bool,
    /// Print full ids, and the volumes of providers that are not registered.
    #[arg(long)]
    verbose: bool,
    /// Kind of the volumes: `csi`.
    #[arg(long = "type", default_value = "")]
    kind: String,
    /// Id of the volume, or its beginning.
    volume: Option<String>,
}

impl Run for Status {
    async fn run(self, _: &Context) -> Outcome {
        if !["", "csi"].contains(&self.kind.as_str()) {
            return Err(Failure::new(format!("Unsupported volume type: {}", self.kind)));
        }
        self.format.wanted()?;
        let client = self.general.client()?;
        let Some(typed) = &self.volume else { return self.all(&client).await };
        let found = find::volume(&client, typed).await?;
        let volume = client.get(&path_of(&found, "", &[])).await.tried("Error querying volume")?;
        if self.format.print(&volume)? {
            return Ok(Exit::DONE);
        }
        self.show(&volume);
        Ok(Exit::DONE)
    }
}

impl Status {
    async fn all(&self, client: &Client) -> Outcome {
        let found = client.get("/v1/volumes?type=csi").await.tried("Error querying CSI volumes")?;
        if self.format.print(&found)? {
            return Ok(Exit::DONE);
        }
        outln!("{}", heading("Container Storage Interface"));
        match items(&found) {
            [] => out::error("No CSI volumes"),
            found => outln!("{}", find::volumes(found)),
        }
        if self.verbose {
            let plugins = client.get("/v1/plugins?type=csi").await.tried("Error querying CSI plugins")?;
            for plugin in items(&plugins) {
                external(client, text(&plugin["ID"])).await;
            }
        }
        Ok(Exit::DONE)
    }

    fn show(&self, volume: &Value) {
        let word = |key: &str| text(&volume[key]).to_owned();
        let of = |part: &str, what: &str| count(volume, part, what).to_string();
        outln!(
            "{}",
            block(&[
                ("ID", word("ID")),
                ("Name", word("Name")),
                ("Namespace", word("Namespace")),
                ("External ID", word("ExternalID")),
                ("Plugin ID", word("PluginID")),
                ("Provider", word("Provider")),
                ("Version", word("ProviderVersion")),
                ("Schedulable", volume["Schedulable"].as_bool().unwrap_or(false).to_string()),
                ("Controllers Healthy", of("Controllers", "Healthy")),
                ("Controllers Expected", of("Controllers", "Expected")),
                ("Nodes Healthy", of("Nodes", "Healthy")),
                ("Nodes Expected", of("Nodes", "Expected")),
                ("Access Mode", word("AccessMode")),
                ("Attachment Mode", word("AttachmentMode")),
                ("Mount Options", mount_options(&volume["MountOptions"])),
            ])
        );
        if self.short {
            return;
        }
        let topologies = items(&volume["Topologies"]);
        if !topologies.is_empty() {
            let rows: Vec<Vec<String>> = topologies
                .iter()
                .enumerate()
                .map(|(at, topology)| vec![format!("{at:02}"), segments(topology)])
                .collect();
            section("Topologies", &list(&["Topology", "Segments"], &rows));
        }
        section("Allocations", &lists::allocs(items(&volume["Allocations"]), self.verbose, true));
    }
}

/// The volumes of a plugin's provider. Plugins that cannot list them are left out.
async fn external(client: &Client, plugin: &str) {
    let path = with_query("/v1/volumes/external", &[("plugin_id", plugin), ("per_page", "30")]);
    let Ok(answer) = client.ask(&path).await else { return };
    let row = |one: &Value| {
        let condition =
            if one["IsAbnormal"] == true { format!("Abnormal ({})", text(&one["Status"])) } else { "OK".to_owned() };
        let nodes = items(&one["PublishedExternalNodeIDs"]).iter().map(text).collect::<Vec<_>>().join(",");
        vec![text(&one["ExternalID"]).to_owned(), condition, nodes]
    };
    let mut rows: Vec<Vec<String>> = items(&answer.value["Volumes"]).iter().map(row).collect();
    if rows.is_empty() {
        return;
    }
    if answer.next_token.is_some() {
        rows.push(vec!["...".to_owned(), "...".to_owned(), "...".to_owned()]);
    }
    outln!("\n{}\n{}", heading(&format!("Plugin {plugin:?}")), list(&["External ID", "Condition", "Nodes"], &rows));
}

/// Mount options in one line.
pub(crate) fn mount_options(options: &Value) -> String {
    let mut parts = Vec::new();
    let file_system = text(&options["FSType"]);
    if !file_system.is_empty() {
        parts.push(format!("fs_type: {file_system}"));
    }
    let flags: Vec<&str> = items(&options["MountFlags"]).iter().map(text).collect();
    if !flags.is_empty() {
        parts.push(format!("flags: {}", flags.join(", ")));
    }
    parts.join(" ")
}

/// The path of a volume in its own namespace.
fn path_of(volume: &Value, action: &str, more: &[(&str, &str)]) -> String {
    let mut pairs = more.to_vec();
    pairs.push(("namespace", text(&volume["Namespace"])));
    with_query(&format!("/v1/volume/csi/{}{action}", escape(text(&volume["ID"]))), &pairs)
}

/// Arguments of `volume register`.
#[derive(Args)]
pub(crate) struct Register {
    #[command(flatten)]
    general: General,
    /// A specification, `-` for standard input.
    input: String,
}

impl Run for Register {
    async fn run(self, _: &Context) -> Outcome {
        let volume = specified(&self.input)?;
        let client = self.general.client()?;
        let path = format!("/v1/volume/csi/{}", escape(text(&volume["ID"])));
        client.put(&path, &json!({ "Volumes": [volume] })).await.tried("Error registering volume")?;
        outln!("Volume {:?} registered", text(&volume["ID"]));
        Ok(Exit::DONE)
    }
}

/// Arguments of `volume create`.
#[derive(Args)]
pub(crate) struct Create {
    #[command(flatten)]
    general: General,
    /// A specification, `-` for standard input.
    input: String,
}

impl Run for Create {
    async fn run(self, _: &Context) -> Outcome {
        let volume = specified(&self.input)?;
        let client = self.general.client()?;
        let path = format!("/v1/volume/csi/{}/create", escape(text(&volume["ID"])));
        let made = client.put(&path, &json!({ "Volumes": [volume] })).await.tried("Error creating volume")?;
        for one in items(&made["Volumes"]) {
            outln!("Created external volume {} with ID {}", text(&one["ExternalID"]), text(&one["ID"]));
        }
        Ok(Exit::DONE)
    }
}

/// The volume of a specification.
fn specified(file: &str) -> Result<Value, Failure> {
    let spec = spec::read(&input::read(file)?).map_err(Failure::new)?;
    match spec.kind.as_str() {
        "csi" => Ok(spec.volume),
        "" => Err(Failure::new("Error unknown volume type: the specification has no type")),
        other => Err(Failure::new(format!("Error unknown volume type: {other}"))),
    }
}

/// Arguments of `volume deregister`.
#[derive(Args)]
pub(crate) struct Deregister {
    #[command(flatten)]
    general: General,
    /// Deregister the volume even if allocations that are gone still hold it.
    #[arg(long)]
    force: bool,
    /// Id of the volume, or its beginning.
    volume: String,
}

impl Run for Deregister {
    async fn run(self, _: &Context) -> Outcome {
        let client = self.general.client()?;
        let volume = find::volume(&client, &self.volume).await?;
        let id = text(&volume["ID"]);
        if self.force {
            let question = format!("Are you sure you want to force deregister volume {id:?}?");
            if let Some(exit) = ask::confirm(&question, "Cancelling volume deregister")? {
                return Ok(exit);
            }
        }
        let force = if self.force { "true" } else { "" };
        client.delete(&path_of(&volume, "", &[("force", force)])).await.tried("Error deregistering volume")?;
        outln!("Successfully deregistered volume {id:?}!");
        Ok(Exit::DONE)
    }
}

/// Arguments of `volume delete`.
#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    general: General,
    /// A secret for the provider, `KEY=VALUE`; may be repeated.
    #[arg(long)]
    secret: Vec<String>,
    /// Id of the volume, or its beginning.
    volume: String,
}

impl Run for Delete {
    async fn run(self, _: &Context) -> Outcome {
        let secrets = assigned(&self.secret, "secret")?;
        let client = self.general.client()?;
        let volume = find::volume(&client, &self.volume).await?;
        let request = with_secrets(client.request(Method::DELETE, &path_of(&volume, "/delete", &[])), &secrets);
        client.completed(request).await.tried("Error deleting volume")?;
        outln!("Successfully deleted volume {:?}!", text(&volume["ID"]));
        Ok(Exit::DONE)
    }
}

/// Arguments of `volume detach`.
#[derive(Args)]
pub(crate) struct Detach {
    #[command(flatten)]
    general: General,
    /// Id of the volume, or its beginning.
    volume: String,
    /// Id of the node, or its beginning.
    node: String,
}

impl Run for Detach {
    async fn run(self, _: &Context) -> Outcome {
        let client = self.general.client()?;
        let volume = find::volume(&client, &self.volume).await?;
        // A node that is gone can only be named whole.
        let nodes = client.get(&with_query("/v1/nodes", &[("prefix", &self.node)])).await;
        let nodes = nodes.unwrap_or_default();
        let node = match items(&nodes) {
            [only] => text(&only["ID"]).to_owned(),
            [] => self.node,
            _ => return Err(Failure::new("Prefix matched multiple nodes")),
        };
        client.delete(&path_of(&volume, "/detach", &[("node", &node)])).await.tried("Error detaching volume")?;
        Ok(Exit::DONE)
    }
}

/// Arguments of `volume init`.
#[derive(Args)]
pub(crate) struct Init {
    /// Write JSON.
    #[arg(long)]
    json: bool,
    /// The file; by default `volume.hcl`, or `.json`.
    file: Option<String>,
}

const EXAMPLE: &str = r#"id        = "example"
name      = "example"
namespace = "default"
type      = "csi"
plugin_id = "plugin"

# Sizes that are acceptable to you, for "volume create".
capacity_min = "10GiB"
capacity_max = "20GiB"

# Forms in which jobs may use the volume.
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

capability {
  access_mode     = "single-node-reader-only"
  attachment_mode = "file-system"
}

# Options of volumes with the attachment mode "file-system".
mount_options {
  fs_type     = "ext4"
  mount_flags = ["noatime"]
}

# Where the volume must and should be reachable.
topology_request {
  required {
    topology { segments { rack = "r1" } }
  }
}

# Secrets, parameters and context for the plugin.
secrets {
  key = "value"
}

parameters {
  key = "value"
}

# Id of the volume at its provider, for "volume register".
# external_id = "vol-1234"

# Copy a snapshot or another volume, for "volume create".
# snapshot_id = "snap-1234"
# clone_id    = "vol-1234"
"#;

impl Run for Init {
    async fn run(self, _: &Context) -> Outcome {
        let file = self.file.unwrap_or_else(|| if self.json { "volume.json" } else { "volume.hcl" }.to_owned());
        if Path::new(&file).exists() {
            return Err(Failure::new(format!("Volume specification {file:?} already exists")));
        }
        let text = if self.json {
            let document = input::hcl(EXAMPLE).tried("Error converting the example")?;
            format!("{}\n", crate::format::json(&document))
        } else {
            EXAMPLE.to_owned()
        };
        std::fs::write(&file, text).tried(&format!("Failed to write {file:?}"))?;
        outln!("Example volume specification written to {file}");
        Ok(Exit::DONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_a_specification_in_both_forms() {
        let spec = spec::read(EXAMPLE).expect("is a specification");
        let json = crate::format::json(&input::hcl(EXAMPLE).expect("parses"));
        assert_eq!(spec::read(&json).expect("is a specification").volume, spec.volume);
        assert_eq!(spec.volume["RequestedCapabilities"].as_array().map(Vec::len), Some(2));
    }
}
