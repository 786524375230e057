//! Checks of a subscriber on the events that it receives.

use std::io::{Read, Write};
use std::net::TcpListener;

use super::*;

/// A server that sends events of node pools of the run "load" at these indexes to one subscriber, and then nothing
/// until it disconnects.
fn server_that_tells(indexes: &[u64]) -> Result<(SocketAddr, JoinHandle<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let frames: String = indexes
        .iter()
        .map(|index| {
            let event = serde_json::json!({"Type": "NodePoolUpserted", "Index": index,
                "Payload": {"NodePool": {"Name": "load-0", "Description": index.to_string()}}});
            format!("{}\n", serde_json::json!({"Index": index, "Events": [event]}))
        })
        .collect();
    let serving = thread::spawn(move || {
        let Ok((mut subscriber, _)) = listener.accept() else { return };
        let told = subscriber.write_all(format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{frames}").as_bytes());
        // The subscriber sends nothing after its request; the end of its stream is its disconnect.
        let _ = told.and_then(|()| subscriber.read_to_end(&mut Vec::new()));
    });
    Ok((address, serving))
}

#[test]
fn roaming_subscriber_returns_no_events_after_its_end_index() -> Result<()> {
    let (address, serving) = server_that_tells(&[5, 6, 7])?;
    let roamer = Roamer::start(&[address], 0, "load")?;
    let deadline = Instant::now() + Duration::from_secs(60);
    ensure!(until(deadline, || roamer.seen.last.load(Ordering::SeqCst) == 7), "the subscriber is told everything");
    let (events, _) = roamer.finish(6, Duration::from_secs(60))?;
    assert_eq!(events.iter().map(|event| event.index).collect::<Vec<_>>(), [5, 6]);
    serving.join().map_err(|_| anyhow!("the server panicked"))
}
