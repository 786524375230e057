//! Allocations that follow one of another node: they wait for its end, and take its data over.

use bytes::Bytes;
use songline_client::PublishSettings;
use songline_model::{AllocClientStatus, AllocId, Allocation, Dur, EphemeralDisk, JobType, Node, NodeId};
use songline_rpc::{Gauges, NodeAgent, Origin};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::fake::{Stage, alloc, shell, until};

const TOKEN: &str = "of-the-successor";

/// An HTTP interface of another node that has the data of one allocation, for callers with the token.
async fn serve(id: AllocId, data: Vec<Bytes>) -> Node {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let http_addr = listener.local_addr().expect("an address").to_string().into();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let count = stream.read(&mut request).await.unwrap_or(0);
            let request = String::from_utf8_lossy(&request[..count]).to_lowercase();
            let asked = request.starts_with(&format!("get /v1/client/allocation/{id}/snapshot "));
            let may = request.contains(&format!("x-nomad-token: {TOKEN}"));
            let head: &[u8] = if asked && may {
                b"HTTP/1.1 200 OK\r\n\r\n"
            } else {
                b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n"
            };
            let _ = stream.write_all(head).await;
            for piece in data.iter().filter(|_| asked && may) {
                let _ = stream.write_all(piece).await;
            }
        }
    });
    Node { id: NodeId::from_bytes([9; 16]), http_addr, ..Node::default() }
}

fn with_disk(mut placed: Allocation, disk: EphemeralDisk) -> Allocation {
    let mut job = songline_model::Job::clone(placed.job.as_ref().expect("has a job"));
    job.task_groups.as_mut().expect("has groups")[0].ephemeral_disk = Some(disk);
    placed.job = Some(std::sync::Arc::new(job));
    placed
}

/// Number of allocations that wait, as the metrics have it.
fn blocked(stage: &Stage) -> Option<f64> {
    let gauges = stage.client.gauges();
    gauges.iter().find(|gauge| gauge.name == "nomad.client.allocations.blocked").map(|gauge| gauge.value)
}

/// Output of an allocation whose predecessor left data on another node.
async fn found_after(migrate: bool, token: &str) -> String {
    let before = Stage::new().await;
    let script = "for d in $NOMAD_ALLOC_DIR/data $NOMAD_TASK_DIR $NOMAD_SECRETS_DIR; do basename $d > $d/f; done";
    let id = before.run(shell(script));
    before.until_status(id, AllocClientStatus::Complete).await;
    let mut pieces = before.client.alloc_snapshot(id).await.expect("it has data");
    let mut data = Vec::new();
    while let Some(piece) = pieces.recv().await {
        data.push(piece.expect("reads"));
    }
    let node = serve(id, data).await;

    let after = Stage::with(|config| {
        config.publish = PublishSettings { node: true, interval: Dur::from_millis(50), ..PublishSettings::default() };
    })
    .await;
    let first = Allocation { id, client_status: AllocClientStatus::Running, ..Allocation::default() };
    let script = "cat $NOMAD_ALLOC_DIR/data/f $NOMAD_TASK_DIR/f $NOMAD_SECRETS_DIR/f 2>/dev/null; true";
    let disk = EphemeralDisk { sticky: true, migrate, ..EphemeralDisk::default() };
    let next = with_disk(alloc(JobType::Batch, vec![shell(script)]), disk);
    let next = Allocation { previous_allocation: Some(id), ..next };
    let next = after.servers.place_after(first, node, token, next);
    // The second query tells that the answer to the first did not end the wait.
    until("asked again", || (after.servers.asked_elsewhere() > 1).then_some(())).await;
    assert!(!after.alloc_dir(next).exists(), "it waits for the end of its predecessor");
    until("the gauge says so", || (blocked(&after) == Some(1.0)).then_some(())).await;
    after.servers.end_elsewhere(id);
    after.until_status(next, AllocClientStatus::Complete).await;
    until("the gauge says that it is over", || (blocked(&after) == Some(0.0)).then_some(())).await;
    let leftover = after.alloc_dir(id).exists();
    assert!(!leftover, "nothing of the predecessor stays beside it");
    after.logs(next, "stdout", 0, Origin::Start).await.expect("has logs")
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_an_alloc_on_another_node_moves_to_its_successor() {
    assert_eq!(found_after(true, TOKEN).await, "data\nlocal\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn successor_starts_without_data_when_the_other_node_refuses_it() {
    assert_eq!(found_after(true, "of-another").await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn sticky_disk_that_does_not_migrate_stays_on_its_node() {
    assert_eq!(found_after(false, TOKEN).await, "");
}
