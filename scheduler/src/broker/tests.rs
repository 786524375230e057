//! Stories of the eval broker: each line is a call; the expected text is its result.

use expect_test::{Expect, expect};

use super::*;

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

/// Runs lines such as `add a web 50`, `take`, `ack a`, `nack a`, `at 20`, `wait b web 5`.
fn check(story: &str, expected: Expect) {
    let (mut broker, mut now, mut index, mut tokens) = (EvalBroker::new(), Time::from_secs(1), 0, BTreeMap::new());
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
    expected.assert_eq(&seen);
}

#[test]
fn evaluations_are_dequeued_by_priority_then_age() {
    check(
        "add a one 50
         add b two 90
         add c three 50
         take
         take
         take
         take",
        expect![[r#"
            add a one 50:
            add b two 90:
            add c three 50:
            take: b
            take: a
            take: c
            take: nothing
        "#]],
    );
}

#[test]
fn job_has_one_evaluation_in_progress_and_keeps_only_the_newest_waiting() {
    check(
        "add a web 50
         add b web 50
         add c web 50
         take
         take
         ack a
         take
         useless",
        expect![[r#"
            add a web 50:
            add b web 50:
            add c web 50:
            take: a
            take: nothing
            ack a: ok
            take: c
            useless: b
        "#]],
    );
}

#[test]
fn unacknowledged_evaluation_is_redelivered_and_its_late_ack_refused() {
    check(
        "add a web 50
         take
         at 61
         take
         at 63
         ack a
         take
         ack a",
        expect![[r#"
            add a web 50:
            take: a
            at 61:
            take: nothing
            at 63:
            ack a: Evaluation ID not found
            take: a
            ack a: ok
        "#]],
    );
}

#[test]
fn evaluation_nacked_three_times_goes_to_the_failed_queue() {
    check(
        "add a web 50
         take
         nack a
         at 2
         take
         nack a
         at 30
         take
         nack a
         take
         failed",
        expect![[r#"
            add a web 50:
            take: a
            nack a: ok
            at 2:
            take: a
            nack a: ok
            at 30:
            take: a
            nack a: ok
            take: nothing
            failed: a: evaluation reached delivery limit (3)
        "#]],
    );
}

#[test]
fn failed_evaluation_waits_for_its_ack_without_a_time_limit() {
    check(
        "add a web 50
         add b web 50
         take
         nack a
         at 2
         take
         nack a
         at 30
         take
         nack a
         failed
         at 3600
         failed
         take
         ack a
         take",
        expect![[r#"
            add a web 50:
            add b web 50:
            take: a
            nack a: ok
            at 2:
            take: a
            nack a: ok
            at 30:
            take: a
            nack a: ok
            failed: a: evaluation reached delivery limit (3)
            at 3600:
            failed: nothing
            take: nothing
            ack a: ok
            take: b
        "#]],
    );
}

#[test]
fn evaluation_that_panics_three_times_fails_with_the_last_panic_message() {
    check(
        "add a web 50
         add b other 50
         take
         panics a
         take
         at 2
         take
         panics a
         at 30
         take
         panics a
         failed
         ack a",
        expect![[r#"
            add a web 50:
            add b other 50:
            take: a
            panics a: ok
            take: b
            at 2:
            take: a
            panics a: ok
            at 30:
            take: a
            panics a: ok
            failed: a: evaluation reached delivery limit (3): the scheduler panicked 3 times on it, the last time with "index out of bounds"; this is a defect of Songline, please report it
            ack a: ok
        "#]],
    );
    let once = Panicked { times: 1, message: "x".into() };
    assert!(limit_reached(Some(&once)).contains("panicked once on it"));
}

#[test]
fn a_delayed_evaluation_waits_for_its_time() {
    check(
        "wait a web 5
         take
         at 5
         take",
        expect![[r#"
            wait a web 5:
            take: nothing
            at 5:
            take: a
        "#]],
    );
}

#[test]
fn failed_evaluation_is_retried_after_one_to_six_minutes() {
    assert_eq!(give_up_wait(0), Dur::from_mins(1));
    assert!(give_up_wait(u8::MAX) > Dur::from_secs(358) && give_up_wait(u8::MAX) < Dur::from_mins(6));
}
