//! `server members`, `join`, `force-leave`.

use clap::Args;
use serde_json::{Value, json};

use crate::client::{Client, because, escape, text, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::format::Format;
use crate::layout::list;
use crate::{Context, General, Run, out, outln};

/// Arguments of `server members`.
#[derive(Args)]
pub(crate) struct Members {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
    /// Show protocols and tags, too.
    #[arg(long)]
    detailed: bool,
    /// The same as `-detailed`.
    #[arg(long)]
    verbose: bool,
}

impl Run for Members {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let client = self.general.client()?;
        let answer = client.get("/v1/agent/members").await.tried("Error querying servers")?;
        if answer.is_null() {
            return Err(Failure::new("Agent doesn't know about server members"));
        }
        let members = &answer["Members"];
        if self.format.print(members)? {
            return Ok(Exit::DONE);
        }
        let (leaders, failure) = leaders(&client, members).await;
        let detailed = self.detailed || self.verbose;
        let mut by_name: Vec<&Value> = members.as_array().into_iter().flatten().collect();
        by_name.sort_by_key(|member| text(&member["Name"]));
        let rows: Vec<_> = by_name.into_iter().map(|member| row(member, &leaders, detailed)).collect();
        let headings: &[&str] = if detailed {
            &[
                "Name",
                "Address",
                "Port",
                "Status",
                "Leader",
                "Protocol",
                "Raft Version",
                "Build",
                "Datacenter",
                "Region",
                "Tags",
            ]
        } else {
            &["Name", "Address", "Port", "Status", "Leader", "Raft Version", "Build", "Datacenter", "Region"]
        };
        outln!("{}", list(headings, &rows));
        let Some(failure) = failure else { return Ok(Exit::DONE) };
        outln!();
        Err(Failure::new(failure))
    }
}

/// Addresses of the leaders of all regions that members are in; and the regions whose leader is unknown.
async fn leaders(client: &Client, members: &Value) -> (Vec<String>, Option<String>) {
    let members = members.as_array().into_iter().flatten();
    let mut regions: Vec<&str> = members.map(|member| text(&member["Tags"]["region"])).collect();
    regions.sort_unstable();
    regions.dedup();
    let (mut found, mut failures) = (Vec::new(), Vec::new());
    for region in regions {
        match client.get(&with_query("/v1/status/leader", &[("region", region)])).await {
            Ok(leader) if !text(&leader).is_empty() => found.push(text(&leader).to_owned()),
            Ok(_) => failures.push(format!("Region {region:?}: No cluster leader")),
            Err(error) => failures.push(format!("Region {region:?}: {error}")),
        }
    }
    let failure = (!failures.is_empty()).then(|| format!("Error determining leaders: {}", failures.join("; ")));
    (found, failure)
}

fn row(member: &Value, leaders: &[String], detailed: bool) -> Vec<String> {
    let tags = &member["Tags"];
    let tag = |name: &str| text(&tags[name]).to_owned();
    let address = format!("{}:{}", text(&tags["rpc_addr"]), text(&tags["port"]));
    let mut cells = vec![
        text(&member["Name"]).to_owned(),
        text(&member["Addr"]).to_owned(),
        member["Port"].to_string(),
        text(&member["Status"]).to_owned(),
        leaders.contains(&address).to_string(),
    ];
    if detailed {
        cells.push(member["ProtocolCur"].to_string());
    }
    cells.extend([tag("raft_vsn"), tag("build"), tag("dc"), tag("region")]);
    if detailed {
        let mut pairs: Vec<String> =
            tags.as_object().into_iter().flatten().map(|(name, value)| format!("{name}={}", text(value))).collect();
        pairs.sort_unstable();
        cells.push(pairs.join(","));
    }
    cells
}

/// Arguments of `server join`.
#[derive(Args)]
pub(crate) struct Join {
    #[command(flatten)]
    general: General,
    /// `host` or `host:port` of other servers.
    #[arg(required = true)]
    addresses: Vec<String>,
}

impl Run for Join {
    async fn run(self, _: &Context) -> Outcome {
        let pairs: Vec<(&str, &str)> = self.addresses.iter().map(|address| ("address", address.as_str())).collect();
        let path = with_query("/v1/agent/join", &pairs);
        let answer = self.general.client()?.put(&path, &Value::Null).await.tried("Error joining")?;
        let joined = answer["num_joined"].as_u64().unwrap_or(0);
        if joined == 0 {
            return Err(Failure::new(format!("Error joining: failed joining: {}", text(&answer["error"]))));
        }
        outln!("Joined {joined} servers successfully");
        Ok(Exit::DONE)
    }
}

/// Arguments of `server force-leave`.
#[derive(Args)]
pub(crate) struct ForceLeave {
    #[command(flatten)]
    general: General,
    /// Remove the server from the list of members, too.
    #[arg(long)]
    prune: bool,
    /// Name of the server, such as `host.global`.
    node: String,
}

impl Run for ForceLeave {
    async fn run(self, _: &Context) -> Outcome {
        let prune = if self.prune { "1" } else { "" };
        let path = with_query("/v1/agent/force-leave", &[("node", &self.node), ("prune", prune)]);
        self.general.client()?.put(&path, &Value::Null).await.tried("Error force-leaving server")?;
        Ok(Exit::DONE)
    }
}

/// Arguments of `agent-info`.
#[derive(Args)]
pub(crate) struct AgentInfo {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    format: Format,
}

impl Run for AgentInfo {
    async fn run(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let info = self.general.client()?.get("/v1/agent/self").await.tried("Error querying agent info")?;
        // Templates see the names of the reference's type, which are the answer's with capitals.
        let fields = json!({"Config": info["config"], "Member": info["member"], "Stats": info["stats"]});
        if self.format.json && self.format.print(&info)? || self.format.print(&fields)? {
            return Ok(Exit::DONE);
        }
        let mut groups: Vec<(&String, &Value)> = info["stats"].as_object().into_iter().flatten().collect();
        groups.sort_by_key(|(name, _)| name.as_str());
        for (name, stats) in groups {
            outln!("{name}");
            let mut stats: Vec<(&String, &Value)> = stats.as_object().into_iter().flatten().collect();
            stats.sort_by_key(|(key, _)| key.as_str());
            stats.iter().for_each(|(key, value)| outln!("  {key} = {}", text(value)));
        }
        Ok(Exit::DONE)
    }
}

/// Arguments of `system gc`.
#[derive(Args)]
pub(crate) struct Gc {
    #[command(flatten)]
    general: General,
}

impl Run for Gc {
    async fn run(self, _: &Context) -> Outcome {
        self.general
            .client()?
            .put("/v1/system/gc", &Value::Null)
            .await
            .tried("Error running system garbage-collection")?;
        Ok(Exit::DONE)
    }
}

/// Arguments of `system reconcile summaries`.
#[derive(Args)]
pub(crate) struct Summaries {
    #[command(flatten)]
    general: General,
}

impl Run for Summaries {
    async fn run(self, _: &Context) -> Outcome {
        let client = self.general.client()?;
        let path = "/v1/system/reconcile/summaries";
        client.put(path, &Value::Null).await.tried("Error running system summary reconciliation")?;
        Ok(Exit::DONE)
    }
}

/// Arguments of `check`.
#[derive(Args)]
pub(crate) struct Check {
    #[command(flatten)]
    general: General,
    /// Least number of other voters that a server must have.
    #[arg(long, default_value_t = 0)]
    min_peers: u64,
    /// Least number of servers that a node must know.
    #[arg(long, default_value_t = 1)]
    min_servers: u64,
}

/// The agent has fewer peers or servers than asked for, or its node missed its heartbeat.
const CRITICAL: Exit = Exit::code(2);

impl Run for Check {
    async fn run(self, _: &Context) -> Outcome {
        let info = match self.general.client()?.get("/v1/agent/self").await {
            Ok(info) => info,
            Err(error) => return Err(Failure::of("unable to query agent info", error).with_exit(CRITICAL)),
        };
        let stats = &info["stats"];
        let number = |group: &str, name: &str| text(&stats[group][name]).parse::<u64>().unwrap_or(0);
        if stats["nomad"].is_object() && number("raft", "num_peers") < self.min_peers {
            let peers = number("raft", "num_peers");
            out::error(&format!("known peers {peers} less than {}", self.min_peers));
            return Ok(CRITICAL);
        }
        if stats["client"].is_object() {
            let known = text(&stats["client"]["known_servers"]);
            let servers = known.split(',').filter(|server| !server.is_empty()).count() as u64;
            if servers < self.min_servers {
                out::error(&format!("known servers {servers} is less than minimum {}", self.min_servers));
                return Ok(CRITICAL);
            }
        }
        Ok(Exit::DONE)
    }
}

/// Arguments of `monitor`.
#[derive(Args)]
pub(crate) struct Monitor {
    #[command(flatten)]
    general: General,
    /// Lowest level of the lines.
    #[arg(long, default_value = "info")]
    log_level: String,
    /// Include the file and the line of the source.
    #[arg(long)]
    log_include_location: bool,
    /// Id of the node whose agent is asked, or its beginning.
    #[arg(long)]
    node_id: Option<String>,
    /// Id or name of the server that is asked.
    #[arg(long)]
    server_id: Option<String>,
    /// Print the lines as JSON.
    #[arg(long)]
    json: bool,
}

impl Run for Monitor {
    async fn run(self, context: &Context) -> Outcome {
        let client = self.general.client()?;
        let node = match self.node_id.as_deref().filter(|id| !id.is_empty()) {
            Some(id) => full_node_id(&client, id).await?,
            None => String::new(),
        };
        let flag = |set: bool| if set { "true" } else { "" };
        let path = with_query(
            "/v1/agent/monitor",
            &[
                ("log_level", self.log_level.as_str()),
                ("node_id", node.as_str()),
                ("server_id", self.server_id.as_deref().unwrap_or_default()),
                ("log_json", flag(self.json)),
                ("log_include_location", flag(self.log_include_location)),
                ("plain", "true"),
            ],
        );
        let mut response = match client.open(&path).await {
            Ok(response) => response,
            Err(error) => {
                let hint = format!("==> For additional help try '{} {} -help'", context.program, context.path);
                return Err(Failure::new(format!("==> Error starting monitor: {error}\n{hint}")));
            }
        };
        loop {
            tokio::select! {
                piece = response.chunk() => match piece {
                    Ok(Some(bytes)) => out::bytes(&bytes),
                    Ok(None) => return Ok(Exit::DONE),
                    Err(error) => return Err(Failure::of("==> Error monitoring", because(&error))),
                },
                _ = tokio::signal::ctrl_c() => return Ok(Exit::DONE),
            }
        }
    }
}

/// The id of the node whose id begins so. The messages begin as the monitor's do.
async fn full_node_id(client: &Client, typed: &str) -> Result<String, Failure> {
    if typed.chars().count() < 2 {
        return Err(Failure::new("==> Node ID must contain at least two characters."));
    }
    let prefix = crate::ids::shortened(typed)?;
    let nodes = client.get(&with_query("/v1/nodes", &[("prefix", &prefix)])).await;
    let nodes = nodes.tried("==> Error querying node")?;
    match nodes.as_array().map(Vec::as_slice).unwrap_or_default() {
        [] => Err(Failure::new(format!("==> No node(s) with prefix or id {typed:?} found"))),
        [only] => Ok(text(&only["ID"]).to_owned()),
        several => {
            let ids: Vec<String> = several.iter().map(|node| escape(text(&node["ID"]))).collect();
            Err(Failure::new(format!("==> Prefix matched multiple nodes\n\n{}", ids.join("\n"))))
        }
    }
}
