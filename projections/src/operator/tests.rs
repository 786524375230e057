//! Stories of cluster-wide rows.

use expect_test::expect;

use crate::story::check;

#[test]
fn scheduler_config_cas_needs_the_stored_index() {
    check(
        "config set cas=0
         config set
         show config
         config set cas=9
         config set cas=3
         show config
         show tables",
        expect![[r#"
            config set cas=0: Cas(false)
            config set: ok [+config:]
               config: binpack create=3 modify=3
            config set cas=9: Cas(false)
            config set cas=3: Cas(true) [~config:]
               config: binpack create=3 modify=5
               changed: scheduler_config=5
        "#]],
    );
}

#[test]
fn a_cluster_has_one_id() {
    check(
        "cluster one
         cluster one
         cluster two",
        expect![[r#"
            cluster one: ok [+cluster:one]
            cluster one: ok [~cluster:one]
            cluster two: refused: set cluster metadata failed: refusing to set new cluster id, previous: one, new: two
        "#]],
    );
}
