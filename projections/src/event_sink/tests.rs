//! Stories of event sinks.

use expect_test::expect;

use crate::story::check;

#[test]
fn a_new_sink_begins_after_its_own_entry_or_at_the_position_that_it_names() {
    check(
        "sink upsert s
         show sink s
         sink upsert t at-index=1
         show sink t
         sink upsert u at-index=9
         show sink u",
        expect![[r#"
            sink upsert s: ok [+sink:s +progress:s]
               sink s: webhook pending create=2 modify=2 run=2 position=2 delivered=0 gaps=0 error=""
            sink upsert t at-index=1: ok [+sink:t +progress:t]
               sink t: webhook pending create=3 modify=3 run=3 position=1 delivered=0 gaps=0 error=""
            sink upsert u at-index=9: refused: position 9 is ahead of the newest entry, 4
               sink u: none
        "#]],
    );
}

#[test]
fn reports_of_the_current_run_move_the_position_and_never_back() {
    check(
        "sink upsert s
         sink delivered s run=2 position=5 events=3
         sink delivered s run=2 position=4 events=4 gaps=1
         show sink s
         sink failed s run=2 error=refused
         show sink s
         sink delivered s run=2 position=6
         show sink s
         sink delivered t run=2 position=6",
        expect![[r#"
            sink upsert s: ok [+sink:s +progress:s]
            sink delivered s run=2 position=5 events=3: ok [~progress:s]
            sink delivered s run=2 position=4 events=4 gaps=1: ok [~progress:s]
               sink s: webhook delivering create=2 modify=2 run=2 position=5 delivered=4 gaps=1 error=""
            sink failed s run=2 error=refused: ok [~progress:s]
               sink s: webhook failing create=2 modify=2 run=2 position=5 delivered=4 gaps=1 error="refused"
            sink delivered s run=2 position=6: ok [~progress:s]
               sink s: webhook delivering create=2 modify=2 run=2 position=6 delivered=4 gaps=1 error="refused"
            sink delivered t run=2 position=6: refused: event sink "t" not found
        "#]],
    );
}

#[test]
fn a_report_of_a_run_that_a_user_has_ended_is_refused() {
    check(
        "sink upsert s at-index=1
         sink reset s position=2
         show sink s
         sink delivered s run=2 position=3
         sink failed s run=2 error=late
         sink upsert s url=http://other
         sink delivered s run=3 position=3
         sink delivered s run=6 position=3
         show sink s
         sink reset s position=99",
        expect![[r#"
            sink upsert s at-index=1: ok [+sink:s +progress:s]
            sink reset s position=2: ok [~progress:s]
               sink s: webhook pending create=2 modify=2 run=3 position=2 delivered=0 gaps=0 error=""
            sink delivered s run=2 position=3: refused: event sink "s" was changed meanwhile
            sink failed s run=2 error=late: refused: event sink "s" was changed meanwhile
            sink upsert s url=http://other: ok [~sink:s ~progress:s]
            sink delivered s run=3 position=3: refused: event sink "s" was changed meanwhile
            sink delivered s run=6 position=3: ok [~progress:s]
               sink s: webhook delivering create=2 modify=6 run=6 position=3 delivered=0 gaps=0 error=""
            sink reset s position=99: refused: position 99 is ahead of the newest entry, 9
        "#]],
    );
}

#[test]
fn one_file_has_one_sink() {
    check(
        "sink upsert s file=audit
         sink upsert t file=audit
         sink upsert t url=audit
         sink upsert s file=audit
         sink delete s
         sink upsert t file=audit",
        expect![[r#"
            sink upsert s file=audit: ok [+sink:s +progress:s]
            sink upsert t file=audit: refused: file "audit" belongs to event sink "s"
            sink upsert t url=audit: ok [+sink:t +progress:t]
            sink upsert s file=audit: ok [~sink:s ~progress:s]
            sink delete s: ok [-sink:s -progress:s]
            sink upsert t file=audit: ok [~sink:t ~progress:t]
        "#]],
    );
}

#[test]
fn deletion_deletes_the_progress_and_all_or_nothing() {
    check(
        "sink upsert s
         sink upsert t
         sink delete s u
         sink delete s t
         show sink s
         sink reset s position=1",
        expect![[r#"
            sink upsert s: ok [+sink:s +progress:s]
            sink upsert t: ok [+sink:t +progress:t]
            sink delete s u: refused: event sink "u" not found
            sink delete s t: ok [-sink:s -progress:s -sink:t -progress:t]
               sink s: none
            sink reset s position=1: refused: event sink "s" not found
        "#]],
    );
}
