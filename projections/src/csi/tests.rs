//! Stories of volumes and claims. The index of an entry is that of its line, from 2 on; lines that show something have
//! none.

use expect_test::expect;

use crate::story::check;

#[test]
fn a_volume_is_registered_with_its_plugins_provider_and_keeps_its_create_index() {
    check(
        "node register n1 plugins=p:healthy
         volume register v plugin=p offers=single-node-writer
         volume register v plugin=p offers=multi-node-reader-only
         show volume v
         volume register v plugin=q offers=single-node-writer
         show tables",
        expect![[r#"
            node register n1 plugins=p:healthy: ok [+node:n1 +plugin:p]
            volume register v plugin=p offers=single-node-writer: ok [+volume:v]
            volume register v plugin=p offers=multi-node-reader-only: ok [~volume:v]
               volume v: create=3 modify=4 provider=org.x offers=multi-node-reader-only healthy=1/0 schedulable
            volume register v plugin=q offers=single-node-writer: refused: unable to update volume: 1 error occurred:
            	* volume plugin ID cannot be updated


               changed: nodes=2 csi_volumes=4 csi_plugins=2
        "#]],
    );
}

#[test]
fn refused_volume_drops_the_whole_register_request() {
    check(
        "volume register v plugin=p offers=single-node-writer
         volume register w v plugin=q offers=single-node-writer
         show volume w
         volume register dev/v plugin=p offers=single-node-writer
         show volume dev/v",
        expect![[r#"
            volume register v plugin=p offers=single-node-writer: ok [+volume:v]
            volume register w v plugin=q offers=single-node-writer: refused: unable to update volume: 1 error occurred:
            	* volume plugin ID cannot be updated


               volume w: none
            volume register dev/v plugin=p offers=single-node-writer: refused: volume v is in nonexistent namespace dev
               volume dev/v: none
        "#]],
    );
}

#[test]
fn volume_registration_neither_adds_nor_drops_claims() {
    check(
        "node register n1 plugins=p:healthy
         job register web groups=g
         plan job=web create=3 place=a1@n1:g
         volume register v plugin=p offers=multi-node-multi-writer held=single-node-writer
         show volume v
         volume claim v alloc=a1 node=n1 mode=write access=multi-node-multi-writer attach=file-system
         volume register v plugin=p offers=multi-node-multi-writer,single-node-writer
         volume register v plugin=p offers=single-node-writer
         show volume v",
        expect![[r#"
            node register n1 plugins=p:healthy: ok [+node:n1 +plugin:p]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=3 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            volume register v plugin=p offers=multi-node-multi-writer held=single-node-writer: ok [+volume:v]
               volume v: create=5 modify=5 provider=org.x offers=multi-node-multi-writer healthy=1/0 schedulable
            volume claim v alloc=a1 node=n1 mode=write access=multi-node-multi-writer attach=file-system: ok [~volume:v]
            volume register v plugin=p offers=multi-node-multi-writer,single-node-writer: ok [~volume:v]
            volume register v plugin=p offers=single-node-writer: refused: unable to update volume: 1 error occurred:
            	* volume requested capabilities update was not compatible with existing capability in use


               volume v: create=5 modify=7 provider=org.x access=multi-node-multi-writer attach=file-system offers=multi-node-multi-writer,single-node-writer write(a1@n1) healthy=1/0 schedulable
        "#]],
    );
}

#[test]
fn volume_registered_before_its_plugin_has_no_provider() {
    check(
        "volume register v plugin=p offers=single-node-writer
         node register n1 plugins=p:healthy
         show volume v
         volume register v plugin=p offers=single-node-writer
         show volume v",
        expect![[r#"
            volume register v plugin=p offers=single-node-writer: ok [+volume:v]
            node register n1 plugins=p:healthy: ok [+node:n1 +plugin:p]
               volume v: create=2 modify=2 offers=single-node-writer healthy=1/0 schedulable
            volume register v plugin=p offers=single-node-writer: ok [~volume:v]
               volume v: create=2 modify=4 offers=single-node-writer healthy=1/0 schedulable
        "#]],
    );
}

#[test]
fn a_namespace_with_a_volume_stays() {
    check(
        "namespace upsert dev
         volume register dev/v plugin=p offers=single-node-writer
         namespace delete dev
         volume deregister dev/v
         namespace delete dev",
        expect![[r#"
            namespace upsert dev: ok [+namespace:dev]
            volume register dev/v plugin=p offers=single-node-writer: ok [+volume:v]
            namespace delete dev: refused: namespace "dev" contains at least one CSI volume "v". All CSI volumes in namespace must be deleted before it can be deleted
            volume deregister dev/v: ok [-volume:v]
            namespace delete dev: ok [-namespace:dev]
        "#]],
    );
}

#[test]
fn a_claim_is_released_only_by_its_last_step_and_keeps_its_modes_until_then() {
    check(
        "node register n1 plugins=p:healthy
         job register web groups=g
         plan job=web create=3 place=a1@n1:g
         volume register v plugin=p offers=single-node-writer
         volume claim v alloc=a1 node=n1 external=i-1 mode=read access=single-node-writer attach=file-system
         show volume v
         volume claim v alloc=a1 node=n1 state=unpublishing
         show volume v
         volume claim v alloc=a1 node=n1 state=node-detached
         show volume v
         volume claim v alloc=a1 node=n1 state=controller-detached
         show volume v
         volume claim v alloc=a1 node=n1 state=ready-to-free
         show volume v",
        expect![[r#"
            node register n1 plugins=p:healthy: ok [+node:n1 +plugin:p]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=3 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            volume register v plugin=p offers=single-node-writer: ok [+volume:v]
            volume claim v alloc=a1 node=n1 external=i-1 mode=read access=single-node-writer attach=file-system: ok [~volume:v]
               volume v: create=5 modify=6 provider=org.x access=single-node-writer attach=file-system offers=single-node-writer read(a1@n1) healthy=1/0 schedulable
            volume claim v alloc=a1 node=n1 state=unpublishing: ok [~volume:v]
               volume v: create=5 modify=7 provider=org.x access=single-node-writer attach=file-system offers=single-node-writer read(a1@n1) past(a1@n1 Unpublishing Read single-node-writer file-system on i-1) healthy=1/0 schedulable
            volume claim v alloc=a1 node=n1 state=node-detached: ok [~volume:v]
               volume v: create=5 modify=8 provider=org.x access=single-node-writer attach=file-system offers=single-node-writer read(a1@n1) past(a1@n1 NodeDetached Read single-node-writer file-system on i-1) healthy=1/0 schedulable
            volume claim v alloc=a1 node=n1 state=controller-detached: ok [~volume:v]
               volume v: create=5 modify=9 provider=org.x access=single-node-writer attach=file-system offers=single-node-writer read(a1@n1) past(a1@n1 ControllerDetached Read single-node-writer file-system on i-1) healthy=1/0 schedulable
            volume claim v alloc=a1 node=n1 state=ready-to-free: ok [~volume:v]
               volume v: create=5 modify=10 provider=org.x offers=single-node-writer healthy=1/0 schedulable
        "#]],
    );
}

#[test]
fn a_second_writer_waits_until_the_claim_is_ready_to_free() {
    check(
        "node register n1 plugins=p:healthy
         job register web groups=g
         plan job=web create=3 place=a1@n1:g,a2@n1:g
         volume register v plugin=p offers=single-node-writer
         volume claim v alloc=a1 node=n1 mode=write access=single-node-writer
         volume claim v alloc=a2 node=n1 mode=write access=single-node-writer
         volume claim v alloc=a1 node=n1 mode=write state=node-detached
         volume claim v alloc=a2 node=n1 mode=write access=single-node-writer
         volume claim v alloc=a1 node=n1 mode=write state=ready-to-free
         volume claim v alloc=a2 node=n1 mode=write access=single-node-writer",
        expect![[r#"
            node register n1 plugins=p:healthy: ok [+node:n1 +plugin:p]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=3 place=a1@n1:g,a2@n1:g: ok [+alloc:a1 ~summary:web +alloc:a2 ~job:web]
            volume register v plugin=p offers=single-node-writer: ok [+volume:v]
            volume claim v alloc=a1 node=n1 mode=write access=single-node-writer: ok [~volume:v]
            volume claim v alloc=a2 node=n1 mode=write access=single-node-writer: refused: volume max claims reached
            volume claim v alloc=a1 node=n1 mode=write state=node-detached: ok [~volume:v]
            volume claim v alloc=a2 node=n1 mode=write access=single-node-writer: refused: volume max claims reached
            volume claim v alloc=a1 node=n1 mode=write state=ready-to-free: ok [~volume:v]
            volume claim v alloc=a2 node=n1 mode=write access=single-node-writer: ok [~volume:v]
        "#]],
    );
}

#[test]
fn repeated_claim_of_one_alloc_is_accepted() {
    check(
        "node register n1 plugins=p:healthy
         job register web groups=g
         plan job=web create=3 place=a1@n1:g
         volume register v plugin=p offers=single-node-writer
         volume claim v alloc=a1 node=n1 mode=write access=single-node-writer
         volume claim v alloc=a1 node=n1 mode=write access=single-node-writer
         show volume v",
        expect![[r#"
            node register n1 plugins=p:healthy: ok [+node:n1 +plugin:p]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=3 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            volume register v plugin=p offers=single-node-writer: ok [+volume:v]
            volume claim v alloc=a1 node=n1 mode=write access=single-node-writer: ok [~volume:v]
            volume claim v alloc=a1 node=n1 mode=write access=single-node-writer: ok [~volume:v]
               volume v: create=5 modify=7 provider=org.x access=single-node-writer offers=single-node-writer write(a1@n1) healthy=1/0 schedulable
        "#]],
    );
}

#[test]
fn volume_modes_are_set_by_claims_and_cleared_with_the_last_claim() {
    check(
        "node register n1 plugins=p:healthy
         job register web groups=g
         plan job=web create=3 place=a1@n1:g,a2@n1:g
         volume register v plugin=p offers=multi-node-reader-only
         volume claim v alloc=a1 mode=read access=multi-node-reader-only attach=file-system
         volume claim v alloc=a2 mode=read access=multi-node-reader-only attach=block-device
         volume claim v alloc=a2 mode=read access=multi-node-reader-only attach=file-system
         volume claim v alloc=a1 state=ready-to-free
         show volume v
         volume claim v alloc=a2 state=ready-to-free
         show volume v
         volume claim v alloc=a1 mode=write access=single-node-writer attach=block-device
         volume register v plugin=p offers=single-node-writer
         volume claim v alloc=a1 mode=write access=single-node-writer attach=block-device
         show volume v",
        expect![[r#"
            node register n1 plugins=p:healthy: ok [+node:n1 +plugin:p]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=3 place=a1@n1:g,a2@n1:g: ok [+alloc:a1 ~summary:web +alloc:a2 ~job:web]
            volume register v plugin=p offers=multi-node-reader-only: ok [+volume:v]
            volume claim v alloc=a1 mode=read access=multi-node-reader-only attach=file-system: ok [~volume:v]
            volume claim v alloc=a2 mode=read access=multi-node-reader-only attach=block-device: refused: cannot change attachment mode of claimed volume
            volume claim v alloc=a2 mode=read access=multi-node-reader-only attach=file-system: ok [~volume:v]
            volume claim v alloc=a1 state=ready-to-free: ok [~volume:v]
               volume v: create=5 modify=9 provider=org.x access=multi-node-reader-only attach=file-system offers=multi-node-reader-only read(a2@) healthy=1/0 schedulable
            volume claim v alloc=a2 state=ready-to-free: ok [~volume:v]
               volume v: create=5 modify=10 provider=org.x offers=multi-node-reader-only healthy=1/0 schedulable
            volume claim v alloc=a1 mode=write access=single-node-writer attach=block-device: refused: volume is currently unschedulable
            volume register v plugin=p offers=single-node-writer: ok [~volume:v]
            volume claim v alloc=a1 mode=write access=single-node-writer attach=block-device: ok [~volume:v]
               volume v: create=5 modify=13 provider=org.x access=single-node-writer attach=block-device offers=single-node-writer write(a1@) healthy=1/0 schedulable
        "#]],
    );
}

#[test]
fn an_empty_claim_changes_only_the_index() {
    check(
        "node register n1 plugins=p:healthy
         job register web groups=g
         plan job=web create=3 place=a1@n1:g
         volume register v plugin=p offers=single-node-writer
         volume claim v alloc=a1 mode=read access=single-node-writer
         volume claim v mode=gc
         show volume v
         volume claim v state=unpublishing
         volume claim v state=ready-to-free
         show volume v
         volume claim v alloc= state=ready-to-free
         show tables",
        expect![[r#"
            node register n1 plugins=p:healthy: ok [+node:n1 +plugin:p]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=3 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            volume register v plugin=p offers=single-node-writer: ok [+volume:v]
            volume claim v alloc=a1 mode=read access=single-node-writer: ok [~volume:v]
            volume claim v mode=gc: ok [~volume:v]
               volume v: create=5 modify=7 provider=org.x access=single-node-writer offers=single-node-writer read(a1@) healthy=1/0 schedulable
            volume claim v state=unpublishing: ok [~volume:v]
            volume claim v state=ready-to-free: ok [~volume:v]
               volume v: create=5 modify=9 provider=org.x access=single-node-writer offers=single-node-writer read(a1@) healthy=1/0 schedulable
            volume claim v alloc= state=ready-to-free: ok [~volume:v]
               changed: nodes=2 jobs=4 job_summary=4 job_version=3 allocs=4 csi_volumes=10 csi_plugins=2
        "#]],
    );
}

#[test]
fn collected_claim_becomes_past_and_keeps_its_mount_modes() {
    check(
        "node register n1 plugins=p:healthy
         job register web groups=g
         plan job=web create=3 place=a1@n1:g
         volume register v plugin=p offers=single-node-writer
         volume claim v alloc=a1 node=n1 external=i-1 mode=read access=single-node-writer attach=file-system
         volume claim v alloc=a1 mode=gc
         show volume v",
        expect![[r#"
            node register n1 plugins=p:healthy: ok [+node:n1 +plugin:p]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=3 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            volume register v plugin=p offers=single-node-writer: ok [+volume:v]
            volume claim v alloc=a1 node=n1 external=i-1 mode=read access=single-node-writer attach=file-system: ok [~volume:v]
            volume claim v alloc=a1 mode=gc: ok [~volume:v]
               volume v: create=5 modify=7 provider=org.x access=single-node-writer attach=file-system offers=single-node-writer read(a1@n1) past(a1@n1 Taken Read single-node-writer file-system on i-1) healthy=1/0 schedulable
        "#]],
    );
}

#[test]
fn a_claim_needs_a_volume_and_an_alloc() {
    check(
        "node register n1 plugins=p:healthy
         job register web groups=g
         plan job=web create=3 place=a1@n1:g
         volume claim v alloc=a1
         volume register v plugin=p offers=single-node-writer
         volume claim v alloc=b1 mode=read
         volume claim v alloc=b1 state=ready-to-free
         show volume v",
        expect![[r#"
            node register n1 plugins=p:healthy: ok [+node:n1 +plugin:p]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=3 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            volume claim v alloc=a1: refused: volume not found: v
            volume register v plugin=p offers=single-node-writer: ok [+volume:v]
            volume claim v alloc=b1 mode=read: refused: allocation missing: 62310000-0000-0000-0000-000000000000
            volume claim v alloc=b1 state=ready-to-free: ok [~volume:v]
               volume v: create=6 modify=8 provider=org.x offers=single-node-writer healthy=1/0 schedulable
        "#]],
    );
}

#[test]
fn a_claim_needs_a_healthy_plugin() {
    check(
        "node register n1
         job register web groups=g
         plan job=web create=3 place=a1@n1:g
         volume register v plugin=p offers=single-node-writer
         volume claim v alloc=a1 mode=read
         node register n1 plugins=p:healthy
         volume claim v alloc=a1 mode=read access=single-node-writer
         node register n1 plugins=p:healthy controllers=p:healthy
         node register n1 plugins=p:healthy controllers=p
         show volume v
         volume claim v alloc=a1 mode=write",
        expect![[r#"
            node register n1: ok [+node:n1]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=3 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            volume register v plugin=p offers=single-node-writer: ok [+volume:v]
            volume claim v alloc=a1 mode=read: refused: volume is currently unschedulable
            node register n1 plugins=p:healthy: ok [~node:n1 +plugin:p]
            volume claim v alloc=a1 mode=read access=single-node-writer: ok [~volume:v]
            node register n1 plugins=p:healthy controllers=p:healthy: ok [~node:n1 ~plugin:p]
            node register n1 plugins=p:healthy controllers=p: ok [~node:n1 ~plugin:p]
               volume v: create=5 modify=8 access=single-node-writer offers=single-node-writer read(a1@) healthy=1/0
            volume claim v alloc=a1 mode=write: refused: volume is currently unschedulable
        "#]],
    );
}

#[test]
fn a_volume_without_a_writers_mode_takes_no_writer() {
    check(
        "node register n1 plugins=p:healthy
         job register web groups=g
         plan job=web create=3 place=a1@n1:g
         volume register v plugin=p offers=multi-node-reader-only
         volume claim v alloc=a1 mode=write access=single-node-writer",
        expect![[r#"
            node register n1 plugins=p:healthy: ok [+node:n1 +plugin:p]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=3 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            volume register v plugin=p offers=multi-node-reader-only: ok [+volume:v]
            volume claim v alloc=a1 mode=write access=single-node-writer: refused: volume is currently unschedulable
        "#]],
    );
}

#[test]
fn alloc_that_switches_between_read_and_write_holds_one_claim() {
    check(
        "node register n1 plugins=p:healthy
         job register web groups=g
         plan job=web create=3 place=a1@n1:g
         volume register v plugin=p offers=multi-node-multi-writer
         volume claim v alloc=a1 mode=read access=multi-node-multi-writer
         volume claim v alloc=a1 mode=write access=multi-node-multi-writer
         show volume v
         volume claim v alloc=a1 mode=read access=multi-node-multi-writer
         show volume v",
        expect![[r#"
            node register n1 plugins=p:healthy: ok [+node:n1 +plugin:p]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=3 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            volume register v plugin=p offers=multi-node-multi-writer: ok [+volume:v]
            volume claim v alloc=a1 mode=read access=multi-node-multi-writer: ok [~volume:v]
            volume claim v alloc=a1 mode=write access=multi-node-multi-writer: ok [~volume:v]
               volume v: create=5 modify=7 provider=org.x access=multi-node-multi-writer offers=multi-node-multi-writer write(a1@) healthy=1/0 schedulable
            volume claim v alloc=a1 mode=read access=multi-node-multi-writer: ok [~volume:v]
               volume v: create=5 modify=8 provider=org.x access=multi-node-multi-writer offers=multi-node-multi-writer read(a1@) healthy=1/0 schedulable
        "#]],
    );
}

#[test]
fn claims_of_deleted_or_terminal_allocs_are_shown_as_past() {
    check(
        "node register n1 plugins=p:healthy
         job register web groups=g
         plan job=web create=3 place=a1@n1:g,a2@n1:g,a3@n1:g
         volume register v plugin=p offers=multi-node-multi-writer
         volume claim v alloc=a1 node=n1 external=i-1 mode=read access=multi-node-multi-writer attach=file-system
         volume claim v alloc=a2 node=n1 mode=write access=multi-node-multi-writer
         volume claim v alloc=a3 node=n1 mode=write access=multi-node-multi-writer
         eval reap allocs=a1
         client a2@n1 complete
         show volume v
         volume claim v alloc=
         show volume v",
        expect![[r#"
            node register n1 plugins=p:healthy: ok [+node:n1 +plugin:p]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=3 place=a1@n1:g,a2@n1:g,a3@n1:g: ok [+alloc:a1 +alloc:a2 ~summary:web +alloc:a3 ~job:web]
            volume register v plugin=p offers=multi-node-multi-writer: ok [+volume:v]
            volume claim v alloc=a1 node=n1 external=i-1 mode=read access=multi-node-multi-writer attach=file-system: ok [~volume:v]
            volume claim v alloc=a2 node=n1 mode=write access=multi-node-multi-writer: ok [~volume:v]
            volume claim v alloc=a3 node=n1 mode=write access=multi-node-multi-writer: ok [~volume:v]
            eval reap allocs=a1: ok [-alloc:a1]
            client a2@n1 complete: ok [~summary:web ~alloc:a2 ~node:n1]
               volume v: create=5 modify=8 provider=org.x access=multi-node-multi-writer attach=file-system offers=multi-node-multi-writer read(a1@n1) write(a2@n1, a3@n1) healthy=1/0 schedulable; seen: past(a1@n1 Unpublishing Read multi-node-multi-writer file-system on i-1, a2@n1 Unpublishing Write multi-node-multi-writer file-system)
            volume claim v alloc=: ok [~volume:v]
               volume v: create=5 modify=11 provider=org.x access=multi-node-multi-writer attach=file-system offers=multi-node-multi-writer read(a1@n1) write(a2@n1, a3@n1) past(a1@n1 Unpublishing Read multi-node-multi-writer file-system on i-1, a2@n1 Unpublishing Write multi-node-multi-writer file-system) healthy=1/0 schedulable
        "#]],
    );
}

#[test]
fn a_batch_of_claims_is_one_entry_and_all_or_nothing() {
    check(
        "node register n1 plugins=p:healthy
         job register web groups=g
         plan job=web create=3 place=a1@n1:g,a2@n1:g
         volume register v plugin=p offers=multi-node-reader-only
         volume claims v allocs=a1,a2 mode=read access=multi-node-reader-only
         show volume v
         volume claims v allocs=a1,b1 state=ready-to-free
         volume claims v allocs=a1,b1 mode=read
         show volume v
         volume claims v allocs=a1 mode=read",
        expect![[r#"
            node register n1 plugins=p:healthy: ok [+node:n1 +plugin:p]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=3 place=a1@n1:g,a2@n1:g: ok [+alloc:a1 ~summary:web +alloc:a2 ~job:web]
            volume register v plugin=p offers=multi-node-reader-only: ok [+volume:v]
            volume claims v allocs=a1,a2 mode=read access=multi-node-reader-only: ok [~volume:v]
               volume v: create=5 modify=6 provider=org.x access=multi-node-reader-only offers=multi-node-reader-only read(a1@, a2@) healthy=1/0 schedulable
            volume claims v allocs=a1,b1 state=ready-to-free: ok [~volume:v]
            volume claims v allocs=a1,b1 mode=read: refused: allocation missing: 62310000-0000-0000-0000-000000000000
               volume v: create=5 modify=7 provider=org.x access=multi-node-reader-only offers=multi-node-reader-only read(a2@) healthy=1/0 schedulable
            volume claims v allocs=a1 mode=read: ok [~volume:v]
        "#]],
    );
}

#[test]
fn forced_deregister_drops_only_claims_of_terminal_allocs() {
    check(
        "node register n1 plugins=p:healthy
         job register web groups=g
         plan job=web create=3 place=a1@n1:g
         volume register v plugin=p offers=single-node-writer
         volume claim v alloc=a1 node=n1 mode=write access=single-node-writer
         volume deregister v
         volume deregister v force
         client a1@n1 failed
         volume deregister v
         volume deregister v force
         volume deregister v force
         show volume v",
        expect![[r#"
            node register n1 plugins=p:healthy: ok [+node:n1 +plugin:p]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=3 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            volume register v plugin=p offers=single-node-writer: ok [+volume:v]
            volume claim v alloc=a1 node=n1 mode=write access=single-node-writer: ok [~volume:v]
            volume deregister v: refused: volume in use: v
            volume deregister v force: refused: volume in use: v
            client a1@n1 failed: ok [~summary:web ~alloc:a1 ~job:web ~node:n1]
            volume deregister v: refused: volume in use: v
            volume deregister v force: ok [-volume:v]
            volume deregister v force: refused: volume not found: v
               volume v: none
        "#]],
    );
}

#[test]
fn volume_in_use_refuses_the_whole_deregister_request() {
    check(
        "node register n1 plugins=p:healthy
         job register web groups=g
         plan job=web create=3 place=a1@n1:g
         volume register v w plugin=p offers=single-node-writer
         volume claim v alloc=a1 node=n1 mode=write access=single-node-writer
         volume deregister w v
         show volume w
         volume deregister w",
        expect![[r#"
            node register n1 plugins=p:healthy: ok [+node:n1 +plugin:p]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=3 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            volume register v w plugin=p offers=single-node-writer: ok [+volume:v +volume:w]
            volume claim v alloc=a1 node=n1 mode=write access=single-node-writer: ok [~volume:v]
            volume deregister w v: refused: volume in use: v
               volume w: create=5 modify=5 provider=org.x offers=single-node-writer healthy=1/0 schedulable
            volume deregister w: ok [-volume:w]
        "#]],
    );
}

#[test]
fn interleaved_collection_and_detach_leave_no_claim_behind() {
    check(
        "node register n1 plugins=p:healthy
         job register web groups=g
         plan job=web create=3 place=a1@n1:g
         volume register v plugin=p offers=single-node-writer
         volume claim v alloc=a1 node=n1 mode=write access=single-node-writer
         client a1@n1 complete
         volume claim v mode=gc
         volume claim v alloc=a1 node=n1 mode=write state=node-detached
         volume claim v mode=gc
         volume claim v alloc=a1 node=n1 mode=write state=ready-to-free
         volume claim v mode=gc
         volume claim v alloc=a1 node=n1 mode=write state=ready-to-free
         show volume v",
        expect![[r#"
            node register n1 plugins=p:healthy: ok [+node:n1 +plugin:p]
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=web create=3 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            volume register v plugin=p offers=single-node-writer: ok [+volume:v]
            volume claim v alloc=a1 node=n1 mode=write access=single-node-writer: ok [~volume:v]
            client a1@n1 complete: ok [~summary:web ~alloc:a1 ~job:web ~node:n1]
            volume claim v mode=gc: ok [~volume:v]
            volume claim v alloc=a1 node=n1 mode=write state=node-detached: ok [~volume:v]
            volume claim v mode=gc: ok [~volume:v]
            volume claim v alloc=a1 node=n1 mode=write state=ready-to-free: ok [~volume:v]
            volume claim v mode=gc: ok [~volume:v]
            volume claim v alloc=a1 node=n1 mode=write state=ready-to-free: ok [~volume:v]
               volume v: create=5 modify=13 provider=org.x offers=single-node-writer healthy=1/0 schedulable
        "#]],
    );
}
