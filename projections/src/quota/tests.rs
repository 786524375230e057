//! Stories of quotas.

use expect_test::expect;

use crate::story::check;

#[test]
fn live_allocs_of_the_namespaces_are_used_until_they_end() {
    check(
        "quota upsert gold cpu=1000
         namespace upsert dev quota=gold
         namespace upsert prod quota=gold
         job register dev/web groups=g
         job register prod/web groups=g
         plan job=dev/web create=4 groups=g place=a1@n1:g,a2@n1:g cpu=200 memory=64 memory-max=128 cores=1 gpus=2
         plan job=prod/web create=4 groups=g place=a3@n1:g cpu=300 memory=10
         show usage gold
         client a1@n1 running
         show usage gold
         client a1@n1 failed
         show usage gold
         plan job=prod/web stop=a3
         show usage gold
         root active k1
         var set dev:a size=5
         show usage gold",
        expect![[r#"
            quota upsert gold cpu=1000: ok [+spec:gold +usage:gold]
            namespace upsert dev quota=gold: ok [+namespace:dev]
            namespace upsert prod quota=gold: ok [+namespace:prod]
            job register dev/web groups=g: ok [+summary:web +job:web +version:web.0]
            job register prod/web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=dev/web create=4 groups=g place=a1@n1:g,a2@n1:g cpu=200 memory=64 memory-max=128 cores=1 gpus=2: ok [+alloc:a1 +alloc:a2 ~job:web ~usage:gold]
            plan job=prod/web create=4 groups=g place=a3@n1:g cpu=300 memory=10: ok [+alloc:a3 ~job:web ~usage:gold]
               usage gold: [allocs=3 cpu=700 cores=2 memory=138 memory-max=266 nvidia/gpu/t4=4] create=2 modify=8
            client a1@n1 running: ok [~alloc:a1]
               usage gold: [allocs=3 cpu=700 cores=2 memory=138 memory-max=266 nvidia/gpu/t4=4] create=2 modify=8
            client a1@n1 failed: ok [~alloc:a1 ~usage:gold]
               usage gold: [allocs=2 cpu=500 cores=1 memory=74 memory-max=138 nvidia/gpu/t4=2] create=2 modify=10
            plan job=prod/web stop=a3: ok [~alloc:a3 ~job:web ~usage:gold]
               usage gold: [allocs=1 cpu=200 cores=1 memory=64 memory-max=128 nvidia/gpu/t4=2] create=2 modify=11
            root active k1: ok [+root:k1]
            var set dev:a size=5: written create=13 modify=13 [+quota:dev=5 +var:a ~usage:gold]
               usage gold: [allocs=1 cpu=200 cores=1 memory=64 memory-max=128 bytes=5 nvidia/gpu/t4=2] create=2 modify=13
        "#]],
    );
}

#[test]
fn namespace_brings_its_use_into_a_quota_and_takes_it_away() {
    check(
        "namespace upsert dev
         job register dev/web groups=g
         plan job=dev/web create=4 groups=g place=a1@n1:g cpu=200
         quota upsert gold cpu=100
         namespace upsert dev quota=gold
         show usage gold
         namespace upsert dev
         show usage gold",
        expect![[r#"
            namespace upsert dev: ok [+namespace:dev]
            job register dev/web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=dev/web create=4 groups=g place=a1@n1:g cpu=200: ok [+alloc:a1 ~job:web]
            quota upsert gold cpu=100: ok [+spec:gold +usage:gold]
            namespace upsert dev quota=gold: ok [~namespace:dev ~usage:gold]
               usage gold: [allocs=1 cpu=200] create=5 modify=6
            namespace upsert dev: ok [~namespace:dev ~usage:gold]
               usage gold: [] create=5 modify=7
        "#]],
    );
}

#[test]
fn quota_in_use_is_not_deleted() {
    check(
        "quota upsert gold cpu=100
         quota upsert gold cpu=200
         namespace upsert dev quota=gold
         quota delete gold
         namespace upsert dev
         quota delete gold
         quota delete gold
         show usage gold
         show tables",
        expect![[r#"
            quota upsert gold cpu=100: ok [+spec:gold +usage:gold]
            quota upsert gold cpu=200: ok [~spec:gold]
            namespace upsert dev quota=gold: ok [+namespace:dev]
            quota delete gold: refused: quota "gold" is used by namespace "dev": take it from the namespace first
            namespace upsert dev: ok [~namespace:dev]
            quota delete gold: ok [-spec:gold -usage:gold]
            quota delete gold: refused: quota "gold" not found
               usage gold: none
               changed: namespaces=6 quota_specs=7 quota_usages=7
        "#]],
    );
}

#[test]
fn plan_that_would_exceed_a_limit_is_refused_whole() {
    check(
        "quota upsert gold cpu=500 memory=100 allocs=3
         namespace upsert dev quota=gold
         job register dev/web groups=g
         plan job=dev/web create=4 groups=g place=a1@n1:g,a2@n1:g cpu=200 memory=50
         plan job=dev/web create=4 groups=g place=a3@n1:g cpu=200 memory=50
         plan job=dev/web create=4 groups=g place=a3@n1:g cpu=100
         plan job=dev/web create=4 groups=g place=a4@n1:g cpu=0
         plan job=dev/web create=4 groups=g place=a4@n1:g stop=a3 cpu=100
         show usage gold",
        expect![[r#"
            quota upsert gold cpu=500 memory=100 allocs=3: ok [+spec:gold +usage:gold]
            namespace upsert dev quota=gold: ok [+namespace:dev]
            job register dev/web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=dev/web create=4 groups=g place=a1@n1:g,a2@n1:g cpu=200 memory=50: ok [+alloc:a1 ~summary:web +alloc:a2 ~job:web ~usage:gold]
            plan job=dev/web create=4 groups=g place=a3@n1:g cpu=200 memory=50: refused: quota "gold" exceeded: cpu exhausted (600 needed > 500 limit), memory exhausted (150 needed > 100 limit)
            plan job=dev/web create=4 groups=g place=a3@n1:g cpu=100: ok [~summary:web +alloc:a3 ~usage:gold]
            plan job=dev/web create=4 groups=g place=a4@n1:g cpu=0: refused: quota "gold" exceeded: allocations exhausted (4 needed > 3 limit)
            plan job=dev/web create=4 groups=g place=a4@n1:g stop=a3 cpu=100: ok [~alloc:a3 ~summary:web +alloc:a4]
               usage gold: [allocs=3 cpu=500 memory=100 memory-max=100] create=2 modify=7
        "#]],
    );
}

#[test]
fn lowered_limit_refuses_only_what_grows() {
    check(
        "quota upsert gold cpu=500
         namespace upsert dev quota=gold
         job register dev/web groups=g
         plan job=dev/web create=4 groups=g place=a1@n1:g,a2@n1:g cpu=200
         quota upsert gold cpu=100
         client a1@n1 running
         plan job=dev/web create=4 groups=g place=a3@n1:g stop=a1 cpu=200
         plan job=dev/web create=4 groups=g place=a4@n1:g cpu=1
         plan job=dev/web stop=a2
         show usage gold",
        expect![[r#"
            quota upsert gold cpu=500: ok [+spec:gold +usage:gold]
            namespace upsert dev quota=gold: ok [+namespace:dev]
            job register dev/web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=dev/web create=4 groups=g place=a1@n1:g,a2@n1:g cpu=200: ok [+alloc:a1 ~summary:web +alloc:a2 ~job:web ~usage:gold]
            quota upsert gold cpu=100: ok [~spec:gold]
            client a1@n1 running: ok [~summary:web ~alloc:a1]
            plan job=dev/web create=4 groups=g place=a3@n1:g stop=a1 cpu=200: ok [~alloc:a1 ~summary:web +alloc:a3]
            plan job=dev/web create=4 groups=g place=a4@n1:g cpu=1: refused: quota "gold" exceeded: cpu exhausted (401 needed > 100 limit)
            plan job=dev/web stop=a2: ok [~alloc:a2 ~usage:gold]
               usage gold: [allocs=1 cpu=200] create=2 modify=10
        "#]],
    );
}

#[test]
fn device_limit_counts_devices_by_type_vendor_and_name() {
    check(
        "quota upsert gold devices=gpu:3,nvidia/gpu/h100:0,amd/gpu:0
         namespace upsert dev quota=gold
         job register dev/web groups=g
         plan job=dev/web create=4 groups=g place=a1@n1:g gpus=2
         plan job=dev/web create=4 groups=g place=a2@n1:g gpus=2
         quota upsert gold devices=nvidia/gpu:4,nvidia/gpu/t4:3
         plan job=dev/web create=4 groups=g place=a2@n1:g gpus=2
         plan job=dev/web create=4 groups=g place=a2@n1:g gpus=1
         show usage gold",
        expect![[r#"
            quota upsert gold devices=gpu:3,nvidia/gpu/h100:0,amd/gpu:0: ok [+spec:gold +usage:gold]
            namespace upsert dev quota=gold: ok [+namespace:dev]
            job register dev/web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=dev/web create=4 groups=g place=a1@n1:g gpus=2: ok [~summary:web +alloc:a1 ~job:web ~usage:gold]
            plan job=dev/web create=4 groups=g place=a2@n1:g gpus=2: refused: quota "gold" exceeded: device gpu exhausted (4 needed > 3 limit)
            quota upsert gold devices=nvidia/gpu:4,nvidia/gpu/t4:3: ok [~spec:gold]
            plan job=dev/web create=4 groups=g place=a2@n1:g gpus=2: refused: quota "gold" exceeded: device nvidia/gpu/t4 exhausted (4 needed > 3 limit)
            plan job=dev/web create=4 groups=g place=a2@n1:g gpus=1: ok [~summary:web +alloc:a2 ~usage:gold]
               usage gold: [allocs=2 nvidia/gpu/t4=3] create=2 modify=9
        "#]],
    );
}

#[test]
fn zero_is_no_limit_and_a_negative_limit_allows_nothing() {
    check(
        "quota upsert gold cpu=0 cores=-1
         namespace upsert dev quota=gold
         job register dev/web groups=g
         plan job=dev/web create=4 groups=g place=a1@n1:g cpu=9999
         plan job=dev/web create=4 groups=g place=a2@n1:g cores=1",
        expect![[r#"
            quota upsert gold cpu=0 cores=-1: ok [+spec:gold +usage:gold]
            namespace upsert dev quota=gold: ok [+namespace:dev]
            job register dev/web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=dev/web create=4 groups=g place=a1@n1:g cpu=9999: ok [~summary:web +alloc:a1 ~job:web ~usage:gold]
            plan job=dev/web create=4 groups=g place=a2@n1:g cores=1: refused: quota "gold" exceeded: cores exhausted (1 needed > 0 limit)
        "#]],
    );
}

#[test]
fn limit_of_another_region_does_not_hold() {
    check(
        "quota upsert gold cpu=100 region=eu
         namespace upsert dev quota=gold
         job register dev/web groups=g
         plan job=dev/web create=4 groups=g place=a1@n1:g cpu=200
         show usage gold",
        expect![[r#"
            quota upsert gold cpu=100 region=eu: ok [+spec:gold +usage:gold]
            namespace upsert dev quota=gold: ok [+namespace:dev]
            job register dev/web groups=g: ok [+summary:web +job:web +version:web.0]
            plan job=dev/web create=4 groups=g place=a1@n1:g cpu=200: ok [~summary:web +alloc:a1 ~job:web ~usage:gold]
               usage gold: [allocs=1 cpu=200] create=2 modify=5
        "#]],
    );
}

#[test]
fn variable_above_the_limit_is_refused_and_smaller_ones_are_written() {
    check(
        "root active k1
         quota upsert gold variables=1
         namespace upsert dev quota=gold
         var set dev:a size=1048576
         var set dev:b size=1
         var set dev:a size=1048577
         var set dev:a size=10
         var set dev:b size=1
         quota upsert gold variables=-1
         var set dev:b size=2
         var set dev:b size=1 time=9
         var delete dev:a
         show usage gold",
        expect![[r#"
            root active k1: ok [+root:k1]
            quota upsert gold variables=1: ok [+spec:gold +usage:gold]
            namespace upsert dev quota=gold: ok [+namespace:dev]
            var set dev:a size=1048576: written create=5 modify=5 [+quota:dev=1048576 +var:a ~usage:gold]
            var set dev:b size=1: refused: quota "gold" exceeded: variables bytes exhausted (1048577 needed > 1048576 limit)
            var set dev:a size=1048577: refused: quota "gold" exceeded: variables bytes exhausted (1048577 needed > 1048576 limit)
            var set dev:a size=10: written create=5 modify=8 [~quota:dev=10 ~var:a ~usage:gold]
            var set dev:b size=1: written create=9 modify=9 [~quota:dev=11 +var:b ~usage:gold]
            quota upsert gold variables=-1: ok [~spec:gold]
            var set dev:b size=2: refused: quota "gold" exceeded: variables bytes exhausted (12 needed > 0 limit)
            var set dev:b size=1 time=9: written create=9 modify=12 [~var:b]
            var delete dev:a: ok [~quota:dev=1 -var:a ~usage:gold]
               usage gold: [bytes=1] create=3 modify=13
        "#]],
    );
}
