//! Stories of waiting readers: a change wakes its readers and no others.

use std::sync::Arc;

use songline_model::Namespace;
use songline_projections::{Change, Table};

use super::{WatchKey, Watches};

fn namespace(name: &str) -> Change {
    Change::Namespace { before: None, after: Some(Arc::new(Namespace { name: name.into(), ..Namespace::default() })) }
}

#[tokio::test]
async fn a_change_between_registering_and_waiting_is_not_lost() {
    let watches = Watches::default();
    let watcher = watches.register(&[WatchKey::Named(Table::Namespaces, "dev".into())]);
    watches.wake(&[namespace("dev")]);
    watcher.changed().await;
}

#[tokio::test]
async fn change_of_another_key_does_not_wake_a_watcher() {
    let watches = Watches::default();
    let watcher = watches.register(&[WatchKey::Named(Table::Namespaces, "dev".into())]);
    watches.wake(&[namespace("prod")]);
    let woken = tokio::select! {
        biased;
        () = watcher.changed() => true,
        () = std::future::ready(()) => false,
    };
    assert!(!woken);
}

#[tokio::test]
async fn restore_wakes_every_watcher() {
    let watches = Watches::default();
    let watcher = watches.register(&[WatchKey::Table(Table::Jobs)]);
    watches.wake(&[Change::Restored]);
    watcher.changed().await;
}

#[test]
fn watchers_know_whether_the_state_was_replaced_since_their_registration() {
    let watches = Watches::default();
    let early = watches.register(&[WatchKey::Named(Table::Namespaces, "dev".into())]);
    watches.wake(&[namespace("dev")]);
    assert!(!early.is_state_replaced(), "a change of a row replaces no state");
    watches.wake(&[Change::Restored]);
    let late = watches.register(&[WatchKey::Named(Table::Namespaces, "dev".into())]);
    assert_eq!((early.is_state_replaced(), late.is_state_replaced()), (true, false));
}

#[test]
fn watch_keys_without_watchers_are_dropped() {
    let watches = Watches::default();
    drop(watches.register(&[WatchKey::Table(Table::Jobs), WatchKey::Named(Table::Namespaces, "dev".into())]));
    assert_eq!(watches.waiting(), 0);
    assert!(watches.shards.iter().all(|shard| shard.lock().is_empty()));
}
