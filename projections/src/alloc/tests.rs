//! Stories of nodes' reports of allocations.

use std::sync::Arc;

use expect_test::expect;
use songline_commands::{Actor, ApplyPlan, Envelope};
use songline_model::{AllocId, AllocatedResources, AllocatedSharedResources, Allocation, Time};

use crate::story::{check, id, state_after};
use crate::{State, apply};

#[test]
fn alloc_takes_the_client_status_that_its_node_reports() {
    check(
        "node register n1
         job register web groups=g:2
         plan job=web create=2 place=a1@n1:g,a2@n1:g
         show summary web
         client a1@n1 running
         show alloc a1
         show summary web
         client a1@n1 failed
         client a2@n1 complete
         show summary web
         show job web
         show node n1",
        expect![[r#"
            node register n1: ok [+node:n1]
            job register web groups=g:2: ok [+summary:web +job:web +version:web.0]
            plan job=web create=2 place=a1@n1:g,a2@n1:g: ok [+alloc:a1 +alloc:a2 ~job:web]
               summary web: g() create=3 modify=3
            client a1@n1 running: ok [~alloc:a1 ~node:n1]
               alloc a1: run/running create=4 modify=5 alloc-modify=4 version=0
               summary web: g() create=3 modify=3
            client a1@n1 failed: ok [~alloc:a1 ~node:n1]
            client a2@n1 complete: ok [~alloc:a2 ~job:web ~node:n1]
               summary web: g() create=3 modify=3
               job web: dead version=0 create=3 modify=7 job-modify=3 groups=g:2
               node n1: initializing eligible pool=default create=2 modify=2 missed=0 told=7 events=["Node registered@0"]
        "#]],
    );
}

#[test]
fn report_from_another_node_or_of_an_unknown_alloc_is_dropped() {
    check(
        "node register n1
         node register n2
         job register web groups=g
         plan job=web create=3 place=a1@n1:g
         client a1@n2 failed
         client a9@n1 failed
         show alloc a1
         show tables",
        expect![[r#"
            node register n1: ok [+node:n1]
            node register n2: ok [+node:n2]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=3 place=a1@n1:g: ok [+alloc:a1 ~job:web]
            client a1@n2 failed: ok [~node:n2]
            client a9@n1 failed: ok [~node:n1]
               alloc a1: run/pending create=5 modify=5 alloc-modify=5 version=0
               changed: nodes=7 jobs=5 job_summary=4 job_version=4 allocs=7 csi_plugins=3
        "#]],
    );
}

#[test]
fn failed_alloc_that_runs_again_stays_counted_as_failed() {
    check(
        "job register web groups=g
         plan job=web create=2 place=a1@n1:g
         client a1@n1 failed
         client a1@n1 running
         show summary web",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=2 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            client a1@n1 failed: ok [~summary:web ~alloc:a1 ~job:web]
            client a1@n1 running: ok [~summary:web ~alloc:a1 ~job:web]
               summary web: g(running=1 failed=1) create=2 modify=5
        "#]],
    );
}

#[test]
fn health_report_updates_health_and_keeps_the_canary_mark() {
    check(
        "job register web groups=g
         plan job=web create=2 place=a1@n1:g canary
         client a1@n1 running healthy
         show alloc a1
         client a1@n1 running healthy
         show alloc a1
         client a1@n1 running unhealthy
         show alloc a1
         client a1@n1 running
         show alloc a1",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=2 place=a1@n1:g canary: ok [~summary:web +alloc:a1 ~job:web]
            client a1@n1 running healthy: ok [~summary:web ~alloc:a1]
               alloc a1: run/running create=3 modify=4 alloc-modify=3 version=0 healthy=Some(true)@4 canary=true
            client a1@n1 running healthy: ok [~alloc:a1]
               alloc a1: run/running create=3 modify=5 alloc-modify=3 version=0 healthy=Some(true)@4 canary=true
            client a1@n1 running unhealthy: ok [~alloc:a1]
               alloc a1: run/running create=3 modify=6 alloc-modify=3 version=0 healthy=Some(false)@6 canary=true
            client a1@n1 running: ok [~alloc:a1]
               alloc a1: run/running create=3 modify=7 alloc-modify=3 version=0 healthy=Some(false)@6 canary=true
        "#]],
    );
}

#[test]
fn desired_transition_is_set_and_unknown_allocs_are_skipped() {
    check(
        "job register web groups=g
         plan job=web create=2 place=a1@n1:g
         transition a1
         show alloc a1
         transition a9
         show tables",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=2 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            transition a1: ok [~alloc:a1]
               alloc a1: run/pending create=3 modify=4 alloc-modify=4 version=0 migrate=Some(true) skip-delay=None
            transition a9: ok
               changed: jobs=3 job_summary=3 job_version=2 allocs=5
        "#]],
    );
}

#[test]
fn late_alloc_report_does_not_revive_a_purged_job() {
    check(
        "job register web groups=g
         plan job=web create=2 place=a1@n1:g
         job purge web
         client a1@n1 running
         show alloc a1",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=2 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            job purge web: ok [-job:web -version:web.0 -summary:web]
            client a1@n1 running: ok [~alloc:a1]
               alloc a1: run/running create=3 modify=5 alloc-modify=3 version=0
        "#]],
    );
}

#[test]
fn allocs_of_a_group_share_equal_resources_and_do_so_again_after_a_restart() {
    let mut state = state_after("job register web groups=g,h");
    let job = Arc::clone(state.job("default", "web").expect("is registered"));
    let alloc = |name: &str, group: &str, disk_mb| {
        let shared = AllocatedSharedResources { disk_mb, ..AllocatedSharedResources::default() };
        let allocated_resources = Some(Arc::new(AllocatedResources { shared, ..AllocatedResources::default() }));
        let (namespace, job_id, task_group) = (job.namespace.clone(), job.id.clone(), group.into());
        let id = AllocId::from_bytes(id(name));
        Arc::new(Allocation { id, namespace, job_id, task_group, allocated_resources, ..Allocation::default() })
    };
    let updated = vec![alloc("a1", "g", 1), alloc("a2", "g", 1), alloc("a3", "g", 2), alloc("a4", "h", 1)];
    let plan = ApplyPlan { job: Some(Arc::clone(&job)), updated, ..ApplyPlan::default() };
    apply(&mut state, 3, &Envelope::new(Time::from_secs(3), Actor::Anonymous, plan)).result.expect("fits");
    let mut bytes = Vec::new();
    state.write_checkpoint(&mut bytes).expect("writes");
    let again = State::read_checkpoint(&mut bytes.as_slice()).expect("reads");
    for state in [&state, &again] {
        let resources = |name| {
            state
                .alloc(AllocId::from_bytes(id(name)))
                .and_then(|row| row.allocated_resources.clone())
                .expect("has some")
        };
        assert!(Arc::ptr_eq(&resources("a1"), &resources("a2")));
        assert_eq!((resources("a3").shared.disk_mb, resources("a1").shared.disk_mb), (2, 1));
        assert!(!Arc::ptr_eq(&resources("a1"), &resources("a4")));
    }
}
