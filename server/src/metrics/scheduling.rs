//! Gauges of scheduling with labels: what blocked evaluations wait for, and nodes whose plans are rejected.

use std::sync::Arc;

use songline_scheduler::blocked::Wanted;

use super::family::{Family, Labels};
use crate::Core;

impl Core {
    /// Gauges of the blocked evaluations and of rejected plans. Empty on a server that does not lead.
    pub(super) fn gauges_of_scheduling(&self, out: &mut Vec<Family>) {
        let (jobs, places) = {
            let queues = self.queues();
            let demand = queues.blocked.demand();
            let jobs: Vec<_> = demand
                .by_job()
                .map(|(job, wanted)| {
                    (Labels::new(&[("job", job.id.as_str()), ("namespace", job.namespace.as_str())]), wanted)
                })
                .collect();
            let places: Vec<_> = demand
                .by_place()
                .map(|(datacenter, class, wanted)| {
                    (Labels::new(&[("datacenter", datacenter.as_str()), ("node_class", class.as_str())]), wanted)
                })
                .collect();
            (jobs, places)
        };
        let (cpu, memory) = ("MHz that ran out for blocked evaluations.", "MiB that ran out for blocked evaluations.");
        let amounts = |of: &[(Arc<Labels>, Wanted)], amount: fn(&Wanted) -> i64| {
            of.iter().map(|(labels, wanted)| (Arc::clone(labels), amount(wanted) as f64)).collect::<Vec<_>>()
        };
        let scores: Vec<_> = {
            let rejections = self.leader.rejections.lock();
            let scores = rejections.scores(self.pace());
            scores.map(|(node, score)| (Labels::new(&[("node_id", node.to_string().as_str())]), score as f64)).collect()
        };
        let families = [
            ("nomad.nomad.blocked_evals.job.cpu", cpu, amounts(&jobs, |wanted| wanted.cpu)),
            ("nomad.nomad.blocked_evals.job.memory", memory, amounts(&jobs, |wanted| wanted.memory)),
            ("nomad.nomad.blocked_evals.cpu", cpu, amounts(&places, |wanted| wanted.cpu)),
            ("nomad.nomad.blocked_evals.memory", memory, amounts(&places, |wanted| wanted.memory)),
            (
                "nomad.nomad.plan.rejection_tracker.node_score",
                "Rejections of the node's plans within the window.",
                scores,
            ),
        ];
        let told = families.into_iter().filter(|(.., rows)| !rows.is_empty());
        out.extend(told.map(|(name, help, rows)| Family::gauges(name, help, rows)));
    }
}
