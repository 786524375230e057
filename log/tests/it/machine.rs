//! A small state machine for tests: it records every command, in order.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use songline_log::{
    CheckpointSource, Committed, Config, Log, NoTransport, Payload, Position, Retention, StateMachine, StoreConfig,
};

/// The applied commands. Clones share them, so a test can look while the log owns one.
#[derive(Clone, Default)]
pub struct Diary {
    pub commands: Arc<Mutex<Vec<String>>>,
    /// While a test holds this lock, no entry is applied.
    pub gate: Arc<Mutex<()>>,
}

impl Diary {
    pub fn commands(&self) -> Vec<String> {
        self.commands.lock().clone()
    }
}

impl StateMachine for Diary {
    /// Number of commands, including the one that is answered.
    type Reply = usize;

    fn apply(&mut self, batch: Vec<Committed>) -> Vec<usize> {
        let _open = self.gate.lock();
        let mut commands = self.commands.lock();
        let mut replies = Vec::new();
        for committed in batch {
            if let Payload::Command(bytes) = committed.payload {
                let command = String::from_utf8(bytes.to_vec()).unwrap();
                assert_ne!(command, "panic", "as asked");
                commands.push(command);
            }
            replies.push(commands.len());
        }
        replies
    }

    fn checkpoint(&mut self) -> Box<dyn CheckpointSource> {
        Box::new(Page(self.commands()))
    }

    fn install(&mut self, _position: Position, content: &mut dyn Read) -> io::Result<()> {
        let mut text = String::new();
        content.read_to_string(&mut text)?;
        *self.commands.lock() = text.lines().map(str::to_owned).collect();
        Ok(())
    }
}

struct Page(Vec<String>);

impl CheckpointSource for Page {
    fn write_to(self: Box<Self>, out: &mut dyn Write) -> io::Result<()> {
        for command in &self.0 {
            writeln!(out, "{command}")?;
        }
        Ok(())
    }
}

/// Small segments, and retention that drops as much as it may.
pub fn config(dir: &Path) -> Config {
    Config {
        store: StoreConfig { segment_bytes: 2048, cache_bytes: 1024, ..StoreConfig::default() },
        retention: Retention { bytes_max: 0, entries_min: 10, ..Retention::default() },
        ..Config::new(dir)
    }
}

pub async fn open(dir: &Path) -> (Log<Diary>, Diary) {
    let diary = Diary::default();
    let log = Log::open(config(dir), diary.clone(), Arc::new(NoTransport)).await.unwrap();
    (log, diary)
}

/// Proposes `command-<n>` for each n, 20 at a time, and waits for all.
pub async fn propose(log: &Log<Diary>, numbers: std::ops::Range<u32>) {
    for start in numbers.clone().step_by(20) {
        propose_at_once(log, start..numbers.end.min(start + 20)).await;
    }
}

/// Proposes `command-<n>` for each n, all at once, and waits for all.
pub async fn propose_at_once(log: &Log<Diary>, numbers: std::ops::Range<u32>) {
    let under_way: Vec<_> = numbers
        .map(|n| {
            let log = log.clone();
            tokio::spawn(async move { log.propose(Bytes::from(format!("command-{n}"))).await.unwrap() })
        })
        .collect();
    for proposal in under_way {
        proposal.await.unwrap();
    }
}
