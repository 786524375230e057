//! `node pool`: lists, details, changes.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::client::{Client, escape, text, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::format::Format;
use crate::ids::shown;
use crate::jobs::lists::{items, jobs};
use crate::layout::{block, list, section};
use crate::pages::Page;
use crate::{Context, General, input, outln};

/// The pool with this name, or the only one whose name begins so.
async fn found(client: &Client, typed: &str) -> Result<Value, Failure> {
    let all =
        client.get(&with_query("/v1/node/pools", &[("prefix", typed)])).await.tried("Error retrieving node pool")?;
    match items(&all) {
        [] => Err(Failure::new(format!("Error retrieving node pool: No node pool with prefix {typed:?} found"))),
        [only] => Ok(only.clone()),
        several => match several.iter().find(|pool| text(&pool["Name"]) == typed) {
            Some(exact) => Ok(exact.clone()),
            None => Err(Failure::new(format!("Prefix matched multiple node pools\n\n{}", rows(several)))),
        },
    }
}

fn rows(pools: &[Value]) -> String {
    let row = |pool: &Value| vec![text(&pool["Name"]).to_owned(), text(&pool["Description"]).to_owned()];
    list(&["Name", "Description"], &pools.iter().map(row).collect::<Vec<_>>())
}

/// Arguments of `node pool list`.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    page: Page,
}

impl crate::Run for List {
    async fn run(self, context: &Context) -> Outcome {
        self.format.wanted()?;
        let path = self.page.path("/v1/node/pools", &[]);
        let answer = self.general.client()?.ask(&path).await.tried("Error querying node pools")?;
        if !self.format.print(&answer.value)? {
            outln!("{}", rows(items(&answer.value)));
            Page::hint(&answer, context);
        }
        Ok(Exit::DONE)
    }
}

/// Arguments of `node pool info`.
#[derive(Args)]
pub(crate) struct Info {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Name of the pool, or its beginning.
    pool: String,
}

impl crate::Run for Info {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let pool = found(&self.general.client()?, &self.pool).await?;
        if self.format.print(&pool)? {
            return Ok(Exit::DONE);
        }
        let word = |key: &str| text(&pool[key]).to_owned();
        outln!("{}", block(&[("Name", word("Name")), ("Description", word("Description"))]));
        let mut meta: Vec<(&str, &str)> =
            pool["Meta"].as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), text(value))).collect();
        meta.sort_unstable();
        section("Metadata", &if meta.is_empty() { "No metadata".to_owned() } else { block(&meta) });
        let config = &pool["SchedulerConfiguration"];
        let shown = if config.is_null() {
            "No scheduler configuration".to_owned()
        } else {
            let over = config["MemoryOversubscriptionEnabled"].as_bool().map(|on| on.to_string()).unwrap_or_default();
            block(&[
                ("Scheduler Algorithm", text(&config["SchedulerAlgorithm"]).to_owned()),
                ("Memory Oversubscription Enabled", over),
            ])
        };
        section("Scheduler Configuration", &shown);
        Ok(Exit::DONE)
    }
}

/// Arguments of `node pool nodes`.
#[derive(Args)]
pub(crate) struct Nodes {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    page: Page,
    /// Print full ids, addresses and versions.
    #[arg(long)]
    verbose: bool,
    /// Name of the pool, or its beginning.
    pool: String,
}

impl crate::Run for Nodes {
    async fn run(self, context: &Context) -> Outcome {
        self.format.wanted()?;
        let client = self.general.client()?;
        let pool = found(&client, &self.pool).await?;
        let route = format!("/v1/node/pool/{}/nodes", escape(text(&pool["Name"])));
        let answer = client.ask(&self.page.path(&route, &[])).await.tried("Error querying nodes")?;
        if self.format.print(&answer.value)? {
            return Ok(Exit::DONE);
        }
        match items(&answer.value) {
            [] => outln!("No nodes"),
            nodes => {
                outln!("{}", self.table(nodes));
                Page::hint(&answer, context);
            }
        }
        Ok(Exit::DONE)
    }
}

impl Nodes {
    fn table(&self, nodes: &[Value]) -> String {
        let mut headings = vec!["ID", "DC", "Name", "Class", "Drain", "Eligibility", "Status"];
        if self.verbose {
            headings.splice(4..4, ["Address", "Version"]);
        }
        let row = |node: &Value| {
            let word = |key: &str| text(&node[key]).to_owned();
            let id = shown(text(&node["ID"]), self.verbose);
            let mut cells = vec![id, word("Datacenter"), word("Name"), word("NodeClass")];
            if self.verbose {
                cells.extend([word("Address"), word("Version")]);
            }
            cells.extend([(node["Drain"] == true).to_string(), word("SchedulingEligibility"), word("Status")]);
            cells
        };
        list(&headings, &nodes.iter().map(row).collect::<Vec<_>>())
    }
}

/// Arguments of `node pool jobs`.
#[derive(Args)]
pub(crate) struct Jobs {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    #[command(flatten)]
    page: Page,
    /// Name of the pool, or its beginning.
    pool: String,
}

impl crate::Run for Jobs {
    async fn run(self, context: &Context) -> Outcome {
        self.format.wanted()?;
        let client = self.general.client()?;
        let pool = found(&client, &self.pool).await?;
        let route = format!("/v1/node/pool/{}/jobs", escape(text(&pool["Name"])));
        let answer = client.ask(&self.page.path(&route, &[])).await.tried("Error querying jobs")?;
        if self.format.print(&answer.value)? {
            return Ok(Exit::DONE);
        }
        match items(&answer.value) {
            [] => outln!("No jobs"),
            found => {
                outln!("{}", jobs(found, self.general.all_namespaces()));
                Page::hint(&answer, context);
            }
        }
        Ok(Exit::DONE)
    }
}

/// Arguments of `node pool delete`.
#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    general: General,
    /// Name of the pool.
    pool: String,
}

impl crate::Run for Delete {
    async fn run(self, _: &Context) -> Outcome {
        let path = format!("/v1/node/pool/{}", escape(&self.pool));
        self.general.client()?.delete(&path).await.tried("Error deleting node pool")?;
        outln!("Successfully deleted node pool {:?}!", self.pool);
        Ok(Exit::DONE)
    }
}

/// Arguments of `node pool apply`.
#[derive(Args)]
pub(crate) struct Apply {
    #[command(flatten)]
    general: General,
    /// The file is JSON.
    #[arg(long)]
    json: bool,
    /// A file, or `-` for standard input.
    input: String,
}

impl crate::Run for Apply {
    async fn run(self, _: &Context) -> Outcome {
        let source = input::read(&self.input)?;
        let pool = read(&source, self.json).tried("Failed to parse input content")?;
        self.general.client()?.put("/v1/node/pools", &pool).await.tried("Error applying node pool")?;
        outln!("Successfully applied node pool {:?}!", text(&pool["Name"]));
        Ok(Exit::DONE)
    }
}

/// The body of a request from a specification.
fn read(source: &str, is_json: bool) -> Result<Value, String> {
    if is_json {
        return serde_json::from_str(source).map_err(|error| error.to_string());
    }
    let document = input::hcl(source)?;
    let first = |value: &Value| match value {
        Value::Array(blocks) => blocks.first().cloned().unwrap_or_default(),
        other => other.clone(),
    };
    let labelled = first(&document["node_pool"]);
    let (name, body) = labelled
        .as_object()
        .and_then(|pools| pools.iter().next())
        .map(|(name, body)| (name.clone(), first(body)))
        .ok_or("a node_pool block is required")?;
    let mut pool = Map::new();
    pool.insert("Name".to_owned(), json!(name));
    for (key, value) in body.as_object().into_iter().flatten() {
        match key.as_str() {
            "description" => drop(pool.insert("Description".to_owned(), value.clone())),
            "meta" => drop(pool.insert("Meta".to_owned(), first(value))),
            "scheduler_config" => {
                let config = first(value);
                let wire = json!({
                    "SchedulerAlgorithm": config["scheduler_algorithm"],
                    "MemoryOversubscriptionEnabled": config["memory_oversubscription_enabled"],
                });
                pool.insert("SchedulerConfiguration".to_owned(), wire);
            }
            other => return Err(format!("invalid key: {other}")),
        }
    }
    Ok(Value::Object(pool))
}

/// Arguments of `node pool init`.
#[derive(Args)]
pub(crate) struct Init {
    /// `hcl` or `json`.
    #[arg(long, default_value = "hcl")]
    out: String,
    /// Leave comments out.
    #[arg(long)]
    quiet: bool,
    /// The file; by default `pool.nomad.hcl`, or `.json`.
    file: Option<String>,
}

const EXAMPLE: &str = "\
node_pool \"example\" {
  description = \"Example node pool\"

  # Free text for people and programs.
  meta {
    environment = \"prod\"
    owner       = \"sre\"
  }
}
";

impl crate::Run for Init {
    async fn run(self, _: &Context) -> Outcome {
        let is_json = self.out == "json";
        let file = self.file.unwrap_or_else(|| if is_json { "pool.nomad.json" } else { "pool.nomad.hcl" }.to_owned());
        if std::path::Path::new(&file).exists() {
            return Err(Failure::new(format!("File {file:?} already exists")));
        }
        let content = if is_json {
            let pool = json!({
                "Name": "example", "Description": "Example node pool", "Meta": {"environment": "prod", "owner": "sre"},
            });
            format!("{}\n", crate::format::json(&pool))
        } else {
            EXAMPLE.to_owned()
        };
        std::fs::write(&file, content).tried(&format!("Failed to write {file:?}"))?;
        if !self.quiet {
            outln!("Example node pool specification written to {file}");
        }
        Ok(Exit::DONE)
    }
}
