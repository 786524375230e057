//! kill -9 in a loop: every acknowledged entry must be there afterwards. The victim is this test binary, started again
//! with an environment variable that names its directory.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use songline_log::{Kind, NoTransport, Position, Record, Store, StoreConfig};

use crate::machine::{Diary, config, open};

const DIR: &str = "SONGLINE_LOG_KILL_DIR";
const WRITERS: u64 = 8;

/// Starts `victim`, kills it after `count` lines, and returns every complete line that it printed.
fn kill_after(victim: &str, dir: &Path, count: usize) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", victim, "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = Vec::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while out.read_line(&mut line).unwrap() > 0 {
        // A line without its end was cut off by the kill.
        if let Some(said) = line.strip_suffix('\n').and_then(|line| line.strip_prefix("acknowledged ")) {
            lines.push(said.to_owned());
        }
        line.clear();
        if lines.len() == count {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(lines.len() >= count, "{victim} ended by itself");
    lines
}

fn say(what: &str) {
    let mut out = std::io::stdout().lock();
    // Printing fails when the parent has failed.
    if writeln!(out, "acknowledged {what}").and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

fn small() -> StoreConfig {
    StoreConfig { segment_bytes: 64 << 10, cache_bytes: 4 << 10, ..StoreConfig::default() }
}

fn record(index: u64) -> Record {
    let payload = format!("{index} ").repeat(10 + usize::try_from(index % 50).unwrap()).into();
    Record { position: Position { term: 1, index }, kind: Kind::Command, payload }
}

#[test]
fn victim_that_appends_to_a_store() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let (store, _) = Store::open(Path::new(&dir), small()).unwrap();
    let (tx, rx) = std::sync::mpsc::sync_channel(64);
    let mut next = store.last().next;
    loop {
        let records: Vec<Record> = (next..next + 1 + next % 5).map(record).collect();
        next = records.last().unwrap().position.index + 1;
        let tx = tx.clone();
        let acknowledge = move |outcome: std::io::Result<()>| {
            outcome.unwrap();
            tx.send(next - 1).unwrap();
        };
        store.append(records, Box::new(acknowledge)).unwrap();
        while let Ok(index) = rx.try_recv() {
            say(&index.to_string());
        }
    }
}

#[test]
fn a_killed_store_has_every_acknowledged_entry() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("log");
    let mut acknowledged = 0;
    let mut torn = 0;
    for round in 0..25 {
        let said = kill_after("kill::victim_that_appends_to_a_store", &dir, 1 + round * 7 % 60);
        acknowledged = said.iter().map(|line| line.parse::<u64>().unwrap()).max().unwrap().max(acknowledged);
        let (store, opened) = Store::open(&dir, small()).unwrap();
        torn += usize::from(opened.torn.is_some());
        assert!(store.last().next > acknowledged, "round {round}: {acknowledged} is gone, {:?}", store.last());
        let mut next = 0;
        while next < store.last().next {
            for found in store.read(next..u64::MAX, 1 << 20).unwrap() {
                assert_eq!(found, record(next));
                next += 1;
            }
        }
    }
    println!("25 kills, {} entries acknowledged, none missing, {torn} torn tails cut", acknowledged + 1);
}

#[test]
fn victim_that_proposes_to_a_log() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (log, diary) = open(Path::new(&dir)).await;
        let start = diary.commands().len();
        let log = Arc::new(log);
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            let log = Arc::clone(&log);
            writers.spawn(async move {
                for n in 0.. {
                    let command = format!("{start}-{writer}-{n}");
                    log.propose(Bytes::from(command.clone())).await.unwrap();
                    say(&command);
                    if n == 20 && writer == 0 {
                        log.checkpoint_now().await.unwrap();
                        log.retain(u64::MAX).await.unwrap();
                    }
                }
            });
        }
        writers.join_next().await;
    });
}

#[test]
fn a_killed_log_has_every_acknowledged_command_once() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut acknowledged = BTreeSet::new();
    let mut from_checkpoint = 0;
    for round in 0..15 {
        acknowledged.extend(kill_after("kill::victim_that_proposes_to_a_log", dir, 1 + round * 37 % 400));
        runtime.block_on(async {
            let diary = Diary::default();
            let log = songline_log::Log::open(config(dir), diary.clone(), Arc::new(NoTransport)).await.unwrap();
            from_checkpoint += usize::from(log.recovery().checkpoint.is_some());
            let found = diary.commands();
            let unique: BTreeSet<String> = found.iter().cloned().collect();
            assert_eq!(unique.len(), found.len(), "round {round}: something was applied twice");
            let missing: Vec<_> = acknowledged.difference(&unique).collect();
            assert!(missing.is_empty(), "round {round}: missing {missing:?}");
            log.shutdown().await;
        });
    }
    println!(
        "15 kills, {} commands acknowledged, none missing, {from_checkpoint} starts from a checkpoint",
        acknowledged.len()
    );
}
