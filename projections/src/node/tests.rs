//! Stories of nodes.

use expect_test::expect;

use crate::story::check;

#[test]
fn a_new_node_gets_its_first_event() {
    check(
        "node register n1
         show node n1",
        expect![[r#"
            node register n1: ok [+node:n1]
               node n1: initializing eligible pool=default create=2 modify=2 missed=0 told=0 events=["Node registered@0"]
        "#]],
    );
}

#[test]
fn reregistered_node_keeps_its_status_and_eligibility() {
    check(
        "node register n1 secret=s
         node status n1 ready
         node ineligible n1 event=out
         node register n1 secret=s status=initializing
         show node n1
         node register n1 secret=other",
        expect![[r#"
            node register n1 secret=s: ok [+node:n1]
            node status n1 ready: ok [~node:n1]
            node ineligible n1 event=out: ok [~node:n1]
            node register n1 secret=s status=initializing: ok [~node:n1]
               node n1: ready ineligible pool=default create=2 modify=5 missed=0 told=0 events=["Node registered@0", "out@4"]
            node register n1 secret=other: refused: node secret ID does not match. Not registering node.
        "#]],
    );
}

#[test]
fn a_node_may_make_its_pool() {
    check(
        "node register n1 pool=gpu create-pool
         node register n2 pool=tpu
         node register n3 pool=all
         show tables",
        expect![[r#"
            node register n1 pool=gpu create-pool: ok [+pool:gpu +node:n1]
            node register n2 pool=tpu: ok [+node:n2]
            node register n3 pool=all: refused: node is not allowed to register in node pool "all"
               changed: nodes=3 node_pools=2 csi_plugins=3
        "#]],
    );
}

#[test]
fn missing_a_heartbeat_is_remembered_until_the_node_is_ready_again() {
    check(
        "node register n1
         node status n1 ready
         node status n1 disconnected event=missed
         node status n1 down event=missed
         show node n1
         node status n1 initializing
         show node n1
         node status n1 ready
         show node n1
         node status n2 ready",
        expect![[r#"
            node register n1: ok [+node:n1]
            node status n1 ready: ok [~node:n1]
            node status n1 disconnected event=missed: ok [~node:n1]
            node status n1 down event=missed: ok [~node:n1]
               node n1: down eligible pool=default create=2 modify=5 missed=4 told=0 events=["Node registered@0", "missed@4", "missed@5"]
            node status n1 initializing: ok [~node:n1]
               node n1: initializing eligible pool=default create=2 modify=6 missed=4 told=0 events=["Node registered@0", "missed@4", "missed@5"]
            node status n1 ready: ok [~node:n1]
               node n1: ready eligible pool=default create=2 modify=7 missed=0 told=0 events=["Node registered@0", "missed@4", "missed@5"]
            node status n2 ready: refused: node not found
        "#]],
    );
}

#[test]
fn drained_node_stays_ineligible_after_the_drain_completes() {
    check(
        "node register n1
         node drain n1 by=op meta=repair event=set
         show node n1
         node drain n1 meta=disk at=9 event=updated
         show node n1
         node eligible n1
         node drained n1 event=complete at=20
         show node n1
         node eligible n1",
        expect![[r#"
            node register n1: ok [+node:n1]
            node drain n1 by=op meta=repair event=set: ok [~node:n1]
               node n1: initializing ineligible pool=default create=2 modify=3 missed=0 told=0 drain=draining by="op" meta=[("why", "repair")] events=["Node registered@0", "set@3"]
            node drain n1 meta=disk at=9 event=updated: ok [~node:n1]
               node n1: initializing ineligible pool=default create=2 modify=4 missed=0 told=0 drain=draining by="op" meta=[("why", "disk")] events=["Node registered@0", "set@3", "updated@4"]
            node eligible n1: refused: can not set node's scheduling eligibility to eligible while it is draining
            node drained n1 event=complete at=20: ok [~node:n1]
               node n1: initializing ineligible pool=default create=2 modify=6 missed=0 told=0 drain=complete by="op" meta=[("why", "disk")] events=["Node registered@0", "set@3", "updated@4", "complete@6"]
            node eligible n1: ok [~node:n1]
        "#]],
    );
}

#[test]
fn canceled_drain_may_mark_the_node_eligible() {
    check(
        "node register n1
         node drain n1 by=op
         node drain n1 off mark-eligible by=op2
         show node n1
         node drain n1 off
         show node n1",
        expect![[r#"
            node register n1: ok [+node:n1]
            node drain n1 by=op: ok [~node:n1]
            node drain n1 off mark-eligible by=op2: ok [~node:n1]
               node n1: initializing eligible pool=default create=2 modify=4 missed=0 told=0 drain=canceled by="op2" meta=[] events=["Node registered@0"]
            node drain n1 off: ok [~node:n1]
               node n1: initializing eligible pool=default create=2 modify=5 missed=0 told=0 drain=canceled by="op2" meta=[] events=["Node registered@0"]
        "#]],
    );
}

#[test]
fn node_keeps_its_newest_ten_events_and_its_modify_index() {
    check(
        "node register n1
         node events n1 count=8
         node events n1 count=4
         show node n1
         node events n2",
        expect![[r#"
            node register n1: ok [+node:n1]
            node events n1 count=8: ok [~node:n1]
            node events n1 count=4: ok [~node:n1]
               node n1: initializing eligible pool=default create=2 modify=2 missed=0 told=0 events=["e2@3", "e3@3", "e4@3", "e5@3", "e6@3", "e7@3", "e0@4", "e1@4", "e2@4", "e3@4"]
            node events n2: refused: node not found
        "#]],
    );
}

#[test]
fn node_deregistration_is_all_or_nothing() {
    check(
        "node register n1
         node register n2
         node deregister n1 n3
         node deregister
         node deregister n1 n2
         show tables",
        expect![[r#"
            node register n1: ok [+node:n1]
            node register n2: ok [+node:n2]
            node deregister n1 n3: refused: node not found: 6e330000-0000-0000-0000-000000000000
            node deregister: refused: node ids missing
            node deregister n1 n2: ok [-node:n1 -node:n2]
               changed: nodes=6 csi_plugins=3
        "#]],
    );
}
