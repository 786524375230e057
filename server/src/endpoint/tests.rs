//! Answers to a node that waits for its allocations while an archive is restored.

use std::collections::BTreeSet;

use songline_api::{RestoreChoices, Upkeep as _};
use songline_model::Secret;

use super::*;
use crate::lead::tests::Alone;

fn auth() -> NodeAuth {
    NodeAuth { id: NodeId::from_bytes([7; 16]), secret: Secret::new("secret") }
}

fn ids(answer: &ClientAllocs) -> BTreeSet<AllocId> {
    answer.allocs.iter().map(|(id, _)| *id).collect()
}

async fn place(alone: &Alone, job: &str) {
    alone.register(job).await;
    alone.until("the job is placed", |alone| (alone.placed(job) == 2).then_some(())).await;
}

/// Saves an archive, runs `job`, lets the node wait for news, and restores the archive. Returns the last answer before
/// and the first one after.
async fn around_a_restore(alone: &Alone, job: &str) -> (ClientAllocs, ClientAllocs) {
    let core = Arc::clone(alone.core());
    let archive = core.snapshot_save().await.expect("it saves");
    place(alone, job).await;
    let before = core.node_get_client_allocs(&auth(), BlockingQuery::default()).await.expect("it answers");
    let query = BlockingQuery { min_index: before.index, ..BlockingQuery::default() };
    let asking = Arc::clone(&core);
    let waiting = tokio::spawn(async move { asking.node_get_client_allocs(&auth(), query).await });
    alone.until("the node waits", |alone| (alone.core().watches().waiting() > 0).then_some(())).await;
    let restored = core.snapshot_restore(archive.file, Actor::Anonymous, None, RestoreChoices::default()).await;
    restored.expect("it restores");
    (before, waiting.await.expect("no panic").expect("it answers"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restore_makes_a_waiting_node_fetch_the_allocs_of_the_archive() {
    let alone = Alone::start().await;
    place(&alone, "web").await;
    let (before, after) = around_a_restore(&alone, "later").await;
    let of_web: BTreeSet<AllocId> = alone.core().view().allocs_of_job("default", "web").map(|row| row.id).collect();
    assert_eq!((ids(&before).len(), ids(&after)), (4, of_web));
    assert!(after.index > before.index, "{} is not above {}", after.index, before.index);
    assert!(after.allocs.values().all(|index| *index == after.index), "{after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restore_of_an_archive_without_allocs_gives_a_waiting_node_an_empty_list_with_a_new_index() {
    let alone = Alone::start().await;
    let (before, after) = around_a_restore(&alone, "later").await;
    assert_eq!((ids(&before).len(), ids(&after).len()), (2, 0));
    assert!(after.index > before.index, "{} is not above {}", after.index, before.index);
}
