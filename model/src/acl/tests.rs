//! Tests of hashes that clients know, validation texts, and secrets that stay hidden.

use expect_test::{Expect, expect};

use super::*;
use crate::job::Errors;
use crate::{BindingRuleId, Blob, Dur, RoleId, Secret, Str, Time};

fn base64(blob: &Blob) -> String {
    serde_json::to_value(blob).expect("encodes").as_str().expect("a text").to_owned()
}

fn check(result: Result<(), Errors>, expected: Expect) {
    let told = result.map_or_else(|errors| errors.list().join("\n"), |()| "valid".to_owned());
    expected.assert_eq(&told);
}

fn policy() -> AclPolicy {
    AclPolicy {
        name: "p1".into(),
        description: "d".into(),
        rules: r#"namespace "default" { policy = "read" }"#.into(),
        ..AclPolicy::default()
    }
}

fn token() -> AclToken {
    AclToken {
        name: "t".into(),
        kind: AclTokenKind::Client,
        policies: Some(vec!["p1".into(), "p2".into()]),
        roles: Some(vec![AclTokenRoleLink {
            id: "99999999-8888-7777-6666-555555555555".parse().expect("an id"),
            name: "whatever it is called".into(),
        }]),
        create_time: Time::from_secs(1000),
        ..AclToken::default()
    }
}

fn role() -> AclRole {
    let policies = ["p1", "p2"].map(|name| AclRolePolicyLink { name: name.into() });
    AclRole {
        id: RoleId::from_bytes([1; 16]),
        name: "r1".into(),
        description: "d".into(),
        policies: Some(policies.into()),
        ..AclRole::default()
    }
}

fn method() -> AclAuthMethod {
    AclAuthMethod {
        name: "corp".into(),
        kind: AclAuthMethodKind::Jwt,
        token_locality: TokenLocality::Local,
        max_token_ttl: Dur::from_hours(1),
        config: Some(AclAuthMethodConfig::default()),
        ..AclAuthMethod::default()
    }
}

fn rule() -> AclBindingRule {
    AclBindingRule {
        auth_method: "corp".into(),
        bind_kind: AclBindKind::Policy,
        bind_name: "p1".into(),
        ..AclBindingRule::default()
    }
}

#[test]
fn acl_hashes_match_the_reference() {
    assert_eq!(base64(&policy().compute_hash()), "9beTnXysTFQVkfIx+aOutZsPtn12kTBTDm6mk34Ef1g=");
    assert_eq!(base64(&token().compute_hash()), "YZtewu4phbLbqHRZXEkT9lKZr5FUjHnU+BlA6Nl27VU=");
    assert_eq!(base64(&role().compute_hash()), "eHcA8XOlmpGW9BBvJDiMnFg94pprbBn2KTj3Q9QR9XI=");
}

#[test]
fn the_workloads_of_a_policy_are_part_of_its_hash() {
    let workloads = JobAcl { namespace: "default".into(), job_id: "web".into(), ..JobAcl::default() };
    assert_ne!(AclPolicy { job_acl: Some(workloads), ..policy() }.compute_hash(), policy().compute_hash());
}

#[test]
fn every_field_of_an_auth_method_is_part_of_its_hash() {
    let changes: [fn(&mut AclAuthMethodConfig); 11] = [
        |config| config.jwt_validation_pub_keys = Some(vec!["key".into()]),
        |config| config.jwks_url = "u".into(),
        |config| config.jwks_ca_cert = "u".into(),
        |config| config.oidc_client_secret = Secret::new("u"),
        |config| config.oidc_scopes = Some(vec!["key".into()]),
        |config| config.bound_issuer = Some(vec!["a".into(), "b".into()]),
        |config| config.bound_issuer = Some(vec!["ab".into()]),
        |config| config.expiration_leeway = Dur::from_secs(1),
        |config| config.clock_skew_leeway = Dur::from_secs(1),
        |config| config.claim_mappings = Some([("a".into(), "b".into())].into()),
        |config| config.list_claim_mappings = Some([("a".into(), "b".into())].into()),
    ];
    let mut hashes = std::collections::BTreeSet::from([method().compute_hash()]);
    for change in changes {
        let mut config = AclAuthMethodConfig::default();
        change(&mut config);
        assert!(
            hashes.insert(AclAuthMethod { config: Some(config), ..method() }.compute_hash()),
            "two contents, one hash"
        );
    }
}

#[test]
fn a_binding_rule_keeps_its_hash_while_only_its_times_change() {
    let later = AclBindingRule { modify_time: Time::from_secs(9), create_index: 4, ..rule() };
    assert_eq!(later.compute_hash(), rule().compute_hash());
    assert_ne!(
        AclBindingRule { id: BindingRuleId::from_bytes([1; 16]), ..rule() }.compute_hash(),
        rule().compute_hash()
    );
}

#[test]
fn acl_names_have_only_letters_digits_and_dashes() {
    let long = "x".repeat(128);
    for name in ["a", "web-1", "-", long.as_str()] {
        assert!(is_acl_name(name), "{name}");
    }
    let too_long = "x".repeat(129);
    for name in ["", "a_b", "a b", "a.b", "ä", too_long.as_str()] {
        assert!(!is_acl_name(name), "{name}");
    }
}

#[test]
fn policy_validation_reports_every_error() {
    check(policy().validate(Ok(())), expect!["valid"]);
    let workloads = JobAcl { job_id: "web".into(), task: "t".into(), ..JobAcl::default() };
    let bad =
        AclPolicy { name: "a b".into(), description: "d".repeat(257).into(), job_acl: Some(workloads), ..policy() };
    check(
        bad.validate(Err("Invalid policy: x".into())),
        expect![[r#"
            invalid name 'a b'
            failed to parse rules: Invalid policy: x
            description longer than 256
            namespace must be set to set job ID
            group must be set to set task"#]],
    );
    let groups = JobAcl { namespace: "default".into(), group: "g".into(), ..JobAcl::default() };
    check(AclPolicy { job_acl: Some(groups), ..policy() }.validate(Ok(())), expect!["job ID must be set to set group"]);
}

#[test]
fn policy_covers_only_the_job_with_exactly_its_job_id() {
    let of = |job: &str, group: &str, task: &str| JobAcl {
        namespace: "default".into(),
        job_id: job.into(),
        group: group.into(),
        task: task.into(),
    };
    assert!(of("web", "", "").covers("default", "web", "g", "t"));
    assert!(!of("web-admin", "", "").covers("default", "web", "g", "t"));
    assert!(!of("web", "", "").covers("default", "web-admin", "g", "t"));
    assert!(!of("web", "", "").covers("other", "web", "g", "t"));
    assert!(
        of("web", "g", "").covers("default", "web", "g", "t") && !of("web", "h", "").covers("default", "web", "g", "t")
    );
    assert!(
        of("web", "g", "t").covers("default", "web", "g", "t")
            && !of("web", "g", "u").covers("default", "web", "g", "t")
    );
    assert!(of("", "", "").covers("default", "web", "g", "t"), "a namespace means all its workloads");
    assert!(!JobAcl::default().covers("", "web", "g", "t"));
}

#[test]
fn token_validation_reports_every_error() {
    let bounds = TtlBounds::default();
    check(token().validate(None, bounds), expect!["valid"]);
    check(
        AclToken { policies: None, roles: None, ..token() }.validate(None, bounds),
        expect!["client token missing policies or roles"],
    );
    let management = AclToken { kind: AclTokenKind::Management, ..token() };
    check(management.validate(None, bounds), expect!["management token cannot be associated with policies or roles"]);
    let bad = AclToken {
        name: "n".repeat(257).into(),
        kind: "root".into(),
        expiration_ttl: Dur::from_secs(-1),
        expiration_time: Some(Time::from_secs(900)),
        ..token()
    };
    check(
        bad.validate(None, bounds),
        expect![[r#"
            token name too long
            token type must be client or management
            token expiration TTL '-1s' should not be negative
            expiration time cannot be before create time
            expiration time cannot be less than 1m0s in the future (was -1m40s)"#]],
    );
    let far = AclToken { expiration_time: Some(Time::from_secs(1000 + 25 * 3600)), ..token() };
    check(
        far.validate(None, bounds),
        expect!["expiration time cannot be more than 24h0m0s in the future (was 25h0m0s)"],
    );
}

#[test]
fn token_update_cannot_change_its_expiration() {
    let stored =
        AclToken { expiration_time: Some(Time::from_secs(4600)), expiration_ttl: Dur::from_hours(1), ..token() };
    let bounds = TtlBounds::default();
    check(AclToken { expiration_time: None, ..stored.clone() }.validate(Some(&stored), bounds), expect!["valid"]);
    let bad = AclToken {
        expiration_time: Some(Time::from_secs(1)),
        expiration_ttl: Dur::ZERO,
        global: true,
        ..stored.clone()
    };
    check(
        bad.validate(Some(&stored), bounds),
        expect![[r#"
            cannot toggle global mode
            cannot update expiration TTL
            cannot update expiration time"#]],
    );
    check(
        AclToken { expiration_time: Some(Time::from_secs(1)), ..token() }.validate(Some(&token()), bounds),
        expect!["cannot update expiration time"],
    );
}

#[test]
fn a_token_is_expired_only_after_its_time() {
    let ends = AclToken { expiration_time: Some(Time::from_secs(50)), ..token() };
    assert!(!ends.is_expired(Time::from_secs(50)) && ends.is_expired(Time::from_nanos(50_000_000_001)));
    assert!(!token().is_expired(Time::from_secs(i64::MAX)));
}

#[test]
fn role_validation_reports_every_error() {
    check(role().validate(), expect!["valid"]);
    let bad =
        AclRole { name: Str::default(), description: "d".repeat(257).into(), policies: Some(Vec::new()), ..role() };
    check(
        bad.validate(),
        expect![[r#"
            invalid name ''
            description longer than 256
            at least one policy should be specified"#]],
    );
}

#[test]
fn auth_method_validation_reports_every_error() {
    let bounds = TtlBounds::default();
    check(method().validate(bounds), expect!["valid"]);
    let bad = AclAuthMethod {
        name: "a b".into(),
        kind: "LDAP".into(),
        token_locality: "mars".into(),
        max_token_ttl: Dur::ZERO,
        ..method()
    };
    check(
        bad.validate(bounds),
        expect![[r#"
            invalid name 'a b'
            invalid token locality 'mars'
            invalid token type 'LDAP'
            invalid MaxTokenTTL value '0s' (should be between 1m0s and 24h0m0s)"#]],
    );
}

#[test]
fn auth_method_update_keeps_omitted_fields() {
    let stored = AclAuthMethod { default: true, ..method() };
    let update = AclAuthMethod { name: "corp".into(), ..AclAuthMethod::default() }.merged_over(&stored);
    assert_eq!(update, AclAuthMethod { default: false, ..method() });
}

#[test]
fn binding_rule_validation_reports_every_error() {
    check(rule().validate(Ok(())), expect!["valid"]);
    check(AclBindingRule { bind_name: Str::default(), ..rule() }.validate(Ok(())), expect!["bind name is missing"]);
    check(
        AclBindingRule { bind_kind: AclBindKind::Management, ..rule() }.validate(Ok(())),
        expect!["bind name should be empty"],
    );
    check(
        AclBindingRule { bind_kind: "group".into(), ..rule() }.validate(Ok(())),
        expect![[r#"unsupported bind type: "group""#]],
    );
    let bad = AclBindingRule { description: "d".repeat(257).into(), ..AclBindingRule::default() };
    check(
        bad.validate(Err("1:2: no match found".into())),
        expect![[r#"
            auth method is missing
            description longer than 256
            bind type is missing
            selector is invalid: 1:2: no match found"#]],
    );
}

#[test]
fn secret_id_is_hidden_in_debug_and_json_and_kept_in_msgpack() {
    let text = "5EC2E75E-c2e7-5ec2-e75e-c2e75ec2e75e";
    let secret: SecretId = text.parse().expect("a secret");
    assert_eq!(Ok(secret), text.to_lowercase().parse());
    assert_eq!(secret.reveal(), text.to_lowercase());
    assert_eq!(format!("{secret:?} {:?}", SecretId::NIL), "SecretId(..) SecretId(none)");
    assert_eq!(serde_json::to_string(&secret).expect("encodes"), r#""""#);
    let bytes = rmp_serde::to_vec(&secret).expect("encodes");
    assert_eq!(rmp_serde::from_slice::<SecretId>(&bytes).expect("decodes"), secret);
    let slip = "5ec2e75ec2e75ec2e75ec2e75ec2e75e".parse::<SecretId>().expect_err("no dashes");
    assert!(!slip.to_string().contains("5ec2"), "an error does not repeat what may be a secret");
}
