//! A log store whose machine loses power at every single change of its disk: the store opens again with everything
//! acknowledged.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use songline_log::{Done, Edge, Kind, Position, Record, Store, StoreConfig};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::{Clock, Platter, SharedPlatter, SimDisk};

/// Number of attempts at each moment: a dying disk keeps different sectors each time.
const SEEDS: u64 = 40;

/// Content that a store must have after a restart, and further content that it may have.
#[derive(Debug, Default)]
struct Promised {
    /// Terms of acknowledged entries that were not purged or truncated, from entry 0 on.
    entries: Vec<u64>,
    /// All terms that each entry was ever given, acknowledged or not.
    issued: BTreeMap<u64, Vec<u64>>,
    vote: u8,
}

fn record(term: u64, index: u64) -> Record {
    let payload = format!("entry {index} of term {term} {}", "x".repeat(300)).into();
    Record { position: Position { term, index }, kind: Kind::Command, payload }
}

fn open(platter: &SharedPlatter) -> Store {
    let disk = SimDisk::new(platter, Clock::new(Instant::now(), 0, 1000), Duration::ZERO);
    // Several segments with a few groups each, and marks as often as possible.
    let config = StoreConfig { segment_bytes: 6_000, cache_bytes: 0, mark_after_idle: Duration::from_millis(1) };
    match Store::open_on(Arc::new(disk), Path::new("/log"), config) {
        Ok((store, _)) => store,
        Err(error) => panic!("it does not open again: {error}"),
    }
}

async fn wait(change: impl FnOnce(Done) -> io::Result<()>) -> io::Result<()> {
    let (tx, rx) = oneshot::channel();
    change(Box::new(move |outcome| drop(tx.send(outcome))))?;
    rx.await.map_err(|_| io::Error::other("the store was dropped"))?
}

impl Promised {
    fn issue(&mut self, term: u64, first: u64, count: u64) -> Vec<Record> {
        let records: Vec<Record> = (first..first + count).map(|index| record(term, index)).collect();
        for record in &records {
            self.issued.entry(record.position.index).or_default().push(term);
        }
        records
    }

    async fn append(&mut self, store: &Store, term: u64, count: u64) -> io::Result<()> {
        let first = store.last().next;
        let records = self.issue(term, first, count);
        wait(|done| store.append(records, done)).await?;
        self.entries.extend((0..count).map(|_| term));
        Ok(())
    }

    /// Appends an entry that other servers committed before it is on this disk.
    async fn append_committed(&mut self, store: &Store, term: u64, count: u64) -> io::Result<()> {
        let first = store.last().next;
        let records = self.issue(term, first, count);
        let (tx, rx) = oneshot::channel();
        store.append(records, Box::new(move |outcome| drop(tx.send(outcome))))?;
        store.save_committed(store.last())?;
        rx.await.map_err(|_| io::Error::other("the store was dropped"))??;
        self.entries.extend((0..count).map(|_| term));
        Ok(())
    }

    async fn truncate(&mut self, store: &Store, next: u64) -> io::Result<()> {
        self.entries.truncate(usize::try_from(next).unwrap());
        wait(|done| store.truncate(next, done)).await
    }

    async fn vote(&mut self, store: &Store, vote: u8) -> io::Result<()> {
        wait(|done| store.save_vote(vec![vote], done)).await?;
        self.vote = vote;
        Ok(())
    }

    /// A follower's log operations: changing leaders, truncated entries, purges.
    async fn live(&mut self, store: &Store) -> io::Result<()> {
        self.vote(store, 1).await?;
        self.append(store, 1, 3).await?;
        self.append(store, 1, 12).await?;
        for _ in 0..6 {
            self.append(store, 1, 1).await?;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.append_committed(store, 1, 2).await?;
        let committed = store.last().next;
        self.append(store, 1, 4).await?;
        self.append(store, 1, 1).await?;
        self.append(store, 1, 5).await?;
        tokio::time::sleep(Duration::from_millis(5)).await;
        // Truncate over several segments, then within one.
        self.truncate(store, committed).await?;
        self.vote(store, 2).await?;
        self.append(store, 2, 1).await?;
        self.append(store, 2, 3).await?;
        self.append(store, 2, 2).await?;
        self.truncate(store, committed + 1).await?;
        self.append_committed(store, 3, 4).await?;
        self.truncate(store, committed + 4).await?;
        self.append(store, 4, 1).await?;
        wait(|done| store.purge(Edge { term: 1, next: 14 }, done)).await?;
        self.append(store, 4, 12).await?;
        store.close();
        Ok(())
    }

    fn holds(&self, store: &Store) {
        let oldest = store.oldest();
        let mut found = Vec::new();
        while oldest + (found.len() as u64) < store.last().next {
            let before = found.len();
            found.extend(store.read(oldest + before as u64..u64::MAX, 1 << 20).unwrap());
            assert!(found.len() > before, "no gap");
        }
        for record in &found {
            let position = record.position;
            assert!(self.issued[&position.index].contains(&position.term), "nobody wrote {position}");
            assert_eq!(*record, self::record(position.term, position.index));
        }
        for (index, term) in (0..).zip(&self.entries).skip_while(|(index, _)| *index < oldest) {
            let there = found.iter().find(|record| record.position.index == index).map(|record| record.position.term);
            assert_eq!(there, Some(*term), "entry {index}");
        }
        assert!(store.vote().first().copied().unwrap_or(0) >= self.vote);
    }
}

#[tokio::test(start_paused = true)]
async fn store_opens_with_all_acknowledged_entries_after_a_power_cut_anywhere() {
    let mut moments = 0;
    for seed in 0..SEEDS {
        for changes in 1.. {
            let platter = Platter::new(seed * 1_000 + changes);
            let store = open(&platter);
            platter.lock().die_after(changes);
            let mut promised = Promised::default();
            let lived = promised.live(&store).await;
            drop(store);
            let died = platter.lock().dies_after == Some(0);
            platter.lock().crash();
            eprintln!("seed {seed}, the power goes at change {changes}: {lived:?}");
            promised.holds(&open(&platter));
            // The repairs of a start survive a crash right after it.
            platter.lock().crash();
            promised.holds(&open(&platter));
            moments = changes;
            if !died {
                break;
            }
        }
    }
    assert!(moments > 100, "{moments} changes");
}
