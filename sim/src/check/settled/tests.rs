//! Open ends in short notation, and the verdict.

use expect_test::{Expect, expect};

use super::{OpenEnds, OpenEval, Outlook, all_is_settled};

/// Notation, one word each: `e:web:pending` an open evaluation, `d:web:running` a deployment, and `j:web` a job, with
/// `+2` changes to be made, `-g` without room, `b` blocked, `=g` explained.
fn check(ends: &str, expected: &Expect) {
    let mut open = OpenEnds::default();
    for word in ends.split_whitespace() {
        let (kind, rest) = word.split_once(':').unwrap();
        let (name, status) = rest.split_once(':').unwrap_or((rest, ""));
        match kind {
            "e" => open.evals.push(OpenEval { id: "e1".into(), job: name.into(), status: status.into() }),
            "d" => open.deployments.push((name.into(), status.into())),
            _ => open.jobs.push(outlook(rest)),
        }
    }
    let verdict = all_is_settled(&open);
    expected.assert_eq(&verdict.map_or_else(|error| error.to_string(), |()| "settled".to_owned()));
}

fn outlook(text: &str) -> Outlook {
    let mut parts = text.split(',');
    let job = parts.next().unwrap().to_owned();
    let mut outlook = Outlook { job, changes: 0, without_room: vec![], is_blocked: false, explained: vec![] };
    for part in parts {
        match part.split_at(1) {
            ("+", number) => outlook.changes = number.parse().unwrap(),
            ("-", group) => outlook.without_room.push(group.to_owned()),
            ("=", group) => outlook.explained.push(group.to_owned()),
            _ => outlook.is_blocked = true,
        }
    }
    outlook
}

#[test]
fn jobs_without_work_and_jobs_that_wait_for_room_are_settled() {
    check("", &expect!["settled"]);
    check("j:web j:big,-g,b,=g", &expect!["settled"]);
}

#[test]
fn evaluation_or_deployment_that_does_not_end_is_found() {
    check("e:web:pending", &expect!["evaluation e1 of web is still pending"]);
    check("d:web:running j:web", &expect!["the deployment of web is still running"]);
}

#[test]
fn blocked_evaluation_with_room_is_a_lost_wake_up() {
    check("j:big,+2,-g,b,=g", &expect!["an evaluation of big is blocked, and the scheduler would make 2 changes now"]);
    check("j:big,+2", &expect!["no evaluation waits for big, and the scheduler would make 2 changes now"]);
}

#[test]
fn group_without_room_needs_a_blocked_evaluation_and_a_reason() {
    check("j:big,-g,=g", &expect!["g of big has no room, and no evaluation waits for it"]);
    check("j:big,-g,b", &expect!["g of big has no room, and no evaluation names why"]);
}
