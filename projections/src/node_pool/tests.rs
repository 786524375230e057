//! Stories of node pools.

use expect_test::expect;

use crate::story::check;

#[test]
fn a_pool_is_made_changed_and_deleted() {
    check(
        "pool upsert gpu
         pool upsert gpu
         pool delete gpu
         pool delete gpu
         show tables",
        expect![[r#"
            pool upsert gpu: ok [+pool:gpu]
            pool upsert gpu: ok [~pool:gpu]
            pool delete gpu: ok [-pool:gpu]
            pool delete gpu: refused: node pool gpu not found
               changed: node_pools=4
        "#]],
    );
}

#[test]
fn built_in_node_pools_cannot_be_changed_or_deleted() {
    check(
        "pool upsert all
         pool upsert default
         pool delete default
         pool delete all",
        expect![[r#"
            pool upsert all: refused: modifying node pool "all" is not allowed
            pool upsert default: refused: modifying node pool "default" is not allowed
            pool delete default: refused: deleting node pool "default" is not allowed
            pool delete all: refused: deleting node pool "all" is not allowed
        "#]],
    );
}
