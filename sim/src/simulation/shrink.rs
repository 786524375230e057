//! Shrinks a failing plan: a fault without which the plan still fails is removed.

use std::fmt;
use std::time::Duration;

use super::plan::Plan;
use super::run::{Report, run};

/// A failure with a shrunk plan.
#[derive(Debug, Clone)]
pub struct Story {
    /// The plan.
    pub plan: Plan,
    /// Its result.
    pub report: Report,
    /// Number of runs that were tried.
    pub attempts: u32,
}

/// Shrinks a failing plan, with at most `attempts_max` further runs.
pub fn shrink(plan: &Plan, report: Report, attempts_max: u32) -> Story {
    let mut story = Story { plan: plan.clone(), report, attempts: 0 };
    // Faults after the failure cannot have caused it.
    if let Some((at, _)) = &story.report.violation
        && *at < plan.length
    {
        let at = *at;
        let mut shorter = story.plan.clone();
        shorter.length = at + Duration::from_millis(1);
        shorter.faults.retain(|fault| fault.at <= at);
        try_instead(&mut story, shorter);
    }
    // Try to remove halves first, then ever smaller pieces, at last single faults.
    let mut piece = story.plan.faults.len().div_ceil(2);
    while piece > 0 && story.attempts < attempts_max {
        let mut from = 0;
        while from < story.plan.faults.len() && story.attempts < attempts_max {
            let mut smaller = story.plan.clone();
            let to = (from + piece).min(smaller.faults.len());
            smaller.faults.drain(from..to);
            if !try_instead(&mut story, smaller) {
                from = to;
            }
        }
        piece = if piece == 1 { 0 } else { piece.div_ceil(2) };
    }
    story
}

fn try_instead(story: &mut Story, plan: Plan) -> bool {
    story.attempts += 1;
    let report = run(&plan);
    let fails = report.violation.is_some();
    if fails {
        story.plan = plan;
        story.report = report;
    }
    fails
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { seed, regions, servers, clients, nodes, faults, .. } = &self.plan;
        let each = if *regions > 1 { format!("r{seed}: {regions} regions, each with") } else { format!("{seed}:") };
        writeln!(
            f,
            "seed {each} {servers} servers, {clients} clients, {nodes} nodes, {} faults after {} runs to make it smaller",
            faults.len(),
            self.attempts
        )?;
        for fault in faults {
            writeln!(f, "  {fault}")?;
        }
        if let Some((at, violation)) = &self.report.violation {
            writeln!(f, "found at {:.3} s: {violation}", at.as_secs_f64())?;
        }
        writeln!(f, "the end of it:")?;
        for line in &self.report.lines {
            writeln!(f, "  {line}")?;
        }
        Ok(())
    }
}
