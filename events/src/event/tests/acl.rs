//! ACL events and rows as JSON: their keys, and the absence of secrets.

use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use songline_commands::Kind;
use songline_model::*;
use songline_projections::Change;
use songline_wire::acl::{AuthMethodView, TokenView};

use crate::event;

const SECRET: &str = "5ec2e75e-c2e7-5ec2-e75e-c2e75ec2e75e";

fn token() -> AclToken {
    AclToken {
        accessor_id: AccessorId::from_bytes([0x11; 16]),
        secret_id: SECRET.parse().expect("a secret"),
        name: "deploys".into(),
        kind: AclTokenKind::Client,
        policies: Some(vec!["readers".into()]),
        hash: Some(Blob(vec![1, 2, 3])),
        create_time: Time::from_secs(1_700_000_000),
        create_index: 7,
        modify_index: 8,
        ..AclToken::default()
    }
}

fn method() -> AclAuthMethod {
    AclAuthMethod {
        name: "corp".into(),
        kind: AclAuthMethodKind::Oidc,
        token_locality: TokenLocality::Local,
        max_token_ttl: Dur::from_hours(1),
        config: Some(AclAuthMethodConfig {
            oidc_client_id: "songline".into(),
            oidc_client_secret: Secret::new(SECRET),
            clock_skew_leeway: Dur::from_secs(90),
            ..AclAuthMethodConfig::default()
        }),
        create_time: Time::from_secs(1_700_000_000),
        modify_time: Time::from_secs(1_700_000_000),
        ..AclAuthMethod::default()
    }
}

/// Checks the events of one entry in streams without `full`, without the fields that all events share.
fn check(kind: Kind, change: Change, expected: Expect) {
    let all = event::events(kind, &[change]);
    let json = |event: &event::Event| serde_json::to_value(event.view(9)).expect("encodes");
    assert!(!all.iter().any(|event| json(event).to_string().contains(SECRET)), "an event shows a secret");
    let events: Vec<Value> = all.iter().filter(|event| event.audience != event::Audience::Full).map(json).collect();
    let told: String = events
        .iter()
        .map(|event| {
            assert_eq!((&event["Index"], &event["Namespace"]), (&json!(9), &json!("")));
            format!(
                "{} {} {} {}\n{}\n",
                event["Topic"], event["Type"], event["Key"], event["FilterKeys"], event["Payload"]
            )
        })
        .collect();
    expected.assert_eq(&told);
}

#[test]
fn token_events_hide_the_secret_on_write_and_delete() {
    check(
        Kind::AclTokenUpsert,
        Change::AclToken { before: None, after: Some(Arc::new(token())) },
        expect![[r#"
        "ACLToken" "ACLTokenUpserted" "11111111-1111-1111-1111-111111111111" null
        {"ACLToken":{"ExpirationTTL":"","AccessorID":"11111111-1111-1111-1111-111111111111","SecretID":"","Name":"deploys","Type":"client","Policies":["readers"],"Roles":[],"Global":false,"Hash":"AQID","CreateTime":"2023-11-14T22:13:20Z","ExpirationTime":null,"CreateIndex":7,"ModifyIndex":8}}
    "#]],
    );
    let roles = Some(vec![AclTokenRoleLink { id: RoleId::from_bytes([0x22; 16]), name: Str::default() }]);
    let ends = AclToken {
        roles,
        expiration_time: Some(Time::from_secs(1_700_003_600)),
        expiration_ttl: Dur::from_hours(1),
        ..token()
    };
    check(
        Kind::AclTokenDelete,
        Change::AclToken { before: Some(Arc::new(ends)), after: None },
        expect![[r#"
        "ACLToken" "ACLTokenDeleted" "11111111-1111-1111-1111-111111111111" null
        {"ACLToken":{"ExpirationTTL":"1h0m0s","AccessorID":"11111111-1111-1111-1111-111111111111","SecretID":"","Name":"deploys","Type":"client","Policies":["readers"],"Roles":[{"ID":"22222222-2222-2222-2222-222222222222","Name":""}],"Global":false,"Hash":"AQID","CreateTime":"2023-11-14T22:13:20Z","ExpirationTime":"2023-11-14T23:13:20Z","CreateIndex":7,"ModifyIndex":8}}
    "#]],
    );
}

#[test]
fn policy_events_show_the_stored_policy() {
    let policy = AclPolicy {
        name: "readers".into(),
        rules: "node { policy = \"read\" }".into(),
        job_acl: Some(JobAcl { namespace: "default".into(), job_id: "web".into(), ..JobAcl::default() }),
        hash: Some(Blob(vec![1, 2, 3])),
        ..AclPolicy::default()
    };
    let row = Arc::new(policy);
    check(
        Kind::AclPolicyUpsert,
        Change::AclPolicy { before: None, after: Some(Arc::clone(&row)) },
        expect![[r#"
        "ACLPolicy" "ACLPolicyUpserted" "readers" null
        {"ACLPolicy":{"Name":"readers","Description":"","Rules":"node { policy = \"read\" }","JobACL":{"Namespace":"default","JobID":"web","Group":"","Task":""},"Hash":"AQID","CreateIndex":0,"ModifyIndex":0}}
    "#]],
    );
    check(
        Kind::AclPolicyDelete,
        Change::AclPolicy { before: Some(row), after: None },
        expect![[r#"
        "ACLPolicy" "ACLPolicyDeleted" "readers" null
        {"ACLPolicy":{"Name":"readers","Description":"","Rules":"node { policy = \"read\" }","JobACL":{"Namespace":"default","JobID":"web","Group":"","Task":""},"Hash":"AQID","CreateIndex":0,"ModifyIndex":0}}
    "#]],
    );
}

#[test]
fn role_events_have_the_role_name_as_filter_key() {
    let role = AclRole {
        id: RoleId::from_bytes([0x22; 16]),
        name: "engineers".into(),
        policies: Some(vec![AclRolePolicyLink { name: "readers".into() }]),
        ..AclRole::default()
    };
    let renamed = AclRole { name: "owners".into(), ..role.clone() };
    let change = Change::AclRole { before: Some(Arc::new(role)), after: Some(Arc::new(renamed.clone())) };
    check(
        Kind::AclRolesUpsert,
        change,
        expect![[r#"
        "ACLRole" "ACLRoleUpserted" "22222222-2222-2222-2222-222222222222" ["owners"]
        {"ACLRole":{"ID":"22222222-2222-2222-2222-222222222222","Name":"owners","Description":"","Policies":[{"Name":"readers"}],"Hash":null,"CreateIndex":0,"ModifyIndex":0}}
    "#]],
    );
    check(
        Kind::AclRolesDelete,
        Change::AclRole { before: Some(Arc::new(renamed)), after: None },
        expect![[r#"
        "ACLRole" "ACLRoleDeleted" "22222222-2222-2222-2222-222222222222" ["owners"]
        {"ACLRole":{"ID":"22222222-2222-2222-2222-222222222222","Name":"owners","Description":"","Policies":[{"Name":"readers"}],"Hash":null,"CreateIndex":0,"ModifyIndex":0}}
    "#]],
    );
}

#[test]
fn auth_method_events_redact_the_client_secret() {
    let change = Change::AclAuthMethod { before: None, after: Some(Arc::new(method())) };
    check(
        Kind::AclAuthMethodsUpsert,
        change,
        expect![[r#"
        "ACLAuthMethod" "ACLAuthMethodUpserted" "corp" null
        {"AuthMethod":{"MaxTokenTTL":"1h0m0s","Name":"corp","Type":"OIDC","TokenLocality":"local","Default":false,"Config":{"ExpirationLeeway":"","NotBeforeLeeway":"","ClockSkewLeeway":"1m30s","JWTValidationPubKeys":null,"JWKSURL":"","OIDCDiscoveryURL":"","OIDCClientID":"songline","OIDCClientSecret":"redacted","OIDCScopes":null,"BoundAudiences":null,"BoundIssuer":null,"AllowedRedirectURIs":null,"DiscoveryCaPem":null,"JWKSCACert":"","SigningAlgs":null,"ClaimMappings":null,"ListClaimMappings":null},"Hash":null,"CreateTime":"2023-11-14T22:13:20Z","ModifyTime":"2023-11-14T22:13:20Z","CreateIndex":0,"ModifyIndex":0}}
    "#]],
    );
    let bare = AclAuthMethod { config: None, ..method() };
    let change = Change::AclAuthMethod { before: Some(Arc::new(bare)), after: None };
    check(
        Kind::AclAuthMethodsDelete,
        change,
        expect![[r#"
        "ACLAuthMethod" "ACLAuthMethodDeleted" "corp" null
        {"AuthMethod":{"MaxTokenTTL":"1h0m0s","Name":"corp","Type":"OIDC","TokenLocality":"local","Default":false,"Config":null,"Hash":null,"CreateTime":"2023-11-14T22:13:20Z","ModifyTime":"2023-11-14T22:13:20Z","CreateIndex":0,"ModifyIndex":0}}
    "#]],
    );
    let public = AclAuthMethod { config: Some(AclAuthMethodConfig::default()), ..method() };
    let json = serde_json::to_value(AuthMethodView::new(&public)).expect("encodes");
    assert_eq!((&json["Config"]["OIDCClientSecret"], &json["Config"]["ExpirationLeeway"]), (&json!(""), &json!("")));
}

#[test]
fn binding_rule_events_have_the_auth_method_as_filter_key() {
    let rule = AclBindingRule {
        id: BindingRuleId::from_bytes([0x33; 16]),
        auth_method: "corp".into(),
        selector: "\"engineering\" in list.roles".into(),
        bind_kind: AclBindKind::Role,
        bind_name: "engineers".into(),
        ..AclBindingRule::default()
    };
    let row = Arc::new(rule);
    let change = Change::AclBindingRule { before: None, after: Some(Arc::clone(&row)) };
    check(
        Kind::AclBindingRulesUpsert,
        change,
        expect![[r#"
        "ACLBindingRule" "ACLBindingRuleUpserted" "33333333-3333-3333-3333-333333333333" ["corp"]
        {"ACLBindingRule":{"ID":"33333333-3333-3333-3333-333333333333","Description":"","AuthMethod":"corp","Selector":"\"engineering\" in list.roles","BindType":"role","BindName":"engineers","Hash":null,"CreateTime":"1970-01-01T00:00:00Z","ModifyTime":"1970-01-01T00:00:00Z","CreateIndex":0,"ModifyIndex":0}}
    "#]],
    );
    check(
        Kind::AclBindingRulesDelete,
        Change::AclBindingRule { before: Some(row), after: None },
        expect![[r#"
        "ACLBindingRule" "ACLBindingRuleDeleted" "33333333-3333-3333-3333-333333333333" ["corp"]
        {"ACLBindingRule":{"ID":"33333333-3333-3333-3333-333333333333","Description":"","AuthMethod":"corp","Selector":"\"engineering\" in list.roles","BindType":"role","BindName":"engineers","Hash":null,"CreateTime":"1970-01-01T00:00:00Z","ModifyTime":"1970-01-01T00:00:00Z","CreateIndex":0,"ModifyIndex":0}}
    "#]],
    );
}

#[test]
fn bootstrap_one_time_tokens_autopilot_and_launches_emit_no_events() {
    let quiet = [
        (Kind::AclTokenBootstrap, Change::AclToken { before: None, after: Some(Arc::new(token())) }),
        (Kind::OneTimeTokenUpsert, Change::OneTimeToken { before: None, after: Some(Arc::default()) }),
        (Kind::Autopilot, Change::AutopilotConfig { before: None, after: Some(Arc::default()) }),
        (Kind::JobRegister, Change::PeriodicLaunch { before: None, after: Some(Arc::default()) }),
    ];
    for (kind, change) in quiet {
        check(kind, change, expect![""]);
    }
}

#[test]
fn only_the_revealed_token_view_shows_the_secret() {
    let token = token();
    assert_eq!(serde_json::to_value(TokenView::revealed(&token)).expect("encodes")["SecretID"], SECRET);
    let hidden = serde_json::to_value(TokenView::hidden(&token)).expect("encodes");
    assert_eq!((&hidden["SecretID"], &hidden["Roles"]), (&json!(""), &Value::Null));
}
