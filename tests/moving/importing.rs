//! Support of the tests: a server that is about to import an archive. Not here: any test.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::http::{self, Answer, Request};

/// Timeout of every call. A debug build on a busy machine is slow.
const WITHIN: Duration = Duration::from_secs(60);

/// Path of a file beside the archives.
pub fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/moving/archives").join(name)
}

/// Content of an archive.
pub fn archive(name: &str) -> Result<Vec<u8>> {
    let path = file(&format!("{name}.snap"));
    std::fs::read(&path).with_context(|| format!("reading {}", path.display()))
}

/// A server without a node, with a token that may do everything.
pub struct Importer {
    pub agent: Agent,
    pub token: String,
    dir: tempfile::TempDir,
}

impl Importer {
    /// Starts a server that collects nothing and rotates nothing, with the key files of this archive in its keystore.
    pub fn begin(acl: bool, keys_of: Option<&str>) -> Result<Importer> {
        let dir = tempfile::tempdir()?;
        if let Some(name) = keys_of {
            let keystore = dir.path().join("server/keystore");
            std::fs::create_dir_all(&keystore)?;
            for entry in std::fs::read_dir(file(&format!("{name}.keystore")))? {
                let path = entry?.path();
                std::fs::copy(&path, keystore.join(path.file_name().context("a file has a name")?))?;
            }
        }
        let agent = Agent::start_as(&config(dir.path(), acl))?;
        let mut importer = Importer { agent, token: String::new(), dir };
        if acl {
            let answer = importer.call(Request::new("PUT", "/v1/acl/bootstrap"))?.json()?;
            importer.token = answer["SecretID"].as_str().context("a bootstrap tells the secret")?.to_owned();
        }
        Ok(importer)
    }

    /// Starts the server again, on the same data.
    pub fn restart(self) -> Result<Importer> {
        let Importer { agent, token, dir } = self;
        agent.kill()?;
        Ok(Importer { agent: Agent::start_as(&config(dir.path(), !token.is_empty()))?, token, dir })
    }

    /// Sends a request with the server's own token; any status is accepted.
    pub fn ask(&self, request: Request) -> Result<Answer> {
        let request = request.header("X-Nomad-Token", &self.token);
        Ok(http::call(self.agent.http, &request, Instant::now() + WITHIN)?)
    }

    /// Sends a request with its own token, or without one.
    pub fn ask_as(&self, request: &Request) -> Result<Answer> {
        Ok(http::call(self.agent.http, request, Instant::now() + WITHIN)?)
    }

    pub fn call(&self, request: Request) -> Result<Answer> {
        let what = request.target.clone();
        let answer = self.ask(request)?;
        ensure!(answer.head.status == 200, "{what}: {} {}", answer.head.status, answer.text());
        Ok(answer)
    }

    /// Sends an archive.
    pub fn send(&self, query: &str, body: Vec<u8>) -> Result<Answer> {
        let mut request = Request::new("PUT", &format!("/v1/operator/snapshot{query}"));
        request.body = Some(body);
        self.ask(request)
    }
}

fn config(dir: &Path, acl: bool) -> Value {
    let never = "876000h";
    json!({
        "bind_addr": "127.0.0.1",
        "data_dir": dir,
        "region": "global",
        "ports": {"http": 0, "rpc": 0, "serf": 0},
        "server": {
            "enabled": true,
            "bootstrap_expect": 1,
            "min_heartbeat_ttl": "240h",
            "failover_heartbeat_ttl": never,
            "node_gc_threshold": never,
            "job_gc_threshold": never,
            "eval_gc_threshold": never,
            "batch_eval_gc_threshold": never,
            "deployment_gc_threshold": never,
            "csi_volume_claim_gc_threshold": never,
            "csi_plugin_gc_threshold": never,
            "root_key_gc_threshold": never,
            "root_key_rotation_threshold": never,
        },
        "acl": {"enabled": acl, "token_max_expiration_ttl": never},
    })
}
