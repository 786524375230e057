//! The cluster of the test, and the test itself.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use songline_commands::{Command as Entry, Envelope};
use songline_server::defects::{self, Defects};

use crate::http::{self, Answer, Request};

/// Timeout of every step. A debug build on a busy machine is slow.
const WITHIN: Duration = Duration::from_secs(120);
/// Timeout of one answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Number of entries between two comparisons of the states.
const DIGEST_INTERVAL: u64 = 40;
/// Environment variable that gives an agent of this program the defect.
const WRONG: &str = "SONGLINE_TEST_IS_WRONG";
/// Node pool whose description a defective agent changes.
const POOL: &str = "pool-x";

/// Runs this program as an agent with the injected defects.
pub fn agent() -> ExitCode {
    let alter: Option<fn(&mut Envelope)> = std::env::var_os(WRONG).is_some().then_some(describe_otherwise);
    defects::install(Defects { alter, digest_interval: Some(DIGEST_INTERVAL) });
    songline::cli::main()
}

fn describe_otherwise(envelope: &mut Envelope) {
    if let Entry::NodePoolUpsert(command) = &mut envelope.command {
        command
            .node_pools
            .iter_mut()
            .filter(|pool| pool.name == POOL)
            .for_each(|pool| pool.description = "another one".into());
    }
}

/// One server.
struct Server {
    http: SocketAddr,
    rpc: u16,
    dir: PathBuf,
    child: Option<Child>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that is currently free.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0").context("looking for a port")?.local_addr()?.port())
}

impl Server {
    fn new(dir: PathBuf) -> Result<Server> {
        let http = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        fs::create_dir_all(&dir).context("making a folder for a server")?;
        Ok(Server { http, rpc: free_port()?, dir, child: None })
    }

    fn configure(&self, name: &str, others: &[String]) -> Result<()> {
        let config = json!({
            "name": name,
            "bind_addr": "127.0.0.1",
            "data_dir": self.data(),
            "ports": {"http": self.http.port(), "rpc": self.rpc, "serf": free_port()?},
            "server": {"enabled": true, "bootstrap_expect": 3, "server_join": {"retry_join": others}},
        });
        fs::write(self.dir.join("agent.json"), config.to_string()).context("writing a configuration")
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    fn start(&mut self, wrong: bool) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.dir.join("stderr")).context("opening its log")?;
        let mut command = Command::new(std::env::current_exe().context("finding this program")?);
        command
            .args(["agent", "-config"])
            .arg(self.dir.join("agent.json"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        if wrong {
            command.env(WRONG, "1");
        }
        self.child = Some(command.spawn().context("starting a server")?);
        Ok(())
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // The process may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn ask(&self, request: &Request) -> Result<Answer> {
        http::call(self.http, request, Instant::now() + ANSWER_WITHIN).context("asking a server")
    }

    /// The node pool in this server's own state.
    fn own_pool(&self) -> Option<Value> {
        let answer = self.ask(&Request::new("GET", &format!("/v1/node/pool/{POOL}?stale"))).ok()?;
        (answer.head.status == 200).then(|| answer.json().ok()).flatten()
    }

    fn last_words(&self) -> String {
        let text = fs::read_to_string(self.dir.join("stderr")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }
}

/// Polls until `look` returns a value.
fn until<T>(what: &str, servers: &[Server], mut look: impl FnMut() -> Option<T>) -> Result<T> {
    let deadline = Instant::now() + WITHIN;
    while Instant::now() < deadline {
        if let Some(found) = look() {
            return Ok(found);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let words: Vec<String> = servers.iter().map(Server::last_words).collect();
    anyhow::bail!("{what} did not come to be; the servers' last words:\n{}", words.join("\n--\n"))
}

/// The leader, if all servers name the same one.
fn leader(servers: &[Server]) -> Option<usize> {
    let says = |server: &Server| -> Option<String> {
        let answer = server.ask(&Request::new("GET", "/v1/status/leader")).ok()?;
        answer.json().ok()?.as_str().filter(|leader| !leader.is_empty()).map(str::to_owned)
    };
    let named = says(servers.first()?)?;
    let agree = servers.iter().all(|server| says(server).as_deref() == Some(&named));
    servers.iter().position(|server| agree && named.ends_with(&format!(":{}", server.rpc)))
}

fn write(server: &Server, name: &str) -> Result<()> {
    let pool = json!({"Name": name, "Description": "as it should be"});
    let answer = server.ask(&Request::new("PUT", "/v1/node/pools").json(&pool))?;
    ensure!(answer.head.status == 200, "writing {name}: {} {}", answer.head.status, answer.text());
    Ok(())
}

fn three(dir: &Path) -> Result<Vec<Server>> {
    let servers: Vec<Server> = ["a", "b", "c"].iter().map(|name| Server::new(dir.join(name))).collect::<Result<_>>()?;
    let addresses: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.rpc)).collect();
    for (server, name) in servers.iter().zip(["a", "b", "c"]) {
        server.configure(name, &addresses)?;
    }
    Ok(servers)
}

/// The test that `main.rs` describes.
pub fn story() -> Result<()> {
    let dir = tempfile::tempdir().context("making a folder")?;
    let mut servers = three(dir.path())?;
    servers.iter_mut().try_for_each(|server| server.start(false))?;
    let led_by = until("one leader", &servers, || leader(&servers))?;
    let wrong = (led_by + 1) % 3;

    // The state of a follower starts to differ.
    servers[wrong].kill();
    servers[wrong].start(true)?;
    write(&servers[led_by], POOL)?;
    let differs = |server: &Server| server.own_pool().filter(|pool| pool["Description"] == "another one");
    until("the difference", &servers, || differs(&servers[wrong]))?;
    ensure!(leader(&servers) == Some(led_by), "the leader stays");

    // The next comparison detects it, and the server reports that for as long as it runs.
    let health = Request::new("GET", "/v1/agent/health?type=server");
    let mut number = 0;
    let told = until("the fence", &servers, || {
        number += 1;
        // The other servers continue, even when this one has ended.
        write(&servers[led_by], &format!("filler-{number}")).ok()?;
        let answer = servers[wrong].ask(&health).ok()?;
        (answer.head.status == 500 && answer.text().contains("digest")).then(|| answer.text())
    })?;
    ensure!(told.contains("this server stops before it spreads"), "{told}");
    for request in [
        Request::new("GET", &format!("/v1/node/pool/{POOL}?stale")),
        Request::new("GET", "/v1/jobs"),
        Request::new("PUT", "/v1/node/pools").json(&json!({"Name": "from-the-fenced"})),
    ] {
        // The process may have ended meanwhile, which serves nothing either.
        let Ok(answer) = servers[wrong].ask(&request) else { continue };
        let text = answer.text();
        ensure!(
            answer.head.status == 500 && text.contains("serves nothing any more"),
            "{} {}: {text}",
            request.method,
            request.target
        );
    }
    let child = servers[wrong].child.as_mut().context("it was started")?;
    let deadline = Instant::now() + WITHIN;
    let ended = loop {
        match child.try_wait().context("waiting for the fenced server")? {
            Some(status) => break status,
            None if Instant::now() > deadline => anyhow::bail!("the fenced server does not end"),
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    ensure!(!ended.success(), "a fenced server fails: {ended}");
    ensure!(servers[wrong].last_words().contains("digest"), "it leaves a word: {}", servers[wrong].last_words());
    servers[wrong].child = None;

    // The other servers are unaffected. The fenced server is started with an empty directory; the old one is kept.
    write(&servers[led_by], "after-the-fence")?;
    let data = servers[wrong].data();
    fs::rename(&data, data.with_extension("kept")).context("putting its directory aside")?;
    servers[wrong].start(false)?;
    let is_right = |server: &Server| server.own_pool().filter(|pool| pool["Description"] == "as it should be");
    until("its return", &servers, || is_right(&servers[wrong]))?;
    // Its state passes further comparisons.
    let (mut first, mut behind) = (None, 0);
    until("two more comparisons", &servers, || {
        behind += 1;
        write(&servers[led_by], &format!("again-{behind}")).ok()?;
        let answer = servers[wrong].ask(&Request::new("GET", "/v1/node/pools?stale")).ok()?;
        let index = answer.index()?;
        let first = *first.get_or_insert(index);
        (index > first + 2 * DIGEST_INTERVAL).then_some(())
    })?;
    let answer = servers[wrong].ask(&health)?;
    ensure!(answer.head.status == 200, "{}", answer.text());
    Ok(())
}
