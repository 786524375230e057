//! Writers of large variables, which make the log grow quickly. Their content is not checked.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::json;

use crate::caller::{Caller, Said};
use crate::cluster::WITHIN;
use crate::http::Request;
use crate::wait::until;

const CLIENTS: usize = 4;
/// Size of each variable, in bytes.
const SIZE: usize = 60_000;

/// Running writers.
pub struct Filler {
    written: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Filler {
    pub fn start(servers: &[SocketAddr]) -> Result<Filler> {
        let (written, stop): (Arc<AtomicU64>, Arc<AtomicBool>) = Default::default();
        let mut threads = Vec::new();
        for n in 0..CLIENTS {
            let (caller, written, stop) = (Caller::new(servers, n), Arc::clone(&written), Arc::clone(&stop));
            threads.push(
                thread::Builder::new()
                    .name("filler".into())
                    .spawn(move || fill(caller, n, &written, &stop))
                    .context("starting a filler")?,
            );
        }
        Ok(Filler { written, stop, threads })
    }

    /// Waits until `bytes` bytes were acknowledged.
    pub fn written(&self, bytes: u64) -> Result<()> {
        let there = || self.written.load(Ordering::SeqCst);
        let failed = || self.threads.iter().any(JoinHandle::is_finished);
        ensure!(
            until(Instant::now() + 5 * WITHIN, || there() >= bytes || failed()) && !failed(),
            "{} of {bytes} bytes were written",
            there()
        );
        Ok(())
    }

    pub fn finish(self) -> Result<()> {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            thread.join().map_err(|_| anyhow!("a filler panicked"))??;
        }
        Ok(())
    }
}

fn fill(mut caller: Caller, n: usize, written: &AtomicU64, stop: &AtomicBool) -> Result<()> {
    let path = format!("filler/{n}");
    let items = json!({"Path": path, "Items": {"filling": "x".repeat(SIZE)}});
    let request = Request::new("PUT", &format!("/v1/var/{path}")).json(&items);
    while !stop.load(Ordering::SeqCst) {
        let server = caller.server();
        match caller.call(server, &request) {
            Said::Answer(answer) if answer.head.status == 200 => {
                written.fetch_add(SIZE as u64, Ordering::SeqCst);
            }
            Said::Answer(answer) if answer.head.status < 500 => {
                bail!("a large variable: {} {}", answer.head.status, answer.text())
            }
            Said::Answer(_) | Said::Silence | Said::NotSent => {}
        }
    }
    Ok(())
}
