//! Stories of service registrations.

use expect_test::expect;

use crate::story::check;

#[test]
fn unchanged_service_registration_is_not_written_again() {
    check(
        "service upsert s1 s2 tags=x,y
         show services
         service upsert s1 s2 tags=y,x,x
         service upsert s1 s2 tags=x
         service upsert s2 s3 tags=x
         show services
         show tables",
        expect![[r#"
            service upsert s1 s2 tags=x,y: ok [+service:s1 +service:s2]
               services: default/s1:80[x,y]@2-2 default/s2:80[x,y]@2-2 of n1=2 of a1=2 of db=2 of web=2
            service upsert s1 s2 tags=y,x,x: ok
            service upsert s1 s2 tags=x: ok [~service:s1 ~service:s2]
            service upsert s2 s3 tags=x: ok [+service:s3]
               services: default/s1:80[x]@2-4 default/s2:80[x]@2-4 default/s3:80[x]@5-5 of n1=3 of a1=3 of db=3 of web=3
               changed: service_registrations=5
        "#]],
    );
}

#[test]
fn service_registration_is_deleted_once() {
    check(
        "service upsert s1
         service upsert dev/s1
         service delete s1
         service delete s1
         show services",
        expect![[r#"
            service upsert s1: ok [+service:s1]
            service upsert dev/s1: ok [+service:s1]
            service delete s1: ok [-service:s1]
            service delete s1: refused: service registration not found
               services: dev/s1:80[]@3-3 of n1=1 of a1=1 of db=0 of web=0
        "#]],
    );
}

#[test]
fn service_registrations_of_a_node_are_deleted_together() {
    check(
        "service upsert s1 s2 node=n1 alloc=a1
         service upsert s3 node=n2 alloc=a2
         service upsert dev/s4 node=n1 alloc=a3
         show services
         service delete-node n1
         service delete-node n1
         show services
         show tables",
        expect![[r#"
            service upsert s1 s2 node=n1 alloc=a1: ok [+service:s1 +service:s2]
            service upsert s3 node=n2 alloc=a2: ok [+service:s3]
            service upsert dev/s4 node=n1 alloc=a3: ok [+service:s4]
               services: default/s1:80[]@2-2 default/s2:80[]@2-2 default/s3:80[]@3-3 dev/s4:80[]@4-4 of n1=3 of a1=2 of db=3 of web=3
            service delete-node n1: ok [-service:s1 -service:s2 -service:s4]
            service delete-node n1: ok
               services: default/s3:80[]@3-3 of n1=0 of a1=0 of db=1 of web=1
               changed: service_registrations=5
        "#]],
    );
}

#[test]
fn service_registration_may_move_to_another_node_and_name() {
    check(
        "service upsert s1 node=n1 alloc=a1
         service upsert s1 node=n2 alloc=a2 name=cache job=other
         show services",
        expect![[r#"
            service upsert s1 node=n1 alloc=a1: ok [+service:s1]
            service upsert s1 node=n2 alloc=a2 name=cache job=other: ok [~service:s1]
               services: default/s1:80[]@2-3 of n1=0 of a1=0 of db=0 of web=0
        "#]],
    );
}
