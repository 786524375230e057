//! Many connections that write concurrently, and their acknowledged writes before the agent died. Every write is new:
//! none is repeated, so each may be there at most once. Not here: checking the agent's data.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::json;

use crate::http::{Connection, Request};

const CONNECTIONS: u64 = 64;

/// An acknowledged write.
#[derive(Debug, Clone)]
pub enum Acknowledged {
    Namespace { name: String, index: u64 },
    Pool { name: String, description: String, index: u64 },
}

/// The writers of one round.
pub struct Writers {
    acknowledged: Receiver<Acknowledged>,
    threads: Vec<JoinHandle<Result<()>>>,
    /// Set before the kill: from then on a broken connection is expected.
    killed: Arc<AtomicBool>,
}

impl Writers {
    pub fn start(http: SocketAddr, round: u64) -> Result<Writers> {
        let (tell, acknowledged) = mpsc::channel();
        let killed = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for writer in 0..CONNECTIONS {
            let (tell, killed) = (tell.clone(), Arc::clone(&killed));
            let thread = thread::Builder::new().name(format!("writer {writer}"));
            let thread =
                thread.spawn(move || write(http, round, writer, &tell, &killed)).context("starting a writer")?;
            threads.push(thread);
        }
        Ok(Writers { acknowledged, threads, killed })
    }

    /// Waits for `target` acknowledged writes, kills, and returns all writes that were acknowledged until then.
    pub fn until(self, target: u64, within: Duration, kill: impl FnOnce() -> Result<()>) -> Result<Vec<Acknowledged>> {
        let deadline = Instant::now() + within;
        let mut all = Vec::new();
        let mut late = false;
        while u64::try_from(all.len()).is_ok_and(|count| count < target) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.acknowledged.recv_timeout(left) {
                Ok(write) => all.push(write),
                Err(_) => {
                    late = true;
                    break;
                }
            }
        }
        self.killed.store(true, Ordering::SeqCst);
        kill()?;
        all.extend(self.acknowledged.iter());
        for thread in self.threads {
            thread.join().map_err(|_| anyhow!("a writer panicked"))??;
        }
        if late {
            bail!("{} of {target} writes were acknowledged in {} s", all.len(), within.as_secs());
        }
        Ok(all)
    }
}

fn write(http: SocketAddr, round: u64, writer: u64, tell: &Sender<Acknowledged>, killed: &AtomicBool) -> Result<()> {
    let meant = || killed.load(Ordering::SeqCst);
    let deadline = || Instant::now() + Duration::from_secs(30);
    let mut connection = match Connection::open(http, deadline()) {
        Ok(connection) => connection,
        Err(_) if meant() => return Ok(()),
        Err(error) => return Err(error).context("connecting"),
    };
    for number in 0u64.. {
        let namespace = number.is_multiple_of(2);
        let name = if namespace { format!("kill-{round}-{writer}-{number}") } else { format!("kill-{writer}") };
        let description = format!("{round}-{number}");
        let target = if namespace { "/v1/namespace" } else { "/v1/node/pools" };
        let request = Request::new("PUT", target).json(&json!({"Name": name, "Description": description}));
        let answer = match connection.call(&request, deadline()) {
            Ok(answer) => answer,
            Err(_) if meant() => return Ok(()),
            Err(error) => return Err(error).context("a write before the kill"),
        };
        let index = answer
            .index()
            .filter(|_| answer.head.status == 200)
            .with_context(|| format!("PUT {target}: {} {}", answer.head.status, answer.text()))?;
        let write = if namespace {
            Acknowledged::Namespace { name, index }
        } else {
            Acknowledged::Pool { name, description, index }
        };
        if tell.send(write).is_err() {
            return Ok(());
        }
    }
    Ok(())
}
