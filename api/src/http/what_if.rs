//! What-if: hypothetical changes of the cluster, and what the schedulers would do about them. Ours; nothing is written.

use std::sync::Arc;

use axum::response::Response;
use serde::Deserialize;
use songline_lang::acl::{Access, NamespaceCapability};
use songline_model::{JobKey, NodeId, SchedulerAlgorithm, SchedulerConfiguration, Str, Supposition, spec};
use songline_projections::State;

use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::capability::Capability;
use crate::http::ids;
use crate::http::job::admission;
use crate::http::mux::{Methods, Mux};
use crate::http::shown::Shown;
use crate::server::{Agent, Reads, Schedules};

pub(super) fn routes<S: Reads + Schedules>(mux: &mut Mux<S>) {
    mux.add(Methods::Write, "/v1/what-if", "", Capability::Filtered, |call| Box::pin(ask(call)));
}

/// Body of a what-if question: hypothetical changes, made in order.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Question {
    changes: Vec<Change>,
}

/// One hypothetical change: exactly one of the fields.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Change {
    #[serde(deserialize_with = "songline_wire::job::with_whole_mounts")]
    register: Option<spec::Job>,
    deregister: Option<NamedJob>,
    drain_nodes: Option<Vec<Str>>,
    lose_nodes: Option<Vec<Str>>,
    add_nodes: Option<NewNodes>,
    configure: Option<Settings>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct NamedJob {
    namespace: Str,
    #[serde(rename = "ID")]
    id: Str,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct NewNodes {
    /// Id or name of the node to copy.
    like: Str,
    count: u32,
}

/// Settings of the schedulers; those that are left out stay as they are.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Settings {
    scheduler_algorithm: Option<Str>,
    memory_oversubscription_enabled: Option<bool>,
    preemption_config: Preemption,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Preemption {
    system_scheduler_enabled: Option<bool>,
    sys_batch_scheduler_enabled: Option<bool>,
    batch_scheduler_enabled: Option<bool>,
    service_scheduler_enabled: Option<bool>,
}

async fn ask<S: Reads + Schedules>(mut call: Call<S>) -> Result<Response, ApiError> {
    let question: Question = call.json().await?;
    let view = call.server.view();
    let mut changes = Vec::new();
    for (number, change) in question.changes.into_iter().enumerate() {
        changes.extend(read(&call, &view, number, change)?);
    }
    // The rights to see what follows are checked when the answer is there: the caller's token may be gone by then.
    let answer = call.server.what_if(view, changes).await?;
    let shown = Shown::to(&call.caller()?);
    call.plain(&answer.shown(|namespace| shown.jobs_in(namespace)))
}

/// The changes that one item of the list asks for. The caller needs the rights to what it names, which are checked
/// before anything is said about it.
fn read<S: Agent>(call: &Call<S>, view: &State, number: usize, change: Change) -> Result<Vec<Supposition>, ApiError> {
    let Change { register, deregister, drain_nodes, lose_nodes, add_nodes, configure } = change;
    let named = [
        register.is_some(),
        deregister.is_some(),
        drain_nodes.is_some(),
        lose_nodes.is_some(),
        add_nodes.is_some(),
        configure.is_some(),
    ];
    if named.iter().filter(|is| **is).count() != 1 {
        return Err(ApiError::bad_request(format!(
            "Changes[{number}] needs exactly one of Register, Deregister, DrainNodes, LoseNodes, AddNodes, Configure"
        )));
    }
    let mut changes = Vec::new();
    if let Some(job) = register {
        changes.push(registration(call, view, job)?);
    }
    if let Some(NamedJob { namespace, id }) = deregister {
        let namespace = if namespace.is_empty() { songline_model::DEFAULT_NAMESPACE } else { namespace.as_str() };
        call.require_in(namespace, &[NamespaceCapability::ReadJob])?;
        changes.push(Supposition::Deregister(JobKey::new(namespace, &id)));
    }
    for name in drain_nodes.into_iter().flatten() {
        changes.push(Supposition::Drain(node(call, view, &name)?));
    }
    for name in lose_nodes.into_iter().flatten() {
        changes.push(Supposition::Lose(node(call, view, &name)?));
    }
    if let Some(NewNodes { like, count }) = add_nodes {
        changes.push(Supposition::Add { like: node(call, view, &like)?, count });
    }
    if let Some(settings) = configure {
        call.require(|acl| acl.operator(Access::Read))?;
        changes.push(Supposition::Configure(configuration(call, view, settings)?));
    }
    Ok(changes)
}

fn registration<S: Agent>(call: &Call<S>, view: &State, job: spec::Job) -> Result<Supposition, ApiError> {
    let namespace = job.namespace.clone().filter(|namespace| !namespace.is_empty());
    let namespace = namespace.unwrap_or(Str::new_static(songline_model::DEFAULT_NAMESPACE));
    call.require_in(&namespace, &[NamespaceCapability::SubmitJob])?;
    let job = admission::stored_form(call, job, &namespace, "")?;
    let admitted = admission::admit(&*call.server, view, job).map_err(|error| admission::refusal(&error))?;
    admission::check_rights(call, &admitted.job)?;
    let existing = view.job(&admitted.job.namespace, &admitted.job.id);
    admission::check_update(existing.map(|row| &**row), &admitted.job)?;
    Ok(Supposition::Register(Arc::new(admitted.job)))
}

/// The node with this id, or the only one with this name.
fn node<S>(call: &Call<S>, view: &State, text: &str) -> Result<NodeId, ApiError> {
    call.require(|acl| acl.node(Access::Read))?;
    if let Ok(Some(id)) = ids::exact(text) {
        return Ok(NodeId::from(id));
    }
    let mut named = view.nodes().filter(|node| node.name == *text).map(|node| node.id);
    match (named.next(), named.next()) {
        (Some(id), None) => Ok(id),
        (Some(_), Some(_)) => Err(ApiError::bad_request(format!("several nodes are called {text:?}; give the id"))),
        (None, _) => Err(ApiError::bad_request(format!("no node has the id or name {text:?}"))),
    }
}

fn configuration<S: Agent>(
    call: &Call<S>,
    view: &State,
    settings: Settings,
) -> Result<SchedulerConfiguration, ApiError> {
    let mut config = view.scheduler_config().map_or(&call.server.info().default_scheduler_config, |row| row).clone();
    if let Some(word) = settings.scheduler_algorithm {
        config.scheduler_algorithm = SchedulerAlgorithm::from_word(&word)
            .ok_or_else(|| ApiError::bad_request(format!("invalid scheduler algorithm: {word}")))?;
    }
    let set = |flag: &mut bool, to: Option<bool>| *flag = to.unwrap_or(*flag);
    set(&mut config.memory_oversubscription_enabled, settings.memory_oversubscription_enabled);
    let (preemption, asked) = (&mut config.preemption_config, settings.preemption_config);
    set(&mut preemption.system_scheduler_enabled, asked.system_scheduler_enabled);
    set(&mut preemption.sys_batch_scheduler_enabled, asked.sys_batch_scheduler_enabled);
    set(&mut preemption.batch_scheduler_enabled, asked.batch_scheduler_enabled);
    set(&mut preemption.service_scheduler_enabled, asked.service_scheduler_enabled);
    Ok(config)
}
