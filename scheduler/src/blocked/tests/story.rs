//! The language of stories of blocked evaluations: each line is a call, told with its answer. The golden cases
//! (`tests/golden`) are written in it, too.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::{AllocMetric, EvalId, Evaluation, JobKey, JobType, Str, Time};

use crate::blocked::BlockedEvals;
use crate::broker::{EvalBroker, Token};

pub(crate) fn eval(name: &str, job: &str, snapshot: u64, classes: &str) -> Arc<Evaluation> {
    let mut id = [0; 16];
    id[..name.len()].copy_from_slice(name.as_bytes());
    let eligible: BTreeMap<Str, bool> = classes
        .split(',')
        .filter_map(|class| class.split_once('='))
        .map(|(class, fits)| (class.into(), fits == "y"))
        .collect();
    Arc::new(Evaluation {
        id: EvalId::from_bytes(id),
        job_id: job.into(),
        snapshot_index: snapshot,
        escaped_computed_class: classes == "any",
        class_eligibility: Some(eligible.into()),
        ..Evaluation::default()
    })
}

fn names<'a>(evals: impl IntoIterator<Item = &'a Arc<Evaluation>>) -> String {
    evals
        .into_iter()
        .map(|eval| String::from_utf8_lossy(eval.id.as_bytes()).trim_end_matches('\0').to_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

/// `g=quota` failed for the quota alone, `g=room` for want of room too.
fn failed(group: &str) -> (Str, AllocMetric) {
    let (name, why) = group.split_once('=').unwrap();
    let quota_exhausted = Some(vec!["cpu".into()].into());
    let nodes_exhausted = i64::from(why == "room");
    (name.into(), AllocMetric { quota_exhausted, nodes_exhausted, ..AllocMetric::default() })
}

/// The token of a worker that has the evaluation.
fn delivered(eval: &Arc<Evaluation>) -> Token {
    let mut broker = EvalBroker::new();
    broker.set_enabled(true);
    broker.enqueue(Arc::clone(eval), Time::from_secs(1));
    broker.dequeue(&[JobType::Service], Time::from_secs(1)).unwrap().token
}

/// Each line is a call: `block ID JOB SNAPSHOT CLASSES`, the same with `again` for one that a worker gives back, `class
/// CLASS INDEX` for a gain of capacity, `held` for the same with whether a worker still holds what is woken.
pub(crate) fn tell(story: &str) -> String {
    let mut blocked = BlockedEvals::new();
    blocked.set_enabled(true);
    let mut seen = String::new();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<_> = line.split(' ').collect();
        let answer = match words[..] {
            ["block", id, job, snapshot, classes] => {
                let wake = blocked.block(eval(id, job, snapshot.parse().unwrap(), classes), None);
                wake.map_or("waits".into(), |(eval, _)| format!("runs {}", names([&eval])))
            }
            ["over", quota, id, job, snapshot, groups] => {
                let mut eval = Evaluation::clone(&eval(id, job, snapshot.parse().unwrap(), ""));
                eval.quota_limit_reached = quota.into();
                eval.failed_tg_allocs = Some(Arc::new(groups.split(',').map(failed).collect()));
                let wake = blocked.block(eval.into(), None);
                wake.map_or("waits".into(), |(eval, _)| format!("runs {}", names([&eval])))
            }
            ["quota", quota, index] => {
                names(blocked.unblock_quota(&quota.into(), index.parse().unwrap()).iter().map(|(eval, _)| eval))
            }
            ["waiting"] => blocked.waiting_for_quota().to_string(),
            ["class", class, index] => {
                names(blocked.unblock(&class.into(), index.parse().unwrap()).iter().map(|(eval, _)| eval))
            }
            ["done", job] => {
                blocked.untrack(&JobKey::new("", job));
                String::new()
            }
            ["again", id, job, snapshot, classes] => {
                let eval = eval(id, job, snapshot.parse().unwrap(), classes);
                let token = delivered(&eval);
                let wake = blocked.block(eval, Some(token));
                wake.map_or("waits".into(), |(eval, _)| format!("runs {}", names([&eval])))
            }
            ["missed", index] => {
                blocked.missed_until(index.parse().unwrap());
                String::new()
            }
            ["held", class, index] => {
                let wakes = blocked.unblock(&class.into(), index.parse().unwrap());
                wakes
                    .iter()
                    .map(|(_, token)| if token.is_some() { "held" } else { "free" })
                    .collect::<Vec<_>>()
                    .join(" ")
            }
            ["duplicates"] => names(&blocked.take_duplicates()),
            _ => panic!("no such line: {line}"),
        };
        seen.push_str(format!("{line}: {answer}").trim_end());
        seen.push('\n');
    }
    seen
}
