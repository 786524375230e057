//! Sentences of an explanation, and their parts that are hidden from a caller. `chain` decides on content and order.

use std::sync::Arc;

use songline_commands::{Actor, Command};
use songline_model::{
    AllocClientStatus, AllocDesiredStatus, AllocId, Allocation, EvalId, EvalTrigger, Evaluation, JobKey, NodeId,
    NodeStatus,
};
use songline_projections::State;

use super::chain::{About, Step};
use crate::http::shown::Shown;

/// Sentence about a change of a node, for callers who may not read nodes.
const HIDDEN_NODE: &str = "a node changed (shown to callers with node:read)";
/// Sentence about a change of a job, for callers who may not read jobs in its namespace.
const HIDDEN_JOB: &str = "a job of another namespace changed (shown to callers with read-job there)";

/// The beginning of an id, as listings show it.
pub(super) fn short(id: impl std::fmt::Display) -> String {
    id.to_string().chars().take(8).collect()
}

/// A step as a sentence.
pub(super) fn sentence(step: &Step) -> String {
    match step.time {
        Some(time) => format!("{time} (index {}): {}.", step.index, step.text),
        None => format!("At index {}: {}.", step.index, step.text),
    }
}

/// State of an allocation in one sentence.
pub(super) fn summary(alloc: &Allocation, is_there: bool, shown: &Shown) -> String {
    let node = match alloc.node_id {
        Some(id) if !shown.nodes() => short(id),
        Some(_) | None => alloc.node_name.to_string(),
    };
    let what = format!("alloc {} ({}) of job {}", short(alloc.id), alloc.name, alloc.job_id.as_str());
    if !is_there {
        return format!("{what} is gone; it was last {} on node {node}.", alloc.client_status);
    }
    let how = match (alloc.desired_status, alloc.client_status) {
        (AllocDesiredStatus::Run, AllocClientStatus::Running) => "is running".to_owned(),
        (AllocDesiredStatus::Run, AllocClientStatus::Pending) => "is to run and has not started".to_owned(),
        (AllocDesiredStatus::Run, client) => format!("was to run and is {client}"),
        (AllocDesiredStatus::Stop | AllocDesiredStatus::Evict, client) => match alloc.desired_description.as_str() {
            "" => format!("was stopped and is {client}"),
            why => format!("was stopped ({why}) and is {client}"),
        },
    };
    let replaced = alloc.next_allocation.map(|next| format!("; alloc {} replaces it", short(next))).unwrap_or_default();
    format!("{what} {how} on node {node}{replaced}.")
}

/// Names of objects for one caller, taken from one state.
pub(super) struct Words {
    /// The state that the names are taken from.
    pub(super) view: Arc<State>,
    /// Rights of the caller.
    pub(super) shown: Shown,
}

impl Words {
    /// Name of an entry's actor.
    pub(super) fn actor(&self, actor: &Actor) -> String {
        match actor {
            Actor::Anonymous => "somebody without a token".to_owned(),
            Actor::Accessor(id) if !self.shown.token(id) => "the holder of a token".to_owned(),
            Actor::Accessor(id) => format!("the holder of token {id}"),
            Actor::Node(id) => format!("node {}", short(id)),
            Actor::Workload(name) => format!("workload {name}"),
            Actor::Leader(name) => format!("the leader ({name})"),
        }
    }

    /// Name of a node: by name and short id if the state has it and the caller may read nodes, by short id otherwise.
    pub(super) fn node(&self, id: NodeId) -> String {
        match self.view.node(id).filter(|_| self.shown.nodes()) {
            Some(node) => format!("node {} ({})", node.name, short(id)),
            None => format!("node {}", short(id)),
        }
    }

    /// Name of an allocation: by short id, and by name if the state has it.
    pub(super) fn alloc(&self, id: AllocId) -> String {
        match self.view.alloc(id) {
            Some(alloc) => format!("alloc {} ({})", short(id), alloc.name),
            None => format!("alloc {}", short(id)),
        }
    }

    /// Subject and sentence for a command about an object that the caller may not read. `None`: the caller may read
    /// it.
    pub(super) fn hidden(&self, command: &Command) -> Option<(About, &'static str)> {
        if self.shown.command(command.kind()).is_empty() {
            return Some((About::Node, HIDDEN_NODE));
        }
        let job = match command {
            Command::JobRegister(cmd) => cmd.job.key(),
            Command::JobDeregister(cmd) => cmd.job.clone(),
            _ => return None,
        };
        (!self.shown.jobs_in(&job.namespace)).then_some((About::Job, HIDDEN_JOB))
    }

    /// Subject, its id and a sentence for a command that led to evaluations of a job.
    pub(super) fn command(&self, job: &JobKey, by: &Actor, command: &Command) -> (About, String, String) {
        let who = self.actor(by);
        match command {
            Command::NodeUpdateStatus(cmd) => {
                let what = self.node(cmd.node_id);
                let missed =
                    matches!(by, Actor::Leader(_)) && matches!(cmd.status, NodeStatus::Down | NodeStatus::Disconnected);
                let note = cmd.event.as_ref().map(|event| format!(" ({})", event.message)).unwrap_or_default();
                let text = if missed {
                    format!("{what} missed its heartbeat and was marked {}", cmd.status)
                } else {
                    format!("{what} became {}{note}", cmd.status)
                };
                (About::Node, cmd.node_id.to_string(), text)
            }
            Command::NodeRegister(cmd) => (
                About::Node,
                cmd.node.id.to_string(),
                format!("node {} ({}) registered", cmd.node.name, short(cmd.node.id)),
            ),
            Command::NodeUpdateDrain(cmd) => {
                let verb = if cmd.drain_strategy.is_some() { "began to drain" } else { "called off the drain of" };
                (About::Node, cmd.node_id.to_string(), format!("{who} {verb} {}", self.node(cmd.node_id)))
            }
            Command::NodeUpdateEligibility(cmd) => (
                About::Node,
                cmd.node_id.to_string(),
                format!("{who} made {} {}", self.node(cmd.node_id), cmd.eligibility),
            ),
            Command::NodeDeregister(cmd) => {
                (About::Node, cmd.node_id.to_string(), format!("{who} removed {}", self.node(cmd.node_id)))
            }
            Command::JobRegister(cmd) => (
                About::Job,
                cmd.job.id.to_string(),
                format!("{who} registered job {} in namespace {}", cmd.job.id.as_str(), cmd.job.namespace.as_str()),
            ),
            Command::JobDeregister(cmd) => {
                let verb = if cmd.purge { "purged" } else { "stopped" };
                (About::Job, cmd.job.id.to_string(), format!("{who} {verb} job {}", cmd.job.id.as_str()))
            }
            Command::AllocUpdateDesiredTransition(cmd) => {
                let moved: Vec<AllocId> = cmd.allocs.keys().copied().filter(|id| self.is_of(*id, job)).collect();
                let named: Vec<String> = moved.iter().take(LISTED_MAX).map(|id| self.alloc(*id)).collect();
                let more = if moved.len() > LISTED_MAX {
                    format!(" and {} more", moved.len() - LISTED_MAX)
                } else {
                    String::new()
                };
                (About::Allocation, String::new(), format!("{who} asked to move or replace {}{more}", named.join(", ")))
            }
            Command::AllocClientUpdate(cmd) => {
                let over =
                    cmd.allocs.iter().filter(|update| update.client_status.is_terminal() && self.is_of(update.id, job));
                let over: Vec<String> = over
                    .take(LISTED_MAX)
                    .map(|update| format!("{} is {}", self.alloc(update.id), update.client_status))
                    .collect();
                let text = match over.as_slice() {
                    [] => "nodes reported how their allocs fare".to_owned(),
                    over => format!("nodes reported that {}", over.join(", ")),
                };
                (About::Allocation, String::new(), text)
            }
            Command::DeploymentStatusUpdate(cmd) => {
                let id = cmd.update.deployment_id;
                let text = format!(
                    "deployment {} became {} ({})",
                    short(id),
                    cmd.update.status,
                    cmd.update.status_description
                );
                (About::Deployment, id.to_string(), text)
            }
            other => (About::Command, String::new(), format!("{who} wrote {}", other.kind().name())),
        }
    }

    fn is_of(&self, id: AllocId, job: &JobKey) -> bool {
        self.view.alloc(id).is_some_and(|alloc| alloc.job_id == job.id && alloc.namespace == job.namespace)
    }
}

/// Sentence about the creation of an evaluation.
pub(super) fn made_evaluation(eval: &Evaluation) -> String {
    format!(
        "evaluation {} ({}) of job {} was made {}",
        short(eval.id),
        eval.triggered_by,
        eval.job_id.as_str(),
        why(eval.triggered_by)
    )
}

/// Sentence about an evaluation of a job that the caller may not read.
pub(super) fn hidden_evaluation(id: EvalId) -> String {
    format!("evaluation {} is of a job of another namespace (shown to callers with read-job there)", short(id))
}

fn why(trigger: EvalTrigger) -> &'static str {
    match trigger {
        EvalTrigger::None => "for no reason that it says",
        EvalTrigger::JobRegister => "because the job was registered",
        EvalTrigger::JobDeregister => "because the job was stopped",
        EvalTrigger::JobScaling => "because the job was scaled",
        EvalTrigger::PeriodicJob => "because it was time for the job",
        EvalTrigger::Scheduled => "because it was scheduled",
        EvalTrigger::NodeUpdate => "because a node changed",
        EvalTrigger::NodeDrain => "because a node is drained",
        EvalTrigger::AllocStop => "because an alloc was told to stop",
        EvalTrigger::RetryFailedAlloc => "because an alloc failed",
        EvalTrigger::RollingUpdate | EvalTrigger::DeploymentWatcher => "because the deployment went on",
        EvalTrigger::FailedFollowUp => "because the one before it failed",
        EvalTrigger::MaxPlans => "because the plans of the one before it did not fit",
        EvalTrigger::QueuedAllocs => "to place what had found no place",
        EvalTrigger::Preemption => "because allocs of the job were preempted",
        EvalTrigger::MaxDisconnectTimeout => "because a node was away for too long",
        EvalTrigger::Reconnect => "because a node came back",
    }
}

/// Number of allocations that a sentence names.
const LISTED_MAX: usize = 4;

/// Beginning of a sentence about a plan.
pub(super) fn plan(eval: EvalId) -> String {
    format!("the plan of evaluation {}", short(eval))
}
