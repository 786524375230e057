//! Servers in this process whose disks fail and recover: no acknowledged write is missing, and no event is delivered
//! twice.

#[path = "../../../tests/support/moody.rs"]
#[allow(dead_code, reason = "tests of the log need more of it")]
mod moody;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use songline_api::Leader;
use songline_events::hub::{Dialect, Format, Interest, Start};
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::Core;
use crate::testing::{Settings, TestServer, http_client};
use moody::Moody;

/// Timeout of every step; the machine may be busy.
const WITHIN: Duration = Duration::from_secs(90);

/// Prefix of names whose write has an unknown outcome.
const LOST: &str = "lost-";

/// The names found, without those of unknown outcome.
fn known(found: Vec<String>, written: &[String]) -> Vec<String> {
    found.into_iter().filter(|name| !name.starts_with(LOST) || written.contains(name)).collect()
}

struct Servers {
    servers: Vec<TestServer>,
    disks: Vec<Moody>,
    _dirs: Vec<tempfile::TempDir>,
    http: reqwest::Client,
}

impl Servers {
    async fn start(count: usize) -> anyhow::Result<Self> {
        let (mut servers, mut disks, mut dirs): (Vec<TestServer>, Vec<Moody>, Vec<_>) = Default::default();
        for _ in 0..count {
            let (dir, disk) = (tempfile::tempdir()?, Moody::default());
            let settings = if count > 1 { Settings::next_of(count, &servers) } else { Settings::default() };
            let settings = Settings { data_dir: Some(dir.path().to_owned()), disk: Arc::new(disk.clone()), ..settings };
            servers.push(TestServer::start(settings).await?);
            disks.push(disk);
            dirs.push(dir);
        }
        Ok(Self { servers, disks, _dirs: dirs, http: http_client() })
    }

    fn core(&self, n: usize) -> &Arc<Core> {
        &self.servers[n].core
    }

    async fn until<T>(&self, what: &str, found: impl Fn(&Self) -> Option<T>) -> anyhow::Result<T> {
        let looked = async {
            loop {
                if let Some(found) = found(self) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(WITHIN, looked).await.with_context(|| format!("waited too long until {what}"))
    }

    /// Number of a server that leads and is not in `none`.
    async fn leader_but(&self, none: &[usize]) -> anyhow::Result<usize> {
        self.until("somebody leads", |it| {
            let leads =
                |n: &usize| !none.contains(n) && it.core(*n).leader() == Leader::Here && it.core(*n).term().is_some();
            (0..it.servers.len()).find(leads)
        })
        .await
    }

    async fn failed(&self, n: usize) -> anyhow::Result<()> {
        self.until("it has noticed", |it| it.core(n).disk_trouble()).await.map(|_| ())
    }

    async fn back(&self, n: usize) -> anyhow::Result<()> {
        self.until("it is back", |it| it.core(n).disk_trouble().is_none().then_some(())).await
    }

    /// Creates a namespace through one server. Returns its index, or the status and text of the refusal.
    async fn put(&self, asked: usize, name: &str) -> anyhow::Result<Result<u64, (u16, String)>> {
        let url = format!("{}/v1/namespace", self.servers[asked].http_addr());
        let response = self.http.put(url).json(&serde_json::json!({ "Name": name })).send().await?;
        let index = response.headers().get("x-nomad-index").and_then(|index| index.to_str().ok()?.parse().ok());
        Ok(match index {
            Some(index) => Ok(index),
            None => Err((response.status().as_u16(), response.text().await?)),
        })
    }

    async fn write(&self, asked: usize, name: &str) -> anyhow::Result<u64> {
        self.put(asked, name).await?.map_err(|(status, text)| anyhow::anyhow!("{name}: {status} {text}"))
    }

    async fn get(&self, asked: usize, path: &str) -> anyhow::Result<(u16, Value)> {
        let response = self.http.get(format!("{}{path}", self.servers[asked].http_addr())).send().await?;
        let (status, text) = (response.status().as_u16(), response.text().await?);
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }

    async fn names(&self, asked: usize, how: &str) -> anyhow::Result<Vec<String>> {
        let (status, rows) = self.get(asked, &format!("/v1/namespaces?{how}")).await?;
        ensure!(status == 200, "{status} {rows}");
        let rows = rows.as_array().context("a list")?.clone();
        Ok(rows
            .iter()
            .filter_map(|row| row["Name"].as_str().map(str::to_owned))
            .filter(|name| name != "default")
            .collect())
    }

    /// Value of a server's gauge.
    async fn gauge(&self, asked: usize, name: &str) -> anyhow::Result<f64> {
        let (_, metrics) = self.get(asked, "/v1/metrics").await?;
        let gauges = metrics["Gauges"].as_array().context("gauges")?;
        gauges
            .iter()
            .find(|gauge| gauge["Name"] == name)
            .and_then(|gauge| gauge["Value"].as_f64())
            .context("is measured")
    }

    /// Indexes of all entries with events up to `last`, as a stream of this server has them.
    async fn streamed(&self, asked: usize, last: u64) -> anyhow::Result<Vec<u64>> {
        let interest = Interest::parse("*", std::iter::empty()).expect("is valid");
        let subscription = self.core(asked).events().subscribe(interest, Format::Json, Dialect::Full, Start::After(0));
        let mut stream = std::pin::pin!(subscription.into_stream(CancellationToken::new()));
        let mut indexes: Vec<u64> = Vec::new();
        while indexes.last().is_none_or(|index| *index < last) {
            let piece = tokio::time::timeout(WITHIN, stream.next()).await?.context("goes on")??;
            for line in String::from_utf8_lossy(&piece).lines() {
                let frame: Value = serde_json::from_str(line)?;
                ensure!(frame.get("Gap").is_none() && frame.get("Closed").is_none(), "{frame}");
                indexes.extend(frame.get("Events").and_then(|_| frame["Index"].as_u64()));
            }
        }
        indexes.retain(|index| *index <= last);
        Ok(indexes)
    }

    async fn stop(self) {
        for server in self.servers {
            server.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn single_server_with_a_failed_disk_serves_stale_reads_and_recovers_by_itself() -> anyhow::Result<()> {
    let servers = Servers::start(1).await?;
    let mut written = Vec::new();
    for n in 0..10 {
        let name = format!("before-{n}");
        servers.write(0, &name).await?;
        written.push(name);
    }
    for round in 0..2 {
        servers.disks[0].fails(true);
        // A write that is in flight when the disk fails may or may not be committed.
        let lost = format!("lost-{round}");
        let outcome = servers.put(0, &lost).await?;
        servers.failed(0).await?;
        let (status, text) = servers.put(0, &format!("refused-{round}")).await?.err().context("nobody takes it")?;
        assert_eq!(status, 500);
        assert!(text.starts_with("the disk that holds ") && text.contains("goes on by itself"), "{text}");
        assert_eq!(servers.names(0, "stale").await?, {
            let mut all = written.clone();
            all.sort();
            all
        });
        let (status, health) = servers.get(0, "/v1/agent/health").await?;
        assert_eq!((status, health["server"]["ok"].as_bool()), (500, Some(false)));
        assert!(health["server"]["message"].as_str().is_some_and(|text| text.contains("has failed")), "{health}");
        assert!((servers.gauge(0, "songline.disk.failed").await? - 1.0).abs() < f64::EPSILON);

        servers.disks[0].fails(false);
        servers.back(0).await?;
        let after = format!("after-{round}");
        let last = servers.write(0, &after).await?;
        written.push(after);
        let mut found = servers.names(0, "consistent").await?;
        if found.contains(&lost) {
            written.push(lost);
        } else {
            assert!(outcome.is_err(), "it was acknowledged");
        }
        written.sort();
        found.sort();
        assert_eq!(found, written);
        let streamed = servers.streamed(0, last).await?;
        assert!(streamed.is_sorted_by(|a, b| a < b), "each once: {streamed:?}");
        assert_eq!(servers.get(0, "/v1/agent/health").await?.0, 200);
        assert!(servers.gauge(0, "songline.disk.failed").await? < 0.5);
    }
    servers.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn server_with_a_failed_disk_forwards_requests_and_catches_up_in_a_cluster() -> anyhow::Result<()> {
    let servers = Servers::start(3).await?;
    let mut written = Vec::new();
    for round in 0..2 {
        let leader = servers.leader_but(&[]).await?;
        // The leader first, then a follower.
        let victim = if round == 0 { leader } else { (leader + 1) % 3 };
        let name = format!("before-{round}");
        servers.write((victim + 1) % 3, &name).await?;
        written.push(name);

        servers.disks[victim].fails(true);
        // A write that is in flight when the disk fails may or may not be committed.
        if servers.put(victim, &format!("{LOST}{round}")).await?.is_ok() {
            written.push(format!("{LOST}{round}"));
        }
        for asked in (0..3).filter(|asked| *asked != victim) {
            let name = format!("during-{round}-{asked}");
            servers.write(asked, &name).await?;
            written.push(name);
        }
        servers.failed(victim).await?;
        let next = servers.leader_but(&[victim]).await?;
        let told = servers.core(next).cluster().address().to_owned();
        servers
            .until("it has heard who leads", |it| {
                (it.core(victim).leader_address() == Some(told.clone())).then_some(())
            })
            .await?;
        let name = format!("passed-on-{round}");
        servers.write(victim, &name).await?;
        written.push(name);
        written.sort();
        let found = servers.names(victim, "consistent").await?;
        assert_eq!(known(found, &written), written, "the leader has answered");

        servers.disks[victim].fails(false);
        servers.back(victim).await?;
        let name = format!("after-{round}");
        let last = servers.write(victim, &name).await?;
        written.push(name);
        written.sort();
        servers.until("it has caught up", |it| (it.core(victim).view().applied_index() >= last).then_some(())).await?;
        assert_eq!(known(servers.names(victim, "stale").await?, &written), written);
        let others = servers.streamed((victim + 1) % 3, last).await?;
        assert_eq!(servers.streamed(victim, last).await?, others, "no hole, and nothing twice");
    }
    let index = servers.write(0, "the-end").await?;
    servers
        .until("all have all", |it| (0..3).all(|n| it.core(n).view().applied_index() >= index).then_some(()))
        .await?;
    let digests: Vec<_> = (0..3).map(|n| servers.core(n).view().digest()).collect();
    assert!(digests.windows(2).all(|pair| pair[0] == pair[1]));
    servers.stop().await;
    Ok(())
}
