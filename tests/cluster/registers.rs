//! Clients that read and conditionally write a few variables through every server, and record the times and answers.
//! The linearizability checker judges them. Half of the reads request consistency explicitly, half do not: both are
//! consistent reads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use songline_sim::check::linear::{Answer as Told, Call, Held, Operation};

use crate::caller::{Caller, Said};
use crate::chance::Chance;
use crate::http::Request;

/// Number of clients. Few concurrent ones keep the search for an order short.
const CLIENTS: u64 = 4;
/// Number of shared variables.
const KEYS: u64 = 3;
/// Pause of a client between two requests.
const REST: Duration = Duration::from_millis(8);

/// Running clients.
pub struct Registers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Vec<Call>>>>,
}

impl Registers {
    pub fn start(servers: &[SocketAddr], seed: u64) -> Result<Registers> {
        let stop: Arc<AtomicBool> = Arc::default();
        let began = Instant::now();
        let mut threads = Vec::new();
        for id in 0..CLIENTS {
            let stop = Arc::clone(&stop);
            let caller = Caller::new(servers, usize::try_from(id)?);
            let client = Client {
                id,
                caller,
                chance: Chance::new(seed ^ (id + 77)),
                began,
                calls: Vec::new(),
                known: [0; KEYS as usize],
            };
            let thread = thread::Builder::new().name(format!("register client {id}"));
            threads.push(thread.spawn(move || client.run(&stop)).context("starting a client")?);
        }
        Ok(Registers { stop, threads })
    }

    /// Stops the clients, and returns all their operations with the answers.
    pub fn finish(mut self) -> Result<Vec<Call>> {
        self.stop.store(true, Ordering::SeqCst);
        let mut calls = Vec::new();
        for thread in std::mem::take(&mut self.threads) {
            calls.extend(thread.join().map_err(|_| anyhow!("a client of registers panicked"))??);
        }
        Ok(calls)
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

struct Client {
    id: u64,
    caller: Caller,
    chance: Chance,
    began: Instant,
    calls: Vec<Call>,
    /// Last version of each variable that this client has seen.
    known: [u64; KEYS as usize],
}

impl Client {
    fn run(mut self, stop: &AtomicBool) -> Result<Vec<Call>> {
        for number in 0.. {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            let key = usize::try_from(self.chance.below(KEYS))?;
            let path = format!("register/{key}");
            let value = self.id * 1_000_000_000 + number;
            let (operation, request) = match self.chance.below(4) {
                0 => (Operation::Get, Request::new("GET", &format!("/v1/var/{path}"))),
                1 => (Operation::Get, Request::new("GET", &format!("/v1/var/{path}?consistent"))),
                _ => {
                    let expected = self.known[key];
                    let request = Request::new("PUT", &format!("/v1/var/{path}?cas={expected}"));
                    (
                        Operation::Cas { expected, value },
                        request.json(&json!({"Path": path, "Items": {"value": value.to_string()}})),
                    )
                }
            };
            let called = self.now();
            let server = self.caller.server();
            let said = self.caller.call(server, &request);
            let returned = match said {
                Said::NotSent => continue,
                Said::Silence => None,
                Said::Answer(answer) if answer.head.status >= 500 => None,
                Said::Answer(answer) => {
                    let body = answer.json().unwrap_or(Value::Null);
                    let told = told(&operation, answer.head.status, &body)
                        .with_context(|| format!("{operation} of {path}: {} {}", answer.head.status, answer.text()))?;
                    match told {
                        Told::Wrote(version) => self.known[key] = version,
                        Told::Held(held) | Told::Conflict(held) => {
                            self.known[key] = held.map_or(0, |held| held.version)
                        }
                        Told::Deleted | Told::ConflictAt(_) => {}
                    }
                    Some((self.now(), told))
                }
            };
            self.calls.push(Call { key: path, operation, called, returned, client: self.id });
            thread::park_timeout(REST);
        }
        Ok(self.calls)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Decodes an answer about a variable. An unexpected status is an error.
fn told(operation: &Operation, status: u16, body: &Value) -> Result<Told> {
    let held = || -> Result<Option<Held>> {
        let version = body["ModifyIndex"].as_u64().context("a variable has an index")?;
        if version == 0 {
            return Ok(None);
        }
        let value =
            body["Items"]["value"].as_str().and_then(|value| value.parse().ok()).context("a variable has its value")?;
        Ok(Some(Held { value, version }))
    };
    match (operation, status) {
        (Operation::Get, 200) => Ok(Told::Held(held()?)),
        (Operation::Get, 404) => Ok(Told::Held(None)),
        (Operation::Cas { .. }, 200) => {
            Ok(Told::Wrote(body["ModifyIndex"].as_u64().context("a variable has an index")?))
        }
        (Operation::Cas { .. }, 409) => Ok(Told::Conflict(held()?)),
        (operation, status) => bail!("{status} is no answer to {operation}"),
    }
}
