//! Stories of deployments.

use expect_test::expect;

use crate::story::check;

#[test]
fn deployment_counts_placed_healthy_and_unhealthy_allocs() {
    check(
        "job register web groups=g
         plan job=web create=2 deploy=d1 groups=g deadline=30 deployment=d1 place=a1@n1:g,a2@n1:g
         show deployment d1
         client a1@n1 running healthy
         client a2@n1 running unhealthy
         show deployment d1
         client a1@n1 running unhealthy
         show deployment d1
         client a1@n1 running healthy
         show deployment d1
         show alloc a1",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=2 deploy=d1 groups=g deadline=30 deployment=d1 place=a1@n1:g,a2@n1:g: ok [+alloc:a1 +deployment:d1 ~summary:web +alloc:a2 ~job:web]
               deployment d1: running "" create=3 modify=3 g(placed=2) by=80s
            client a1@n1 running healthy: ok [~deployment:d1 ~summary:web ~alloc:a1]
            client a2@n1 running unhealthy: ok [~deployment:d1 ~summary:web ~alloc:a2]
               deployment d1: running "" create=3 modify=5 g(placed=2 healthy=1 unhealthy=1) by=90s canaries=a1,a2
            client a1@n1 running unhealthy: ok [~deployment:d1 ~alloc:a1]
               deployment d1: running "" create=3 modify=6 g(placed=2 unhealthy=2) by=90s canaries=a1,a2
            client a1@n1 running healthy: ok [~alloc:a1]
               deployment d1: running "" create=3 modify=6 g(placed=2 unhealthy=2) by=90s canaries=a1,a2
               alloc a1: run/running create=3 modify=7 alloc-modify=3 version=0 healthy=Some(true)@7 canary=true
        "#]],
    );
}

#[test]
fn deployment_lists_each_canary_once() {
    check(
        "job register web groups=g
         plan job=web create=2 deploy=d1 groups=g deployment=d1 place=a1@n1:g canary
         client a1@n1 running healthy
         show deployment d1",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=2 deploy=d1 groups=g deployment=d1 place=a1@n1:g canary: ok [+deployment:d1 ~summary:web +alloc:a1 ~job:web]
            client a1@n1 running healthy: ok [~deployment:d1 ~summary:web ~alloc:a1]
               deployment d1: running "" create=3 modify=4 g(placed=1 healthy=1) canaries=a1
        "#]],
    );
}

#[test]
fn an_ended_deployment_stays_ended() {
    check(
        "job register web groups=g
         plan job=web create=2 deploy=d1 groups=g
         deployment status d1 paused
         deployment status d1 failed
         deployment status d1 running
         deployment status d9 failed
         show deployment d1",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=2 deploy=d1 groups=g: ok [+deployment:d1]
            deployment status d1 paused: ok [~deployment:d1]
            deployment status d1 failed: ok [~deployment:d1]
            deployment status d1 running: refused: Deployment "64310000-0000-0000-0000-000000000000" has terminal status "failed":
            deployment status d9 failed: refused: Deployment ID "64390000-0000-0000-0000-000000000000" couldn't be updated as it does not exist
               deployment d1: failed "Deployment marked as failed" create=3 modify=5 g()
        "#]],
    );
}

#[test]
fn successful_deployment_marks_its_job_version_stable() {
    check(
        "job register web groups=g
         plan job=web create=2 deploy=d1 groups=g
         deployment status d1 successful
         show job web
         show versions web",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=2 deploy=d1 groups=g: ok [+deployment:d1]
            deployment status d1 successful: ok [~deployment:d1 ~version:web.0 ~job:web]
               job web: pending stable version=0 create=2 modify=4 job-modify=2 groups=g:1
               0*
        "#]],
    );
}

#[test]
fn reverting_a_failed_deployment_creates_a_new_job_version() {
    check(
        "job register web groups=g stable
         job register web groups=h
         plan job=web create=2 deploy=d1 groups=h deploys=1
         deployment status d1 failed back-to=web stable groups=g
         show job web
         show versions web",
        expect![[r#"
            job register web groups=g stable: ok [+summary:web +job:web +version:web.0]
            job register web groups=h: ok [~summary:web ~job:web +version:web.1]
            plan job=web create=2 deploy=d1 groups=h deploys=1: ok [+deployment:d1]
            deployment status d1 failed back-to=web stable groups=g: ok [~deployment:d1 ~job:web +version:web.2]
               job web: pending stable version=2 create=2 modify=5 job-modify=5 groups=g:1
               2* 1 0*
        "#]],
    );
}

#[test]
fn alloc_health_may_be_set_by_request() {
    check(
        "job register web groups=g
         plan job=web create=2 deploy=d1 groups=g deployment=d1 place=a1@n1:g,a2@n1:g
         plan job=web create=2 place=a3@n1:g
         deployment health d1 healthy=a9
         deployment health d1 healthy=a3
         deployment health d1 healthy=a1 unhealthy=a2 failed
         show deployment d1
         show alloc a1
         deployment health d1 healthy=a2",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=2 deploy=d1 groups=g deployment=d1 place=a1@n1:g,a2@n1:g: ok [+alloc:a1 +deployment:d1 ~summary:web +alloc:a2 ~job:web]
            plan job=web create=2 place=a3@n1:g: ok [~summary:web +alloc:a3]
            deployment health d1 healthy=a9: refused: unknown alloc "61390000-0000-0000-0000-000000000000"
            deployment health d1 healthy=a3: refused: alloc "61330000-0000-0000-0000-000000000000" is not part of deployment "64310000-0000-0000-0000-000000000000"
            deployment health d1 healthy=a1 unhealthy=a2 failed: ok [~alloc:a1 ~alloc:a2 ~deployment:d1]
               deployment d1: failed "Deployment marked as failed" create=3 modify=7 g(placed=2 healthy=1 unhealthy=1)
               alloc a1: run/pending create=3 modify=7 alloc-modify=3 version=0 healthy=Some(true)@7 canary=false
            deployment health d1 healthy=a2: refused: Deployment "64310000-0000-0000-0000-000000000000" has terminal status "failed":
        "#]],
    );
}

#[test]
fn missing_deployments_are_skipped_when_deleting() {
    check(
        "job register web groups=g
         plan job=web create=2 deploy=d1 groups=g
         deployment delete d1 d9
         show deployment d1",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=2 deploy=d1 groups=g: ok [+deployment:d1]
            deployment delete d1 d9: ok [-deployment:d1]
               deployment d1: none
        "#]],
    );
}

#[test]
fn only_healthy_canaries_are_promoted() {
    check(
        "job register web groups=g
         plan job=web create=2 deploy=d1 groups=g canaries=1 deadline=30 deployment=d1 place=a1@n1:g canary
         show deployment d1
         deployment promote d1 eval=e1
         client a1@n1 running healthy
         deployment promote d1 eval=e1
         show deployment d1
         show alloc a1
         show eval e1
         show tables",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=2 deploy=d1 groups=g canaries=1 deadline=30 deployment=d1 place=a1@n1:g canary: ok [+deployment:d1 ~summary:web +alloc:a1 ~job:web]
               deployment d1: running "" create=3 modify=3 g(placed=1) by=80s canaries=a1
            deployment promote d1 eval=e1: refused: 1 error occurred:
            	* Task group "g" has 0/1 healthy allocations


            client a1@n1 running healthy: ok [~deployment:d1 ~summary:web ~alloc:a1]
            deployment promote d1 eval=e1: ok [~deployment:d1 +eval:e1 ~alloc:a1]
               deployment d1: running "Deployment is running" create=3 modify=6 g(placed=1 healthy=1) promoted by=36s canaries=a1
               alloc a1: run/running create=3 modify=6 alloc-modify=6 version=0 healthy=Some(true)@6 canary=false
               eval e1: pending "" create=6 modify=6
               changed: jobs=3 job_summary=5 job_version=2 deployment=6 evals=6 allocs=6
        "#]],
    );
}

#[test]
fn only_the_asked_groups_are_promoted() {
    check(
        "job register web groups=g,h
         plan job=web create=2 deploy=d1 groups=g,h canaries=1 deployment=d1 place=a1@n1:g,a2@n1:h canary
         client a1@n1 running healthy
         deployment promote d1
         deployment promote d1 groups=h,none
         deployment promote d1 groups=none
         deployment promote d1 groups=g
         show deployment d1
         show alloc a1
         show alloc a2",
        expect![[r#"
            job register web groups=g,h: ok [+summary:web +job:web +version:web.0]
            plan job=web create=2 deploy=d1 groups=g,h canaries=1 deployment=d1 place=a1@n1:g,a2@n1:h canary: ok [+alloc:a1 +deployment:d1 ~summary:web +alloc:a2 ~job:web]
            client a1@n1 running healthy: ok [~deployment:d1 ~summary:web ~alloc:a1]
            deployment promote d1: refused: 1 error occurred:
            	* Task group "h" has 0/1 healthy allocations


            deployment promote d1 groups=h,none: refused: 1 error occurred:
            	* Task group "h" has 0/1 healthy allocations


            deployment promote d1 groups=none: ok [~deployment:d1]
            deployment promote d1 groups=g: ok [~deployment:d1 ~alloc:a1]
               deployment d1: running "" create=3 modify=8 g(placed=1 healthy=1) promoted canaries=a1 h(placed=1) canaries=a2
               alloc a1: run/running create=3 modify=8 alloc-modify=8 version=0 healthy=Some(true)@8 canary=false
               alloc a2: run/pending create=3 modify=3 alloc-modify=3 version=0 healthy=None@3 canary=true
        "#]],
    );
}

#[test]
fn a_canary_that_ended_is_not_promoted() {
    check(
        "job register web groups=g
         plan job=web create=2 deploy=d1 groups=g canaries=1 deployment=d1 place=a1@n1:g canary
         client a1@n1 running healthy
         plan job=web create=2 stop=a1
         deployment promote d1
         deployment status d1 cancelled
         deployment promote d1
         deployment promote d9",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=2 deploy=d1 groups=g canaries=1 deployment=d1 place=a1@n1:g canary: ok [+deployment:d1 ~summary:web +alloc:a1 ~job:web]
            client a1@n1 running healthy: ok [~deployment:d1 ~summary:web ~alloc:a1]
            plan job=web create=2 stop=a1: ok [~alloc:a1 ~job:web]
            deployment promote d1: refused: 1 error occurred:
            	* Task group "g" has 0/1 healthy allocations


            deployment status d1 cancelled: ok [~deployment:d1]
            deployment promote d1: refused: Deployment "64310000-0000-0000-0000-000000000000" has terminal status "cancelled":
            deployment promote d9: refused: Deployment ID "64390000-0000-0000-0000-000000000000" couldn't be updated as it does not exist
        "#]],
    );
}

#[test]
fn paused_deployment_can_be_promoted_and_resumed() {
    check(
        "job register web groups=g
         plan job=web create=2 deploy=d1 groups=g canaries=1 deployment=d1 place=a1@n1:g canary
         client a1@n1 running healthy
         deployment status d1 paused
         deployment promote d1
         show deployment d1
         deployment status d1 running
         plan job=web create=2 end=d1
         show deployment d1
         show versions web
         plan job=web create=2 end=d1
         show deployment d1",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=2 deploy=d1 groups=g canaries=1 deployment=d1 place=a1@n1:g canary: ok [+deployment:d1 ~summary:web +alloc:a1 ~job:web]
            client a1@n1 running healthy: ok [~deployment:d1 ~summary:web ~alloc:a1]
            deployment status d1 paused: ok [~deployment:d1]
            deployment promote d1: ok [~deployment:d1 ~alloc:a1]
               deployment d1: paused "Deployment marked as paused" create=3 modify=6 g(placed=1 healthy=1) promoted canaries=a1
            deployment status d1 running: ok [~deployment:d1]
            plan job=web create=2 end=d1: ok [~deployment:d1 ~version:web.0 ~job:web]
               deployment d1: successful "Deployment marked as successful" create=3 modify=8 g(placed=1 healthy=1) promoted canaries=a1
               0*
            plan job=web create=2 end=d1: ok
               deployment d1: successful "Deployment marked as successful" create=3 modify=8 g(placed=1 healthy=1) promoted canaries=a1
        "#]],
    );
}

#[test]
fn multiregion_deployment_passes_through_every_waiting_status() {
    check(
        "job register web groups=g deployment=d1
         show deployment d1
         deployment status d1 initializing
         deployment status d1 pending
         deployment status d1 running
         deployment status d1 blocked
         deployment status d1 unblocking
         deployment status d1 successful
         deployment status d1 pending
         show deployment d1
         job register web groups=g deployment=d2
         job register web groups=g deployment=d3
         show deployment d1
         show deployment d2
         show deployment d3",
        expect![[r#"
            job register web groups=g deployment=d1: ok [+summary:web +job:web +version:web.0 +deployment:d1]
               deployment d1: running "" create=2 modify=2 g()
            deployment status d1 initializing: ok [~deployment:d1]
            deployment status d1 pending: ok [~deployment:d1]
            deployment status d1 running: ok [~deployment:d1]
            deployment status d1 blocked: ok [~deployment:d1]
            deployment status d1 unblocking: ok [~deployment:d1]
            deployment status d1 successful: ok [~deployment:d1 ~version:web.0 ~job:web]
            deployment status d1 pending: refused: Deployment "64310000-0000-0000-0000-000000000000" has terminal status "successful":
               deployment d1: successful "Deployment marked as successful" create=2 modify=8 g()
            job register web groups=g deployment=d2: ok [~job:web +version:web.1 +deployment:d2]
            job register web groups=g deployment=d3: ok [~job:web +version:web.2 ~deployment:d2 +deployment:d3]
               deployment d1: successful "Deployment marked as successful" create=2 modify=8 g()
               deployment d2: cancelled "Cancelled due to newer version of job" create=10 modify=11 g()
               deployment d3: running "" create=11 modify=11 g()
        "#]],
    );
}
