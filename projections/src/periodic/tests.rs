//! Stories of periodic launches.

use expect_test::expect;

use crate::story::check;

#[test]
fn a_periodic_job_has_a_launch_from_when_it_was_first_seen() {
    check(
        "job register cron groups=g periodic at=100
         show launch cron
         job register cron groups=g:2 periodic at=200
         show launch cron
         job register web groups=g
         show launch web
         job stop cron
         show launch cron
         job purge cron
         show launch cron
         job purge web",
        expect![[r#"
            job register cron groups=g periodic at=100: ok [+summary:cron +job:cron +version:cron.0 +launch:cron]
               launch cron: 100s create=2 modify=2
            job register cron groups=g:2 periodic at=200: ok [~job:cron +version:cron.1]
               launch cron: 100s create=2 modify=2
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
               launch web: none
            job stop cron: ok [~job:cron +version:cron.2]
               launch cron: 100s create=2 modify=2
            job purge cron: ok [-job:cron -version:cron.2 -version:cron.1 -version:cron.0 -summary:cron -launch:cron]
               launch cron: none
            job purge web: ok [-job:web -version:web.0 -summary:web]
        "#]],
    );
}

#[test]
fn periodic_child_sets_the_launch_time_of_its_parent() {
    check(
        "namespace upsert dev
         job register dev/cron groups=g periodic at=100
         job register dev/cron/periodic-1700000000 groups=g parent=cron
         show launch dev/cron
         job register dev/cron/periodic-1700000060 groups=g parent=cron eval=e1
         show launch dev/cron
         job register dev/cron/dispatch-1 groups=g parent=cron eval=e2
         job register dev/lost/periodic-5 groups=g parent=lost eval=e3
         show launch dev/cron",
        expect![[r#"
            namespace upsert dev: ok [+namespace:dev]
            job register dev/cron groups=g periodic at=100: ok [+summary:cron +job:cron +version:cron.0 +launch:cron]
            job register dev/cron/periodic-1700000000 groups=g parent=cron: ok [+summary:cron/periodic-1700000000 ~summary:cron +job:cron/periodic-1700000000 +version:cron/periodic-1700000000.0 ~launch:cron]
               launch dev/cron: 1700000000s create=3 modify=4
            job register dev/cron/periodic-1700000060 groups=g parent=cron eval=e1: ok [+summary:cron/periodic-1700000060 ~summary:cron +job:cron/periodic-1700000060 +version:cron/periodic-1700000060.0 ~launch:cron +eval:e1]
               launch dev/cron: 1700000060s create=3 modify=5
            job register dev/cron/dispatch-1 groups=g parent=cron eval=e2: refused: failed to parse the launch time of periodic child "cron/dispatch-1"
            job register dev/lost/periodic-5 groups=g parent=lost eval=e3: ok [+summary:lost/periodic-5 +job:lost/periodic-5 +version:lost/periodic-5.0 +eval:e3]
               launch dev/cron: 1700000060s create=3 modify=5
        "#]],
    );
}
