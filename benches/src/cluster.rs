//! Three servers as processes of this machine, and durable writes through the leader and through a follower.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::commit::{self, Writes};
use crate::http::Connection;

/// Longest time until three servers have a leader.
const START_WITHIN: Duration = Duration::from_secs(60);
/// Poll interval.
const BETWEEN: Duration = Duration::from_millis(20);
const SERVERS: usize = 3;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    servers: Program,
    #[command(flatten)]
    writes: Writes,
}

/// Program and directories of the servers.
#[derive(Args)]
pub struct Program {
    /// The `songline` program. Without it, the one beside this tool.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Directory of the servers' data; a temporary one if not given.
    #[arg(long)]
    dir: Option<PathBuf>,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let cluster = Cluster::start(&options.servers).await?;
    let leader = cluster.leader().await?;
    commit::write("three servers, through the leader", &cluster.servers[leader].http, &options.writes).await?;
    // Leadership may have moved under load; the printed label must be right.
    let follower = (cluster.leader().await? + 1) % SERVERS;
    commit::write("three servers, through a follower", &cluster.servers[follower].http, &options.writes).await
}

/// Running servers, killed on drop.
pub struct Cluster {
    pub servers: Vec<Server>,
    _dir: Option<tempfile::TempDir>,
}

/// One server.
pub struct Server {
    /// HTTP address, such as `http://127.0.0.1:4646`.
    pub http: String,
    /// `host:port` of its port for agents.
    pub rpc: String,
    program: PathBuf,
    config: PathBuf,
    /// The processor that it is limited to.
    processor: Option<usize>,
    child: Option<Child>,
}

impl Cluster {
    /// Starts three servers and waits for a leader.
    pub async fn start(program: &Program) -> anyhow::Result<Self> {
        Self::start_on(program, &[]).await
    }

    /// Like [`Self::start`]; each server is limited to its processor, if there is one in the list.
    pub async fn start_on(program: &Program, processors: &[usize]) -> anyhow::Result<Self> {
        let binary = match &program.binary {
            Some(binary) => binary.clone(),
            None => std::env::current_exe().context("where this tool is")?.with_file_name("songline"),
        };
        let temporary = if program.dir.is_some() { None } else { Some(tempfile::tempdir()?) };
        let dir =
            program.dir.clone().or_else(|| temporary.as_ref().map(|dir| dir.path().to_owned())).context("a folder")?;
        let ports = free_ports(SERVERS * 3)?;
        let addresses: Vec<String> = ports.chunks(3).map(|ports| format!("127.0.0.1:{}", ports[1])).collect();
        let mut servers = Vec::new();
        for (n, ports) in ports.chunks(3).enumerate() {
            let processor = processors.get(n).copied();
            servers.push(Server::start(&binary, &dir.join(format!("server-{n}")), n, ports, &addresses, processor)?);
        }
        let cluster = Self { servers, _dir: temporary };
        cluster.leader().await?;
        Ok(cluster)
    }

    /// The server that at least two of the three name as the leader. Waits for it.
    pub async fn leader(&self) -> anyhow::Result<usize> {
        let deadline = Instant::now() + START_WITHIN;
        loop {
            let mut said = Vec::new();
            for server in &self.servers {
                said.push(server.leader().await.unwrap_or_default());
            }
            let named = |server: &Server| said.iter().filter(|said| **said == server.rpc).count() * 2 > said.len();
            if let Some(leader) = self.servers.iter().position(named) {
                return Ok(leader);
            }
            if Instant::now() >= deadline {
                bail!("no leader: the servers say {said:?}");
            }
            tokio::time::sleep(BETWEEN).await;
        }
    }
}

impl Server {
    fn start(
        program: &Path,
        dir: &Path,
        n: usize,
        ports: &[u16],
        addresses: &[String],
        processor: Option<usize>,
    ) -> anyhow::Result<Self> {
        std::fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
        let config = json!({
            "name": format!("server-{n}"),
            "bind_addr": "127.0.0.1",
            "data_dir": std::path::absolute(dir.join("data"))?,
            "log_level": "WARN",
            "ports": {"http": ports[0], "rpc": ports[1], "serf": ports[2]},
            "server": {"enabled": true, "bootstrap_expect": SERVERS, "server_join": {"retry_join": addresses}},
            "limits": {"http_max_conns_per_client": 0},
        });
        let path = dir.join("agent.json");
        std::fs::write(&path, config.to_string()).with_context(|| format!("writing {}", path.display()))?;
        let http = format!("http://127.0.0.1:{}", ports[0]);
        let mut server = Self {
            http,
            rpc: format!("127.0.0.1:{}", ports[1]),
            program: program.to_owned(),
            config: path,
            processor,
            child: None,
        };
        server.start_again()?;
        Ok(server)
    }

    /// Restarts its process on the data of the previous one.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        let mut command = match self.processor {
            Some(processor) => {
                let mut command = Command::new("taskset");
                command.args(["-c", &processor.to_string()]).arg(&self.program);
                command
            }
            None => Command::new(&self.program),
        };
        command.args(["agent", "-config"]).arg(&self.config).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().with_context(|| format!("starting {}", self.program.display()))?;
        self.child = Some(child);
        Ok(())
    }

    /// Kills the process at once, as a power cut would.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().context("killing a server")?;
            child.wait().context("waiting for a killed server")?;
        }
        Ok(())
    }

    /// The leader as this server sees it.
    async fn leader(&self) -> anyhow::Result<String> {
        let mut connection = Connection::open(&self.http).await?;
        let said: Value = serde_json::from_slice(&connection.ok("GET", "/v1/status/leader", &[]).await?)?;
        Ok(said.as_str().unwrap_or_default().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _dead = self.kill();
    }
}

/// Ports that are currently free.
pub fn free_ports(count: usize) -> anyhow::Result<Vec<u16>> {
    let listeners = (0..count)
        .map(|_| TcpListener::bind(("127.0.0.1", 0)))
        .collect::<Result<Vec<_>, _>>()
        .context("looking for free ports")?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}
