//! One server as a process in its namespace: its configuration, its start, its signals and its end. Not here:
//! requests to it.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::{Value, json};

use crate::http::{self, Answer, Request};
use crate::net::{self, Net};
use crate::process;
use crate::wait::until;

/// Longest time from a server's start to its first answer. A debug build on a busy machine is slow.
const START_WITHIN: Duration = Duration::from_secs(60);
/// Longest time of an orderly stop.
const STOP_WITHIN: Duration = Duration::from_secs(20);
/// Timeout of an answer to a test's request.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The servers' `encrypt` key. They need one because their addresses are not loopback.
const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const HTTP: u16 = 4646;
const RPC: u16 = 4647;

/// A server, or a node beside the servers. Dropping it kills the process.
pub struct Server {
    pub name: String,
    /// HTTP address for clients, which network faults do not affect.
    pub http: SocketAddr,
    /// Address and port for the other servers.
    pub rpc: String,
    pub data: PathBuf,
    number: usize,
    config: PathBuf,
    stderr: PathBuf,
    child: Option<Child>,
}

impl Server {
    /// Creates server `number` of `of`, not started. Its files are below `dir`; `more` is merged into its
    /// configuration.
    pub fn new(net: &Net, number: usize, of: usize, dir: &Path, more: &Value) -> Result<Server> {
        let others = rpc_of_first(of);
        let mut config = json!({"server": {"enabled": true, "bootstrap_expect": of, "encrypt": KEY, "server_join": {"retry_join": others, "retry_interval": "1s"}}});
        put_in(&mut config, more);
        Self::with_config(net, number, dir, config)
    }

    /// Creates an agent that is a node and no server, and knows the first `of` servers.
    pub fn node(net: &Net, number: usize, of: usize, dir: &Path) -> Result<Server> {
        let config = json!({
            "client": {
                "enabled": true,
                "servers": rpc_of_first(of),
                // Garbage collection because of a nearly full disk would remove allocations that a test examines.
                "gc_disk_usage_threshold": 100,
                "gc_inode_usage_threshold": 100,
            },
            "plugin": {"raw_exec": {"config": {"enabled": true}}},
        });
        Self::with_config(net, number, dir, config)
    }

    fn with_config(net: &Net, number: usize, dir: &Path, more: Value) -> Result<Server> {
        let name = name_of(number);
        let dir = dir.join(&name);
        fs::create_dir_all(&dir).context("making a folder for a server")?;
        let address = net::inside(number);
        let data = dir.join("data");
        let mut config = json!({
            "name": name,
            "bind_addr": "0.0.0.0",
            "advertise": {"http": address, "rpc": address, "serf": address},
            "data_dir": data,
            "limits": {"http_max_conns_per_client": 0},
        });
        put_in(&mut config, &more);
        let path = dir.join("agent.json");
        fs::write(&path, config.to_string()).context("writing a configuration")?;
        Ok(Server {
            name,
            http: net.address(number, HTTP),
            rpc: format!("{address}:{RPC}"),
            data,
            number,
            config: path,
            stderr: dir.join("stderr"),
            child: None,
        })
    }

    /// Starts the process, and does not wait for anything.
    pub fn start(&mut self, net: &Net) -> Result<()> {
        ensure!(self.child.is_none(), "{} runs already", self.name);
        let stderr = File::options().create(true).append(true).open(&self.stderr).context("opening its log")?;
        let mut command = net.command(self.number, env!("CARGO_BIN_EXE_songline"));
        command.args(["agent", "-config"]).arg(&self.config);
        let child = command
            .env("TMPDIR", self.data.parent().unwrap_or(&self.data))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr);
        self.child = Some(child.spawn().with_context(|| format!("starting {}", self.name))?);
        Ok(())
    }

    /// Waits until the process answers at all.
    pub fn answers(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_WITHIN;
        let http = self.http;
        let mut ended = None;
        let answered = until(deadline, || {
            ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            ended.is_some()
                || http::call(http, &Request::new("GET", "/v1/agent/health"), Instant::now() + ANSWER_WITHIN).is_ok()
        });
        if let Some(status) = ended {
            anyhow::bail!("{} ended with {status}: {}", self.name, self.last_lines());
        }
        ensure!(answered, "{} does not answer: {}", self.name, self.last_lines());
        Ok(())
    }

    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Kills the process at once, as a power cut would.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().with_context(|| format!("killing {}", self.name))?;
            child.wait().with_context(|| format!("waiting for the killed {}", self.name))?;
        }
        Ok(())
    }

    /// Interrupts the process, as Ctrl-C does, and waits for its end.
    pub fn stop(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let pid = i32::try_from(child.id()).context("a process id fits in 31 bits")?;
        process::interrupt(pid)?;
        let ended = process::wait_for_end(pid, Instant::now() + STOP_WITHIN);
        if !ended {
            child.kill().with_context(|| format!("killing {}", self.name))?;
        }
        child.wait().with_context(|| format!("waiting for {}", self.name))?;
        ensure!(ended, "{} did not end when asked: {}", self.name, self.last_lines());
        Ok(())
    }

    /// Freezes the process (SIGSTOP): it keeps its connections and sends nothing.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Resumes a frozen process.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Makes every write beyond this file offset in bytes fail, as on a broken disk. `None` removes the limit.
    pub fn limit_files(&self, bytes: Option<u64>) -> Result<()> {
        let limit = Rlimit { current: bytes, maximum: None };
        prlimit(Some(self.pid()?), Resource::Fsize, limit)
            .with_context(|| format!("limiting the files of {}", self.name))?;
        Ok(())
    }

    /// Process id, which changes with every start.
    pub fn pid(&self) -> Result<Pid> {
        let child = self.child.as_ref().with_context(|| format!("{} does not run", self.name))?;
        i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a process id fits in 31 bits")
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(self.pid()?, signal).with_context(|| format!("sending {signal:?} to {}", self.name))
    }

    /// Sends a request.
    pub fn call(&self, request: &Request) -> Result<Answer> {
        http::call(self.http, request, Instant::now() + ANSWER_WITHIN)
            .with_context(|| format!("{} {} of {}", request.method, request.target, self.name))
    }

    /// Body and index of the answer to a GET.
    pub fn get(&self, target: &str) -> Result<(u64, Value)> {
        let answer = self.call(&Request::new("GET", target))?;
        ensure!(answer.head.status == 200, "GET {target} of {}: {} {}", self.name, answer.head.status, answer.text());
        Ok((
            answer.index().unwrap_or_default(),
            answer.json().with_context(|| format!("GET {target} of {}", self.name))?,
        ))
    }

    /// Address of the leader as this server sees it, if any.
    pub fn leader(&self) -> Option<String> {
        let (_, leader) = self.get("/v1/status/leader").ok()?;
        leader.as_str().filter(|leader| !leader.is_empty()).map(str::to_owned)
    }

    /// Replays the stopped server's log up to an entry, and returns the digest of the resulting state.
    pub fn digest(&mut self, index: u64) -> Result<String> {
        ensure!(!self.is_running(), "{} runs", self.name);
        let out = Command::new(env!("CARGO_BIN_EXE_songline"))
            .args(["log", "verify", "-until", &index.to_string(), "-data-dir"])
            .arg(&self.data)
            .output()
            .context("running log verify")?;
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        ensure!(out.status.success(), "the log of {}: {text}{}", self.name, String::from_utf8_lossy(&out.stderr));
        let digest = text.lines().find_map(|line| line.strip_prefix("total digest "));
        Ok(digest.with_context(|| format!("log verify says no digest: {text}"))?.to_owned())
    }

    /// Deletes all its data.
    pub fn wipe(&mut self) -> Result<()> {
        ensure!(!self.is_running(), "{} runs", self.name);
        fs::remove_dir_all(&self.data).with_context(|| format!("removing the data of {}", self.name))
    }

    /// The last lines of its log output.
    pub fn last_lines(&self) -> String {
        let text = fs::read_to_string(&self.stderr).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        format!("its last words: {}", lines[lines.len().saturating_sub(8)..].join(" | "))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _dead = self.kill();
        if std::thread::panicking() || std::env::var_os("SONGLINE_FAULTS_LOGS").is_some() {
            crate::say(&format!("{}: {}", self.name, self.last_lines()));
        }
    }
}

/// Addresses of the first `of` servers for each other.
fn rpc_of_first(of: usize) -> Vec<String> {
    (0..of).map(|n| format!("{}:{RPC}", net::inside(n))).collect()
}

/// Name of a server: `a`, `b`, `c`, ..
pub fn name_of(number: usize) -> String {
    char::from(b'a' + u8::try_from(number).expect("few servers")).to_string()
}

/// Merges an object into another, at every depth.
fn put_in(into: &mut Value, more: &Value) {
    let Some(members) = more.as_object() else {
        *into = more.clone();
        return;
    };
    for (key, value) in members {
        put_in(&mut into[key], value);
    }
}
