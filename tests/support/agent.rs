//! An agent as a child process: the built binary with its own configuration and folder, and its end. Not here:
//! requests to it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

use crate::process;

/// Longest time from an agent's start until it prints its address. A debug build on a busy machine is slow.
const START_WITHIN: Duration = Duration::from_secs(60);
/// Longest time of an orderly stop.
const STOP_WITHIN: Duration = Duration::from_secs(5);
/// Text that an agent prints before its address.
const READY: &str = "==> HTTP: http://";

/// Parameters of an agent's start.
#[derive(Debug, Clone)]
pub struct Setup {
    pub acl: bool,
    /// Data folder; `None` for `-dev`.
    pub data_dir: Option<PathBuf>,
    /// Whether the node has the second host volume, and the CNI plugins, that cases about the node agent expect.
    pub two_volumes: bool,
    /// `DOCKER_HOST` of the container engine for its tasks.
    pub engine: Option<String>,
}

impl Setup {
    pub fn dev() -> Setup {
        Setup { acl: false, data_dir: None, two_volumes: false, engine: None }
    }

    /// The configuration: free ports, `raw_exec`, and the node attributes that the recorded cases expect.
    fn config(&self) -> Value {
        let mut config = json!({
            "bind_addr": "127.0.0.1",
            "ports": {"http": 0, "rpc": 0, "serf": 0},
            "server": {"enabled": true, "bootstrap_expect": 1},
            "client": {
                "enabled": true,
                "meta": {"rack": "r1"},
                // Garbage collection because of a nearly full disk would remove allocations that a test examines.
                "gc_disk_usage_threshold": 100,
                "gc_inode_usage_threshold": 100,
                "host_volume": {"scratch": {"path": "/tmp"}},
                // The node that was recorded has no other drivers than those of its cases.
                "options": {"driver.denylist": "java,qemu"},
            },
            "plugin": {
                "raw_exec": {"config": {"enabled": true}},
                // An engine of the machine is not for tests.
                "docker": {"config": {"endpoint": "unix:///no/engine"}},
            },
        });
        if let Some(engine) = &self.engine {
            config["plugin"]["docker"]["config"] = json!({
                "endpoint": engine,
                "infra_image": "local/pause:1",
                "volumes": {"enabled": true},
                "gc": {"image": false},
            });
        }
        if self.acl {
            config["acl"] = json!({"enabled": true});
        }
        if self.two_volumes {
            config["client"]["host_volume"]["readonly"] = json!({"path": "/usr/share", "read_only": true});
            config["client"]["cni_path"] = json!("/usr/lib/cni");
        }
        if let Some(dir) = &self.data_dir {
            config["data_dir"] = json!(dir);
        }
        config
    }
}

/// A running agent. Dropping it kills the agent and its descendants.
pub struct Agent {
    child: Child,
    pub http: SocketAddr,
    /// Folder of its configuration, its output and its temporary files.
    dir: tempfile::TempDir,
}

impl Agent {
    /// Starts an agent and waits until it prints its address.
    pub fn start(setup: &Setup) -> Result<Agent> {
        Self::start_with(setup, &setup.config())
    }

    /// Like [`Self::start`], with the most verbose log level.
    pub fn start_talkative(setup: &Setup) -> Result<Agent> {
        let mut config = setup.config();
        config["log_level"] = json!("TRACE");
        Self::start_with(setup, &config)
    }

    /// Starts an agent with this configuration: a server, a node or both. It runs in `-dev` mode unless the
    /// configuration names a data folder.
    pub fn start_as(content: &Value) -> Result<Agent> {
        let data_dir = content["data_dir"].as_str().map(PathBuf::from);
        Self::start_with(&Setup { data_dir, ..Setup::dev() }, content)
    }

    /// Starts a `-dev` agent with these variables added to its environment, and these `client.options`.
    pub fn start_in(env: &[(&str, &str)], options: &Value) -> Result<Agent> {
        let setup = Setup::dev();
        let mut config = setup.config();
        config["client"]["options"] = options.clone();
        Self::start_wholly(&setup, &config, env)
    }

    fn start_with(setup: &Setup, content: &Value) -> Result<Agent> {
        // Tasks of `raw_exec` talk to the same engine.
        let env = setup.engine.as_deref().map(|engine| ("DOCKER_HOST", engine));
        Self::start_wholly(setup, content, env.as_slice())
    }

    fn start_wholly(setup: &Setup, content: &Value, env: &[(&str, &str)]) -> Result<Agent> {
        Starting::begin(setup, content, env)?.ready()
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id fits in 31 bits")
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The agent's whole log output.
    pub fn log(&self) -> Result<Vec<u8>> {
        std::fs::read(self.dir.path().join("stderr")).context("reading its log")
    }

    /// The last lines of the agent's log output.
    pub fn last_lines(&self) -> String {
        last_lines(&self.dir.path().join("stderr"))
    }

    /// Kills the agent at once, as a power cut would; its tasks keep running.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill().context("killing the agent")?;
        self.child.wait().context("waiting for the killed agent")?;
        Ok(())
    }

    /// Changes the agent's configuration file, and asks the agent to read it again.
    pub fn reconfigure(&self, content: &str) -> Result<()> {
        std::fs::write(self.dir.path().join("agent.json"), content).context("writing its configuration")?;
        process::signal(self.pid(), rustix::process::Signal::HUP)
    }

    /// Interrupts the agent, as Ctrl-C does, and waits for its end.
    pub fn interrupt(self) -> Result<()> {
        self.interrupt_within(STOP_WITHIN)
    }

    /// Like [`Self::interrupt`], for an agent that has something to do before its end.
    pub fn interrupt_within(mut self, limit: Duration) -> Result<()> {
        process::interrupt(self.pid())?;
        if !self.ends_within(limit) {
            bail!("the agent did not end when asked: {}", self.last_lines());
        }
        Ok(())
    }

    fn ends_within(&mut self, limit: Duration) -> bool {
        let (pid, deadline) = (self.pid(), Instant::now() + limit);
        while self.is_running() {
            if !process::wait_for_end(pid, deadline) {
                return !self.is_running();
            }
        }
        true
    }
}

/// An agent that was started and has not printed its address yet. Dropping it kills the agent.
pub struct Starting {
    /// The process and its folder; `None` once the agent is ready.
    begun: Option<(Child, tempfile::TempDir)>,
    told: mpsc::Receiver<String>,
}

impl Starting {
    /// Like [`Agent::start_as`], without waiting for anything.
    pub fn begin_as(content: &Value) -> Result<Starting> {
        let data_dir = content["data_dir"].as_str().map(PathBuf::from);
        Self::begin(&Setup { data_dir, ..Setup::dev() }, content, &[])
    }

    fn begin(setup: &Setup, content: &Value, env: &[(&str, &str)]) -> Result<Starting> {
        // Short, because sockets of CSI plugins are deep below it, and gRPC takes paths of about 100 bytes.
        let dir = tempfile::Builder::new().prefix("sl").rand_bytes(4).tempdir();
        let dir = dir.context("making a folder for an agent")?;
        let config = dir.path().join("agent.json");
        std::fs::write(&config, content.to_string()).context("writing its configuration")?;
        let stderr = File::create(dir.path().join("stderr")).context("creating its log")?;
        let mut command = Command::new(program());
        command.arg("agent");
        if setup.data_dir.is_none() {
            command.arg("-dev");
        }
        let mut child = command
            .arg("-config")
            .arg(&config)
            .env("TMPDIR", dir.path())
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .context("starting the agent")?;
        let lines = BufReader::new(child.stdout.take().context("its output is a pipe")?).lines();
        let (tell, told) = mpsc::channel();
        // Keep reading after the address: otherwise the agent would block on a full pipe.
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some(address) = line.strip_prefix(READY) {
                    let _gone = tell.send(address.trim_end_matches('/').to_string());
                }
            }
        });
        Ok(Starting { begun: Some((child, dir)), told })
    }

    /// Waits until the agent prints its address.
    pub fn ready(mut self) -> Result<Agent> {
        let told = self.told.recv_timeout(START_WITHIN);
        let http = told
            .map_err(|_| anyhow!("the agent never said `{READY}..`"))
            .and_then(|address| Ok(address.parse::<SocketAddr>()?));
        let http = http.with_context(|| {
            self.begun.as_ref().map(|(_, dir)| last_lines(&dir.path().join("stderr"))).unwrap_or_default()
        })?;
        let (child, dir) = self.begun.take().context("it is begun once")?;
        Ok(Agent { child, http, dir })
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some((child, _)) = &mut self.begun {
            let _dead = child.kill();
            let _status = child.wait();
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if !self.is_running() {
            return;
        }
        let started = process::descendants(self.pid());
        let asked = process::interrupt(self.pid());
        if asked.is_err() || !self.ends_within(STOP_WITHIN) {
            let _dead = self.child.kill();
            let _status = self.child.wait();
        }
        for process in started {
            process.kill();
        }
    }
}

/// The program under test: the one that was built with the tests, or another build that `SONGLINE_PROGRAM` names.
fn program() -> PathBuf {
    std::env::var_os("SONGLINE_PROGRAM").map_or_else(|| env!("CARGO_BIN_EXE_songline").into(), PathBuf::from)
}

/// The last lines of a file, as one text.
fn last_lines(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(5)..];
    format!("its last words: {}", last.join(" | "))
}
