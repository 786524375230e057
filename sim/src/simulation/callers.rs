//! Callers of a simulated cluster with few rights or none: without a token, with an unknown one, with one that may
//! write jobs only, and with the same one after it was deleted. None of them gets done more, at any server.

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::http::{self, Answer};
use super::network::Network;
use super::record::Record;
use super::server::Host;
use crate::check::{Access, access_is_right};

/// The secret of the management token that bootstraps a cluster's ACLs.
pub const MANAGEMENT: &str = "5ecbe7a1-0000-4000-8000-000000000001";
/// A secret that no token has.
const UNKNOWN: &str = "5ecbe7a1-0000-4000-8000-00000000dead";
/// Number of attempts of the management token before the caller begins anew.
const ATTEMPTS_MAX: u32 = 8;

/// A token that the caller had made for itself.
struct Token {
    accessor: String,
    secret: String,
    /// Whether its deletion is not acknowledged yet.
    may_live: bool,
}

/// The caller, who takes on one of the roles after the other.
pub struct Callers {
    rng: SmallRng,
    hosts: Vec<Arc<Host>>,
    network: Arc<Network>,
    record: Arc<Record>,
}

impl Callers {
    /// Creates the caller, who knows these machines of servers.
    pub fn new(seed: u64, hosts: &[Arc<Host>], network: &Arc<Network>, record: &Arc<Record>) -> Self {
        let (network, record) = (Arc::clone(network), Arc::clone(record));
        Self { rng: SmallRng::seed_from_u64(seed), hosts: hosts.to_vec(), network, record }
    }

    /// Calls for ever.
    pub async fn run(mut self) {
        let policy = json!({ "Name": "writer", "Rules": "namespace \"default\" { policy = \"write\" }" });
        while self.managed("PUT", "/v1/acl/policy/writer", &policy).await.is_none() {}
        loop {
            let Some(mut token) = self.token().await else { continue };
            for _ in 0..self.rng.random_range(3..10) {
                self.call(&token).await;
            }
            let deleted = self.managed("DELETE", &format!("/v1/acl/token/{}", token.accessor), &Value::Null).await;
            token.may_live = deleted.is_none();
            for _ in 0..4 {
                self.call(&token).await;
            }
        }
    }

    /// A new token that may register jobs.
    async fn token(&mut self) -> Option<Token> {
        let body = json!({ "Name": "writer", "Type": "client", "Policies": ["writer"] });
        let (_, answer) = self.managed("PUT", "/v1/acl/token", &body).await?;
        let made: Value = serde_json::from_slice(&answer).ok()?;
        let text = |key: &str| Some(made[key].as_str()?.to_owned());
        Some(Token { accessor: text("AccessorID")?, secret: text("SecretID")?, may_live: true })
    }

    /// One operation in one of the roles, which is judged if it is answered.
    async fn call(&mut self, token: &Token) {
        self.pause(4000).await;
        let (caller, secret, writes) = match self.rng.random_range(0..6) {
            0 => ("a caller without a token", None, false),
            1 => ("a caller with an unknown token", Some(UNKNOWN), false),
            _ => ("a writer", Some(token.secret.as_str()), token.may_live),
        };
        let (operation, method, path, body, may) = match self.rng.random_range(0..4) {
            0 => ("list tokens", "GET", "/v1/acl/tokens", Value::Null, false),
            1 => ("stop a job", "DELETE", "/v1/job/none", Value::Null, writes),
            _ => ("register a job", "PUT", "/v1/jobs", idle_job(), writes),
        };
        let Some((status, _)) = self.ask(secret, method, path, &body).await else { return };
        self.record.count(|counts| counts.calls += 1);
        let (caller, operation) = (caller.to_owned(), operation.to_owned());
        if let Err(error) = access_is_right(&Access { caller, operation, may, status }) {
            self.record.found(error.into());
        }
    }

    /// A request with the management token, repeated until it is done. `None`: it is not known to be.
    async fn managed(&mut self, method: &str, path: &str, body: &Value) -> Option<Answer> {
        for _ in 0..ATTEMPTS_MAX {
            let answer = self.ask(Some(MANAGEMENT), method, path, body).await;
            if answer.as_ref().is_some_and(|(status, _)| *status == 200) {
                return answer;
            }
            self.pause(2000).await;
        }
        None
    }

    async fn ask(&mut self, secret: Option<&str>, method: &str, path: &str, body: &Value) -> Option<Answer> {
        let host = Arc::clone(&self.hosts[self.rng.random_range(0..self.hosts.len())]);
        http::ask(&self.network, &host, secret, (method, path), body.to_string()).await
    }

    async fn pause(&mut self, most_ms: u64) {
        let pause = self.rng.random_range(most_ms / 20..most_ms);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}

/// A job that runs nothing until somebody dispatches it.
fn idle_job() -> Value {
    let task = json!({ "Name": "t", "Driver": "mock_driver", "Resources": { "CPU": 100, "MemoryMB": 100 } });
    json!({ "Job": {
        "ID": "i0",
        "Name": "i0",
        "Type": "batch",
        "Datacenters": ["*"],
        "ParameterizedJob": {},
        "TaskGroups": [{ "Name": "g", "Count": 1, "Tasks": [task] }],
    } })
}
