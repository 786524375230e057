//! Jobs of several regions: a registration is passed on to the region that it is for, and that region has every other
//! one register its part, in the same version. When the parts start is decided by the leaders of the regions.

use std::future::Future;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::future::join_all;
use songline_model::{Job, Str};
use songline_wire::job::JobPart;

use super::register::Prepared;
use crate::error::ApiError;
use crate::http::ask_region::{NoAnswer, OfRegion, ToRegion, ask_region};
use crate::http::call::Call;
use crate::http::idempotency;
use crate::http::path::escape;
use crate::server::{Regions, Writes};

/// Header of a request that a region makes to the others: the receiver looks only at its own part of the job. The value
/// is `check`, which writes nothing, the version to write, or `stop`.
const PART: HeaderName = HeaderName::from_static("x-songline-region-part");
/// Timeout of another region's answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Request for one region's part of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Check the job and tell what a registration would change.
    Check,
    /// Register the job in this version.
    Write(u64),
    /// Deregister the job.
    Stop,
}

impl Part {
    /// The part that a request is for; `None`: the whole job.
    pub(super) fn of(headers: &HeaderMap) -> Result<Option<Self>, ApiError> {
        let Some(value) = headers.get(PART) else { return Ok(None) };
        match value.to_str() {
            Ok("check") => Ok(Some(Self::Check)),
            Ok("stop") => Ok(Some(Self::Stop)),
            Ok(text) if text.parse::<u64>().is_ok() => Ok(text.parse().ok().map(Self::Write)),
            _ => Err(ApiError::bad_request(format!("{PART} must be \"check\", \"stop\" or a version"))),
        }
    }

    fn value(self) -> HeaderValue {
        match self {
            Self::Check => HeaderValue::from_static("check"),
            Self::Write(version) => HeaderValue::from(version),
            Self::Stop => HeaderValue::from_static("stop"),
        }
    }
}

/// The regions of a job beside this one, if every one of them is known here.
fn others<S: Regions>(server: &S, job: &Job) -> Result<Vec<Str>, ApiError> {
    let own = &server.info().region;
    let others: Vec<Str> = job.region_names().filter(|name| **name != **own).cloned().collect();
    match others.iter().find(|region| server.servers_of_region(region).is_empty()) {
        None => Ok(others),
        Some(unknown) => Err(ApiError::internal(format!(
            "No path to region {unknown:?} of job {:?}: no server of it is known in region {own:?}. Nothing was written",
            job.id
        ))),
    }
}

/// Passes a request with this body on to another region, which answers it as a whole.
pub(super) async fn pass<S: Regions>(call: &Call<S>, region: &str, body: Bytes) -> Result<Response, ApiError> {
    let found = ask(call, region, None, body).await?;
    // The other region has checked the caller.
    call.credentials.set_admitted();
    let mut response = Response::new(found.body.into());
    *response.status_mut() = found.status;
    let json = if found.status.is_success() { "application/json" } else { "text/plain; charset=utf-8" };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(json));
    if let Some(index) = found.index {
        crate::http::call::set_index(&mut response, index);
    }
    Ok(response)
}

/// Carries out work in several regions to its end: a caller that hangs up must not stop it half-way.
pub(super) async fn to_the_end(
    work: impl Future<Output = Result<Response, ApiError>> + Send + 'static,
) -> Result<Response, ApiError> {
    let ended = tokio::spawn(work).await;
    ended.unwrap_or_else(|error| Err(ApiError::internal(format!("the work in the job's regions broke off: {error}"))))
}

/// Registers a job in all of its regions: checks it in every one before the first write, then writes it in the first of
/// them by name, then in the others.
///
/// The first write decides between registrations that have chosen the same version, because they meet there: only one of
/// them is written, and the regions have one job under one version.
///
/// # Errors
/// Nothing is written when a region is unknown, cannot be reached or refuses the job, or the first write is refused. A
/// region that fails after that is named, with the regions that have the job; registering it again completes it.
pub(super) async fn register<S: Writes + Regions>(
    call: &Call<S>,
    prepared: Prepared,
    body: Bytes,
) -> Result<Response, ApiError> {
    let others = others(&*call.server, prepared.job())?;
    if others.is_empty() {
        let answer = prepared.commit(call, None).await?;
        return call.written(answer.meta.index, &answer);
    }
    let checks = join_all(others.iter().map(|region| check(call, region, &body))).await;
    let mut version = prepared.part().next_version();
    for (region, found) in others.iter().zip(checks) {
        let found = found.map_err(|error| ApiError {
            text: format!("region {region:?}: {}. Nothing was written", error.text).into(),
            ..error
        })?;
        version = version.max(found.next_version());
    }
    let (id, own) = (prepared.job().id.clone(), call.server.info().region.as_str());
    let mut outcomes: Vec<(&str, Result<(), ApiError>)> = Vec::new();
    let mut rest: Vec<&str> = others.iter().map(Str::as_str).collect();
    let first = rest.iter().copied().min().filter(|first| *first < own);
    if let Some(first) = first {
        begin(call, first, version, &body).await?;
        outcomes.push((first, Ok(())));
        rest.retain(|region| *region != first);
    }
    let done = format!("version {version} of job {id:?} is registered");
    let answer = match (prepared.commit(call, Some(version)).await, first) {
        (Ok(answer), _) => answer,
        (Err(error), None) => return Err(error),
        (Err(error), Some(_)) => {
            outcomes.push((own, Err(error)));
            return Err(unfinished(&done, "register it again", &outcomes));
        }
    };
    outcomes.push((own, Ok(())));
    let written = join_all(rest.iter().map(|region| write(call, region, version, &body))).await;
    outcomes.extend(rest.into_iter().zip(written));
    if outcomes.iter().any(|(_, outcome)| outcome.is_err()) {
        return Err(unfinished(&done, "register it again", &outcomes));
    }
    call.written(answer.meta.index, &answer)
}

/// Writes the first part of a registration.
async fn begin<S: Regions>(call: &Call<S>, region: &str, version: u64, body: &Bytes) -> Result<(), ApiError> {
    let asked = ask(call, region, Some(Part::Write(version)), body.clone()).await;
    let is_lost = matches!(asked, Err(NoAnswer::Lost(_)));
    let end = if is_lost { "No other region has written it; register it again" } else { "Nothing was written" };
    accepted(asked)
        .map(|_| ())
        .map_err(|error| ApiError { text: format!("region {region:?}: {}. {end}", error.text).into(), ..error })
}

/// Has the other regions of a job deregister it, after this one did.
///
/// # Errors
/// The regions that failed are named.
pub(super) async fn deregister<S: Regions>(call: &Call<S>, job: &Job, others: &[Str]) -> Result<(), ApiError> {
    let stops = others
        .iter()
        .map(|region| async move { accepted(ask(call, region, Some(Part::Stop), Bytes::new()).await).map(|_| ()) });
    let mut outcomes = vec![(call.server.info().region.as_str(), Ok(()))];
    outcomes.extend(others.iter().map(Str::as_str).zip(join_all(stops).await));
    if outcomes.iter().all(|(_, outcome)| outcome.is_ok()) {
        return Ok(());
    }
    Err(unfinished(&format!("job {:?} is stopped", job.id), "stop it again", &outcomes))
}

/// The regions that have to deregister a job, too: those beside this one.
pub(super) fn to_deregister<S: Regions>(call: &Call<S>, job: &Job) -> Result<Vec<Str>, ApiError> {
    others(&*call.server, job)
}

/// The error of work that some regions have done and others have not.
fn unfinished(done: &str, remedy: &str, outcomes: &[(&str, Result<(), ApiError>)]) -> ApiError {
    let have = outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).map(|(name, _)| format!("{name:?}"));
    let failed = |(region, outcome): &(&str, Result<(), ApiError>)| {
        outcome.as_ref().err().map(|error| format!("not in {region:?}: {}", error.text))
    };
    let (have, failures): (Vec<_>, Vec<_>) = (have.collect(), outcomes.iter().filter_map(failed).collect());
    ApiError::internal(format!("{done} in {}, and {}; {remedy}", have.join(", "), failures.join("; ")))
}

async fn check<S: Regions>(call: &Call<S>, region: &str, body: &Bytes) -> Result<JobPart, ApiError> {
    let found = accepted(ask(call, region, Some(Part::Check), body.clone()).await)?;
    serde_json::from_slice(&found.body)
        .map_err(|error| ApiError::internal(format!("its servers do not register parts of jobs: {error}")))
}

async fn write<S: Regions>(call: &Call<S>, region: &str, version: u64, body: &Bytes) -> Result<(), ApiError> {
    accepted(ask(call, region, Some(Part::Write(version)), body.clone()).await).map(|_| ())
}

/// The answer of another region, if it is a success.
fn accepted(found: Result<OfRegion, NoAnswer>) -> Result<OfRegion, ApiError> {
    let found = found.map_err(|error| match error {
        NoAnswer::NoPath | NoAnswer::NotSent(_) => error.into(),
        NoAnswer::Lost(_) => ApiError::internal(format!("{error}, so the region may have done it all the same")),
    })?;
    if found.status == StatusCode::OK {
        return Ok(found);
    }
    Err(ApiError::new(found.status, String::from_utf8_lossy(&found.body).into_owned()))
}

/// Makes this request to another region, with the caller's token and idempotency key.
async fn ask<S: Regions>(call: &Call<S>, region: &str, part: Option<Part>, body: Bytes) -> Result<OfRegion, NoAnswer> {
    let mut headers = HeaderMap::new();
    let kept = HeaderName::from_static(idempotency::HEADER);
    for name in [header::CONTENT_TYPE, kept] {
        if let Some(value) = call.headers.get(&name) {
            headers.insert(name, value.clone());
        }
    }
    if let Some(part) = part {
        headers.insert(PART, part.value());
    }
    let ask = ToRegion {
        region,
        method: call.method.clone(),
        path: escape(&call.path),
        query: without_region(&call.query),
        headers,
        token: call.secret(),
        body,
        within: ANSWER_WITHIN,
    };
    ask_region(&*call.server, ask).await
}

/// The query without the parameter `region`.
fn without_region(query: &str) -> String {
    let kept = query.split('&').filter(|pair| pair.split('=').next() != Some("region"));
    kept.filter(|pair| !pair.is_empty()).collect::<Vec<_>>().join("&")
}
