//! Stories of ACL objects: refusals, skipped objects, and reads of objects whose links have changed.

use expect_test::expect;

use crate::story::check;

#[test]
fn a_policy_keeps_its_create_index_and_may_be_deleted_twice() {
    check(
        "acl policy readers rules=r1
         acl policy readers rules=r2
         show policy readers
         acl policy writers bare
         acl policy-delete readers nobody
         acl policy-delete readers
         show policy readers
         show tables",
        expect![[r#"
            acl policy readers rules=r1: ok [+policy:readers]
            acl policy readers rules=r2: ok [~policy:readers]
               policy readers: rules=r2 create=2 modify=3
            acl policy writers bare: refused: ACL policy without hash
            acl policy-delete readers nobody: ok [-policy:readers]
            acl policy-delete readers: ok
               policy readers: none
               changed: acl_policy=5
        "#]],
    );
}

#[test]
fn defect_2_workload_gets_policies_only_of_its_exact_job_id() {
    check(
        "acl policy tokens-only rules=r
         acl policy job ns=default job=web
         acl policy other-job ns=default job=web-admin
         acl policy group ns=default job=web group=g
         acl policy task ns=default job=web group=g task=t
         acl policy everywhere ns=default
         acl policy elsewhere ns=dev job=web
         show workload web:g:t
         show workload web:g:u
         show workload web:h:t
         show workload web-admin:g:t
         show workload we:g:t
         show workload dev/web:g:t
         acl policy job rules=moved ns=default job=we
         show workload web:h:t
         show workload we:g:t",
        expect![[r#"
            acl policy tokens-only rules=r: ok [+policy:tokens-only]
            acl policy job ns=default job=web: ok [+policy:job]
            acl policy other-job ns=default job=web-admin: ok [+policy:other-job]
            acl policy group ns=default job=web group=g: ok [+policy:group]
            acl policy task ns=default job=web group=g task=t: ok [+policy:task]
            acl policy everywhere ns=default: ok [+policy:everywhere]
            acl policy elsewhere ns=dev job=web: ok [+policy:elsewhere]
               workload web:g:t: everywhere group job task
               workload web:g:u: everywhere group job
               workload web:h:t: everywhere job
               workload web-admin:g:t: everywhere other-job
               workload we:g:t: everywhere
               workload dev/web:g:t: elsewhere
            acl policy job rules=moved ns=default job=we: ok [~policy:job]
               workload web:h:t: everywhere
               workload we:g:t: everywhere job
        "#]],
    );
}

#[test]
fn token_update_keeps_secret_create_time_and_expiration() {
    check(
        "acl token t1 policies=p secret=s1 expires=500 created=10
         acl token t1 policies=q secret=s2 created=99 name=new global
         show token t1
         show secret s1
         show secret s2
         show secret s-none
         acl token-delete t1 t2
         show secret s1
         acl token-delete t1",
        expect![[r#"
            acl token t1 policies=p secret=s1 expires=500 created=10: ok [+token:t1]
            acl token t1 policies=q secret=s2 created=99 name=new global: ok [~token:t1]
               token t1: "new" client roles=[] global=false expires=500s created=10s create=2 modify=3
               secret s1: t1
               secret s2: none
               secret s-none: none
            acl token-delete t1 t2: ok [-token:t1]
               secret s1: none
            acl token-delete t1: ok
        "#]],
    );
}

#[test]
fn two_tokens_never_have_one_secret() {
    check(
        "acl token t1 policies=p secret=s1
         acl token t2 policies=p secret=s1
         acl token t2 t3 policies=p secret=s2
         show tokens all
         acl token-delete t1
         acl token t2 policies=p secret=s1
         show secret s1",
        expect![[r#"
            acl token t1 policies=p secret=s1: ok [+token:t1]
            acl token t2 policies=p secret=s1: refused: secret ID of ACL token is taken
            acl token t2 t3 policies=p secret=s2: refused: secret ID of ACL token is taken
               tokens all: t1
            acl token-delete t1: ok [-token:t1]
            acl token t2 policies=p secret=s1: ok [+token:t2]
               secret s1: t2
        "#]],
    );
}

#[test]
fn token_without_hash_secret_create_time_or_role_id_is_refused() {
    check(
        "acl token t1 bare policies=p
         acl token t1 policies=p secret= created=10
         acl token t1 policies=p created=0
         acl token t1 roles=",
        expect![[r#"
            acl token t1 bare policies=p: refused: ACL token without hash
            acl token t1 policies=p secret= created=10: refused: ACL token without secret ID
            acl token t1 policies=p created=0: refused: ACL token without create time
            acl token t1 roles=: refused: ACL token without role ID
        "#]],
    );
}

#[test]
fn token_role_links_are_stored_by_id_and_read_with_current_names() {
    check(
        "acl policy p rules=r
         acl policy q rules=r
         acl role r1:admins policies=p
         acl role r2:readers policies=q
         acl token t1 policies=q,gone roles=r1,r2,r1
         show stored t1
         show token t1
         show policies-of t1
         acl role r1:owners policies=p
         show token t1
         acl role-delete r1
         show token t1
         show policies-of t1
         acl policy-delete q
         show policies-of t1
         acl role-delete r2
         show token t1
         show stored t1",
        expect![[r#"
            acl policy p rules=r: ok [+policy:p]
            acl policy q rules=r: ok [+policy:q]
            acl role r1:admins policies=p: ok [+role:r1]
            acl role r2:readers policies=q: ok [+role:r2]
            acl token t1 policies=q,gone roles=r1,r2,r1: ok [+token:t1]
               token t1: "" client roles=["r1=", "r2="] global=false expires=never created=10s create=6 modify=6
               token t1: "" client roles=["r1=admins", "r2=readers"] global=false expires=never created=10s create=6 modify=6
               policies-of t1: p q
            acl role r1:owners policies=p: ok [~role:r1]
               token t1: "" client roles=["r1=owners", "r2=readers"] global=false expires=never created=10s create=6 modify=6
            acl role-delete r1: ok [-role:r1]
               token t1: "" client roles=["r2=readers"] global=false expires=never created=10s create=6 modify=6
               policies-of t1: q
            acl policy-delete q: ok [-policy:q]
               policies-of t1: none
            acl role-delete r2: ok [-role:r2]
               token t1: "" client roles=[] global=false expires=never created=10s create=6 modify=6
               token t1: "" client roles=["r1=", "r2="] global=false expires=never created=10s create=6 modify=6
        "#]],
    );
}

#[test]
fn expired_tokens_are_found_oldest_first_local_and_global_apart() {
    check(
        "acl token t1 policies=p expires=50
         acl token t2 policies=p expires=40
         acl token t3 policies=p expires=45 global
         acl token t4 policies=p
         acl token t5 policies=p expires=30
         show expired local:50:99
         show expired local:51:99
         show expired local:51:3
         show expired global:99:99
         acl token-delete t2
         show expired local:99:99",
        expect![[r#"
            acl token t1 policies=p expires=50: ok [+token:t1]
            acl token t2 policies=p expires=40: ok [+token:t2]
            acl token t3 policies=p expires=45 global: ok [+token:t3]
            acl token t4 policies=p: ok [+token:t4]
            acl token t5 policies=p expires=30: ok [+token:t5]
               expired local:50:99: t5 t2
               expired local:51:99: t5 t2 t1
               expired local:51:3: t2 t1
               expired global:99:99: t3
            acl token-delete t2: ok [-token:t2]
               expired local:99:99: t5 t1
        "#]],
    );
}

#[test]
fn a_pass_takes_a_bounded_number_of_expired_tokens() {
    let tokens = |from: usize| (from..from + 2100).map(|n| format!(" t{n}")).collect::<String>();
    let story =
        format!("acl token{} policies=p expires=50\nacl token{} policies=p expires=50", tokens(1000), tokens(4000));
    let state = crate::story::state_after(&story);
    let expired = state.expired_acl_tokens(false, songline_model::Time::from_secs(51), u64::MAX).count();
    assert_eq!((state.acl_tokens().count(), expired), (4200, crate::EXPIRED_TOKENS_MAX));
}

#[test]
fn acl_bootstrap_is_done_once_and_reset_only_with_its_index() {
    check(
        "show bootstrap
         acl bootstrap t1 management
         show bootstrap
         acl bootstrap t2 management
         acl bootstrap t2 management reset=7
         acl bootstrap t2 management reset=2
         show bootstrap
         acl bootstrap t3 management reset=2
         acl bootstrap t3 management reset=5 secret=s-t1
         show tokens all
         show tables",
        expect![[r#"
               bootstrap: None
            acl bootstrap t1 management: ok [+token:t1 +bootstrap:2]
               bootstrap: Some(2)
            acl bootstrap t2 management: refused: ACL bootstrap already done
            acl bootstrap t2 management reset=7: refused: Invalid reset index for ACL bootstrap
            acl bootstrap t2 management reset=2: ok [+token:t2 ~bootstrap:5]
               bootstrap: Some(5)
            acl bootstrap t3 management reset=2: refused: Invalid reset index for ACL bootstrap
            acl bootstrap t3 management reset=5 secret=s-t1: refused: secret ID of ACL token is taken
               tokens all: t1 t2
               changed: acl_token=5 acl_token_bootstrap=5
        "#]],
    );
}

#[test]
fn token_has_one_one_time_token_which_is_exchanged_once() {
    check(
        "acl once t1 secret=o1
         acl once t1 expires=600
         acl once t1 secret=o1 expires=600
         acl once t1 secret=o2 expires=700
         show once o1
         show once o2
         acl once-delete t1 exchanged=4
         acl once-delete t1 exchanged=5
         acl once-delete t1 exchanged=5
         acl once-delete t1",
        expect![[r#"
            acl once t1 secret=o1: refused: one-time token must have an ExpiresAt time
            acl once t1 expires=600: refused: ACL one-time token without secret ID
            acl once t1 secret=o1 expires=600: ok [+once:t1]
            acl once t1 secret=o2 expires=700: ok [~once:t1]
               once o1: none
               once o2: t1 create=4 modify=5
            acl once-delete t1 exchanged=4: refused: one-time token was exchanged or replaced
            acl once-delete t1 exchanged=5: ok [-once:t1]
            acl once-delete t1 exchanged=5: refused: one-time token was exchanged or replaced
            acl once-delete t1: ok
        "#]],
    );
}

#[test]
fn one_time_tokens_expire_by_the_time_in_the_entry() {
    check(
        "acl once t1 secret=o1 expires=600
         acl once t2 secret=o2 expires=601
         acl once-expire by=599
         acl once-expire by=600
         show once o1
         show once o2",
        expect![[r#"
            acl once t1 secret=o1 expires=600: ok [+once:t1]
            acl once t2 secret=o2 expires=601: ok [+once:t2]
            acl once-expire by=599: ok
            acl once-expire by=600: ok [-once:t1]
               once o1: none
               once o2: t2 create=3 modify=3
        "#]],
    );
}

#[test]
fn a_role_needs_its_policies_and_a_name_of_its_own() {
    check(
        "acl role r1:admins policies=p
         acl role r1:admins policies=p allow-missing
         acl policy p rules=r
         acl role r2:admins policies=p
         acl role r2:readers policies=p
         acl role r2:readers policies=p
         acl role r2:admins policies=p
         acl role r2:viewers policies=p
         show role r2
         show role-named readers
         show role-named viewers
         acl role r3:x bare policies=p
         acl policy-delete p
         acl role r2:viewers policies=p
         acl role-delete r1 r9
         acl role-delete r1
         show tables",
        expect![[r#"
            acl role r1:admins policies=p: refused: ACL policy not found
            acl role r1:admins policies=p allow-missing: ok [+role:r1]
            acl policy p rules=r: ok [+policy:p]
            acl role r2:admins policies=p: refused: ACL role with name admins already exists
            acl role r2:readers policies=p: ok [+role:r2]
            acl role r2:readers policies=p: ok
            acl role r2:admins policies=p: refused: ACL role with name admins already exists
            acl role r2:viewers policies=p: ok [~role:r2]
               role r2: viewers policies=["p"] create=6 modify=9
               role-named readers: none
               role-named viewers: r2
            acl role r3:x bare policies=p: refused: ACL role without hash
            acl policy-delete p: ok [-policy:p]
            acl role r2:viewers policies=p: refused: ACL policy not found
            acl role-delete r1 r9: refused: ACL role not found
            acl role-delete r1: ok [-role:r1]
               changed: acl_policy=11 acl_roles=14
        "#]],
    );
}

#[test]
fn role_names_can_be_swapped_within_one_entry() {
    check(
        "acl role r1:a r2:b allow-missing policies=p
         acl role r1:t r2:a r1:b allow-missing policies=p
         show role-named a
         show role-named b
         show role-named t
         acl role r1:t r2:b r1:a r3:b allow-missing policies=p
         show role-named a
         show role-named b",
        expect![[r#"
            acl role r1:a r2:b allow-missing policies=p: ok [+role:r1 +role:r2]
            acl role r1:t r2:a r1:b allow-missing policies=p: ok [~role:r2 ~role:r1]
               role-named a: r2
               role-named b: r1
               role-named t: none
            acl role r1:t r2:b r1:a r3:b allow-missing policies=p: refused: ACL role with name b already exists
               role-named a: r2
               role-named b: r1
        "#]],
    );
}

#[test]
fn only_one_auth_method_is_default_even_within_one_entry() {
    check(
        "acl method corp:default created=10
         acl method other:default created=11
         acl method corp other:default created=12
         acl method corp other:default created=13
         show method corp
         show method other
         acl method one:default two:default created=14
         acl method-delete other
         acl method one:default two:default created=15
         acl method corp:default client-secret=s3cret created=16
         acl method corp:default client-secret=n3w created=17
         show method corp
         acl method-delete corp gone
         acl method-delete gone
         show tables",
        expect![[r#"
            acl method corp:default created=10: ok [+method:corp]
            acl method other:default created=11: refused: default ACL auth method already exists: corp
            acl method corp other:default created=12: ok [~method:corp +method:other]
            acl method corp other:default created=13: ok
               method corp: default=false times=(10, 12) create=2 modify=4
               method other: default=true times=(12, 12) create=4 modify=4
            acl method one:default two:default created=14: refused: default ACL auth method already exists: other
            acl method-delete other: ok [-method:other]
            acl method one:default two:default created=15: refused: default ACL auth method already exists: one
            acl method corp:default client-secret=s3cret created=16: ok [~method:corp]
            acl method corp:default client-secret=n3w created=17: ok [~method:corp]
               method corp: default=true times=(10, 17) create=2 modify=10
            acl method-delete corp gone: refused: ACL auth method not found
            acl method-delete gone: refused: ACL auth method not found
               changed: acl_auth_methods=10
        "#]],
    );
}

#[test]
fn a_binding_rule_needs_its_auth_method_when_it_is_written() {
    check(
        "acl rule b1 method=corp
         acl rule b1 method=corp allow-missing
         acl method corp created=10
         acl rule b2 method=corp created=11
         acl rule b2 method=corp created=12
         acl rule b2 method=corp created=13 selector=all
         show rule b2
         acl method corporate created=10
         acl rule b3 method=corporate
         show rules-of corp
         acl method-delete corp
         show rules-of corp
         acl rule-delete b1 b9
         acl rule-delete b1
         show rules-of corp
         acl rule b4 method=corporate bare",
        expect![[r#"
            acl rule b1 method=corp: refused: ACL binding rule insert failed: ACL auth method not found
            acl rule b1 method=corp allow-missing: ok [+rule:b1]
            acl method corp created=10: ok [+method:corp]
            acl rule b2 method=corp created=11: ok [+rule:b2]
            acl rule b2 method=corp created=12: ok
            acl rule b2 method=corp created=13 selector=all: ok [~rule:b2]
               rule b2: method=corp times=(11, 13) create=5 modify=7
            acl method corporate created=10: ok [+method:corporate]
            acl rule b3 method=corporate: ok [+rule:b3]
               rules-of corp: b1 b2
            acl method-delete corp: ok [-method:corp]
               rules-of corp: b1 b2
            acl rule-delete b1 b9: refused: ACL binding rule not found
            acl rule-delete b1: ok [-rule:b1]
               rules-of corp: b2
            acl rule b4 method=corporate bare: refused: ACL binding rule without hash
        "#]],
    );
}
