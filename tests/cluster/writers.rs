//! Writers that write through every server, and record exactly their acknowledged writes. Each writes a node pool of
//! its own repeatedly, each time with the next number. Half of them send an idempotency key and repeat a write,
//! through any server, until it is acknowledged: it must then have taken effect once. The others never repeat a sent
//! write.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::json;

use crate::caller::{Caller, Said};
use crate::http::Request;
use crate::progress::Progress;

/// Marks a write of unknown outcome. No entry has this index.
pub const UNKNOWN: u64 = 0;

/// Running writers.
pub struct Writers {
    pub progress: Arc<Progress>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Vec<u64>>>>,
}

impl Writers {
    /// Starts `count` writers, each beginning with another server. Each run of a cluster needs another name.
    pub fn start(servers: &[SocketAddr], count: usize, run: &str) -> Result<Writers> {
        let progress = Arc::new(Progress::new(servers.len()));
        let stop: Arc<AtomicBool> = Arc::default();
        let mut threads = Vec::new();
        for n in 0..count {
            let (caller, progress, stop) = (Caller::new(servers, n), Arc::clone(&progress), Arc::clone(&stop));
            let name = pool_of(run, n);
            let thread = thread::Builder::new().name(name.clone());
            threads.push(
                thread
                    .spawn(move || write(caller, &name, n.is_multiple_of(2), &progress, &stop))
                    .context("starting a writer")?,
            );
        }
        Ok(Writers { progress, stop, threads })
    }

    /// Stops the writers, and returns by writer and number the index of each acknowledged write, or `UNKNOWN`.
    pub fn finish(mut self) -> Result<Vec<Vec<u64>>> {
        self.stop.store(true, Ordering::SeqCst);
        let threads = std::mem::take(&mut self.threads);
        threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a writer panicked"))?).collect()
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

/// Node pool of a writer.
pub fn pool_of(run: &str, writer: usize) -> String {
    format!("{run}-{writer}")
}

fn write(mut caller: Caller, pool: &str, repeats: bool, progress: &Progress, stop: &AtomicBool) -> Result<Vec<u64>> {
    let mut outcomes = Vec::new();
    for number in 0u64.. {
        let mut request =
            Request::new("PUT", "/v1/node/pools").json(&json!({"Name": pool, "Description": number.to_string()}));
        if repeats {
            request = request.header("Idempotency-Key", &format!("{pool}-{number}"));
        }
        let outcome = loop {
            if stop.load(Ordering::SeqCst) {
                // A request that was sent may still take effect.
                outcomes.push(UNKNOWN);
                return Ok(outcomes);
            }
            let server = caller.server();
            let sent = Instant::now();
            match caller.call(server, &request) {
                Said::Answer(answer) if answer.head.status == 200 => {
                    let index =
                        answer.index().with_context(|| format!("a write without an index: {:?}", answer.head))?;
                    progress.acknowledge(server, sent);
                    break index;
                }
                Said::Answer(answer) if answer.head.status < 500 => {
                    bail!("a sound write was refused: {} {}", answer.head.status, answer.text())
                }
                Said::NotSent => {}
                Said::Answer(_) | Said::Silence if repeats => {}
                Said::Answer(_) | Said::Silence => break UNKNOWN,
            }
        };
        outcomes.push(outcome);
    }
    Ok(outcomes)
}
