//! The languages of the stories.

mod plans;
mod scores;

use std::collections::BTreeMap;
use std::fmt::Write;

use songline_scheduler::feasible::satisfied;

use crate::cluster::Cluster;
use crate::{blocked_story, broker_story, draining, reconcile_story};

/// Tells a story.
///
/// | Language | A story is |
/// |---|---|
/// | `reconcile` | a job with its allocations, for the reconciler |
/// | `schedule` | a cluster and evaluations of its jobs, through scheduler, applier and tables; drains, plans |
/// | `constraint` | lines `LEFT \| OPERAND \| RIGHT`, values in quotes or `nil` |
/// | `score` | lines for the scorers |
/// | `broker`, `blocked` | calls of the eval broker and of the blocked evaluations |
/// | `elsewhere` | lines `FILE TEST`: tests of private parts of the scheduler that say the same |
pub(crate) fn tell(language: &str, story: &str) -> String {
    match language {
        "reconcile" => reconcile_story::reconcile(story),
        "schedule" => schedule(story),
        "constraint" => each_line(story, constraint),
        "score" => each_line(story, scores::line),
        "broker" => broker_story::tell(story),
        "blocked" => blocked_story::tell(story),
        "elsewhere" => each_line(story, elsewhere),
        other => panic!("unknown language {other}"),
    }
}

fn each_line(story: &str, mut tell: impl FnMut(&str) -> String) -> String {
    story.lines().map(|line| format!("{line}: {}\n", tell(line))).collect()
}

/// The lines of [`Cluster`], of [`draining::line`] and of [`plans::line`], and `datacenters JOB` (live allocs by
/// datacenter), `tracker NAME` (nodes of the reschedule attempts of the newest alloc) and `linked JOB` (evaluations with
/// their blocked ones).
fn schedule(story: &str) -> String {
    let mut cluster = Cluster::new();
    for line in story.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words[..] {
            ["datacenters", job] => datacenters(&cluster, job),
            ["tracker", name] => tracker(&cluster, name),
            ["linked", job] => linked(&cluster, job),
            ["plan", ref parts @ ..] => plans::line(&mut cluster, parts),
            _ => match draining::line(&mut cluster, &words) {
                draining::Line::Told(proposals) if proposals.is_empty() => "nothing".to_owned(),
                draining::Line::Told(proposals) => proposals.join("; "),
                draining::Line::Done => continue,
                draining::Line::Other => {
                    cluster.line(line);
                    continue;
                }
            },
        };
        writeln!(cluster.told, "{line}: {answer}").expect("a string takes all");
    }
    cluster.told
}

fn datacenters(cluster: &Cluster, job: &str) -> String {
    let mut counts = BTreeMap::new();
    for alloc in cluster.state.allocs_of_job("default", job).filter(|alloc| !alloc.terminal()) {
        let node = alloc.node_id.and_then(|id| cluster.state.node(id)).expect("a placed alloc");
        *counts.entry(node.datacenter.as_str()).or_insert(0) += 1;
    }
    counts.iter().map(|(datacenter, count)| format!("{datacenter} {count}")).collect::<Vec<_>>().join(", ")
}

fn tracker(cluster: &Cluster, name: &str) -> String {
    let named = cluster.state.allocs().filter(|alloc| alloc.name == *name);
    let alloc = named.max_by_key(|alloc| alloc.create_index).expect("an alloc of this name");
    let events = alloc.reschedule_tracker.iter().flat_map(|tracker| tracker.events.iter().flatten());
    let told = events.map(|event| {
        let previous = cluster.state.alloc(event.prev_alloc_id).expect("the previous alloc");
        assert_eq!(previous.node_id, Some(event.prev_node_id), "the event names the node of its alloc");
        format!("{} on {}", previous.name, previous.node_name)
    });
    told.collect::<Vec<_>>().join(", ")
}

fn linked(cluster: &Cluster, job: &str) -> String {
    let evals = cluster.state.evals_of_job("default", job);
    let told = evals.filter_map(|eval| {
        let blocked = cluster.state.eval(eval.blocked_eval?).expect("the blocked evaluation");
        assert_eq!(blocked.previous_eval, Some(eval.id), "the blocked evaluation names the one before");
        Some(format!("{} to {}", eval.status, blocked.status))
    });
    told.collect::<Vec<_>>().join(", ")
}

fn constraint(line: &str) -> String {
    let value = |text: &'_ str| (text != "nil").then(|| text.trim_matches('"').to_owned());
    let parts: Vec<&str> = line.split('|').map(str::trim).collect();
    let [left, operand, right] = parts[..] else { panic!("not `LEFT | OPERAND | RIGHT`: {line}") };
    satisfied(operand, value(left).as_deref(), value(right).as_deref()).to_string()
}

fn elsewhere(line: &str) -> String {
    let (file, test) = line.split_once(' ').expect("`FILE TEST`");
    let text = match file {
        "preempt/tests.rs" => include_str!("../../src/preempt/tests.rs"),
        "feasible/volumes/tests.rs" => include_str!("../../src/feasible/volumes/tests.rs"),
        other => panic!("unknown file {other}"),
    };
    if text.contains(&format!("#[test]\nfn {test}() {{")) { "there" } else { "missing" }.to_owned()
}
