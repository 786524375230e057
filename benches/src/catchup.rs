//! One subscriber that reads everything from the first retained event to the newest; the writes that make a long
//! history; and the same subscriber with an agent that is killed repeatedly.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Args;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::frames::{Format, Frame, Frames};
use crate::http::Connection;

#[derive(Args)]
pub struct Options {
    /// The agent.
    #[arg(long)]
    addr: Option<String>,
    /// Start behind this index.
    #[arg(long, default_value_t = 0)]
    after_index: u64,
    /// How frames are asked for.
    #[arg(long, default_value = "msgpack")]
    format: Format,
    /// Further parameters of the stream, such as `&topic=Job`.
    #[arg(long, default_value = "")]
    query: String,
    /// First writes so many events of about a kilobyte.
    #[arg(long, default_value_t = 0)]
    fill: u64,
    /// Kills the agent so many times while reading. It is started by the tool, from `--agent` on `--config`.
    #[arg(long, default_value_t = 0, requires_all = ["agent", "config"])]
    kills: u32,
    /// The agent's binary.
    #[arg(long)]
    agent: Option<PathBuf>,
    /// Its configuration file.
    #[arg(long)]
    config: Option<PathBuf>,
}

/// Events seen by one subscriber, over all its connections.
#[derive(Default)]
struct Seen {
    frames: u64,
    events: u64,
    bytes: u64,
    first: u64,
    last: u64,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    if let (Some(agent), Some(config)) = (&options.agent, &options.config) {
        return resume(&options, agent, config).await;
    }
    let addr = options.addr.clone().context("--addr, or --agent with --config")?;
    if options.fill > 0 {
        fill(&addr, options.fill).await?;
    }
    let mut seen = Seen { last: options.after_index, ..Seen::default() };
    let started = Instant::now();
    read(&addr, &options, &mut seen, None).await?;
    print(&seen, started.elapsed());
    Ok(())
}

fn print(seen: &Seen, took: Duration) {
    let took = took.as_secs_f64();
    println!(
        "catchup: {} events in {} frames (index {} to {}), {:.1} MB in {took:.2} s: {:.0} events/s, {:.1} MB/s",
        seen.events,
        seen.frames,
        seen.first,
        seen.last,
        seen.bytes as f64 / 1e6,
        seen.events as f64 / took,
        seen.bytes as f64 / 1e6 / took
    );
}

/// Reads until the stream has caught up, or until `limit` more frames have arrived. True when it has caught up.
async fn read(addr: &str, options: &Options, seen: &mut Seen, limit: Option<u64>) -> anyhow::Result<bool> {
    let mut stream = Connection::open(addr).await?;
    let format = options.format;
    let target =
        format!("/v1/event/stream?after_index={}&namespace=*&format={}{}", seen.last, format.word(), options.query);
    stream.subscribe(&target).await?;
    let mut frames = Frames::new(format);
    let stop_at = limit.map(|limit| seen.frames + limit);
    let (mut caught_up, mut wrong) = (false, None);
    while !caught_up && stop_at.is_none_or(|stop_at| seen.frames < stop_at) {
        let chunk = stream.chunk().await?.context("the stream ended")?;
        seen.bytes += chunk.len() as u64;
        frames.push(&chunk, |frame| match frame {
            Frame::Events { index, events } => {
                if index <= seen.last {
                    wrong = Some(format!("index {index} came after {}", seen.last));
                }
                if seen.frames == 0 {
                    seen.first = index;
                }
                seen.frames += 1;
                seen.events += events;
                seen.last = index;
            }
            Frame::Gap(oldest) if seen.last > 0 => wrong = Some(format!("a gap up to {oldest} after {}", seen.last)),
            Frame::CaughtUp(_) => caught_up = true,
            Frame::Gap(_) | Frame::Other => {}
        })?;
        if let Some(wrong) = wrong {
            bail!(wrong);
        }
    }
    Ok(caught_up)
}

/// Writes node pools with some hundred bytes of metadata: one event each.
async fn fill(addr: &str, events: u64) -> anyhow::Result<()> {
    const WRITERS: u64 = 64;
    let started = Instant::now();
    let mut writers = Vec::new();
    for n in 0..WRITERS {
        let mut connection = Connection::open(addr).await?;
        let share = events / WRITERS + u64::from(n < events % WRITERS);
        writers.push(tokio::spawn(async move {
            for i in 0..share {
                let name = format!("fill-{n}-{}", i % 8);
                let meta = format!(
                    "{i:08} some text that is not all the same, as metadata is not: {:x} ",
                    i.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                );
                let body = format!(r#"{{"Name":"{name}","Description":"{meta}","Meta":{{"a":"{}"}}}}"#, meta.repeat(6));
                connection.ok("PUT", "/v1/node/pools", body.as_bytes()).await?;
            }
            anyhow::Ok(())
        }));
    }
    for writer in writers {
        writer.await??;
    }
    println!("filled with {events} events in {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// Reads everything in one go, then again from an agent that is killed in the middle each time, and compares.
async fn resume(options: &Options, binary: &Path, config: &Path) -> anyhow::Result<()> {
    let mut agent = Agent::start(binary, config).await?;
    let mut whole = Seen { last: options.after_index, ..Seen::default() };
    let started = Instant::now();
    while !read(&agent.addr, options, &mut whole, None).await? {}
    print(&whole, started.elapsed());
    let each = whole.frames / u64::from(options.kills + 1);
    let mut seen = Seen { last: options.after_index, ..Seen::default() };
    for kill in 0..options.kills {
        ensure!(!read(&agent.addr, options, &mut seen, Some(each)).await?, "it had read everything before kill {kill}");
        agent.process.kill().await?;
        agent = Agent::start(binary, config).await?;
    }
    while !read(&agent.addr, options, &mut seen, None).await? {}
    agent.process.kill().await?;
    // A restarted server writes entries of its own, after all earlier ones.
    println!(
        "resume: {} kills; {} events up to index {} (in one go: {} up to {})",
        options.kills, seen.events, seen.last, whole.events, whole.last
    );
    ensure!(seen.frames >= whole.frames && seen.last >= whole.last, "something was lost");
    Ok(())
}

struct Agent {
    process: Child,
    addr: String,
}

impl Agent {
    async fn start(binary: &Path, config: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(binary);
        command.args(["agent", "-config"]).arg(config).stdout(std::process::Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().with_context(|| format!("starting {}", binary.display()))?;
        let mut lines = BufReader::new(process.stdout.take().context("its output is a pipe")?).lines();
        let addr = loop {
            let line = lines.next_line().await?.context("the agent ended before it listened")?;
            if let Some(addr) = line.strip_prefix("==> HTTP: ") {
                break addr.to_owned();
            }
        };
        // Keep reading: otherwise the agent would block on a full pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { process, addr })
    }
}
