//! Story words for ACL objects, autopilot and periodic launches.
//!
//! Secrets are named like ids. `acl policy p rules=r`, `acl token t policies=p roles=r expires=50`, `acl role r name=n
//! policies=p`, ..; the word `bare` leaves out the fields that only a proposer can fill in.

use songline_commands::*;
use songline_model::*;

use super::{Words, id, job_key, name};
use crate::State;

fn accessor(text: &str) -> AccessorId {
    AccessorId::from_bytes(id(text))
}

fn secret(text: &str) -> SecretId {
    SecretId::from_bytes(id(text))
}

fn names(words: &Words<'_>, key: &str) -> Option<Vec<Str>> {
    words.get(key).map(|_| words.list(key).map(Str::new).collect())
}

fn time(words: &Words<'_>, key: &str) -> Option<Time> {
    words.number(key).map(|secs| Time::from_secs(secs.cast_signed()))
}

/// A row's hash, unless the story leaves it out.
fn hash(words: &Words<'_>, computed: Blob) -> Option<Blob> {
    (!words.has("bare")).then_some(computed)
}

pub(super) fn command(words: &Words<'_>) -> Command {
    if words.plain[0] == "autopilot" {
        let config =
            AutopilotConfig { max_trailing_logs: words.number("trailing").unwrap_or(0), ..AutopilotConfig::default() };
        return SetAutopilotConfig { config, cas: words.number("cas") }.into();
    }
    let listed = &words.plain[2..];
    match words.plain[1] {
        "policy" => UpsertAclPolicies { policies: vec![policy(words, words.plain[2])] }.into(),
        "policy-delete" => DeleteAclPolicies { names: listed.iter().map(Str::new).collect() }.into(),
        "token" => {
            let names = listed.iter().take_while(|word| !matches!(**word, "bare" | "global" | "management"));
            UpsertAclTokens { tokens: names.map(|name| token(words, name)).collect() }.into()
        }
        "token-delete" => DeleteAclTokens { accessor_ids: listed.iter().map(|name| accessor(name)).collect() }.into(),
        "bootstrap" => {
            BootstrapAclToken { token: token(words, words.plain[2]), reset_index: words.number("reset").unwrap_or(0) }
                .into()
        }
        "once" => UpsertOneTimeToken {
            token: OneTimeToken {
                one_time_secret_id: secret(words.get("secret").unwrap_or_default()),
                accessor_id: accessor(words.plain[2]),
                expires_at: time(words, "expires"),
                ..OneTimeToken::default()
            },
        }
        .into(),
        "once-delete" => {
            let accessor_ids = listed.iter().map(|name| accessor(name)).collect();
            DeleteOneTimeTokens { accessor_ids, exchanged: words.number("exchanged") }.into()
        }
        "once-expire" => ExpireOneTimeTokens { timestamp: time(words, "by").expect("by=seconds") }.into(),
        // `acl role r1:admins r2:readers policies=p`
        "role" => UpsertAclRoles {
            roles: listed.iter().filter(|word| word.contains(':')).map(|place| role(words, place)).collect(),
            allow_missing_policies: words.has("allow-missing"),
        }
        .into(),
        "role-delete" => {
            DeleteAclRoles { ids: listed.iter().map(|name| RoleId::from_bytes(id(name))).collect() }.into()
        }
        // `acl method corp:default extra`
        "method" => UpsertAclAuthMethods {
            auth_methods: listed.iter().filter(|word| **word != "bare").map(|name| auth_method(words, name)).collect(),
        }
        .into(),
        "method-delete" => DeleteAclAuthMethods { names: listed.iter().map(Str::new).collect() }.into(),
        "rule" => UpsertAclBindingRules {
            binding_rules: vec![binding_rule(words, words.plain[2])],
            allow_missing_auth_methods: words.has("allow-missing"),
        }
        .into(),
        "rule-delete" => {
            DeleteAclBindingRules { ids: listed.iter().map(|name| BindingRuleId::from_bytes(id(name))).collect() }
                .into()
        }
        other => panic!("no command acl {other}"),
    }
}

fn policy(words: &Words<'_>, name: &str) -> AclPolicy {
    let word = |key| words.get(key).unwrap_or_default();
    let job_acl = words.get("ns").map(|namespace| JobAcl {
        namespace: namespace.into(),
        job_id: word("job").into(),
        group: word("group").into(),
        task: word("task").into(),
    });
    let mut row = AclPolicy { name: name.into(), rules: word("rules").into(), job_acl, ..AclPolicy::default() };
    row.hash = hash(words, row.compute_hash());
    row
}

fn token(words: &Words<'_>, name: &str) -> AclToken {
    let link = |role: &str| AclTokenRoleLink { id: RoleId::from_bytes(id(role)), name: "shown".into() };
    let mut row = AclToken {
        accessor_id: accessor(name),
        // Without `secret=`, the secret is derived from the token's name.
        secret_id: words.get("secret").map_or_else(|| secret(&format!("s-{name}")), secret),
        name: words.get("name").unwrap_or_default().into(),
        kind: if words.has("management") { AclTokenKind::Management } else { AclTokenKind::Client },
        policies: names(words, "policies"),
        roles: words.get("roles").map(|_| words.list("roles").map(link).collect()),
        global: words.has("global"),
        create_time: time(words, "created").unwrap_or(Time::from_secs(10)),
        expiration_time: time(words, "expires"),
        ..AclToken::default()
    };
    row.hash = hash(words, row.compute_hash());
    row
}

fn role(words: &Words<'_>, place: &str) -> AclRole {
    let (role, name) = place.split_once(':').expect("role:name");
    let policies =
        names(words, "policies").map(|names| names.into_iter().map(|name| AclRolePolicyLink { name }).collect());
    let mut row = AclRole { id: RoleId::from_bytes(id(role)), name: name.into(), policies, ..AclRole::default() };
    row.hash = hash(words, row.compute_hash());
    row
}

fn auth_method(words: &Words<'_>, place: &str) -> AclAuthMethod {
    let (name, flag) = place.split_once(':').unwrap_or((place, ""));
    let created = time(words, "created").unwrap_or(Time::from_secs(10));
    let mut row = AclAuthMethod {
        name: name.into(),
        kind: AclAuthMethodKind::Oidc,
        default: flag == "default",
        config: words.get("client-secret").map(|secret| AclAuthMethodConfig {
            oidc_client_secret: Secret::new(secret),
            ..AclAuthMethodConfig::default()
        }),
        create_time: created,
        modify_time: created,
        ..AclAuthMethod::default()
    };
    row.hash = hash(words, row.compute_hash());
    row
}

fn binding_rule(words: &Words<'_>, name: &str) -> AclBindingRule {
    let created = time(words, "created").unwrap_or(Time::from_secs(10));
    let mut row = AclBindingRule {
        id: BindingRuleId::from_bytes(id(name)),
        auth_method: words.get("method").unwrap_or_default().into(),
        selector: words.get("selector").unwrap_or_default().into(),
        bind_kind: AclBindKind::Management,
        create_time: created,
        modify_time: created,
        ..AclBindingRule::default()
    };
    row.hash = hash(words, row.compute_hash());
    row
}

/// Shows a token's links to roles and names of policies.
fn show_token(row: &AclToken) -> String {
    let roles: Vec<String> =
        row.role_links().iter().map(|link| format!("{}={}", name(link.id.as_bytes()), link.name)).collect();
    let expires = row.expiration_time.map_or_else(|| "never".to_owned(), |at| format!("{}s", at.secs()));
    format!(
        "token {}: {:?} {} roles={roles:?} global={} expires={expires} created={}s create={} modify={}",
        name(row.accessor_id.as_bytes()),
        row.name,
        row.kind,
        row.global,
        row.create_time.secs(),
        row.create_index,
        row.modify_index
    )
}

pub(super) fn show(state: &State, noun: &str, what: &str) -> String {
    let gone = || format!("{noun} {what}: none");
    let listed = |names: Vec<String>| {
        format!("{noun} {what}: {}", if names.is_empty() { "none".to_owned() } else { names.join(" ") })
    };
    match noun {
        "policy" => state.acl_policy(what).map_or_else(gone, |row| {
            format!("policy {what}: rules={} create={} modify={}", row.rules, row.create_index, row.modify_index)
        }),
        "token" => state.acl_token(accessor(what)).map_or_else(gone, |row| show_token(&row)),
        "stored" => {
            let row = state.acl_tokens().find(|row| row.accessor_id == accessor(what));
            row.map_or_else(gone, |row| show_token(row))
        }
        "secret" => state
            .acl_token_by_secret(&secret(what))
            .map_or_else(gone, |row| format!("secret {what}: {}", name(row.accessor_id.as_bytes()))),
        "tokens" => listed(state.acl_tokens().map(|row| name(row.accessor_id.as_bytes())).collect()),
        "policies-of" => {
            let row = state.acl_token(accessor(what)).expect("the token is there");
            listed(state.acl_policies_of_token(&row).iter().map(|row| row.name.to_string()).collect())
        }
        // `show workload namespace/job:group:task`
        "workload" => {
            let mut parts = what.split(':');
            let key = job_key(parts.next().unwrap_or_default());
            let (group, task) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let policies = state.acl_policies_of_workload(&key.namespace, &key.id, group, task);
            listed(policies.iter().map(|row| row.name.to_string()).collect())
        }
        // `show expired local:50:7`: expired before second 50, created up to index 7
        "expired" => {
            let parts: Vec<&str> = what.split(':').collect();
            let [kind, now, created] = parts.as_slice() else { panic!("expired kind:seconds:index") };
            let now = Time::from_secs(now.parse().expect("seconds"));
            let rows = state.expired_acl_tokens(*kind == "global", now, created.parse().expect("an index"));
            listed(rows.map(|row| name(row.accessor_id.as_bytes())).collect())
        }
        "bootstrap" => format!("bootstrap: {:?}", state.acl_bootstrap_index()),
        "once" => state.one_time_token_by_secret(&secret(what)).map_or_else(gone, |row| {
            format!(
                "once {what}: {} create={} modify={}",
                name(row.accessor_id.as_bytes()),
                row.create_index,
                row.modify_index
            )
        }),
        "role" => state.acl_role(RoleId::from_bytes(id(what))).map_or_else(gone, |row| {
            let policies: Vec<&Str> = row.policy_names().collect();
            format!(
                "role {what}: {} policies={policies:?} create={} modify={}",
                row.name, row.create_index, row.modify_index
            )
        }),
        "role-named" => state
            .acl_role_by_name(what)
            .map_or_else(gone, |row| format!("role-named {what}: {}", name(row.id.as_bytes()))),
        "method" => state.acl_auth_method(what).map_or_else(gone, |row| {
            let times = (row.create_time.secs(), row.modify_time.secs());
            format!(
                "method {what}: default={} times={times:?} create={} modify={}",
                row.default, row.create_index, row.modify_index
            )
        }),
        "rules-of" => listed(state.acl_binding_rules_of_method(what).map(|row| name(row.id.as_bytes())).collect()),
        "rule" => state.acl_binding_rule(BindingRuleId::from_bytes(id(what))).map_or_else(gone, |row| {
            let times = (row.create_time.secs(), row.modify_time.secs());
            format!(
                "rule {what}: method={} times={times:?} create={} modify={}",
                row.auth_method, row.create_index, row.modify_index
            )
        }),
        "autopilot" => state.autopilot_config().map_or_else(gone, |row| {
            format!(
                "autopilot: trailing={} create={} modify={}",
                row.max_trailing_logs, row.create_index, row.modify_index
            )
        }),
        "launch" => {
            let key = job_key(what);
            state.periodic_launch(&key.namespace, &key.id).map_or_else(gone, |row| {
                format!("launch {what}: {}s create={} modify={}", row.launch.secs(), row.create_index, row.modify_index)
            })
        }
        other => panic!("no noun {other}"),
    }
}
