//! Turns decisions of the leader's machines into effects for the [`Outbox`](super::outbox::Outbox): the command, its
//! actor, and the rows that it was decided on. Also derives the consequences of effects that are over. The shell
//! carries out both.

use songline_commands::{Actor, Cause, Command, DeleteServiceRegistrationsOfNode, Kind, UpdateEvals};
use songline_model::{DeploymentId, EvalId, Evaluation, JobKey, Node, NodeId, NodeStatus, Time};
use songline_projections::{State, node_evals, node_transition_needs_evals};

use super::gc::Cutoffs;
use super::outbox::{Basis, Deed, Effect, Ending, Over, Row, Subject};
use super::{deployments, digests, drains, heartbeats, nodes, periodic};
use crate::broker::{self, Delivery, Token};

/// Action of the leader after an effect is over.
#[derive(Debug, Clone, PartialEq)]
pub enum Consequence {
    /// Acknowledge a delivery.
    Acknowledge(EvalId, Token),
    /// Decide another effect.
    Decide(Box<Effect>),
    /// Watch the heartbeats of a node, unless they are watched already.
    Watch(NodeId),
    /// Have the deployments and multiregion machines check this deployment again.
    LookAtDeployment(DeploymentId),
    /// Have the drains machine check again.
    LookAtDrains,
    /// Have the services machine check this node again.
    LookAtServices(NodeId),
    /// Have the periodic machine plan the launch of this job after the one at this time.
    PlanLaunch(JobKey, Time),
}

fn write(subject: Subject, actor: &str, cause: Option<Cause>, command: impl Into<Command>, basis: Basis) -> Effect {
    let deed = Deed::Write { cause, command: Box::new(command.into()) };
    Effect { subject, actor: Actor::Leader(actor.into()), deed, basis }
}

/// Cancels evaluations that are no longer needed. `None` without rows.
pub fn cancel(rows: Vec<Evaluation>) -> Option<Effect> {
    let subject = Subject::Canceled(rows.first()?.id);
    // No basis: nothing else writes a pending evaluation that the broker has let go of.
    Some(write(subject, "evals", None, UpdateEvals { evals: rows }, Basis::default()))
}

/// Writes an evaluation that was delivered too often as failed, with a follow-up. `None` when the evaluation has ended
/// meanwhile, because a worker finished a delivery that counted as lost. `chance` spreads the follow-ups. A job that is
/// gone gets no follow-up.
pub fn give_up(view: &State, delivery: &Delivery, follow_up: EvalId, chance: u8, now: Time) -> Option<Effect> {
    let id = delivery.eval.id;
    let eval = view.eval(id).filter(|eval| !eval.status.is_terminal())?;
    let wait = broker::give_up_wait(chance);
    let [mut failed, next] = broker::give_up(&eval, follow_up, wait, delivery.panicked.as_ref(), now);
    let mut evals = Vec::new();
    if view.job(&eval.namespace, &eval.job_id).is_some() {
        evals.push(next);
    } else {
        failed.next_eval = None;
    }
    evals.insert(0, failed);
    let basis = Basis::of(view, [Row::Eval(id)]);
    Some(write(Subject::GiveUp(id, delivery.token), "evals", None, UpdateEvals { evals }, basis))
}

/// Writes the status of a node that missed its heartbeat: `down` or `disconnected`. `None` when the node is gone.
pub fn miss(view: &State, id: NodeId, now: Time, written: Time) -> Option<Effect> {
    let node = view.node(id)?;
    let status = heartbeats::status_after_miss(view, node, now);
    let command = nodes::status_update(view, node, status, Some(nodes::missed_event(written)), written)?;
    let deed = Deed::WriteStatus { before: node.status, command };
    let basis = Basis::of(view, [Row::Node(id)]);
    Some(Effect { subject: Subject::NodeStatus(id), actor: Actor::Leader("heartbeats".into()), deed, basis })
}

/// Consequences of an effect that is over. `fresh` makes the ids of follow-up evaluations.
pub fn consequences(view: &State, over: &Over, now: Time, fresh: impl FnMut() -> EvalId) -> Vec<Consequence> {
    let decide = |effect| Consequence::Decide(Box::new(effect));
    match over.effect.subject {
        Subject::GiveUp(id, token) => vec![Consequence::Acknowledge(id, token)],
        Subject::NodeStatus(id) => {
            // A node that is not down is watched again, so that a disconnected one goes `down` when no allocation may
            // wait for it.
            let may_return = view.node(id).is_some_and(|node| node.status != NodeStatus::Down);
            let watch = may_return.then_some(Consequence::Watch(id));
            after_miss(view, id, over, now, fresh).map(decide).into_iter().chain(watch).collect()
        }
        Subject::NodeEvals(id) if over.look_again => {
            view.node(id).and_then(|node| look_if_overlooked(view, node, now, fresh)).map(decide).into_iter().collect()
        }
        Subject::Deployment(id) if over.look_again => vec![Consequence::LookAtDeployment(id)],
        Subject::Migration | Subject::DrainEnd(_) if over.look_again => vec![Consequence::LookAtDrains],
        Subject::Services(id) if over.look_again => vec![Consequence::LookAtServices(id)],
        Subject::Launch(_) => periodic::launched(&over.effect.deed)
            .map(|(key, at)| Consequence::PlanLaunch(key, at))
            .into_iter()
            .collect(),
        Subject::NodeEvals(_)
        | Subject::Deployment(_)
        | Subject::Migration
        | Subject::DrainEnd(_)
        | Subject::Services(_)
        | Subject::Canceled(_)
        | Subject::Digest
        | Subject::Garbage => Vec::new(),
    }
}

/// Effect that writes the evaluations of a silent node's new status. `None` when there are none to write.
fn after_miss(view: &State, id: NodeId, over: &Over, now: Time, fresh: impl FnMut() -> EvalId) -> Option<Effect> {
    let (Deed::WriteStatus { before, .. }, Ending::Written(index)) = (&over.effect.deed, over.ending) else {
        return None;
    };
    // Take the status from the row and not from the command: `apply` may have decided on another one.
    let node = view.node(id)?;
    let follows = node_transition_needs_evals(*before, node.status) || heartbeats::was_not_looked_at(view, node);
    if follows { look_at_node(view, id, index, now, fresh) } else { None }
}

/// Effect that writes the missing evaluations of a node that is down or disconnected. `None` when none are missing or
/// there is nothing to evaluate.
pub fn look_if_overlooked(view: &State, node: &Node, now: Time, fresh: impl FnMut() -> EvalId) -> Option<Effect> {
    if heartbeats::was_not_looked_at(view, node) {
        look_at_node(view, node.id, node.modify_index, now, fresh)
    } else {
        None
    }
}

/// Effect that writes the evaluations for the node's status that was written at `index`. `None` when no job is
/// concerned.
fn look_at_node(view: &State, id: NodeId, index: u64, now: Time, fresh: impl FnMut() -> EvalId) -> Option<Effect> {
    let evals = node_evals(view, view.node(id)?, index, now, fresh);
    if evals.is_empty() {
        return None;
    }
    let deed = Deed::Write {
        cause: Some(Cause::new(index, Kind::NodeUpdateStatus)),
        command: Box::new(UpdateEvals { evals }.into()),
    };
    Some(Effect { subject: Subject::NodeEvals(id), actor: Actor::Node(id), deed, basis: Basis::default() })
}

/// Writes a step of a deployment. `eval` is the id of the evaluation that follows from the step.
pub fn deployment(view: &State, step: deployments::Effect, eval: EvalId, now: Time, job_versions_max: u64) -> Effect {
    let id = step.deployment().id;
    let (cause, command) = deployments::entry(view, step, eval, now, job_versions_max);
    write(Subject::Deployment(id), "deployments", Some(cause), command, Basis::of(view, [Row::Deployment(id)]))
}

/// Writes a step of a multiregion job's deployment. `eval` is the id of the evaluation that follows from the step.
pub fn multiregion(view: &State, step: deployments::Effect, eval: EvalId, now: Time, job_versions_max: u64) -> Effect {
    let id = step.deployment().id;
    let (cause, command) = deployments::entry(view, step, eval, now, job_versions_max);
    write(Subject::Deployment(id), "multiregion", Some(cause), command, Basis::of(view, [Row::Deployment(id)]))
}

/// Writes a step of the drains. `fresh` makes the ids of the evaluations that follow from the step.
pub fn drain(view: &State, step: drains::Effect, now: Time, fresh: impl FnMut() -> EvalId) -> Effect {
    match step {
        drains::Effect::Migrate { allocs, jobs, nodes } => {
            let basis = Basis::of(view, nodes.into_iter().map(Row::Node));
            write(Subject::Migration, "drains", None, drains::migration(view, allocs, &jobs, fresh, now), basis)
        }
        drains::Effect::Complete { node, event } => {
            let basis = Basis::of(view, [Row::Node(node)]);
            write(Subject::DrainEnd(node), "drains", None, drains::completion(node, event, now), basis)
        }
    }
}

/// Deletes the service registrations of a node. Out of date when the node's row changes.
pub fn drop_services(view: &State, node_id: NodeId) -> Effect {
    let basis = Basis::of(view, [Row::Node(node_id)]);
    write(Subject::Services(node_id), "services", None, DeleteServiceRegistrationsOfNode { node_id }, basis)
}

/// Registers the child of a periodic job's launch. Out of date when the job is stopped or registered anew. `eval` is the
/// id of the child's evaluation.
pub fn launch(view: &State, launch: &periodic::Launch, eval: EvalId, now: Time, job_versions_max: u64) -> Effect {
    let (cause, command) = periodic::entry(launch, eval, now, job_versions_max);
    let basis = Basis::of(view, [Row::Job(launch.parent.key())]);
    write(Subject::Launch(eval), "periodic", Some(cause), command, basis)
}

/// Has the servers compare their states. `None` while no comparison is due.
pub fn compare(view: &State, digests: &mut digests::Digests) -> Option<Effect> {
    Some(write(Subject::Digest, "digest", None, digests.take_due(view)?, Basis::default()))
}

/// Deletes rows that are older than the cutoffs and no longer needed.
pub fn collect_garbage(cutoffs: Cutoffs) -> Effect {
    Effect {
        subject: Subject::Garbage,
        actor: Actor::Leader("gc".into()),
        deed: Deed::Collect(cutoffs),
        basis: Basis::default(),
    }
}
