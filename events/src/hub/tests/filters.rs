//! Stories of filters on events without a field of the expression.

use std::sync::Arc;

use songline_commands::Kind;
use songline_model::{Job, Node, NodeId};
use songline_projections::Change;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

use super::{everything, settled};
use crate::hub::{Dialect, EventHub, Expression, Format, HubConfig, Start};

/// A node at 2, the job `web` at 3 and the job `batch` at 4, which is purged at 5.
async fn past() -> Arc<EventHub> {
    let hub = EventHub::start(HubConfig::default(), None, 2).expect("starts");
    let node = Some(Arc::new(Node { id: NodeId::from_bytes([7; 16]), ..Node::default() }));
    hub.publish(2, Kind::NodeRegister, Arc::new(vec![Change::Node { before: None, after: node }]));
    let job = |id: &str| Some(Arc::new(Job { id: id.into(), namespace: "default".into(), ..Job::default() }));
    hub.publish(3, Kind::JobRegister, Arc::new(vec![Change::Job { before: None, after: job("web") }]));
    hub.publish(4, Kind::JobRegister, Arc::new(vec![Change::Job { before: None, after: job("batch") }]));
    hub.publish(5, Kind::JobDeregister, Arc::new(vec![Change::Job { before: job("batch"), after: None }]));
    settled(&hub, 5).await;
    hub
}

/// Indexes of the entries with an event that matches.
async fn matching(hub: &Arc<EventHub>, text: &str) -> Vec<u64> {
    let interest = everything().with_expression(Some(Expression::parse(text).expect("compiles")));
    let subscription = hub.subscribe(interest, Format::Json, Dialect::Full, Start::After(1));
    let mut stream = std::pin::pin!(subscription.into_stream(CancellationToken::new()));
    let mut out = Vec::new();
    loop {
        let piece = stream.next().await.expect("the stream goes on").expect("a piece");
        for line in String::from_utf8_lossy(&piece).lines() {
            let frame: serde_json::Value = serde_json::from_str(line).expect("JSON");
            if frame["CaughtUp"] == true {
                return out;
            }
            out.extend(frame["Index"].as_u64());
        }
    }
}

#[tokio::test]
async fn order_of_terms_does_not_change_what_a_filter_matches() {
    let hub = past().await;
    for (text, expected) in [
        ("Topic == Node or Payload.Job.ID == web", &[2, 3][..]),
        ("Payload.Job.ID == web or Topic == Node", &[2, 3]),
        ("Payload.Job.ID != web", &[4, 5]),
        ("not Payload.Job.ID == web", &[4, 5]),
        ("not (Topic == Job and Payload.Job.ID == web)", &[2, 4, 5]),
        ("not (Payload.Job.ID == web and Topic == Job)", &[2, 4, 5]),
        ("Payload.Deleted is empty", &[2, 3, 4]),
        ("Payload.Deleted == true or Topic == Node", &[2, 5]),
    ] {
        assert_eq!(matching(&hub, text).await, expected, "{text}");
    }
}
