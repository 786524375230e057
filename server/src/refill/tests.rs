//! Stores that are derived from the log are lost and rebuilt.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use songline_api::{Proposal, RestoreChoices, Upkeep as _};
use songline_commands::{Actor, Idempotency, UpsertNodePools};
use songline_events::hub::{Dialect, Format, Interest, Start};
use songline_events::object_history::{Object, ObjectKind, Order};
use songline_model::NodePool;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::config::ServerConfig;
use crate::testing::{Settings, TestServer};

/// By server directory: the log entry at which the fill is interrupted, as if the server died there.
static INTERRUPTED: Mutex<BTreeMap<PathBuf, u64>> = Mutex::new(BTreeMap::new());

pub(super) fn is_interrupted(dir: &Path, raft_index: u64) -> bool {
    INTERRUPTED.lock().get(dir).is_some_and(|at| raft_index >= *at)
}

async fn start(dir: &Path) -> anyhow::Result<TestServer> {
    let server =
        ServerConfig { log_retention_bytes: 64 << 20, log_retention_entries_min: 10, ..ServerConfig::default() };
    TestServer::start(Settings { data_dir: Some(dir.to_owned()), server, ..Settings::default() }).await
}

async fn write(server: &TestServer, name: &str) -> anyhow::Result<u64> {
    write_long(server, name, 0).await
}

/// Writes a node pool with a description of `bytes` bytes.
async fn write_long(server: &TestServer, name: &str, bytes: usize) -> anyhow::Result<u64> {
    let pool = NodePool { name: name.into(), description: "x".repeat(bytes).into(), ..NodePool::default() };
    let command = UpsertNodePools { node_pools: vec![pool] };
    let proposal = Proposal { actor: Actor::Anonymous, cause: None, idempotency: None, command: command.into() };
    Ok(server.core.write(proposal).await?.index)
}

/// The events of a full stream up to the entry at `last`, and the oldest index that its gap names.
async fn read(server: &TestServer, last: u64) -> (String, Option<u64>) {
    let interest = Interest::parse("*", std::iter::empty()).expect("is valid");
    let subscription = server.core.events().subscribe(interest, Format::Json, Dialect::Full, Start::After(0));
    let mut stream = std::pin::pin!(subscription.into_stream(CancellationToken::new()));
    let (mut text, end) = (String::new(), format!("\"Index\":{last}}}\n"));
    while !text.contains(&end) {
        text.push_str(&String::from_utf8_lossy(&stream.next().await.expect("goes on").expect("a piece")));
    }
    text.truncate(text.find(&end).expect("it was found above") + end.len());
    let gap = text.lines().find_map(|line| line.split_once("\"Oldest\":")?.1.trim_end_matches('}').parse().ok());
    // Caught-up marks appear when the reader happened to be faster than the writer.
    let events: Vec<&str> = text.lines().filter(|line| line.starts_with("{\"Events\"")).collect();
    (events.join("\n"), gap)
}

/// The changes of node pools, and the result of each entry.
async fn touched(server: &TestServer, names: &[&str], last: u64) -> String {
    let object_history = Arc::clone(server.core.object_history());
    let (events, within) = (server.core.events(), std::time::Duration::from_secs(60));
    assert!(object_history.reach(last, within).await && events.reach(last, within).await);
    let of = |name: &str| {
        let object = Object { kind: ObjectKind::NodePool, namespace: "".into(), id: name.into() };
        let found = object_history.of_object(events, &object, 0, Order::OldestFirst, 100).expect("reads");
        found.iter().map(|touch| format!("{name}@{} ", touch.index)).collect::<String>()
    };
    let entries: Vec<_> = (1..=last).filter_map(|index| object_history.entry(index).expect("reads")).collect();
    format!("{} {entries:?}", names.iter().map(|name| of(name)).collect::<String>())
}

async fn whole(server: &TestServer) {
    while !server.core.stores.refillings().is_empty() {
        tokio::task::yield_now().await;
    }
}

fn lose(dir: &Path) {
    for store in ["server/events", "server/touches"] {
        std::fs::remove_dir_all(dir.join(store)).expect("was there");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_stores_are_refilled_from_the_log_and_resume_after_an_interruption() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let server = start(dir.path()).await?;
    for n in 0..50 {
        write(&server, &format!("before-{n}")).await?;
    }
    // Without a checkpoint the log is replayed as a whole, and no history would be missing.
    server.core.log().checkpoint_now().await?;
    let last = write(&server, "after").await?;
    let names = ["before-0", "before-30", "after"];
    let (told, gap) = read(&server, last).await;
    let touched_before = touched(&server, &names, last).await;
    assert!(gap.is_none() && told.contains("before-0"), "{told}");
    server.stop().await;
    lose(dir.path());

    let server_dir = dir.path().join("server");
    INTERRUPTED.lock().insert(server_dir.clone(), 30);
    let server = start(dir.path()).await?;
    while server.core.stores.refillings().iter().filter(|refilling| refilling.filling.through > 0).count() < 2 {
        tokio::task::yield_now().await;
    }
    // Readers get the available part and a gap.
    let (partly, gap) = read(&server, last).await;
    assert!(gap.is_some_and(|oldest| oldest > 50) && !partly.contains("before-30"), "{gap:?} {partly}");
    assert!(server.core.object_history().oldest() > 50);
    assert!(!touched(&server, &names, last).await.contains("before-0@"));
    server.stop().await;

    INTERRUPTED.lock().remove(&server_dir);
    let server = start(dir.path()).await?;
    whole(&server).await;
    assert_eq!(read(&server, last).await, (told.clone(), None));
    assert_eq!(touched(&server, &names, last).await, touched_before);
    server.stop().await;

    let server = start(dir.path()).await?;
    assert!(server.core.stores.refillings().is_empty());
    assert_eq!(read(&server, last).await, (told, None));
    assert_eq!(touched(&server, &names, last).await, touched_before);
    server.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_refilled_from_a_truncated_log_report_a_gap_before_its_oldest_checkpoint() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let server = start(dir.path()).await?;
    let mut checkpoints = Vec::new();
    let mut last = 0;
    // Write more than two segments.
    for n in 0..80 {
        last = write_long(&server, &format!("pool-{n}"), 2 << 20).await?;
        if n % 10 == 9 {
            checkpoints.extend(server.core.log().checkpoint_now().await?.map(|position| position.index));
        }
    }
    let dropped = server.core.log().retain(u64::MAX / 2).await?;
    assert!(dropped.segments > 0, "the log is long enough");
    // Consensus deletes the segment files asynchronously.
    while server.core.log().oldest_index() < dropped.below {
        tokio::task::yield_now().await;
    }
    let oldest_entry = server.core.log().oldest_index();
    let oldest = checkpoints.iter().find(|index| **index + 1 >= oldest_entry).expect("newer ones are there") + 1;
    server.stop().await;
    lose(dir.path());

    let server = start(dir.path()).await?;
    whole(&server).await;
    let (_, gap) = read(&server, last).await;
    assert_eq!((gap, server.core.object_history().oldest()), (Some(oldest), oldest));
    server.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_lost_after_an_archive_restore_are_refilled_from_the_restore() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let server = start(dir.path()).await?;
    write(&server, "in-the-archive").await?;
    let archive = server.core.snapshot_save().await?;
    write(&server, "forgotten").await?;
    server.core.snapshot_restore(archive.file, Actor::Anonymous, None, RestoreChoices::default()).await?;
    write(&server, "new").await?;
    server.core.log().checkpoint_now().await?;
    let last = write(&server, "newest").await?;
    let names = ["in-the-archive", "forgotten", "new", "newest"];
    let (told, touched_before) = (read(&server, last).await, touched(&server, &names, last).await);
    let (oldest, floor) = (server.core.object_history().oldest(), server.core.object_history().floor());
    assert!(told.0.contains("newest") && !told.0.contains("forgotten") && floor > 0, "{told:?}");
    server.stop().await;
    lose(dir.path());

    let server = start(dir.path()).await?;
    whole(&server).await;
    assert_eq!(read(&server, last).await, told);
    assert_eq!(touched(&server, &names, last).await, touched_before);
    assert_eq!((server.core.object_history().oldest(), server.core.object_history().floor()), (oldest, floor));
    server.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checkpoint_after_a_repeated_write_does_not_wait_for_events() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let server = start(dir.path()).await?;
    let command = UpsertNodePools { node_pools: vec![NodePool { name: "one".into(), ..NodePool::default() }] };
    let idempotency = Some(Idempotency { key: "k".into(), ..Idempotency::default() });
    let proposal = Proposal { actor: Actor::Anonymous, cause: None, idempotency, command: command.into() };
    let first = server.core.write(proposal.clone()).await?;
    let again = server.core.write(proposal).await?;
    assert_eq!(first.index, again.index);
    let applied = server.core.log().applied().map(|position| position.index);
    let made = tokio::time::timeout(std::time::Duration::from_secs(30), server.core.log().checkpoint_now()).await??;
    // The leader may have written an entry of its own meanwhile.
    assert!(made.map(|position| position.index) >= applied, "{made:?} {applied:?}");
    server.stop().await;
    Ok(())
}
