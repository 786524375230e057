//! Raw requests, one after another, to a server in memory: all are answered in the time that blocking queries have,
//! errors are short, and nothing panics. Connections and their deadlines are not here: `api/tests/it/hostile.rs` has
//! those.
//!
//! An input is requests apart by the byte 0x1e, each `METHOD target`, lines of headers, an empty line, and a body.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use songline_api::Reads;
use songline_api::http::Api;
use songline_api::keyring::Keyring;
use songline_commands::{RegisterJob, RegisterNode};
use songline_model::{EvalId, Evaluation, Job, Node, NodeId, Secret};

use crate::server::Memory;

/// Bytes that the text of an error may have.
const ERROR_BYTES_MAX: usize = 4096 + 64;
/// Bytes of an answer that are read before it is taken for an endless one.
const READ_BYTES_MAX: usize = 1 << 20;
/// Requests of one input.
const REQUESTS_MAX: usize = 8;

/// Sends the requests. The clock stands still while there is work and jumps when there is none, so nothing here waits.
pub fn http(input: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime starts");
    runtime.block_on(async {
        let server = seeded();
        let api = Api::new(Arc::clone(&server));
        for part in input.split(|byte| *byte == 0x1e).take(REQUESTS_MAX) {
            let Some(request) = parsed(part) else { continue };
            let answered = tokio::time::timeout(Duration::from_secs(3600), api.answer(request)).await;
            let response = answered.expect("a blocking query ends");
            let is_error = response.status().as_u16() >= 400;
            let mut body = response.into_body();
            let (mut read, began) = (0, tokio::time::Instant::now());
            // An event stream goes on for ever; what has not come after two heartbeats is not awaited.
            while let Ok(Some(Ok(frame))) = tokio::time::timeout(Duration::from_secs(20), body.frame()).await {
                read += frame.data_ref().map_or(0, |data| data.len());
                if read > READ_BYTES_MAX {
                    break;
                }
                tokio::time::advance(Duration::from_millis(1)).await;
                if began.elapsed() > Duration::from_secs(60) {
                    break;
                }
            }
            assert!(!is_error || read <= ERROR_BYTES_MAX, "an error of {read} bytes");
        }
    });
}

/// A server with a key, a node and a job.
fn seeded() -> Arc<Memory> {
    let server = Memory::new();
    server.run(server.keyring().fresh_key(false).expect("makes keys"));
    let node =
        Node { id: NodeId::from_bytes([3; 16]), secret_id: Secret::new("s"), name: "n".into(), ..Node::default() };
    server.run(RegisterNode { node, create_node_pool: true });
    let job = Job { id: "web".into(), namespace: "default".into(), name: "web".into(), priority: 50, ..Job::default() };
    let eval = Evaluation {
        id: EvalId::from_bytes([4; 16]),
        namespace: "default".into(),
        job_id: "web".into(),
        ..Evaluation::default()
    };
    server.run(RegisterJob { job: job.into(), eval: Some(eval), versions_max: 6, ..RegisterJob::default() });
    server
}

/// The request of these bytes. `None`: hyper would have refused it before anything of ours sees it.
fn parsed(part: &[u8]) -> Option<Request<Body>> {
    let (head, body) = match part.windows(2).position(|two| two == b"\n\n") {
        Some(at) => (&part[..at], &part[at + 2..]),
        None => (part, &[][..]),
    };
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = lines.next()?;
    let space = first.iter().position(|byte| *byte == b' ')?;
    let mut builder = Request::builder().method(&first[..space]).uri(&first[space + 1..]);
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        builder = builder.header(&line[..colon], line[colon + 1..].trim_ascii());
    }
    let request = builder.body(Body::from(body.to_vec())).ok()?;
    request.uri().path().starts_with('/').then_some(request)
}
