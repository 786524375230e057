//! Stories of scaling policies and events.

use expect_test::expect;

use crate::story::check;

#[test]
fn unchanged_scaling_policy_keeps_its_row() {
    check(
        "job register web groups=a,b scale=a:5,b:9
         show policies
         job register web groups=a,b scale=a:5,b:10 ids=q-
         show policies",
        expect![[r#"
            job register web groups=a,b scale=a:5,b:9: ok [+policy:p-a +policy:p-b +summary:web +job:web +version:web.0]
               policies: p-a(0..5)@2-2 p-b(0..9)@2-2
            job register web groups=a,b scale=a:5,b:10 ids=q-: ok [~policy:p-b ~job:web +version:web.1]
               policies: p-a(0..5)@2-2 p-b(0..10)@2-3
        "#]],
    );
}

#[test]
fn scaling_policy_is_deleted_with_its_group_or_its_job() {
    check(
        "job register web groups=a,b scale=a:5,b:9
         job register other groups=a scale=a:5 ids=o-
         job register web groups=a,b scale=b:9
         show policies
         job stop web
         show policies
         scaling web group=b message=m
         job purge web
         show policies
         show scalings web",
        expect![[r#"
            job register web groups=a,b scale=a:5,b:9: ok [+policy:p-a +policy:p-b +summary:web +job:web +version:web.0]
            job register other groups=a scale=a:5 ids=o-: ok [+policy:o-a +summary:other +job:other +version:other.0]
            job register web groups=a,b scale=b:9: ok [-policy:p-a ~job:web +version:web.1]
               policies: o-a(0..5)@3-3 p-b(0..9)@2-2
            job stop web: ok [~job:web +version:web.2]
               policies: o-a(0..5)@3-3 p-b(0..9)@2-2
            scaling web group=b message=m: ok [+scalings:web]
            job purge web: ok [-job:web -version:web.2 -version:web.1 -version:web.0 -summary:web -policy:p-b -scalings:web]
               policies: o-a(0..5)@3-3
               scalings web: none
        "#]],
    );
}

#[test]
fn scaling_policy_with_a_taken_id_is_not_stored() {
    check(
        "job register web groups=a scale=a:5
         job register other groups=a scale=a:5
         show policies",
        expect![[r#"
            job register web groups=a scale=a:5: ok [+policy:p-a +summary:web +job:web +version:web.0]
            job register other groups=a scale=a:5: ok [+summary:other +job:other +version:other.0]
               policies: p-a(0..5)@2-2
        "#]],
    );
}

#[test]
fn scaling_events_are_kept_by_group_newest_first() {
    check(
        "job register web groups=a,b
         scaling web group=a message=one
         scaling web group=b message=two
         scaling web group=a count=3 message=three
         show scalings web
         scaling gone group=a message=four",
        expect![[r#"
            job register web groups=a,b: ok [+summary:web +job:web +version:web.0]
            scaling web group=a message=one: ok [+scalings:web]
            scaling web group=b message=two: ok [~scalings:web]
            scaling web group=a count=3 message=three: ok [~scalings:web]
               scalings web: modify=5 a(three@5 one@3) b(two@4)
            scaling gone group=a message=four: refused: job not found
        "#]],
    );
}
