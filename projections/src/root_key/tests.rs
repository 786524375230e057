//! Stories of root keys: rotation, rekeying, and uses that keep a key.

use expect_test::expect;

use crate::story::check;

#[test]
fn root_key_rotation_changes_the_other_keys_in_the_same_entry() {
    check(
        "root active k1
         root active k2
         show roots
         root active k3 rekey
         show roots
         root active k4
         show roots",
        expect![[r#"
            root active k1: ok [+root:k1]
            root active k2: ok [~root:k1 +root:k2]
               k1(inactive create=2 modify=3) k2(active create=3 modify=3)
            root active k3 rekey: ok [~root:k1 ~root:k2 +root:k3]
               k1(rekeying create=2 modify=4) k2(rekeying create=3 modify=4) k3(active create=4 modify=4)
            root active k4: ok [~root:k3 +root:k4]
               k1(rekeying create=2 modify=4) k2(rekeying create=3 modify=4) k3(inactive create=4 modify=5) k4(active create=5 modify=5)
        "#]],
    );
}

#[test]
fn old_root_key_can_become_active_again_and_a_rekeying_one_inactive() {
    check(
        "root active k1
         root active k2 rekey
         root inactive k1
         root active k1 rekey
         show roots
         root deprecated k2
         root active k3 rekey
         show roots",
        expect![[r#"
            root active k1: ok [+root:k1]
            root active k2 rekey: ok [~root:k1 +root:k2]
            root inactive k1: ok [~root:k1]
            root active k1 rekey: ok [~root:k2 ~root:k1]
               k1(active create=2 modify=5) k2(rekeying create=3 modify=5)
            root deprecated k2: ok [~root:k2]
            root active k3 rekey: ok [~root:k1 +root:k3]
               k1(rekeying create=2 modify=7) k2(deprecated create=3 modify=6) k3(active create=7 modify=7)
        "#]],
    );
}

#[test]
fn invalid_root_key_is_refused() {
    check(
        "root active
         root active k1 algorithm=
         root active k1 material=
         root inactive k1 rekey
         root active k1
         root active k1 rekey
         root active k1 algorithm=aes128
         show roots",
        expect![[r#"
            root active: refused: root key UUID is required
            root active k1 algorithm=: refused: root key algorithm is required
            root active k1 material=: refused: root key material is required
            root inactive k1 rekey: refused: cannot rekey without setting the new key active
            root active k1: ok [+root:k1]
            root active k1 rekey: refused: cannot rekey without setting the new key active
            root active k1 algorithm=aes128: refused: root key algorithm cannot be changed after a key is created
               k1(active create=6 modify=6)
        "#]],
    );
}

#[test]
fn active_root_key_cannot_be_deleted_nor_a_used_one_as_unused() {
    check(
        "root delete k1
         root active k1
         var set a root=k1
         root delete k1
         root active k2
         root delete k1 unused
         var set a root=k2
         show roots
         root delete k1 unused
         show roots",
        expect![[r#"
            root delete k1: refused: root key metadata not found
            root active k1: ok [+root:k1]
            var set a root=k1: written create=4 modify=4 [+quota:default=1 +var:a]
            root delete k1: refused: active root key cannot be deleted - call rotate first
            root active k2: ok [~root:k1 +root:k2]
            root delete k1 unused: refused: root key 6b310000-0000-0000-0000-000000000000 is in use
            var set a root=k2: written create=4 modify=8 [~var:a]
               k1(inactive create=3 modify=6) k2(active create=6 modify=6 used)
            root delete k1 unused: ok [-root:k1]
               k2(active create=6 modify=6 used)
        "#]],
    );
}

#[test]
fn root_key_stays_used_until_its_alloc_is_stopped_and_complete() {
    check(
        "root active k1
         node register n1 status=ready
         job register web groups=g
         plan job=web create=4 place=a1@n1:g signed=k1
         show roots
         client a1@n1 running
         plan job=web create=4 stop=a1
         show roots
         client a1@n1 complete
         show roots",
        expect![[r#"
            root active k1: ok [+root:k1]
            node register n1 status=ready: ok [+node:n1]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=4 place=a1@n1:g signed=k1: ok [~summary:web +alloc:a1 ~job:web]
               k1(active create=2 modify=2 used)
            client a1@n1 running: ok [~summary:web ~alloc:a1 ~node:n1]
            plan job=web create=4 stop=a1: ok [~alloc:a1 ~job:web]
               k1(active create=2 modify=2 used)
            client a1@n1 complete: ok [~summary:web ~alloc:a1 ~node:n1]
               k1(active create=2 modify=2)
        "#]],
    );
}
