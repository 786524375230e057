//! One subscriber that reads everything there is, from the first event that is kept to the newest.

use std::time::Instant;

use anyhow::Context;
use clap::Args;

use crate::http::{Connection, Lines};

#[derive(Args)]
pub struct Options {
    /// The agent.
    #[arg(long)]
    addr: String,
    /// Start behind this index.
    #[arg(long, default_value_t = 0)]
    after_index: u64,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let mut stream = Connection::open(&options.addr).await?;
    let started = Instant::now();
    stream.subscribe(&format!("/v1/event/stream?after_index={}&namespace=*", options.after_index)).await?;
    let (mut lines, mut frames, mut bytes) = (Lines::default(), 0_u64, 0_u64);
    'reading: loop {
        let chunk = stream.chunk().await?.context("the stream ended")?;
        bytes += chunk.len() as u64;
        for line in lines.push(&chunk) {
            if line.starts_with(b"{\"Events\"") || line.starts_with(b"{\"Index\"") && !line.ends_with(b"true}") {
                frames += 1;
            }
            if line.ends_with(b"\"CaughtUp\":true}") {
                break 'reading;
            }
        }
    }
    let took = started.elapsed().as_secs_f64();
    println!(
        "catchup: {frames} frames, {:.1} MB in {took:.2} s: {:.0} frames/s, {:.1} MB/s",
        bytes as f64 / 1e6,
        frames as f64 / took,
        bytes as f64 / 1e6 / took
    );
    Ok(())
}
