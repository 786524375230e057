//! Groups go to nodes whose agent has the abilities that they need.

use expect_test::expect;

use super::check;

#[test]
fn update_that_needs_a_missing_ability_waits_for_a_node_that_has_it() {
    check(
        "node own attr.songline.version=1
         job j count=1
         run j
         client j.web[0] running
         job j count=1 vault
         run j
         node reference
         run j",
        expect![[r#"
            run j:
              place j.web[0] on own
              eval complete, queued web 0
            run j:
              new eval queued-allocs blocked, classes 0 yes 1 no
              failed web: evaluated 1 filtered 1 exhausted 0 coalesced 0 in pool 1; available {dc1: 1}; constraints {missing ability "vault" of the node's agent: 1}
              eval complete, queued web 1
            run j:
              place after j.web[0] on reference
              stop j.web[0]: alloc is being updated due to job update
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn group_goes_to_nodes_whose_agent_has_the_abilities_that_it_needs() {
    check(
        "node own attr.songline.version=1 attr.songline.ability.cores=true
         job j count=1 template
         run j
         node reference
         run j
         node new attr.songline.version=2 attr.songline.ability.template=true
         down reference
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 0 yes 1 no
              failed web: evaluated 1 filtered 1 exhausted 0 coalesced 0 in pool 1; available {dc1: 1}; constraints {missing ability "template" of the node's agent: 1}
              eval complete, queued web 1
            run j:
              place j.web[0] on reference
              eval complete, queued web 0
            run j:
              place after j.web[0] on new
              stop j.web[0] as lost: alloc is lost since its node is down
              eval complete, queued web 0
        "#]],
    );
}
