//! Stories of nodes that disconnect and reconnect, with their reports.

use expect_test::expect;

use crate::story::check;

#[test]
fn reconnected_node_is_ready_after_it_reports_its_allocs() {
    check(
        "node register n1
         node status n1 ready
         job register web groups=g
         plan job=web create=4 place=a1@n1:g
         client a1@n1 running
         node status n1 disconnected event=missed
         show node n1
         node status n1 ready
         node status n1 ready
         show node n1
         client a1@n1 running
         show node n1
         node status n1 ready
         show node n1",
        expect![[r#"
            node register n1: ok [+node:n1]
            node status n1 ready: ok [~node:n1]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=4 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            client a1@n1 running: ok [~summary:web ~alloc:a1 ~node:n1]
            node status n1 disconnected event=missed: ok [~node:n1]
               node n1: disconnected eligible pool=default create=2 modify=7 missed=7 told=6 events=["Node registered@0", "missed@7"]
            node status n1 ready: ok [~node:n1]
            node status n1 ready: ok [~node:n1]
               node n1: initializing eligible pool=default create=2 modify=9 missed=7 told=6 events=["Node registered@0", "missed@7"]
            client a1@n1 running: ok [~alloc:a1 ~node:n1]
               node n1: initializing eligible pool=default create=2 modify=9 missed=7 told=10 events=["Node registered@0", "missed@7"]
            node status n1 ready: ok [~node:n1]
               node n1: ready eligible pool=default create=2 modify=11 missed=0 told=10 events=["Node registered@0", "missed@7"]
        "#]],
    );
}

#[test]
fn registration_does_not_change_the_status_of_a_reconnecting_node() {
    check(
        "node register n1
         node status n1 ready
         job register web groups=g
         plan job=web create=4 place=a1@n1:g
         node status n1 disconnected event=missed
         node register n1 status=ready
         show node n1
         node status n1 ready
         node register n1 status=ready
         show node n1
         client a1@n1 running
         node register n1 status=ready
         show node n1",
        expect![[r#"
            node register n1: ok [+node:n1]
            node status n1 ready: ok [~node:n1]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=4 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            node status n1 disconnected event=missed: ok [~node:n1]
            node register n1 status=ready: ok [~node:n1]
               node n1: disconnected eligible pool=default create=2 modify=7 missed=6 told=0 events=["Node registered@0", "missed@6"]
            node status n1 ready: ok [~node:n1]
            node register n1 status=ready: ok [~node:n1]
               node n1: initializing eligible pool=default create=2 modify=9 missed=6 told=0 events=["Node registered@0", "missed@6"]
            client a1@n1 running: ok [~summary:web ~alloc:a1 ~node:n1]
            node register n1 status=ready: ok [~node:n1]
               node n1: initializing eligible pool=default create=2 modify=11 missed=6 told=10 events=["Node registered@0", "missed@6"]
        "#]],
    );
}

#[test]
fn alloc_reports_of_a_down_or_disconnected_node_are_ignored() {
    check(
        "node register n1
         job register web groups=g
         plan job=web create=3 place=a1@n1:g
         client a1@n1 pending
         node status n1 disconnected
         client a1@n1 running
         node status n1 down
         client a1@n1 failed
         show alloc a1
         show node n1
         node status n1 ready
         client a1@n1 running
         show alloc a1",
        expect![[r#"
            node register n1: ok [+node:n1]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=3 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            client a1@n1 pending: ok [~alloc:a1 ~node:n1]
            node status n1 disconnected: ok [~node:n1]
            client a1@n1 running: ok
            node status n1 down: ok [~node:n1]
            client a1@n1 failed: ok
               alloc a1: run/pending create=4 modify=5 alloc-modify=4 version=0
               node n1: down eligible pool=default create=2 modify=8 missed=6 told=5 events=["Node registered@0"]
            node status n1 ready: ok [~node:n1]
            client a1@n1 running: ok [~summary:web ~alloc:a1 ~node:n1]
               alloc a1: run/running create=4 modify=11 alloc-modify=4 version=0
        "#]],
    );
}

#[test]
fn alloc_report_from_before_the_missed_heartbeat_makes_no_node_ready() {
    check(
        "node register n1
         node status n1 ready
         job register web groups=g
         plan job=web create=4 place=a1@n1:g
         client a1@n1 running
         node status n1 disconnected
         node status n1 initializing
         node status n1 ready
         show node n1",
        expect![[r#"
            node register n1: ok [+node:n1]
            node status n1 ready: ok [~node:n1]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=4 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            client a1@n1 running: ok [~summary:web ~alloc:a1 ~node:n1]
            node status n1 disconnected: ok [~node:n1]
            node status n1 initializing: ok [~node:n1]
            node status n1 ready: ok [~node:n1]
               node n1: initializing eligible pool=default create=2 modify=9 missed=7 told=6 events=["Node registered@0"]
        "#]],
    );
}

#[test]
fn reconnected_node_without_live_allocs_is_ready_without_a_report() {
    check(
        "node register n1
         node status n1 ready
         job register web groups=g
         plan job=web create=4 place=a1@n1:g
         node status n1 disconnected
         plan job=web lose=a1
         node status n1 ready
         node status n1 ready
         show node n1",
        expect![[r#"
            node register n1: ok [+node:n1]
            node status n1 ready: ok [~node:n1]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=4 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            node status n1 disconnected: ok [~node:n1]
            plan job=web lose=a1: ok [~summary:web ~alloc:a1 ~job:web]
            node status n1 ready: ok [~node:n1]
            node status n1 ready: ok [~node:n1]
               node n1: ready eligible pool=default create=2 modify=9 missed=0 told=0 events=["Node registered@0"]
        "#]],
    );
}

#[test]
fn a_node_that_was_down_is_ready_at_once() {
    check(
        "node register n1
         node status n1 ready
         job register web groups=g
         plan job=web create=4 place=a1@n1:g
         node status n1 down
         node status n1 ready
         show node n1",
        expect![[r#"
            node register n1: ok [+node:n1]
            node status n1 ready: ok [~node:n1]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=4 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            node status n1 down: ok [~node:n1]
            node status n1 ready: ok [~node:n1]
               node n1: ready eligible pool=default create=2 modify=7 missed=0 told=0 events=["Node registered@0"]
        "#]],
    );
}

#[test]
fn node_is_not_ready_before_its_pool_exists() {
    check(
        "node register n1 pool=gpu
         node status n1 ready
         show node n1
         pool upsert gpu
         node status n1 ready
         show node n1",
        expect![[r#"
            node register n1 pool=gpu: ok [+node:n1]
            node status n1 ready: ok [~node:n1]
               node n1: initializing eligible pool=gpu create=2 modify=3 missed=0 told=0 events=["Node registered@0"]
            pool upsert gpu: ok [+pool:gpu]
            node status n1 ready: ok [~node:n1]
               node n1: ready eligible pool=gpu create=2 modify=5 missed=0 told=0 events=["Node registered@0"]
        "#]],
    );
}

#[test]
fn repeated_drain_completion_changes_nothing() {
    check(
        "node register n1
         node drain n1 event=set
         node drained n1 event=complete at=20
         node drained n1 event=complete at=21
         show node n1",
        expect![[r#"
            node register n1: ok [+node:n1]
            node drain n1 event=set: ok [~node:n1]
            node drained n1 event=complete at=20: ok [~node:n1]
            node drained n1 event=complete at=21: ok
               node n1: initializing ineligible pool=default create=2 modify=4 missed=0 told=0 drain=complete by="" meta=[] events=["Node registered@0", "set@3", "complete@4"]
        "#]],
    );
}
