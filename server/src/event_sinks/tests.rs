//! Lines of streams, and deliveries to a receiver in memory: through failures, and under the next leader. The program's
//! receivers have tests of their own.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use songline_api::Proposal;
use songline_commands::{Actor, Command, DeleteEventSinks, UpsertEventSinks, UpsertNodePools};
use songline_model::{EventSinkStatus, NodePool};

use super::line::{Line, lines};
use super::*;
use crate::leadership::tests::Cluster;

#[test]
fn a_line_says_how_far_the_stream_has_come() {
    for (line, expected) in [
        (r#"{"Events":[{"Payload":{"Events":[1]}},{}],"Index":7}"#, Line::Events { index: 7, count: 2 }),
        (r#"{"Index":0,"Gap":{"Oldest":9}}"#, Line::Gap { oldest: 9 }),
        (r#"{"Index":7,"CaughtUp":true}"#, Line::CaughtUp(7)),
        (r#"{"Index":7,"Checkpoint":true}"#, Line::Through(7)),
        (r#"{"Index":7,"FellBehind":true}"#, Line::FellBehind),
        (r#"{"Index":7,"Closed":"why"}"#, Line::Closed),
        ("{}", Line::Nothing),
    ] {
        assert_eq!(Line::read(line.as_bytes()).expect("is JSON"), expected, "{line}");
    }
    assert!(Line::read(b"subscription closed").is_err());
    assert_eq!(lines(Bytes::from("a\nb\n")), ["a\n", "b\n"]);
}

/// A receiver that remembers positions, and refuses every delivery the first time.
#[derive(Debug, Default, Clone)]
struct Fickle(Arc<Mutex<Memory>>);

#[derive(Debug, Default)]
struct Memory {
    refused: BTreeSet<u64>,
    came: Vec<u64>,
}

impl Receivers for Fickle {
    fn takes(&self, _sink: &EventSink) -> Result<(), String> {
        Ok(())
    }

    fn open(&self, _sink: &EventSink, _run: u64) -> Result<Box<dyn Receiver>, DeliveryError> {
        Ok(Box::new(self.clone()))
    }
}

impl Receiver for Fickle {
    fn deliver<'a>(&'a mut self, parcel: &'a Parcel) -> Delivering<'a> {
        Box::pin(async move {
            let mut memory = self.0.lock();
            if memory.refused.insert(parcel.last()) {
                return Err(DeliveryError("not yet".to_owned()));
            }
            memory.came.extend(parcel.frames.iter().map(|frame| frame.position));
            Ok(())
        })
    }
}

async fn write(core: &Core, command: impl Into<Command>) -> u64 {
    let proposal = Proposal { actor: Actor::Anonymous, cause: None, idempotency: None, command: command.into() };
    core.write(proposal).await.expect("the leader takes it").index
}

async fn make_pool(core: &Core, n: usize) -> u64 {
    let pool = NodePool { name: format!("pool-{n}").into(), ..NodePool::default() };
    write(core, UpsertNodePools { node_pools: vec![pool] }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_sink_gets_every_event_in_order_across_leaders() {
    let receiver = Fickle::default();
    let mut cluster = Cluster::start_with(Some(Arc::new(receiver.clone()))).await;
    let (first, leader) = cluster.leader().await;
    let sink = EventSink {
        id: "hook".into(),
        namespace: "*".into(),
        topics: [("NodePool".into(), Vec::new())].into(),
        batch_size: 2,
        ..EventSink::default()
    };
    write(&leader, UpsertEventSinks { sinks: vec![sink], position: Some(1) }).await;
    let mut wanted = Vec::new();
    for n in 0..6 {
        wanted.push(make_pool(&leader, n).await);
    }
    cluster.until("the first is delivered", |_| (!receiver.0.lock().came.is_empty()).then_some(())).await;
    assert_eq!(
        leader.view().event_sink_progress("hook").map(|row| row.last_error.to_string()).as_deref(),
        Some("not yet")
    );
    cluster.servers[&first].core.hand_over(None).await.expect("another server can lead");
    let (second, leader) = cluster.leader().await;
    assert_ne!(first, second);
    for n in 6..9 {
        wanted.push(make_pool(&leader, n).await);
    }
    let last = *wanted.last().expect("there are some");
    cluster
        .until("all is delivered and written", |it| {
            let view = it.servers[&second].core.view();
            let row = view.event_sink_progress("hook")?;
            (row.position >= last && row.status == EventSinkStatus::Delivering).then_some(())
        })
        .await;
    assert_eq!(leader.event_sink_reached("hook").map(|reached| reached >= last), Some(true));
    let (mut known, mut came) = (BTreeSet::new(), Vec::new());
    came.extend(receiver.0.lock().came.iter().copied().filter(|position| known.insert(*position)));
    assert_eq!(came, wanted);
    assert_eq!(leader.view().event_sink_progress("hook").map(|row| row.delivered), Some(9));

    write(&leader, DeleteEventSinks { names: vec!["hook".into()] }).await;
    cluster.until("its delivery ends", |_| leader.event_sink_reached("hook").is_none().then_some(())).await;
    drop(leader);
    let left: Vec<usize> = cluster.servers.keys().copied().collect();
    for at in left {
        cluster.stop(at).await;
    }
}
