//! How many allocations a job's groups have. Scaling by request comes with scaling policies.

use std::collections::BTreeMap;

use axum::response::Response;
use songline_model::{AllocClientStatus, JobKey};
use songline_projections::State;

use crate::error::ApiError;
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta};
use crate::server::Server;
use crate::watch::WatchKey;
use crate::wire::job::{GroupScaleStatus, JobScaleStatus};

pub(super) async fn status<S: Server>(call: Call<S>) -> Result<Response, ApiError> {
    let params = call.read_params()?;
    let key = super::key(&call, &params);
    let keys = [WatchKey::Job(key.clone()), WatchKey::JobAllocs(key.clone())];
    let found = blocking::run(&call, &params, &keys, |view| {
        let Some(job) = view.job_by_key(&key).cloned() else {
            return Ok(At { index: view.latest_index(), value: None });
        };
        let (groups, newest) = groups(view, &key);
        Ok(At { index: job.modify_index.max(newest), value: Some((job, groups)) })
    })
    .await?;
    let Some((job, mut groups)) = found.value else {
        return Err(ApiError::missing("job not found", found.index));
    };
    let mut task_groups = BTreeMap::new();
    for group in job.groups() {
        let counted = groups.remove(group.name.as_str()).unwrap_or_default();
        task_groups.insert(group.name.as_str(), GroupScaleStatus { desired: group.count, ..counted });
    }
    let answer = JobScaleStatus {
        job_id: &job.id,
        namespace: &job.namespace,
        job_create_index: job.create_index,
        job_modify_index: job.modify_index,
        job_stopped: job.stop,
        task_groups,
    };
    call.read(&Meta::at(found.index), &answer)
}

/// What the allocations of a job say, by group, and the newest index among them.
fn groups(view: &State, key: &JobKey) -> (BTreeMap<String, GroupScaleStatus>, u64) {
    let mut out: BTreeMap<String, GroupScaleStatus> = BTreeMap::new();
    let mut newest = 0;
    for alloc in view.allocs_of_job(&key.namespace, &key.id).filter(|alloc| !alloc.terminal() && !alloc.is_canary()) {
        let group = out.entry(alloc.task_group.to_string()).or_default();
        group.placed += 1;
        group.running += i64::from(alloc.client_status == AllocClientStatus::Running);
        group.healthy += i64::from(alloc.health() == Some(true));
        group.unhealthy += i64::from(alloc.health() == Some(false));
        newest = newest.max(alloc.modify_index);
    }
    (out, newest)
}
