//! Stories of blocked evaluations: blocking, waking, duplicates.

mod story;

use expect_test::{Expect, expect};

use songline_model::{AllocMetric, Resources};

use self::story::eval;
use super::*;

fn check(story: &str, expected: Expect) {
    expected.assert_eq(&story::tell(story));
}

#[test]
fn node_class_wakes_blocked_evaluations_that_may_fit_it() {
    check(
        "block a one 5 c1=n,c2=y
         block b two 5 c1=y
         block c three 5 any
         class c1 9
         class c2 10",
        expect![[r#"
            block a one 5 c1=n,c2=y: waits
            block b two 5 c1=y: waits
            block c three 5 any: waits
            class c1 9: b c
            class c2 10: a
        "#]],
    );
}

#[test]
fn capacity_newer_than_its_snapshot_runs_a_blocked_evaluation_at_once() {
    check(
        "class c1 9
         block a one 5 c1=y
         block b two 9 c1=y
         block c three 5 c1=n",
        expect![[r#"
            class c1 9:
            block a one 5 c1=y: runs a
            block b two 9 c1=y: waits
            block c three 5 c1=n: waits
        "#]],
    );
}

#[test]
fn a_job_has_one_blocked_evaluation_the_newest() {
    check(
        "block a web 5 any
         block b web 8 any
         block c web 6 any
         duplicates
         done web
         class c1 99",
        expect![[r#"
            block a web 5 any: waits
            block b web 8 any: waits
            block c web 6 any: waits
            duplicates: a c
            done web:
            class c1 99:
        "#]],
    );
}

#[test]
fn row_of_an_evaluation_that_a_worker_gave_back_does_not_take_its_delivery_away() {
    check(
        "again a web 5 c1=y
         block a web 5 c1=y
         held c1 9",
        expect![[r#"
            again a web 5 c1=y: waits
            block a web 5 c1=y: waits
            held c1 9: held
        "#]],
    );
}

#[test]
fn evaluation_older_than_the_changes_that_were_not_followed_runs_at_once() {
    check(
        "missed 9
         block a one 8 c1=n
         block b two 9 c1=y",
        expect![[r#"
            missed 9:
            block a one 8 c1=n: runs a
            block b two 9 c1=y: waits
        "#]],
    );
}

#[test]
fn gains_of_forgotten_classes_count_for_every_class() {
    let mut blocked = BlockedEvals::new();
    blocked.set_enabled(true);
    for n in 1..=CLASSES_MAX as u64 + 1 {
        blocked.unblock(&format!("c{n}").into(), n);
    }
    assert!(blocked.unblocked.len() < CLASSES_MAX && blocked.forgotten > 0);
    let (forgotten, known) = (blocked.forgotten, *blocked.unblocked.values().min().unwrap());
    assert_eq!(known, forgotten + 1);
    assert!(blocked.block(eval("a", "one", forgotten - 1, "none=n"), None).is_some());
    let newest = CLASSES_MAX as u64 + 1;
    assert!(blocked.block(eval("b", "two", newest, "none=n"), None).is_none());
}

#[test]
fn demand_is_summed_by_job_and_place_and_leaves_with_the_evaluation() {
    let demand = |blocked: &BlockedEvals| {
        let jobs = blocked.demand().by_job().map(|(job, sum)| format!("{}: {} {}", job.id, sum.cpu, sum.memory));
        let places = blocked.demand().by_place();
        let places = places.map(|(dc, class, sum)| format!("{dc} {class}: {} {}", sum.cpu, sum.memory));
        jobs.chain(places).collect::<Vec<_>>().join(", ")
    };
    let waiting = |id: &str, job: &str, cpu: i64| {
        let task = Resources { cpu, memory_mb: 2 * cpu, ..Resources::default() };
        let metric = AllocMetric {
            nodes_available: Some(Arc::new([("dc1".into(), 3)].into())),
            class_exhausted: Some(Box::new([("big".into(), 2)].into())),
            resources_exhausted: Some(Box::new([("t".into(), task)].into())),
            ..AllocMetric::default()
        };
        let failed_tg_allocs = Some(Arc::new([("web".into(), metric)].into()));
        Arc::new(Evaluation { failed_tg_allocs, ..Evaluation::clone(&eval(id, job, 5, "c1=y")) })
    };
    let mut blocked = BlockedEvals::new();
    blocked.set_enabled(true);
    blocked.block(waiting("a", "one", 100), None);
    blocked.block(waiting("b", "two", 50), None);
    assert_eq!(demand(&blocked), "one: 100 200, two: 50 100, dc1 big: 150 300");
    blocked.block(waiting("a", "one", 70), None);
    blocked.forget(waiting("b", "two", 50).id);
    assert_eq!(demand(&blocked), "one: 70 140, dc1 big: 70 140");
    blocked.unblock(&"c1".into(), 9);
    assert_eq!(demand(&blocked), "");
}

#[test]
fn evaluation_over_a_quota_waits_for_that_quota_and_for_capacity_only_if_it_lacks_room_too() {
    check(
        "over gold a one 5 g=quota
         over gold b two 5 g=quota,h=room
         over iron c three 5 g=quota
         waiting
         class c1 8
         waiting
         quota gold 9
         quota iron 10
         waiting",
        expect![[r#"
            over gold a one 5 g=quota: waits
            over gold b two 5 g=quota,h=room: waits
            over iron c three 5 g=quota: waits
            waiting: 3
            class c1 8: b
            waiting: 2
            quota gold 9: a
            quota iron 10: c
            waiting: 0
        "#]],
    );
}

#[test]
fn quota_that_gave_room_after_the_snapshot_runs_an_evaluation_at_once() {
    check(
        "quota gold 9
         class c1 9
         over gold a one 5 g=quota
         over gold b two 9 g=quota
         over iron c three 5 g=quota
         over iron d four 5 g=room
         missed 6
         over iron e five 5 g=quota
         over iron f six 6 g=quota",
        expect![[r#"
            quota gold 9:
            class c1 9:
            over gold a one 5 g=quota: runs a
            over gold b two 9 g=quota: waits
            over iron c three 5 g=quota: waits
            over iron d four 5 g=room: runs d
            missed 6:
            over iron e five 5 g=quota: runs e
            over iron f six 6 g=quota: waits
        "#]],
    );
}
