//! Operator routes: scheduler configuration, snapshots, garbage collection, features of other editions.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use songline_commands::SetSchedulerConfig;
use songline_lang::go_json;
use songline_model::{PreemptionConfig, SchedulerAlgorithm, SchedulerConfiguration, Str};
use songline_projections::{Outcome, Table};
use songline_wire::responses::QueryMeta;
use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;
use tokio_stream::StreamExt as _;
use tokio_util::io::ReaderStream;

use crate::error::ApiError;
use crate::http::call::{Call, Meta, empty};
use crate::http::capability::Capability;
use crate::http::idempotency::Once;
use crate::http::mux::{Answer, Methods, Mux};
use crate::http::params::cas;
use crate::server::{Reads, RestoreChoices, Upkeep, Writes};
use songline_lang::acl::Access;

/// Largest snapshot archive, in bytes. An archive is spooled to a file and never held in memory as a whole.
const ARCHIVE_BYTES_MAX: u64 = 64 << 30;
/// Size in bytes of the pieces in which an archive is sent.
const SPOOL_PIECE_BYTES: usize = 64 * 1024;

pub(super) fn routes<S: Writes + Upkeep>(mux: &mut Mux<S>) {
    let config = "/v1/operator/scheduler/configuration";
    mux.add(Methods::Get, config, "", Capability::Operator(Access::Read), |call| Box::pin(read_config(call)));
    let late_write = Capability::Late(&Capability::Operator(Access::Write));
    mux.add(Methods::Write, config, "", late_write, |call| Box::pin(write_config(call)));
    mux.add(Methods::Get, "/v1/operator/snapshot", "", Capability::Management, |call| Box::pin(save(call)));
    mux.add(Methods::Write, "/v1/operator/snapshot", "", Capability::Management, |call| Box::pin(restore(call)));
    mux.add(Methods::Put, "/v1/system/gc", "", Capability::Management, |call| Box::pin(collect(call)));
    mux.add(Methods::Put, "/v1/system/reconcile/summaries", "", Capability::Management, |call| {
        Box::pin(reconcile(call))
    });
    mux.add(Methods::Get, "/v1/operator/license", "", Capability::Anyone, |_| {
        Box::pin(std::future::ready(Ok(no_content())))
    });
    mux.add(Methods::Put, "/v1/operator/license", "", Capability::Anyone, |_| enterprise());
    for path in ["/v1/sentinel/policies", "/v1/recommendation", "/v1/recommendations"] {
        mux.add(Methods::Any, path, "", Capability::Anyone, |_| enterprise());
    }
    mux.add(Methods::Any, "/v1/recommendations/apply", "", Capability::Anyone, |_| enterprise());
    for root in ["/v1/sentinel/policy/", "/v1/recommendation/"] {
        mux.add(Methods::Any, root, "{}", Capability::Anyone, |_| enterprise());
    }
}

fn enterprise() -> Answer {
    let error = ApiError::new(StatusCode::NOT_IMPLEMENTED, "Nomad Enterprise only endpoint");
    Box::pin(std::future::ready(Err(error)))
}

fn no_content() -> Response {
    let mut response = empty();
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ConfigResponse<'a> {
    scheduler_config: &'a SchedulerConfiguration,
    #[serde(flatten)]
    meta: QueryMeta,
}

async fn read_config<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let view = call.fresh_view(&call.read_params()?).await?;
    let config = view.scheduler_config().map_or(&call.server.info().default_scheduler_config, |row| row);
    let index =
        if config.modify_index > 0 { config.modify_index } else { view.table_index(Table::SchedulerConfig).max(1) };
    call.read(&Meta::at(index), &ConfigResponse { scheduler_config: config, meta: call.query_meta(index) })
}

/// `SchedulerConfiguration` in a request: the algorithm is any string.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase", rename = "SchedulerConfiguration")]
struct ConfigRequest {
    scheduler_algorithm: Str,
    preemption_config: PreemptionConfig,
    memory_oversubscription_enabled: bool,
    reject_job_registration: bool,
    pause_eval_broker: bool,
    #[serde(rename = "CreateIndex")]
    _create_index: u64,
    #[serde(rename = "ModifyIndex")]
    _modify_index: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct SetConfigResponse {
    updated: bool,
    index: u64,
}

async fn write_config<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let body = call.bytes().await?;
    let bad = |error: String| ApiError::bad_request(format!("Error parsing scheduler config: {error}"));
    if body.is_empty() {
        return Err(bad("Request body is empty".to_owned()));
    }
    let names = go_json::Names {
        package: "api",
        fields: &[("SchedulerConfiguration.SchedulerAlgorithm", "api.SchedulerAlgorithm")],
        ..go_json::Names::default()
    };
    let request: ConfigRequest = go_json::from_slice_named(&body, names).map_err(|error| bad(error.to_string()))?;
    let scheduler_algorithm = match request.scheduler_algorithm.as_str() {
        "" => SchedulerAlgorithm::Binpack,
        word => SchedulerAlgorithm::from_word(word)
            .ok_or_else(|| ApiError::bad_request(format!("invalid scheduler algorithm: {word}")))?,
    };
    let cas = cas(call.query())?;
    call.write_namespace()?;
    let config = SchedulerConfiguration {
        scheduler_algorithm,
        preemption_config: request.preemption_config,
        memory_oversubscription_enabled: request.memory_oversubscription_enabled,
        reject_job_registration: request.reject_job_registration,
        pause_eval_broker: request.pause_eval_broker,
        ..SchedulerConfiguration::default()
    };
    let written = call.propose(SetSchedulerConfig { config, cas }).await?;
    let updated = written.outcome != Outcome::Cas(false);
    call.written(written.index, &SetConfigResponse { updated, index: written.index })
}

async fn save<S: Reads + Upkeep>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    if !params.stale {
        call.server.read_barrier().await?;
    }
    let archive = call.server.snapshot_save().await?;
    let digest = format!("sha-256={}", STANDARD.encode(archive.sha256));
    let mut response =
        Response::new(Body::from_stream(ReaderStream::with_capacity(File::from_std(archive.file), SPOOL_PIECE_BYTES)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-gzip"));
    headers.insert("digest", HeaderValue::from_str(&digest).map_err(|error| ApiError::internal(error.to_string()))?);
    Ok(response)
}

/// Restores an archive, ours or Nomad's. Ours only: `dry_run=true` verifies the archive, answers with its content and
/// changes nothing; `skip_unknown=true` leaves out records of unknown types.
async fn restore<S: Upkeep>(mut call: Call<S>) -> Result<Response, ApiError> {
    call.write_namespace()?;
    let query = call.query();
    let choices = RestoreChoices {
        dry_run: query.boolean("dry_run")?.unwrap_or(false),
        skip_unknown: query.boolean("skip_unknown")?.unwrap_or(false),
    };
    let body = call.take_body();
    let (archive, sum) = spool(&*call.server, body).await?;
    let once = call.once.as_mut().map(|once| {
        once.hash_body(&sum);
        once.next()
    });
    let report = call.server.snapshot_restore(archive, call.caller()?.actor(), once, choices).await?;
    if choices.dry_run { call.plain(&report) } else { Ok(empty()) }
}

/// Spools a body to a file. Returns the file and the BLAKE3 hash of the body.
async fn spool<S: Upkeep>(server: &S, body: Body) -> Result<(std::fs::File, [u8; 32]), ApiError> {
    let failed = |error: std::io::Error| {
        ApiError::internal(format!("failed to restore from snapshot: taking the archive: {error}"))
    };
    let mut file = File::from_std(server.spool().map_err(failed)?);
    let mut pieces = body.into_data_stream();
    let (mut taken, mut hasher) = (0, blake3::Hasher::new());
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| ApiError::bad_request(format!("failed to read the archive: {error}")))?;
        taken += piece.len() as u64;
        if taken > ARCHIVE_BYTES_MAX {
            return Err(ApiError::bad_request(format!("the archive is larger than {ARCHIVE_BYTES_MAX} bytes")));
        }
        hasher.update(&piece);
        file.write_all(&piece).await.map_err(failed)?;
    }
    file.flush().await.map_err(failed)?;
    Ok((file.into_std().await, hasher.finalize().into()))
}

async fn collect<S: Writes + Upkeep>(call: Call<S>) -> Result<Response, ApiError> {
    call.write_namespace()?;
    // Each collection writes other commands, so none of them carries the key. The key is stored when all of them are
    // done.
    call.server.force_gc(call.caller()?.actor()).await?;
    call.done().await
}

async fn reconcile<S: Upkeep>(call: Call<S>) -> Result<Response, ApiError> {
    call.write_namespace()?;
    let idempotency = call.once.as_ref().map(Once::next);
    call.server.reconcile_summaries(call.caller()?.actor(), idempotency).await?;
    Ok(empty())
}
