//! `namespace apply`, `delete`, `inspect`, `list`, `status`.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::client::{Client, escape, text, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::format::{self, Format};
use crate::layout::{block, list, section};
use crate::{Context, General, Run, input, outln};

/// Arguments of `namespace apply`.
#[derive(Args)]
pub(crate) struct Apply {
    #[command(flatten)]
    general: General,
    /// Description of the namespace.
    #[arg(long)]
    description: Option<String>,
    /// Name of the quota of the namespace.
    #[arg(long)]
    quota: Option<String>,
    /// The file is JSON.
    #[arg(long)]
    json: bool,
    /// A file, `-` for standard input, or the name of a namespace.
    input: String,
}

impl Run for Apply {
    async fn run(self, _: &Context) -> Outcome {
        let client = self.general.client()?;
        let mut namespace = if self.input == "-" || std::path::Path::new(&self.input).is_file() {
            let source = input::read(&self.input)?;
            read(&source, self.json).tried("Error parsing namespace specification")?
        } else {
            existing(&client, &self.input).await?.unwrap_or_else(|| json!({ "Name": self.input }))
        };
        for (key, given) in [("Description", self.description), ("Quota", self.quota)] {
            if let Some(given) = given {
                namespace[key] = Value::String(given);
            }
        }
        client.put("/v1/namespace", &namespace).await.tried("Error applying namespace")?;
        outln!("Successfully applied namespace \"{}\"!", text(&namespace["Name"]));
        Ok(Exit::DONE)
    }
}

/// The namespace with this exact name.
async fn existing(client: &Client, name: &str) -> Result<Option<Value>, Failure> {
    match client.get(&format!("/v1/namespace/{}", escape(name))).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_status(404) => Ok(None),
        Err(error) => Err(Failure::of("Error looking up namespace", error)),
    }
}

/// The body of a request from a specification.
fn read(source: &str, is_json: bool) -> Result<Value, String> {
    if is_json {
        return serde_json::from_str(source).map_err(|error| error.to_string());
    }
    let document = input::hcl(source)?;
    let name = |from: &Value, key: &str| from.get(key).cloned().unwrap_or(Value::Null);
    let mut out = Map::new();
    for (key, wire) in [("name", "Name"), ("description", "Description"), ("quota", "Quota")] {
        out.insert(wire.to_owned(), Value::String(text(&document[key]).to_owned()));
    }
    let first = |key: &str| match &document[key] {
        Value::Array(blocks) => blocks.first().cloned(),
        Value::Object(block) => Some(Value::Object(block.clone())),
        _ => None,
    };
    if let Some(found) = first("capabilities") {
        out.insert(
            "Capabilities".to_owned(),
            json!({
                "EnabledTaskDrivers": name(&found, "enabled_task_drivers"),
                "DisabledTaskDrivers": name(&found, "disabled_task_drivers"),
            }),
        );
    }
    if let Some(found) = first("node_pool_config") {
        out.insert(
            "NodePoolConfiguration".to_owned(),
            json!({
                "Default": name(&found, "default"),
                "Allowed": name(&found, "allowed"),
                "Denied": name(&found, "denied"),
            }),
        );
    }
    if let Some(meta) = first("meta") {
        out.insert("Meta".to_owned(), meta);
    }
    Ok(Value::Object(out))
}

/// Arguments of `namespace delete`.
#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    general: General,
    /// Name of the namespace.
    namespace: String,
}

impl Run for Delete {
    async fn run(self, _: &Context) -> Outcome {
        let path = format!("/v1/namespace/{}", escape(&self.namespace));
        self.general.client()?.delete(&path).await.tried("Error deleting namespace")?;
        outln!("Successfully deleted namespace \"{}\"!", self.namespace);
        Ok(Exit::DONE)
    }
}

/// Arguments of `namespace inspect`.
#[derive(Args)]
pub(crate) struct Inspect {
    #[command(flatten)]
    general: General,
    /// Print the namespace through a Go template.
    #[arg(long = "t", value_name = "TEMPLATE")]
    template: Option<String>,
    /// Name of the namespace, or its beginning.
    namespace: String,
}

impl Run for Inspect {
    async fn run(self, _: &Context) -> Outcome {
        let Some(namespace) = find(&self.general.client()?, &self.namespace).await? else { return Ok(Exit::FAILED) };
        let format = Format { json: self.template.is_none(), template: self.template };
        format.print(&namespace)?;
        Ok(Exit::DONE)
    }
}

/// Arguments of `namespace list`.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
}

impl Run for List {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let namespaces = self.general.client()?.get("/v1/namespaces").await.tried("Error retrieving namespaces")?;
        let namespaces = without_hashes(namespaces);
        if !self.format.print(&namespaces)? {
            outln!("{}", rows(&namespaces));
        }
        Ok(Exit::DONE)
    }
}

fn rows(namespaces: &Value) -> String {
    let mut found: Vec<&Value> = namespaces.as_array().into_iter().flatten().collect();
    if found.is_empty() {
        return "No namespaces found".to_owned();
    }
    found.sort_by_key(|namespace| text(&namespace["Name"]));
    let row = |one: &&Value| vec![text(&one["Name"]).to_owned(), text(&one["Description"]).to_owned()];
    list(&["Name", "Description"], &found.iter().map(row).collect::<Vec<_>>())
}

/// Arguments of `namespace status`.
#[derive(Args)]
pub(crate) struct Status {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Name of the namespace, or its beginning.
    namespace: String,
}

impl Run for Status {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let client = self.general.client()?;
        let Some(namespace) = find(&client, &self.namespace).await? else { return Ok(Exit::FAILED) };
        if self.format.print(&namespace)? {
            return Ok(Exit::DONE);
        }
        show(&namespace);
        let quota = text(&namespace["Quota"]);
        if !quota.is_empty() {
            let path = |route: &str| format!("/v1/quota{route}/{}", escape(quota));
            let spec = client.get(&path("")).await.tried("Error retrieving quota")?;
            section("Quota Limits", &format::json(&spec["Limits"]));
        }
        Ok(Exit::DONE)
    }
}

fn show(namespace: &Value) {
    let drivers = |key: &str| names(&namespace["Capabilities"][key]);
    let enabled = Some(drivers("EnabledTaskDrivers")).filter(|names| !names.is_empty());
    outln!(
        "{}",
        block(&[
            ("Name", text(&namespace["Name"]).to_owned()),
            ("Description", text(&namespace["Description"]).to_owned()),
            ("Quota", text(&namespace["Quota"]).to_owned()),
            ("EnabledDrivers", enabled.unwrap_or_else(|| "*".to_owned())),
            ("DisabledDrivers", drivers("DisabledTaskDrivers")),
        ])
    );
    let mut meta: Vec<(&str, &str)> =
        namespace["Meta"].as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), text(value))).collect();
    meta.sort_unstable();
    if !meta.is_empty() {
        section("Metadata", &block(&meta));
    }
    let pools = &namespace["NodePoolConfiguration"];
    if !pools.is_null() {
        let pairs = [
            ("Default", text(&pools["Default"]).to_owned()),
            ("Allowed", names(&pools["Allowed"])),
            ("Denied", names(&pools["Denied"])),
        ];
        section("Node Pool Configuration", &block(&pairs));
    }
}

/// The reference's client does not know the hashes, so its data does not have them.
fn without_hashes(mut namespaces: Value) -> Value {
    for namespace in namespaces.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        namespace.remove("Hash");
    }
    namespaces
}

/// Texts of a list, with commas between.
fn names(list: &Value) -> String {
    list.as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(",")
}

/// The namespace with this name, or the only one whose name begins so. `None`: there are several, and they were listed.
async fn find(client: &Client, typed: &str) -> Result<Option<Value>, Failure> {
    let found = client.get(&with_query("/v1/namespaces", &[("prefix", typed)])).await;
    let found = without_hashes(found.tried("Error retrieving namespaces")?);
    let all = found.as_array().map(Vec::as_slice).unwrap_or_default();
    match all {
        [] => Err(Failure::new(format!("Error retrieving namespaces: Namespace {typed:?} matched no namespaces"))),
        [only] => Ok(Some(only.clone())),
        several => match several.iter().find(|one| text(&one["Name"]) == typed) {
            Some(exact) => Ok(Some(exact.clone())),
            None => Err(Failure::new(format!("Prefix matched multiple namespaces\n\n{}", rows(&found)))),
        },
    }
}
