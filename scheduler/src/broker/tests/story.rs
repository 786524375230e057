//! The language of stories of the eval broker: each line is a call, told with its answer. The golden cases
//! (`tests/golden`) are written in it, too.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::{Dur, EvalId, Evaluation, JobType, Time};

use crate::broker::{EvalBroker, Token, give_up};

fn eval(name: &str, job: &str, priority: i64, index: u64) -> Arc<Evaluation> {
    let mut id = [0; 16];
    id[..name.len()].copy_from_slice(name.as_bytes());
    Arc::new(Evaluation {
        id: EvalId::from_bytes(id),
        namespace: "default".into(),
        job_id: job.into(),
        priority,
        create_index: index,
        modify_index: index,
        ..Evaluation::default()
    })
}

fn name(id: EvalId) -> String {
    String::from_utf8_lossy(id.as_bytes()).trim_end_matches('\0').to_owned()
}

/// Runs lines such as `add a web 50`, `take`, `again a web` (a worker gives it back), `ack a`, `nack a`, `at 20`,
/// `wait b web 5`, and tells the answers.
pub(crate) fn tell(story: &str) -> String {
    let (mut broker, mut now, mut index, mut tokens) =
        (EvalBroker::new(), Time::from_secs(1), 0, BTreeMap::<String, (EvalId, Token)>::new());
    broker.set_enabled(true);
    let mut seen = String::new();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<_> = line.split(' ').collect();
        let answer = match words[..] {
            ["add", id, job, priority] => {
                index += 1;
                broker.enqueue(eval(id, job, priority.parse().unwrap(), index), now);
                String::new()
            }
            ["again", id, job] => {
                index += 1;
                broker.enqueue_again(eval(id, job, 50, index), tokens[id].1, now);
                String::new()
            }
            ["wait", id, job, secs] => {
                index += 1;
                let mut waiting = (*eval(id, job, 50, index)).clone();
                waiting.wait_until = Some(now.plus(Dur::from_secs(secs.parse().unwrap())));
                broker.enqueue(Arc::new(waiting), now);
                String::new()
            }
            ["take"] => match broker.dequeue(&[JobType::Service], now) {
                Some(delivery) => {
                    tokens.insert(name(delivery.eval.id), (delivery.eval.id, delivery.token));
                    name(delivery.eval.id)
                }
                None => "nothing".into(),
            },
            ["failed"] => match broker.dequeue_failed() {
                Some(delivery) => {
                    tokens.insert(name(delivery.eval.id), (delivery.eval.id, delivery.token));
                    let wait = Dur::from_mins(2);
                    let [failed, next] =
                        give_up(&delivery.eval, delivery.eval.id, wait, delivery.panicked.as_ref(), now);
                    assert_eq!((next.wait, next.wait_until), (Dur::ZERO, Some(now.plus(wait))));
                    format!("{}: {}", name(delivery.eval.id), failed.status_description)
                }
                None => "nothing".into(),
            },
            ["panics", id] => {
                let (id, token) = tokens[id];
                broker
                    .nack_panicked(id, token, "index out of bounds".into(), now)
                    .map_or_else(|e| e.to_string(), |()| "ok".into())
            }
            ["ack", id] => {
                let (id, token) = tokens[id];
                broker.ack(id, token, now).map_or_else(|e| e.to_string(), |()| "ok".into())
            }
            ["nack", id] => {
                let (id, token) = tokens[id];
                broker.nack(id, token, now).map_or_else(|e| e.to_string(), |()| "ok".into())
            }
            ["at", secs] => {
                now = Time::from_secs(1).plus(Dur::from_secs(secs.parse().unwrap()));
                broker.on_time(now);
                String::new()
            }
            ["useless"] => broker.take_cancelable(10).iter().map(|eval| name(eval.id)).collect::<Vec<_>>().join(" "),
            _ => panic!("no such line: {line}"),
        };
        seen.push_str(format!("{line}: {answer}").trim_end());
        seen.push('\n');
    }
    seen
}
