//! Jobs that use features which are not built yet.

use expect_test::expect;

use super::check;

#[test]
fn job_with_an_unbuilt_feature_is_not_placed_and_the_feature_named() {
    check(
        "node a
         job j count=2 template
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 0 yes 1 no
              failed web: evaluated 1 filtered 1 exhausted 0 coalesced 1 in pool 1; available {dc1: 1}; constraints {template is not built yet: 1}
              eval complete, queued web 2
        "#]],
    );
}

#[test]
fn job_update_with_an_unbuilt_feature_leaves_the_old_version_running() {
    check(
        "node a
         job j count=1
         run j
         client j.web[0] running
         job j count=1 template
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              new eval queued-allocs blocked, classes 0 yes 1 no
              failed web: evaluated 1 filtered 1 exhausted 0 coalesced 0 in pool 1; available {dc1: 1}; constraints {template is not built yet: 1}
              eval complete, queued web 1
        "#]],
    );
}
