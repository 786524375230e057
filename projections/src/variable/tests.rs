//! Stories of variables: each line of the table of conflicts, counted sizes, lookups.

use expect_test::expect;

use crate::story::{check, state_after};

#[test]
fn variable_set_and_delete_need_no_index() {
    check(
        "root active k1
         var delete a
         show tables
         var set a size=10 time=1
         var set a size=4 time=2
         show var a
         show quota default
         var delete a index=9
         show quota default
         show var a",
        expect![[r#"
            root active k1: ok [+root:k1]
            var delete a: ok
               changed: root_key_meta=2
            var set a size=10 time=1: written create=4 modify=4 [+quota:default=10 +var:a]
            var set a size=4 time=2: written create=4 modify=5 [~quota:default=4 ~var:a]
               var a: 4 bytes create=4 modify=5 times=(1, 2)
               quota default: 4 create=4 modify=5
            var delete a index=9: ok [~quota:default=0 -var:a]
               quota default: 0 create=4 modify=6
               var a: none
        "#]],
    );
}

#[test]
fn variable_cas_writes_only_at_the_stored_index() {
    check(
        "root active k1
         var cas a index=7
         var cas a
         var cas a
         var cas a index=2
         var cas a index=4 size=3
         show var a
         show tables",
        expect![[r#"
            root active k1: ok [+root:k1]
            var cas a index=7: conflict a modify=0
            var cas a: written create=4 modify=4 [+quota:default=1 +var:a]
            var cas a: conflict a modify=4
            var cas a index=2: conflict a modify=4
            var cas a index=4 size=3: written create=4 modify=7 [~quota:default=3 ~var:a]
               var a: 3 bytes create=4 modify=7 times=(1, 1)
               changed: variables=7 variables_quota=7 root_key_meta=2
        "#]],
    );
}

#[test]
fn variable_delete_cas_deletes_only_at_the_stored_index() {
    check(
        "root active k1
         var delete-cas a
         var delete-cas a index=7
         var set a
         var delete-cas a
         var delete-cas a index=3
         var delete-cas a index=5
         show var a",
        expect![[r#"
            root active k1: ok [+root:k1]
            var delete-cas a: ok
            var delete-cas a index=7: conflict a modify=0
            var set a: written create=5 modify=5 [+quota:default=1 +var:a]
            var delete-cas a: conflict a modify=5
            var delete-cas a index=3: conflict a modify=5
            var delete-cas a index=5: ok [~quota:default=0 -var:a]
               var a: none
        "#]],
    );
}

#[test]
fn first_of_several_variable_cas_writers_wins() {
    check(
        "root active k1
         var set a
         var cas a index=3 size=2
         var cas a index=3 size=3
         var cas a index=3 size=4
         show var a",
        expect![[r#"
            root active k1: ok [+root:k1]
            var set a: written create=3 modify=3 [+quota:default=1 +var:a]
            var cas a index=3 size=2: written create=3 modify=4 [~quota:default=2 ~var:a]
            var cas a index=3 size=3: conflict a modify=4
            var cas a index=3 size=4: conflict a modify=4
               var a: 2 bytes create=3 modify=4 times=(1, 1)
        "#]],
    );
}

#[test]
fn equal_variable_is_not_written_again() {
    check(
        "root active k1
         var set a
         var set a
         var cas a index=3
         show tables",
        expect![[r#"
            root active k1: ok [+root:k1]
            var set a: written create=3 modify=3 [+quota:default=1 +var:a]
            var set a: ok
            var cas a index=3: ok
               changed: variables=3 variables_quota=3 root_key_meta=2
        "#]],
    );
}

#[test]
fn variable_encrypted_with_a_deleted_root_key_is_refused() {
    check(
        "root active k1
         root active k2
         root delete k1
         var set a root=k1
         var set a root=k2",
        expect![[r#"
            root active k1: ok [+root:k1]
            root active k2: ok [~root:k1 +root:k2]
            root delete k1: ok [-root:k1]
            var set a root=k1: refused: no such key "6b310000-0000-0000-0000-000000000000" in keyring
            var set a root=k2: written create=6 modify=6 [+quota:default=1 +var:a]
        "#]],
    );
}

#[test]
fn variables_are_counted_per_namespace_and_keep_it_from_deletion() {
    check(
        "root active k1
         namespace upsert dev
         var set dev:a size=5
         var set dev:b size=6
         var set a size=7
         namespace delete dev
         var delete dev:a
         show quota dev
         var delete dev:b
         namespace delete dev
         show quota default",
        expect![[r#"
            root active k1: ok [+root:k1]
            namespace upsert dev: ok [+namespace:dev]
            var set dev:a size=5: written create=4 modify=4 [+quota:dev=5 +var:a]
            var set dev:b size=6: written create=5 modify=5 [~quota:dev=11 +var:b]
            var set a size=7: written create=6 modify=6 [+quota:default=7 +var:a]
            namespace delete dev: refused: namespace "dev" contains at least one variable. All variables in namespace must be deleted before it can be deleted
            var delete dev:a: ok [~quota:dev=6 -var:a]
               quota dev: 6 create=4 modify=8
            var delete dev:b: ok [~quota:dev=0 -var:b]
            namespace delete dev: ok [-namespace:dev]
               quota default: 7 create=6 modify=6
        "#]],
    );
}

#[test]
fn retried_variable_write_gets_the_first_answer_even_a_conflict() {
    check(
        "root active k1
         var set a key=one
         var set a key=one
         var cas b index=9 key=two
         var cas b index=9 key=two
         var cas a key=three
         var set a size=2
         var cas a key=three
         var delete a
         var cas a key=three
         show var a
         var cas a key=four",
        expect![[r#"
            root active k1: ok [+root:k1]
            var set a key=one: written create=3 modify=3 [+quota:default=1 +var:a +key:one]
            var set a key=one: written create=3 modify=3 (as at 3)
            var cas b index=9 key=two: conflict b modify=0 [+key:two]
            var cas b index=9 key=two: conflict b modify=0 (as at 5)
            var cas a key=three: conflict a modify=3 [+key:three]
            var set a size=2: written create=3 modify=8 [~quota:default=2 ~var:a]
            var cas a key=three: conflict a modify=8 (as at 7)
            var delete a: ok [~quota:default=0 -var:a]
            var cas a key=three: conflict a modify=3 (as at 7)
               var a: none
            var cas a key=four: written create=12 modify=12 [~quota:default=1 +var:a +key:four]
        "#]],
    );
}

#[test]
fn variable_paths_are_found_by_prefix_in_one_or_all_namespaces() {
    let state = state_after("root active k1\nvar set ab\nvar set dev:ab\nvar set abc\nvar set b\nvar set devil:a");
    let paths = |rows: Vec<&std::sync::Arc<songline_model::Variable>>| {
        rows.iter().map(|row| format!("{}:{}", row.meta.namespace, row.meta.path)).collect::<Vec<_>>()
    };
    assert_eq!(paths(state.variables_in("default", "ab").collect()), ["default:ab", "default:abc"]);
    assert_eq!(paths(state.variables_in("dev", "").collect()), ["dev:ab"]);
    assert_eq!(paths(state.variables_with_prefix("ab").collect()), ["default:ab", "dev:ab", "default:abc"]);
    assert_eq!(state.variables_of_root_key(songline_model::RootKeyId::from_bytes(crate::story::id("k1"))).count(), 5);
}
