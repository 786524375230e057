//! Samples of ACL rows for the golden bytes, and the secrets that readable forms of their commands leave out.

use songline_model::*;

use crate::*;

const SECRETS: [&str; 3] =
    ["5ec2e75e-c2e7-5ec2-e75e-c2e75ec2e75e", "0bce0bce-0bce-0bce-0bce-0bce0bce0bce", "client-s3cret"];

fn secret(text: &str) -> SecretId {
    text.parse().expect("a secret")
}

fn hash() -> Option<Blob> {
    Some(Blob(vec![7; 32]))
}

pub(super) fn policy() -> AclPolicy {
    AclPolicy {
        name: "readers".into(),
        description: "who read".into(),
        rules: "node { policy = \"read\" }".into(),
        job_acl: Some(JobAcl {
            namespace: "default".into(),
            job_id: "web".into(),
            group: "g".into(),
            task: "t".into(),
        }),
        hash: hash(),
        ..AclPolicy::default()
    }
}

pub(super) fn token() -> AclToken {
    AclToken {
        accessor_id: AccessorId::from_bytes([1; 16]),
        secret_id: secret(SECRETS[0]),
        name: "deploys".into(),
        kind: AclTokenKind::Client,
        policies: Some(vec!["readers".into()]),
        roles: Some(vec![AclTokenRoleLink { id: role().id, name: Str::default() }]),
        global: true,
        hash: hash(),
        create_time: Time::from_secs(1_700_000_000),
        expiration_time: Some(Time::from_secs(1_700_003_600)),
        expiration_ttl: Dur::from_hours(1),
        ..AclToken::default()
    }
}

pub(super) fn one_time_token() -> OneTimeToken {
    OneTimeToken {
        one_time_secret_id: secret(SECRETS[1]),
        accessor_id: token().accessor_id,
        expires_at: Some(Time::from_secs(1_700_000_600)),
        ..OneTimeToken::default()
    }
}

pub(super) fn role() -> AclRole {
    AclRole {
        id: RoleId::from_bytes([2; 16]),
        name: "engineers".into(),
        policies: Some(vec![AclRolePolicyLink { name: "readers".into() }]),
        hash: hash(),
        ..AclRole::default()
    }
}

pub(super) fn auth_method() -> AclAuthMethod {
    AclAuthMethod {
        name: "corp".into(),
        kind: AclAuthMethodKind::Oidc,
        token_locality: TokenLocality::Global,
        max_token_ttl: Dur::from_hours(1),
        default: true,
        config: Some(AclAuthMethodConfig {
            oidc_discovery_url: "https://login.example.com".into(),
            oidc_client_id: "songline".into(),
            oidc_client_secret: Secret::new(SECRETS[2]),
            claim_mappings: Some([("email".into(), "mail".into())].into()),
            ..AclAuthMethodConfig::default()
        }),
        hash: hash(),
        create_time: Time::from_secs(1_700_000_000),
        modify_time: Time::from_secs(1_700_000_000),
        ..AclAuthMethod::default()
    }
}

pub(super) fn binding_rule() -> AclBindingRule {
    AclBindingRule {
        id: BindingRuleId::from_bytes([3; 16]),
        auth_method: "corp".into(),
        selector: "\"engineering\" in list.roles".into(),
        bind_kind: AclBindKind::Role,
        bind_name: "engineers".into(),
        hash: hash(),
        create_time: Time::from_secs(1_700_000_000),
        modify_time: Time::from_secs(1_700_000_000),
        ..AclBindingRule::default()
    }
}

#[test]
fn acl_secrets_are_in_the_log_and_hidden_in_debug_and_json() {
    let commands: [Command; 4] = [
        UpsertAclTokens { tokens: vec![token()] }.into(),
        BootstrapAclToken { token: token(), reset_index: 0 }.into(),
        UpsertOneTimeToken { token: one_time_token() }.into(),
        UpsertAclAuthMethods { auth_methods: vec![auth_method()] }.into(),
    ];
    for command in commands {
        let shown = format!("{command:?} {}", command.to_json());
        let bytes = format!("{shown:?}");
        for secret in SECRETS {
            assert!(
                !shown.contains(secret) && !bytes.contains(&secret.replace('-', "")),
                "{}: shows {secret}",
                command.kind().name()
            );
        }
        let envelope = Envelope::new(Time::default(), Actor::Anonymous, command.clone());
        let read = Envelope::decode(&envelope.encode().expect("encodes")).expect("decodes");
        assert_eq!(read.command, command, "the log has all of it");
    }
}
