//! Following of other regions: the leader reads their deployments of multiregion jobs by blocking queries, for as long
//! as this region has an active deployment of the same version. The leader's loop writes the steps that follow.
//!
//! A region that does not answer keeps the part that it had. Nothing is kept for the next leader, which asks anew.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, Method, StatusCode};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use songline_api::{NoAnswer, ToRegion, ask_region, query_value};
use songline_model::{DeploymentStatus, Secret};
use songline_scheduler::leader::multiregion::{Part, Peer, Registered};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Core;
use super::leadership::LeadershipTerm;

/// Wait of a blocking query for a region's deployment.
const WAIT: Duration = Duration::from_secs(60);
/// The same while the region has no deployment: registrations and stops that write none are found after this time.
const WAIT_WITHOUT: Duration = Duration::from_secs(5);
/// Time after which a region that does not have the version is taken not to get it any more. Longer than a registration
/// takes: the region that handles it asks the others twice, and waits 30 s for each answer.
const REGISTERED_WITHIN: Duration = Duration::from_secs(120);
/// Timeout of an answer after the wait of its query.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Delay after the first failed query; each further failure doubles it.
const RETRY_AFTER_FIRST: Duration = Duration::from_millis(500);
/// Longest delay after a failed query.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(15);

/// Reasons why a region's part stays unknown.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error("{0}")]
    NoAnswer(#[from] NoAnswer),
    #[error("{status}: {text}")]
    Refused { status: StatusCode, text: String },
    #[error("the answer is not understood: {0}")]
    Unreadable(#[from] serde_json::Error),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DeploymentRow {
    job_version: u64,
    status: DeploymentStatus,
    create_index: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct JobRow {
    version: u64,
    stop: bool,
}

/// Starts to follow; it ends with the leadership term.
pub(crate) fn start(core: &Arc<Core>, term: &Arc<LeadershipTerm>) {
    let (core, under) = (Arc::clone(core), Arc::clone(term));
    term.spawn(async move { run(&core, &under).await });
}

/// Follows the parts that the leader's machine asks for, each in a task of its own.
async fn run(core: &Arc<Core>, term: &Arc<LeadershipTerm>) {
    let mut followed = BTreeMap::new();
    loop {
        let wanted = core.leader.multiregion.lock().peers(&core.view(), &core.facts.info.region);
        followed.retain(|peer, _| wanted.contains(peer));
        for peer in wanted {
            followed.entry(peer.clone()).or_insert_with(|| {
                let (core, over) = (Arc::clone(core), CancellationToken::new());
                let guard = over.clone().drop_guard();
                term.spawn(async move {
                    tokio::select! {
                        () = follow(&core, &peer) => {}
                        () = over.cancelled() => {}
                    }
                });
                guard
            });
        }
        // A change after the look above leaves a permit, so this returns at once.
        core.leader.peers_changed.notified().await;
    }
}

/// Reports every change of a region's part. Goes on after failures, for ever.
async fn follow(core: &Core, peer: &Peer) {
    let (mut index, mut wait, mut failures) = (0, WAIT, 0_u32);
    let mut lacks_since = None;
    loop {
        match look(core, peer, index, wait).await {
            Ok((mut part, next)) => {
                if !part.lacks_version() {
                    lacks_since = None;
                } else if lacks_since.get_or_insert_with(Instant::now).elapsed() >= REGISTERED_WITHIN {
                    part = Part::Absent;
                }
                if failures > 0 {
                    tracing::info!(region = %peer.region, job = %peer.job.id, "the region answers about its deployment again");
                }
                failures = 0;
                // Index 0 would not wait.
                index = next.max(1);
                wait = if matches!(part, Part::Deployment(_)) { WAIT } else { WAIT_WITHOUT };
                if core.leader.multiregion.lock().on_heard(peer, part) {
                    core.leader.deadlines.notify_one();
                }
            }
            Err(error) => {
                if failures == 0 {
                    complain(core, peer, &error);
                }
                index = 0;
                tokio::time::sleep(RETRY_AFTER_FIRST.saturating_mul(1 << failures.min(10)).min(RETRY_AFTER_MAX)).await;
                failures = failures.saturating_add(1);
            }
        }
    }
}

fn complain(core: &Core, peer: &Peer, error: &LookError) {
    let Peer { region, job, version, deployment } = peer;
    let no_token = core.facts.info.acl.enabled && token(core).is_empty();
    let remedy = if no_token {
        "; ACLs are enabled and acl.replication_token is not set: set it to a token that the region accepts, or move \
         the deployment on with `deployment unblock`"
    } else {
        ""
    };
    tracing::warn!(
        %region, namespace = %job.namespace, job = %job.id, version, %deployment, %error,
        "the region's deployment of a multiregion job cannot be followed; it is tried again{remedy}"
    );
}

/// Token of this server's requests to other regions.
fn token(core: &Core) -> Secret {
    core.facts.config.replication_token.clone()
}

/// A region's part once its deployments have changed after `index`, or after `wait`; and the index of the answer.
async fn look(core: &Core, peer: &Peer, index: u64, wait: Duration) -> Result<(Part, u64), LookError> {
    let blocking = format!("index={index}&wait={}s", wait.as_secs());
    let (rows, index) = deployments(core, peer, &blocking, wait).await?;
    let status = newest(peer, &rows);
    if status.is_some_and(|status| status != DeploymentStatus::Cancelled) {
        return Ok((Part::of(peer.version, status, None), index));
    }
    // The job before its deployments: one entry writes both, so a version without a deployment has none.
    let job: Option<JobRow> = get(core, peer, "", "", Duration::ZERO).await?.map(|(job, _)| job);
    let (rows, index) = deployments(core, peer, "", Duration::ZERO).await?;
    let job = job.map(|job| Registered { version: job.version, stop: job.stop });
    Ok((Part::of(peer.version, newest(peer, &rows), job), index))
}

fn newest(peer: &Peer, rows: &[DeploymentRow]) -> Option<DeploymentStatus> {
    let of_version = rows.iter().filter(|row| row.job_version == peer.version);
    of_version.max_by_key(|row| row.create_index).map(|row| row.status)
}

async fn deployments(
    core: &Core,
    peer: &Peer,
    query: &str,
    wait: Duration,
) -> Result<(Vec<DeploymentRow>, u64), LookError> {
    Ok(get(core, peer, "/deployments", query, wait).await?.unwrap_or_default())
}

/// The JSON answer of a route below the job's, and its index; `None`: the region has no such object.
async fn get<T: DeserializeOwned>(
    core: &Core,
    peer: &Peer,
    rest: &str,
    query: &str,
    wait: Duration,
) -> Result<Option<(T, u64)>, LookError> {
    let ask = ToRegion {
        region: &peer.region,
        method: Method::GET,
        path: format!("/v1/job/{}{rest}", query_value(&peer.job.id)),
        query: format!("namespace={}&{query}", query_value(&peer.job.namespace)),
        headers: HeaderMap::new(),
        token: token(core),
        body: Bytes::new(),
        // The other region adds up to a sixteenth to the wait.
        within: wait + wait / 16 + ANSWER_WITHIN,
    };
    let answer = ask_region(core, ask).await?;
    match answer.status {
        StatusCode::OK => Ok(Some((serde_json::from_slice(&answer.body)?, answer.index.unwrap_or(0)))),
        StatusCode::NOT_FOUND => Ok(None),
        status => Err(LookError::Refused { status, text: String::from_utf8_lossy(&answer.body).into_owned() }),
    }
}
