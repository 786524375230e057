//! Admission of a submitted job before it is proposed: namespace and region, defaults, checks. The rules are in
//! `model`.

use axum::http::StatusCode;
use songline_lang::acl::{Access, HostVolumeCapability, NamespaceCapability};
use songline_lang::languages::JobLanguages;
use songline_model::{AdmitContext, Admitted, Job, NotAdmitted, SchedulerConfiguration, Str, spec};
use songline_projections::State;

use crate::caller::denied;
use crate::error::ApiError;
use crate::http::call::Call;
use crate::server::Agent;

/// The region that a submitted job is for, unless it is this one: that of the body, of the query or of the job. A job of
/// several regions is for the first of them, unless the request's region is one of its own.
pub fn other_region<S: Agent>(call: &Call<S>, job: &spec::Job, in_body: &str) -> Option<Str> {
    let own = call.server.info().region.as_str();
    let asked = call.query().text("region");
    let in_job = job.region.as_ref().map_or("", Str::as_str);
    let named = [in_body, &*asked, in_job].into_iter().find(|region| !region.is_empty()).unwrap_or_default();
    let region = if matches!(named, "" | "global") { own } else { named };
    let regions = || job.multiregion.iter().filter_map(|block| block.regions.as_ref()).flatten().map(|one| &one.name);
    let first = regions().next().filter(|_| !regions().any(|name| **name == *region));
    let region = first.map_or(region, Str::as_str);
    (region != own).then(|| Str::new(region))
}

/// Converts a submitted job to its stored form, in its namespace and region. Checks nothing else.
pub fn stored_form<S: Agent>(
    call: &Call<S>,
    mut job: spec::Job,
    namespace: &Str,
    in_body: &str,
) -> Result<Job, ApiError> {
    let no_path = || ApiError::internal("No path to region");
    if other_region(call, &job, in_body).is_some() {
        return Err(no_path());
    }
    let own = &call.server.info().region;
    job.namespace = Some(namespace.clone());
    job.region = Some(Str::new(own));
    let mut job = Job::from_spec(job);
    if job.localize(own) { Ok(job) } else { Err(no_path()) }
}

/// Fills in a job's defaults and checks it by a view.
pub fn admit<S: Agent>(server: &S, view: &State, job: Job) -> Result<Admitted, NotAdmitted> {
    let namespace = view.namespace(&job.namespace).cloned();
    let config = scheduler_config(server, view);
    let context = AdmitContext {
        languages: &JobLanguages,
        namespace: namespace.as_deref(),
        node_pool_exists: &|name| view.node_pool(name).is_some(),
        job_priority_max: server.info().job_max_priority,
        vault_enabled: server.info().vault_enabled,
        memory_oversubscription: config.memory_oversubscription_enabled,
    };
    job.admit(&context)
}

/// The scheduler configuration of a view, or the default one.
fn scheduler_config<'a, S: Agent>(server: &'a S, view: &'a State) -> &'a SchedulerConfiguration {
    view.scheduler_config().map_or(&server.info().default_scheduler_config, |row| row)
}

/// Refuses registrations while the scheduler configuration rejects them. Management tokens are exempt.
pub fn check_registration_allowed<S: Agent>(call: &Call<S>, view: &State) -> Result<(), ApiError> {
    let server = &*call.server;
    // With ACLs disabled every caller has management rights, so no caller is exempt then.
    let manages = server.info().acl.enabled && call.caller()?.acl().is_management();
    if manages || !scheduler_config(server, view).reject_job_registration {
        return Ok(());
    }
    let text = "Job registration, dispatch, and scale are disabled by the scheduler configuration";
    Err(ApiError::new(StatusCode::FORBIDDEN, text))
}

/// Refuses a caller that may not submit this job: to its namespace, or with its volumes and plugins.
pub fn check_rights<S>(call: &Call<S>, job: &Job) -> Result<(), ApiError> {
    call.require_in(&job.namespace, &[NamespaceCapability::SubmitJob])?;
    for group in job.groups() {
        for request in group.volumes.iter().flatten().map(|(_, request)| request) {
            match request.kind.as_str() {
                "csi" => {
                    call.require_in(&job.namespace, &[NamespaceCapability::CsiMountVolume])?;
                    call.require(|acl| acl.plugin(Access::Read))?;
                }
                "host" => call.require(|acl| {
                    let writes = acl.host_volume(&request.source, HostVolumeCapability::MountReadwrite);
                    writes || request.read_only && acl.host_volume(&request.source, HostVolumeCapability::MountReadonly)
                })?,
                _ => return Err(denied()),
            }
        }
        for task in group.tasks.iter().flatten() {
            // Mounts by the task in a bidirectional volume also appear on the host.
            for mount in task.volume_mounts.iter().flatten().filter(|mount| mount.propagation_mode == "bidirectional") {
                let request =
                    group.volumes.iter().flatten().find(|(name, _)| **name == mount.volume).map(|(_, request)| request);
                if let Some(request) = request.filter(|request| request.kind == "host") {
                    call.require(|acl| acl.host_volume(&request.source, HostVolumeCapability::MountReadwrite))?;
                }
            }
            if task.csi_plugin_config.is_some() {
                call.require_in(&job.namespace, &[NamespaceCapability::CsiRegisterPlugin])?;
            }
        }
    }
    Ok(())
}

/// Error for an invalid job.
pub fn refusal(error: &NotAdmitted) -> ApiError {
    ApiError::internal(error.to_string())
}

/// Refuses updates that change what must not change.
pub fn check_update(old: Option<&Job>, new: &Job) -> Result<(), ApiError> {
    let refuse = |text: String| Err(ApiError::internal(text));
    let Some(old) = old else {
        return if new.dispatched { refuse("job can't be submitted with 'Dispatched' set".to_owned()) } else { Ok(()) };
    };
    if old.kind != new.kind {
        return refuse(format!("cannot update job from type {:?} to {:?}", old.kind.as_str(), new.kind.as_str()));
    }
    let kinds = [
        (old.is_periodic(), new.is_periodic(), "periodic"),
        (old.is_parameterized(), new.is_parameterized(), "parameterized"),
    ];
    for (was, is, word) in kinds {
        match (was, is) {
            (true, false) => return refuse(format!("cannot update {word} job to being non-{word}")),
            (false, true) => return refuse(format!("cannot update non-{word} job to being {word}")),
            (true, true) | (false, false) => {}
        }
    }
    if old.dispatched != new.dispatched {
        return refuse("field 'Dispatched' is read-only".to_owned());
    }
    Ok(())
}
