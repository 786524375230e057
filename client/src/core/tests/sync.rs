//! Times at which updates are sent.

use expect_test::{Expect, expect};
use songline_model::{AllocClientStatus, AllocId, Allocation, Dur, Time};
use songline_rpc::AllocReport;

use crate::core::{AllocSync, Jitter, Priority, priority};

fn update(id: u8, status: &str) -> AllocReport {
    let (status, text) = status.split_once('.').unwrap_or((status, ""));
    let client_status = AllocClientStatus::from_word(status).expect("a status");
    AllocReport {
        id: AllocId::from_bytes([id; 16]),
        client_status,
        client_description: text.into(),
        ..AllocReport::default()
    }
}

fn check(story: &str, expected: Expect) {
    let start = Time::from_secs(0);
    let mut sync = AllocSync::new(start, Jitter::new(1));
    let mut said = String::new();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = start.plus(Dur::from_millis(words[0].parse().expect("milliseconds")));
        let answer = match &words[1..] {
            ["contact"] => {
                sync.on_contact();
                String::new()
            }
            ["put", id, status] => {
                sync.put(at, update(id.parse().expect("an id"), status));
                String::new()
            }
            ["forget", id] => {
                sync.forget(&AllocId::from_bytes([id.parse().expect("an id"); 16]));
                String::new()
            }
            ["again", id, status] => {
                sync.say_again(at, [update(id.parse().expect("an id"), status)]);
                String::new()
            }
            ["copy", id, status] => {
                let known = update(id.parse().expect("an id"), "running.newest");
                let copy = Allocation {
                    id: known.id,
                    client_status: AllocClientStatus::from_word(status).expect("a status"),
                    ..Allocation::default()
                };
                sync.compare(at, &copy, known);
                String::new()
            }
            ["ok"] => format!("{} acknowledged", sync.on_sent(at, true).len()),
            ["refused"] => format!("{} acknowledged", sync.on_sent(at, false).len()),
            ["tick"] => match sync.on_time(at) {
                Some(batch) => {
                    let shown =
                        batch.iter().map(|update| format!("{}={}", update.id.as_bytes()[0], update.client_status));
                    format!("send {}", shown.collect::<Vec<_>>().join(" "))
                }
                None => "nothing".to_owned(),
            },
            other => panic!("no such line: {other:?}"),
        };
        let next = sync.next_deadline(at).map_or("never".to_owned(), |at| format!("{}", at.since(start)));
        said.push_str(format!("{line}: {answer}").trim_end());
        said.push_str(&format!(" (next {next})\n"));
    }
    expected.assert_eq(&said);
}

#[test]
fn alloc_updates_are_not_sent_before_the_first_server_contact() {
    check(
        "0 put 1 failed
         200 tick
         300 contact
         400 tick",
        expect![[r#"
            0 put 1 failed: (next never)
            200 tick: nothing (next never)
            300 contact: (next 400ms)
            400 tick: send 1=failed (next never)
        "#]],
    );
}

#[test]
fn status_change_is_sent_at_the_next_tick_and_a_first_pending_at_the_fifth() {
    check(
        "0 contact
         10 put 1 pending
         200 tick
         800 tick
         1000 tick
         1010 ok
         1100 put 1 running
         1110 put 2 pending
         1200 tick
         1210 ok
         1250 put 1 running.healthy
         1400 tick
         2200 tick
         2210 ok
         2300 put 1 running.healthy
         2400 tick
         3400 tick",
        expect![[r#"
            0 contact: (next never)
            10 put 1 pending: (next 200ms)
            200 tick: nothing (next 400ms)
            800 tick: nothing (next 1s)
            1000 tick: send 1=pending (next never)
            1010 ok: 1 acknowledged (next never)
            1100 put 1 running: (next 1.2s)
            1110 put 2 pending: (next 1.2s)
            1200 tick: send 1=running 2=pending (next never)
            1210 ok: 2 acknowledged (next never)
            1250 put 1 running.healthy: (next 1.4s)
            1400 tick: nothing (next 1.6s)
            2200 tick: send 1=running (next never)
            2210 ok: 1 acknowledged (next never)
            2300 put 1 running.healthy: (next 2.4s)
            2400 tick: nothing (next 2.6s)
            3400 tick: nothing (next never)
        "#]],
    );
}

#[test]
fn refused_update_batch_is_retried_with_newer_updates() {
    check(
        "0 contact
         10 put 1 failed
         10 put 2 failed
         200 tick
         210 put 2 complete
         220 refused
         5000 tick
         20000 tick
         20010 ok",
        expect![[r#"
            0 contact: (next never)
            10 put 1 failed: (next 200ms)
            10 put 2 failed: (next 200ms)
            200 tick: send 1=failed 2=failed (next never)
            210 put 2 complete: (next never)
            220 refused: 0 acknowledged (next 9.420822465s)
            5000 tick: nothing (next 9.420822465s)
            20000 tick: send 1=failed 2=complete (next never)
            20010 ok: 2 acknowledged (next never)
        "#]],
    );
}

#[test]
fn updates_of_a_forgotten_alloc_are_not_sent() {
    check(
        "0 contact
         10 put 1 failed
         20 forget 1
         200 tick",
        expect![[r#"
            0 contact: (next never)
            10 put 1 failed: (next 200ms)
            20 forget 1: (next never)
            200 tick: nothing (next never)
        "#]],
    );
}

#[test]
fn refused_batch_does_not_bring_back_the_update_of_a_forgotten_alloc() {
    check(
        "0 contact
         10 put 1 complete
         10 put 2 failed
         200 tick
         210 forget 1
         220 refused
         20000 tick",
        expect![[r#"
            0 contact: (next never)
            10 put 1 complete: (next 200ms)
            10 put 2 failed: (next 200ms)
            200 tick: send 1=complete 2=failed (next never)
            210 forget 1: (next never)
            220 refused: 0 acknowledged (next 9.420822465s)
            20000 tick: send 2=failed (next never)
        "#]],
    );
}

#[test]
fn only_a_client_status_change_is_urgent() {
    let known = update(1, "running");
    let cases = [
        (None, update(1, "failed"), Priority::Urgent),
        (None, update(1, "pending"), Priority::Typical),
        (None, update(1, "running"), Priority::Urgent),
        (None, update(1, "complete"), Priority::Urgent),
        (Some(&known), update(1, "complete"), Priority::Urgent),
        (Some(&known), update(1, "running.else"), Priority::Typical),
        (Some(&known), update(1, "running"), Priority::None),
    ];
    for (acknowledged, update, expected) in cases {
        assert_eq!(priority(acknowledged, &update), expected, "{acknowledged:?} -> {update:?}");
    }
}

#[test]
fn reconnected_node_reports_unchanged_allocs_again() {
    check(
        "0 contact
         10 put 1 running
         20 put 2 running
         200 tick
         210 ok
         300 put 1 running
         400 tick
         1200 tick
         2000 again 1 running
         2200 tick
         2210 ok
         2300 put 2 running
         2400 tick",
        expect![[r#"
            0 contact: (next never)
            10 put 1 running: (next 200ms)
            20 put 2 running: (next 200ms)
            200 tick: send 1=running 2=running (next never)
            210 ok: 2 acknowledged (next never)
            300 put 1 running: (next 400ms)
            400 tick: nothing (next 600ms)
            1200 tick: nothing (next never)
            2000 again 1 running: (next 2.2s)
            2200 tick: send 1=running (next never)
            2210 ok: 1 acknowledged (next never)
            2300 put 2 running: (next 2.4s)
            2400 tick: send 2=running (next never)
        "#]],
    );
}

#[test]
fn refused_update_is_sent_with_the_report_after_a_reconnect() {
    check(
        "0 contact
         10 put 1 running
         200 tick
         210 ok
         300 put 1 failed
         400 tick
         410 refused
         500 again 2 running
         6000 tick
         10000 tick",
        expect![[r#"
            0 contact: (next never)
            10 put 1 running: (next 200ms)
            200 tick: send 1=running (next never)
            210 ok: 1 acknowledged (next never)
            300 put 1 failed: (next 400ms)
            400 tick: send 1=failed (next never)
            410 refused: 0 acknowledged (next 9.610822465s)
            500 again 2 running: (next 600ms)
            6000 tick: send 1=failed 2=running (next never)
            10000 tick: nothing (next never)
        "#]],
    );
}

#[test]
fn status_that_the_servers_lost_is_sent_again() {
    check(
        "0 contact
         10 put 1 running
         200 tick
         210 ok
         300 copy 1 running
         400 copy 1 complete
         500 copy 1 pending
         600 tick",
        expect![[r#"
            0 contact: (next never)
            10 put 1 running: (next 200ms)
            200 tick: send 1=running (next never)
            210 ok: 1 acknowledged (next never)
            300 copy 1 running: (next never)
            400 copy 1 complete: (next never)
            500 copy 1 pending: (next 600ms)
            600 tick: send 1=running (next never)
        "#]],
    );
}
