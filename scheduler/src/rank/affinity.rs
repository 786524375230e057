//! Node affinities: preferences of a job for nodes, by weight.

use songline_model::{Affinity, Constraint, Job, Node, TaskGroup};

use crate::feasible::Rule;

/// The affinities of a group: those of its job, of itself and of its tasks.
#[derive(Debug, Default)]
pub struct Affinities {
    rules: Vec<(Rule, f64)>,
    /// Sum of the absolute weights.
    weights: f64,
}

impl Affinities {
    /// Compiles the affinities of `group`.
    pub fn of(job: &Job, group: &TaskGroup) -> Self {
        let tasks = group.tasks.iter().flatten().flat_map(|task| task.affinities.iter().flatten());
        let all = job.affinities.iter().flatten().chain(group.affinities.iter().flatten()).chain(tasks);
        let rules: Vec<(Rule, f64)> = all.map(|affinity| (rule_of(affinity), affinity.weight as f64)).collect();
        let weights = rules.iter().map(|(_, weight)| weight.abs()).sum();
        Self { rules, weights }
    }

    /// Whether there are no affinities.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Score of a node, -1 to 1: the weights of the affinities that match, out of all weights.
    pub fn score(&self, node: &Node) -> f64 {
        let matched: f64 = self.rules.iter().filter(|(rule, _)| rule.holds(node)).map(|(_, weight)| weight).sum();
        if self.weights > 0.0 { matched / self.weights } else { 0.0 }
    }
}

fn rule_of(affinity: &Affinity) -> Rule {
    Rule::new(&Constraint {
        l_target: affinity.l_target.clone(),
        operand: affinity.operand.clone(),
        r_target: affinity.r_target.clone(),
    })
}
