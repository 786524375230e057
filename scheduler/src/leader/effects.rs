//! What the leader's machines decide, as effects for the [`Outbox`](super::outbox::Outbox): the command, who writes it, and which rows it was
//! decided on.

use songline_commands::{Actor, Cause, Command, DeleteServiceRegistrationsOfNode, Kind, UpdateEvals};
use songline_model::{EvalId, Evaluation, NodeId, Time};
use songline_projections::{State, node_evals, node_transition_needs_evals};

use super::gc::Cutoffs;
use super::outbox::{Basis, Deed, Effect, Ending, Over, Row, Subject};
use super::{deployments, digests, drains, heartbeats, nodes};
use crate::broker::{self, Delivery};

fn write(subject: Subject, actor: &str, cause: Option<Cause>, command: impl Into<Command>, basis: Basis) -> Effect {
    let deed = Deed::Write { cause, command: Box::new(command.into()) };
    Effect { subject, actor: Actor::Leader(actor.into()), deed, basis }
}

/// Evaluations that nobody needs any more are written so. `None` when there are none.
pub fn cancel(rows: Vec<Evaluation>) -> Option<Effect> {
    let subject = Subject::Canceled(rows.first()?.id);
    // Nobody else writes a pending evaluation that the broker has let go of.
    Some(write(subject, "evals", None, UpdateEvals { evals: rows }, Basis::default()))
}

/// An evaluation that was delivered too often fails, and its follow-up is written. `None` when it has ended meanwhile: a delivery that counted as
/// lost was worked on all the same. `chance` spreads the follow-ups.
pub fn give_up(view: &State, delivery: &Delivery, follow_up: EvalId, chance: u8, now: Time) -> Option<Effect> {
    let id = delivery.eval.id;
    let eval = view.eval(id).filter(|eval| !eval.status.is_terminal())?;
    let wait = broker::give_up_wait(chance);
    let rows = broker::give_up(&eval, follow_up, wait, delivery.panicked.as_ref(), now);
    let basis = Basis::of(view, [Row::Eval(id)]);
    Some(write(Subject::GiveUp(id, delivery.token), "evals", None, UpdateEvals { evals: rows.into() }, basis))
}

/// A node that missed its heartbeat gets the status that it has then. `None` when the node is gone.
pub fn miss(view: &State, id: NodeId, now: Time, written: Time) -> Option<Effect> {
    let node = view.node(id)?;
    let status = heartbeats::status_after_miss(view, node, now);
    let command = nodes::status_update(view, node, status, Some(nodes::missed_event(written)), written)?;
    let deed = Deed::WriteStatus { before: node.status, command };
    let basis = Basis::of(view, [Row::Node(id)]);
    Some(Effect { subject: Subject::NodeStatus(id), actor: Actor::Leader("heartbeats".into()), deed, basis })
}

/// The evaluations that follow from what a silent node has become. `None` when none do.
pub fn after_miss(view: &State, over: &Over, now: Time, fresh: impl FnMut() -> EvalId) -> Option<Effect> {
    let (Subject::NodeStatus(id), Deed::WriteStatus { before, .. }) = (over.effect.subject, &over.effect.deed) else { return None };
    let Ending::Written(index) = over.ending else { return None };
    // The entry decided which status it became: something else may have come between.
    let node = view.node(id)?;
    let follows = node_transition_needs_evals(*before, node.status) || heartbeats::was_not_looked_at(view, node);
    if follows { look_at_node(view, id, index, now, fresh) } else { None }
}

/// Has the schedulers look at everything that the status of a node concerns, which was written at `index`. `None` when that is nothing.
pub fn look_at_node(view: &State, id: NodeId, index: u64, now: Time, fresh: impl FnMut() -> EvalId) -> Option<Effect> {
    let evals = node_evals(view, view.node(id)?, index, now, fresh);
    if evals.is_empty() {
        return None;
    }
    let deed = Deed::Write { cause: Some(Cause::new(index, Kind::NodeUpdateStatus)), command: Box::new(UpdateEvals { evals }.into()) };
    Some(Effect { subject: Subject::NodeEvals(id), actor: Actor::Node(id), deed, basis: Basis::default() })
}

/// A step of a deployment. `eval` names the evaluation that follows from it.
pub fn deployment(view: &State, step: deployments::Effect, eval: EvalId, now: Time, job_versions_max: u64) -> Effect {
    let id = step.deployment().id;
    let (cause, command) = deployments::entry(view, step, eval, now, job_versions_max);
    write(Subject::Deployment(id), "deployments", Some(cause), command, Basis::of(view, [Row::Deployment(id)]))
}

/// A step of the drains. `fresh` names the evaluations that follow from it.
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

/// What a node announced is dropped. Out of date when the node comes back.
pub fn drop_services(view: &State, node_id: NodeId) -> Effect {
    let basis = Basis::of(view, [Row::Node(node_id)]);
    write(Subject::Services(node_id), "services", None, DeleteServiceRegistrationsOfNode { node_id }, basis)
}

/// The servers compare their states, if it is time.
pub fn compare(view: &State, digests: &mut digests::Digests) -> Option<Effect> {
    Some(write(Subject::Digest, "digest", None, digests.take_due(view)?, Basis::default()))
}

/// What is old enough is dropped.
pub fn collect_garbage(cutoffs: Cutoffs) -> Effect {
    Effect { subject: Subject::Garbage, actor: Actor::Leader("gc".into()), deed: Deed::Collect(cutoffs), basis: Basis::default() }
}
