//! Canaries from their placement to their promotion or their failure.

use expect_test::expect;

use super::check;

/// A job of three allocs, healthy in version 0, whose version 1 has a canary.
const ROLLOUT: &str = "node a
     node b
     node c
     job j count=3 parallel=2 canary=1 env=0 attempts=0
     run j
     healthy j.web[0]
     healthy j.web[1]
     healthy j.web[2]
     run j
     job j count=3 parallel=2 canary=1 env=1 attempts=0
     run j
     client j.web[0] running
     client j.web[1] running
     client j.web[2] running
     allocs j";

#[track_caller]
fn check_rollout(rest: &str, expected: expect_test::Expect) {
    let whole = super::cluster::tell(&format!("{ROLLOUT}\n{rest}"));
    let (_, told) = whole.split_once("allocs: ").expect("the start of the rest");
    expected.assert_eq(told);
}

#[test]
fn canary_is_placed_beside_the_old_version() {
    check(
        &format!("{ROLLOUT}\ndeployments j"),
        expect![[r#"
            run j:
              place j.web[0] on b
              place j.web[1] on a
              place j.web[2] on c
              deployment running
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
            run j:
              place canary j.web[0] on a
              deployment running
              eval complete, queued web 0
            allocs: j.web[0] v0, j.web[0] v1 canary, j.web[1] v0, j.web[2] v0
            deployment of version 0 successful: Deployment completed successfully
              web: placed 3, healthy 3, unhealthy 0 of 3; canaries 0 of 0
            deployment of version 1 running: Deployment is running but requires manual promotion
              web: placed 1, healthy 0, unhealthy 0 of 3; canaries 1 of 1
        "#]],
    );
}

#[test]
fn rest_of_the_group_follows_the_promotion() {
    check_rollout(
        "run j
         watch
         healthy j.web[0]
         watch
         run j
         promote j
         run j
         healthy j.web[1]
         healthy j.web[2]
         run j
         deployments j
         allocs j",
        expect![[r#"
            j.web[0] v0, j.web[0] v1 canary, j.web[1] v0, j.web[2] v0
            run j:
              eval complete, queued web 0
            watch: nothing
            watch: advance, may reschedule 0
            run j:
              eval complete, queued web 0
            run j:
              place after j.web[1] on b
              place after j.web[2] on c
              stop j.web[0]: alloc not needed due to job update
              stop j.web[1]: alloc is being updated due to job update
              stop j.web[2]: alloc is being updated due to job update
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
            deployment of version 0 successful: Deployment completed successfully
              web: placed 3, healthy 3, unhealthy 0 of 3; canaries 0 of 0
            deployment of version 1 successful: Deployment completed successfully
              web: placed 3, healthy 3, unhealthy 0 of 3; canaries 1 of 1, promoted
            allocs: j.web[0] v1, j.web[1] v1, j.web[2] v1
        "#]],
    );
}

#[test]
fn lost_alloc_beside_a_canary_is_replaced_in_its_own_version() {
    check_rollout(
        "down c
         run j
         allocs j
         deployments j",
        expect![[r#"
            j.web[0] v0, j.web[0] v1 canary, j.web[1] v0, j.web[2] v0
            run j:
              place after j.web[2] on b (version 0)
              stop j.web[2] as lost: alloc is lost since its node is down
              eval complete, queued web 0
            allocs: j.web[0] v0, j.web[0] v1 canary, j.web[1] v0, j.web[2] v0
            deployment of version 0 successful: Deployment completed successfully
              web: placed 4, healthy 3, unhealthy 0 of 3; canaries 0 of 0
            deployment of version 1 running: Deployment is running but requires manual promotion
              web: placed 1, healthy 0, unhealthy 0 of 3; canaries 1 of 1
        "#]],
    );
}

#[test]
fn auto_promotion_waits_for_all_canaries() {
    check(
        "node a
         job j count=3 parallel=3 canary=2 auto_promote env=0
         run j
         healthy j.web[0]
         healthy j.web[1]
         healthy j.web[2]
         run j
         job j count=3 parallel=3 canary=2 auto_promote env=1
         run j
         healthy j.web[0]
         watch
         healthy j.web[1]
         watch
         run j
         allocs j
         deployments j",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[1] on a
              place j.web[2] on a
              deployment running
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
            run j:
              place canary j.web[0] on a
              place canary j.web[1] on a
              deployment running
              eval complete, queued web 0
            watch: advance, may reschedule 0
            watch: promote
            run j:
              place after j.web[2] on a
              stop j.web[0]: alloc not needed due to job update
              stop j.web[1]: alloc not needed due to job update
              stop j.web[2]: alloc is being updated due to job update
              eval complete, queued web 0
            allocs: j.web[0] v1, j.web[1] v1, j.web[2] v1
            deployment of version 0 successful: Deployment completed successfully
              web: placed 3, healthy 3, unhealthy 0 of 3; canaries 0 of 0
            deployment of version 1 running: Deployment is running
              web: placed 3, healthy 2, unhealthy 0 of 3; canaries 2 of 2, promoted
        "#]],
    );
}

#[test]
fn failed_canary_ends_the_deployment_and_the_old_version_stays() {
    check_rollout(
        "unhealthy j.web[0]
         watch
         run j
         allocs j
         deployments j
         job j count=3 parallel=2 canary=1 env=0 attempts=0
         run j
         allocs j",
        expect![[r#"
            j.web[0] v0, j.web[0] v1 canary, j.web[1] v0, j.web[2] v0
            watch: fail, Failed due to unhealthy allocations
            run j:
              stop j.web[0]: alloc not needed due to job update
              eval complete, queued web 0
            allocs: j.web[0] v0, j.web[1] v0, j.web[2] v0
            deployment of version 0 successful: Deployment completed successfully
              web: placed 3, healthy 3, unhealthy 0 of 3; canaries 0 of 0
            deployment of version 1 failed: Failed due to unhealthy allocations
              web: placed 1, healthy 0, unhealthy 1 of 3; canaries 1 of 1
            run j:
              update j.web[0] on b
              update j.web[1] on a
              update j.web[2] on c
              deployment running
              eval complete, queued web 0
            allocs: j.web[0] v2, j.web[1] v2, j.web[2] v2
        "#]],
    );
}

#[test]
fn canary_that_has_failed_makes_no_old_alloc_surplus() {
    check(
        "node a
         job j count=2 parallel=1 canary=1 env=0 attempts=0
         run j
         healthy j.web[0]
         healthy j.web[1]
         run j
         job j count=2 parallel=1 canary=1 env=1 attempts=0
         run j
         unhealthy j.web[0]
         watch
         client j.web[0] failed canary
         job j count=2 parallel=1 canary=1 env=0 attempts=0
         run j
         allocs j",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[1] on a
              deployment running
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
            run j:
              place canary j.web[0] on a
              deployment running
              eval complete, queued web 0
            watch: fail, Failed due to unhealthy allocations
            run j:
              stop j.web[0]: alloc not needed due to job update
              update j.web[0] on a
              update j.web[1] on a
              deployment running
              eval complete, queued web 0
            allocs: j.web[0] v2, j.web[1] v2
        "#]],
    );
}

#[test]
fn paused_deployment_replaces_lost_allocs_but_places_no_canary() {
    check_rollout(
        "pause j
         down a
         run j
         resume j
         run j
         allocs j
         deployments j",
        expect![[r#"
            j.web[0] v0, j.web[0] v1 canary, j.web[1] v0, j.web[2] v0
            run j:
              place after j.web[1] on c (version 0)
              stop j.web[0] as lost: alloc is lost since its node is down
              stop j.web[1] as lost: alloc is lost since its node is down
              eval complete, queued web 0
            run j:
              place canary j.web[0] on b
              eval complete, queued web 0
            allocs: j.web[0] v0, j.web[0] v1 canary, j.web[1] v0, j.web[2] v0
            deployment of version 0 successful: Deployment completed successfully
              web: placed 4, healthy 3, unhealthy 0 of 3; canaries 0 of 0
            deployment of version 1 running: 
              web: placed 2, healthy 0, unhealthy 0 of 3; canaries 2 of 1
        "#]],
    );
    check_rollout(
        "pause j
         down c
         run j
         resume j
         run j
         allocs j
         deployments j",
        expect![[r#"
            j.web[0] v0, j.web[0] v1 canary, j.web[1] v0, j.web[2] v0
            run j:
              place after j.web[2] on b (version 0)
              stop j.web[2] as lost: alloc is lost since its node is down
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
            allocs: j.web[0] v0, j.web[0] v1 canary, j.web[1] v0, j.web[2] v0
            deployment of version 0 successful: Deployment completed successfully
              web: placed 4, healthy 3, unhealthy 0 of 3; canaries 0 of 0
            deployment of version 1 running: 
              web: placed 1, healthy 0, unhealthy 0 of 3; canaries 1 of 1
        "#]],
    );
}

#[test]
fn deployment_failed_by_hand_stops_its_canaries() {
    check_rollout(
        "fail j
         run j
         allocs j
         deployments j",
        expect![[r#"
            j.web[0] v0, j.web[0] v1 canary, j.web[1] v0, j.web[2] v0
            run j:
              stop j.web[0]: alloc not needed due to job update
              eval complete, queued web 0
            allocs: j.web[0] v0, j.web[1] v0, j.web[2] v0
            deployment of version 0 successful: Deployment completed successfully
              web: placed 3, healthy 3, unhealthy 0 of 3; canaries 0 of 0
            deployment of version 1 failed: 
              web: placed 1, healthy 0, unhealthy 0 of 3; canaries 1 of 1
        "#]],
    );
}

#[test]
fn newer_version_replaces_the_canaries_of_an_unpromoted_one() {
    check_rollout(
        "job j count=3 parallel=2 canary=1 env=2 attempts=0
         run j
         allocs j
         deployments j",
        expect![[r#"
            j.web[0] v0, j.web[0] v1 canary, j.web[1] v0, j.web[2] v0
            run j:
              place canary j.web[0] on a
              stop j.web[0]: alloc not needed due to job update
              deployment running
              eval complete, queued web 0
            allocs: j.web[0] v0, j.web[0] v2 canary, j.web[1] v0, j.web[2] v0
            deployment of version 0 successful: Deployment completed successfully
              web: placed 3, healthy 3, unhealthy 0 of 3; canaries 0 of 0
            deployment of version 1 cancelled: Cancelled due to newer version of job
              web: placed 1, healthy 0, unhealthy 0 of 3; canaries 1 of 1
            deployment of version 2 running: Deployment is running but requires manual promotion
              web: placed 1, healthy 0, unhealthy 0 of 3; canaries 1 of 1
        "#]],
    );
}

#[test]
fn failed_canary_with_auto_revert_brings_the_stable_version_back() {
    check(
        "node a
         job j count=2 parallel=1 canary=1 auto_revert env=0 attempts=0
         run j
         healthy j.web[0]
         healthy j.web[1]
         run j
         job j count=2 parallel=1 canary=1 auto_revert env=1 attempts=0
         run j
         unhealthy j.web[0]
         watch
         run j
         allocs j
         deployments j",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[1] on a
              deployment running
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
            run j:
              place canary j.web[0] on a
              deployment running
              eval complete, queued web 0
            watch: fail, Failed due to unhealthy allocations - rolling back to job version 0
            run j:
              stop j.web[0]: alloc not needed due to job update
              update j.web[0] on a
              update j.web[1] on a
              deployment running
              eval complete, queued web 0
            allocs: j.web[0] v2, j.web[1] v2
            deployment of version 0 successful: Deployment completed successfully
              web: placed 2, healthy 2, unhealthy 0 of 2; canaries 0 of 0
            deployment of version 1 failed: Failed due to unhealthy allocations - rolling back to job version 0
              web: placed 1, healthy 0, unhealthy 1 of 2; canaries 1 of 1
            deployment of version 2 running: Deployment is running
              web: placed 2, healthy 0, unhealthy 0 of 2; canaries 0 of 0
        "#]],
    );
}

#[test]
fn canary_has_to_be_healthy_before_the_deadline_and_its_promotion_has_not() {
    check(
        "node a
         job j count=1 parallel=1 canary=1 progress=60 env=0
         run j
         healthy j.web[0]
         run j
         job j count=1 parallel=1 canary=1 progress=60 env=1
         run j
         wait 59
         watch
         healthy j.web[0]
         run j
         wait 1000
         watch
         promote j
         wait 59
         watch
         wait 2
         watch
         deployments j",
        expect![[r#"
            run j:
              place j.web[0] on a
              deployment running
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
            run j:
              place canary j.web[0] on a
              deployment running
              eval complete, queued web 0
            watch: nothing
            run j:
              eval complete, queued web 0
            watch: nothing
            watch: advance, may reschedule 0
            watch: nothing
            deployment of version 0 successful: Deployment completed successfully
              web: placed 1, healthy 1, unhealthy 0 of 1; canaries 0 of 0
            deployment of version 1 running: Deployment is running
              web: placed 1, healthy 1, unhealthy 0 of 1; canaries 1 of 1, promoted
        "#]],
    );
    check(
        "node a
         job j count=1 parallel=1 canary=1 progress=60 auto_revert env=0
         run j
         healthy j.web[0]
         run j
         job j count=1 parallel=1 canary=1 progress=60 auto_revert env=1
         run j
         wait 61
         watch
         run j
         allocs j",
        expect![[r#"
            run j:
              place j.web[0] on a
              deployment running
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
            run j:
              place canary j.web[0] on a
              deployment running
              eval complete, queued web 0
            watch: fail, Failed due to progress deadline - rolling back to job version 0
            run j:
              stop j.web[0]: alloc not needed due to job update
              update j.web[0] on a
              deployment running
              eval complete, queued web 0
            allocs: j.web[0] v2
        "#]],
    );
}
