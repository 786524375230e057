//! Three servers in one process, over real connections.

use std::time::Duration;

use anyhow::Context;
use songline_api::Leader;
use songline_events::hub::{Dialect, Format, Interest, Start};
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::testing::{Settings, TestServer, http_client};

struct Three {
    servers: Vec<TestServer>,
    http: reqwest::Client,
}

impl Three {
    async fn start() -> anyhow::Result<Self> {
        let mut servers = Vec::new();
        for _ in 0..3 {
            servers.push(TestServer::start(Settings::next_of(3, &servers)).await?);
        }
        Ok(Self { servers, http: http_client() })
    }

    /// Number of the leader, once there is one.
    async fn leader(&self) -> usize {
        loop {
            if let Some(found) =
                self.servers.iter().position(|it| it.core.leader() == Leader::Here && it.core.term().is_some())
            {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn put(&self, asked: usize, name: &str) -> anyhow::Result<u64> {
        let url = format!("{}/v1/namespace", self.servers[asked].http_addr());
        let response = self.http.put(url).json(&serde_json::json!({ "Name": name })).send().await?;
        let index = response.headers().get("x-nomad-index").and_then(|index| index.to_str().ok()?.parse().ok());
        let (status, text) = (response.status(), response.text().await?);
        index.with_context(|| format!("{name}: {status} {text}"))
    }

    /// Names of the namespaces, and the time in milliseconds since the answering server last heard of the leader.
    async fn names(&self, asked: usize, how: &str) -> anyhow::Result<(Vec<String>, u64)> {
        let url = format!("{}/v1/namespaces?{how}", self.servers[asked].http_addr());
        let response = self.http.get(url).send().await?;
        let contact = response.headers()["x-nomad-lastcontact"].to_str()?.parse()?;
        let rows: Vec<serde_json::Value> = response.json().await?;
        let names =
            rows.iter().filter_map(|row| row["Name"].as_str().map(str::to_owned)).filter(|name| name != "default");
        Ok((names.collect(), contact))
    }

    /// Indexes of the entries after `after` up to `last`, as this server's stream has them.
    async fn streamed(&self, asked: usize, after: u64, last: u64) -> Vec<u64> {
        let interest = Interest::parse("*", std::iter::empty()).expect("is valid");
        let subscription =
            self.servers[asked].core.events().subscribe(interest, Format::Json, Dialect::Full, Start::After(after));
        let mut stream = std::pin::pin!(subscription.into_stream(CancellationToken::new()));
        let mut indexes = Vec::new();
        while indexes.last().is_none_or(|index| *index < last) {
            let piece = stream.next().await.expect("goes on").expect("a piece");
            for line in String::from_utf8_lossy(&piece).lines() {
                let frame: serde_json::Value = serde_json::from_str(line).expect("JSON");
                assert!(frame.get("Gap").is_none() && frame.get("Closed").is_none(), "{frame}");
                indexes.extend(frame.get("Events").and_then(|_| frame["Index"].as_u64()));
            }
        }
        indexes.retain(|index| *index <= last);
        indexes
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn any_server_answers_while_the_leader_changes() -> anyhow::Result<()> {
    let mut three = Three::start().await?;
    let first = three.leader().await;
    let (one, other) = ((first + 1) % 3, (first + 2) % 3);
    let mut written = Vec::new();
    for n in 0..20 {
        let name = format!("early-{n:02}");
        three.put([first, one, other][n % 3], &name).await?;
        written.push(name);
    }
    for asked in [first, one, other] {
        for how in ["", "consistent"] {
            assert_eq!(three.names(asked, how).await?, (written.clone(), 0), "the leader has answered");
        }
    }
    let before = three.put(one, "last-of-the-first").await?;
    written.push("last-of-the-first".to_owned());
    assert_eq!(three.streamed(one, 0, before).await, three.streamed(other, 0, before).await);

    // The leader stops; requests to another server continue to work.
    let gone = three.servers.remove(first);
    let stopping = tokio::spawn(gone.stop());
    let asked = if one > first { one - 1 } else { one };
    for n in 0..20 {
        let name = format!("late-{n:02}");
        three.put(asked, &name).await?;
        written.push(name);
    }
    stopping.await?;
    written.sort();
    let after = three.put(1 - asked, "the-end").await?;
    written.push("the-end".to_owned());
    assert_eq!(three.names(asked, "").await?.0, written);
    // A subscriber of one server resumes at the other one.
    let whole = three.streamed(asked, 0, after).await;
    let mut pieces = three.streamed(asked, 0, before).await;
    pieces.extend(three.streamed(1 - asked, before, after).await);
    assert_eq!(pieces, whole);
    assert!(whole.is_sorted_by(|one, next| one < next));

    // One of three acknowledges nothing, but answers stale reads.
    let alone = three.servers.remove(asked);
    for server in three.servers.drain(..) {
        server.stop().await;
    }
    three.servers.push(alone);
    let refused = three.put(0, "too-late").await.expect_err("there is no majority").to_string();
    assert!(
        refused.contains("500") && (refused.contains("No cluster leader") || refused.contains("outcome")),
        "{refused}"
    );
    let (names, contact) = three.names(0, "stale").await?;
    assert_eq!(names, written);
    assert!(contact > 0, "it has been a while since a leader was heard");
    Ok(())
}
