//! Guarantees of this runtime beyond tokio's.

use std::sync::Arc;

use openraft::async_runtime::{AsyncRuntime, Watch, WatchReceiver, WatchSender};
use parking_lot::Mutex;
use rand::Rng;

use super::{Runtime, seed_this_thread, watch};

#[test]
fn the_same_seed_draws_the_same_numbers() {
    let draw = |seed| {
        seed_this_thread(seed);
        (0..3).map(|_| Runtime::thread_rng().next_u64()).collect::<Vec<_>>()
    };
    assert_eq!(draw(Some(7)), draw(Some(7)));
    assert_ne!(draw(Some(7)), draw(Some(8)));
    assert_ne!(draw(None), draw(None));
}

#[tokio::test]
async fn waiters_are_woken_in_the_order_they_came() {
    let (tx, rx) = watch::Watches::channel(0);
    let woken = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for name in 0..20 {
        let (mut rx, woken) = (rx.clone(), Arc::clone(&woken));
        waiters.push(tokio::spawn(async move {
            rx.changed().await.unwrap();
            woken.lock().push((name, *rx.borrow_watched()));
        }));
    }
    tokio::task::yield_now().await;
    tx.send(5).unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert_eq!(*woken.lock(), (0..20).map(|name| (name, 5)).collect::<Vec<_>>());
}

#[tokio::test]
async fn watch_receiver_gets_an_error_when_all_senders_are_gone() {
    let (tx, mut rx) = watch::Watches::channel(0);
    tx.send(1).unwrap();
    let other = tx.clone();
    drop(tx);
    rx.changed().await.unwrap();
    let waiting = tokio::spawn(async move { rx.changed().await });
    tokio::task::yield_now().await;
    drop(other);
    waiting.await.unwrap().unwrap_err();
}

#[tokio::test]
async fn watch_send_fails_without_receivers() {
    let (tx, rx) = watch::Watches::channel(0);
    drop(rx);
    tx.send(1).unwrap_err();
    let mut rx = tx.subscribe();
    assert!(!tx.send_if_modified(|_| false));
    assert!(tx.send_if_modified(|value| std::mem::replace(value, 2) == 0));
    rx.changed().await.unwrap();
    assert_eq!(*rx.borrow_and_update(), 2);
}
