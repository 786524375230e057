//! Differences between regions and their ends, and the tokens that open the authoritative region's objects.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use songline_commands::{Actor, BootstrapAclToken, Command, Envelope, UpsertAclTokens, UpsertNamespaces};
use songline_model::{
    AccessorId, AclAuthMethod, AclAuthMethodConfig, AclBindingRule, AclPolicy, AclRole, AclRolePolicyLink, AclToken,
    AclTokenKind, BindingRuleId, Blob, Namespace, NodePool, QuotaSpec, RoleId, Secret, SecretId, Str, Time,
};
use songline_projections::{State, apply};

use super::super::cluster::{decode, encode};
use super::difference::{Listed, difference};
use super::{About, Answer, Kind, Question, Rows};
use crate::testing::{Settings, TestServer};

/// Compares lists in the notation `name` or `name=hash`.
fn compare(theirs: &str, own: &str, expected: Expect) {
    let listed = |text: &str| -> Listed {
        let each = text.split_whitespace().map(|word| match word.split_once('=') {
            Some((key, hash)) => (Str::new(key), Some(Blob(hash.into()))),
            None => (Str::new(word), None),
        });
        each.collect()
    };
    let found = difference(&listed(theirs), &listed(own));
    expected.assert_eq(&format!("surplus {:?}, wanted {:?}", found.surplus, found.wanted));
}

#[test]
fn difference_is_of_keys_and_hashes_in_both_directions() {
    compare("", "", expect!["surplus [], wanted []"]);
    compare("a=1 b=1", "", expect![[r#"surplus [], wanted ["a", "b"]"#]]);
    compare("", "a=1 b", expect![[r#"surplus ["a", "b"], wanted []"#]]);
    compare("a=1 b=2 c=3", "b=2 c=4 d=5", expect![[r#"surplus ["d"], wanted ["a", "c"]"#]]);
    compare("a b=1 c", "a b c=1", expect![[r#"surplus [], wanted ["b", "c"]"#]]);
}

fn run(state: &mut State, command: Command) {
    let raft_index = state.raft_index().max(1) + 1;
    apply(state, raft_index, &Envelope::new(Time::from_secs(1), Actor::Anonymous, command)).result.expect("is applied");
}

fn write(state: &mut State, rows: Rows) {
    run(state, rows.upsert(&Str::new_static("east")));
}

/// Brings `west` to the state of `east` as the loop does, and returns what was written: `-` and `+` with the keys.
fn follow(east: &State, west: &mut State) -> String {
    let mut done = String::new();
    let delete = |west: &mut State, kind: Kind| {
        let surplus = difference(&kind.list(east), &kind.list(west)).surplus;
        if surplus.is_empty() {
            return String::new();
        }
        run(west, kind.deletion(&surplus));
        format!("{kind:?} -{}\n", surplus.len())
    };
    for kind in Kind::ALL {
        if kind != Kind::Quotas {
            done.push_str(&delete(west, kind));
        }
        let wanted = difference(&kind.list(east), &kind.list(west)).wanted;
        let rows = kind.rows(east, &wanted);
        assert_eq!((rows.kind(), rows.len()), (kind, wanted.len()));
        if !wanted.is_empty() {
            // On its way, a row keeps its secrets.
            let sent: Rows = decode(&encode(&rows)).expect("rows can be sent");
            assert_eq!(sent, rows);
            let displaced = sent.displaced(west);
            if !displaced.is_empty() {
                run(west, kind.deletion(&displaced));
            }
            write(west, sent);
            done.push_str(&format!("{kind:?} +{}\n", wanted.len()));
        }
    }
    done.push_str(&delete(west, Kind::Quotas));
    for kind in Kind::ALL {
        assert_eq!(kind.list(east), kind.list(west), "{kind:?}");
    }
    done
}

fn token(nth: u8, global: bool) -> AclToken {
    let token = AclToken {
        accessor_id: AccessorId::from_bytes([nth; 16]),
        secret_id: SecretId::from_bytes([100 + nth; 16]),
        kind: AclTokenKind::Management,
        global,
        create_time: Time::from_secs(1),
        ..AclToken::default()
    };
    AclToken { hash: Some(token.compute_hash()), ..token }
}

fn role(nth: u8, name: &str) -> AclRole {
    let policies = Some(vec![AclRolePolicyLink { name: "p".into() }]);
    let role = AclRole { id: RoleId::from_bytes([nth; 16]), name: name.into(), policies, ..AclRole::default() };
    AclRole { hash: Some(role.compute_hash()), ..role }
}

fn method(name: &str, default: bool) -> AclAuthMethod {
    let config = AclAuthMethodConfig { oidc_client_secret: Secret::new("hush"), ..AclAuthMethodConfig::default() };
    let (create_time, modify_time) = (Time::from_secs(1), Time::from_secs(1));
    let config = Some(config);
    let method =
        AclAuthMethod { name: name.into(), default, config, create_time, modify_time, ..AclAuthMethod::default() };
    AclAuthMethod { hash: Some(method.compute_hash()), ..method }
}

fn quota(name: &str) -> QuotaSpec {
    QuotaSpec { name: name.into(), hash: Some(Blob(name.into())), ..QuotaSpec::default() }
}

fn namespace(name: &str, quota: &str) -> Namespace {
    let hash = Some(Blob(format!("{name}/{quota}").into_bytes()));
    Namespace { name: name.into(), quota: quota.into(), hash, ..Namespace::default() }
}

/// One object of every kind.
fn full() -> State {
    let mut state = State::new();
    write(&mut state, Rows::Quotas(vec![quota("gold")]));
    write(&mut state, Rows::Namespaces(vec![namespace("dev", "gold")]));
    write(&mut state, Rows::NodePools(vec![NodePool { name: "big".into(), ..NodePool::default() }]));
    let policy = AclPolicy { name: "p".into(), ..AclPolicy::default() };
    write(&mut state, Rows::Policies(vec![AclPolicy { hash: Some(policy.compute_hash()), ..policy }]));
    write(&mut state, Rows::Roles(vec![role(1, "one"), role(2, "two")]));
    write(&mut state, Rows::AuthMethods(vec![method("corp", true), method("other", false)]));
    let rule = AclBindingRule {
        id: BindingRuleId::from_bytes([1; 16]),
        auth_method: "corp".into(),
        create_time: Time::from_secs(1),
        modify_time: Time::from_secs(1),
        ..AclBindingRule::default()
    };
    write(&mut state, Rows::BindingRules(vec![AclBindingRule { hash: Some(rule.compute_hash()), ..rule }]));
    run(&mut state, UpsertAclTokens { tokens: vec![token(1, true), token(2, false)] }.into());
    state
}

#[test]
fn objects_of_every_kind_arrive_with_their_secrets_and_go_again() {
    let (east, mut west) = (full(), State::new());
    run(&mut west, UpsertAclTokens { tokens: vec![token(3, false), token(4, true)] }.into());
    expect![[r#"
        Quotas +1
        Namespaces +1
        NodePools +1
        Policies +1
        Roles +2
        AuthMethods +2
        BindingRules +1
        Tokens -1
        Tokens +1
    "#]]
    .assert_eq(&follow(&east, &mut west));
    let known = west.acl_token_by_secret(&SecretId::from_bytes([101; 16])).expect("the global token works");
    assert_eq!((known.accessor_id, known.global), (AccessorId::from_bytes([1; 16]), true));
    let config = west.acl_auth_method("corp").and_then(|method| method.config.clone()).expect("a configuration");
    assert_eq!(config.oidc_client_secret.reveal(), "hush");
    // Local tokens stay where they are.
    let secrets = [102, 103].map(|byte| west.acl_token_by_secret(&SecretId::from_bytes([byte; 16])).is_some());
    assert_eq!(secrets, [false, true]);
    assert_eq!(follow(&east, &mut west), "", "the regions are alike");

    expect![[r#"
        Namespaces -1
        NodePools -1
        Policies -1
        Roles -2
        AuthMethods -2
        BindingRules -1
        Tokens -1
        Quotas -1
    "#]]
    .assert_eq(&follow(&State::new(), &mut west));
}

#[test]
fn names_and_the_default_move_between_objects() {
    let mut east = full();
    let mut west = full();
    // The names of both roles are exchanged by way of a third name, which the other region does not see.
    for roles in [vec![role(1, "three")], vec![role(2, "one")], vec![role(1, "two")]] {
        write(&mut east, Rows::Roles(roles));
    }
    write(&mut east, Rows::AuthMethods(vec![method("corp", false), method("other", true)]));
    write(&mut east, Rows::Namespaces(vec![namespace("dev", "")]));
    run(&mut east, Kind::Quotas.deletion(&["gold".into()]));
    expect![[r#"
        Namespaces +1
        Roles +2
        AuthMethods +2
        Quotas -1
    "#]]
    .assert_eq(&follow(&east, &mut west));
    assert_eq!(west.default_acl_auth_method().map(|method| method.name.as_str()), Some("other"));
    assert_eq!(west.acl_role_by_name("one").map(|role| role.id), Some(RoleId::from_bytes([2; 16])));
}

#[test]
fn deletion_that_apply_refuses_is_not_proposed() {
    let west = full();
    let told = |kind: Kind, key: &str| kind.refusal(&west, &key.into()).map(|refusal| refusal.to_string());
    let used = "quota \"gold\" is used by namespace \"dev\": take it from the namespace first";
    assert_eq!(told(Kind::Quotas, "gold").as_deref(), Some(used));
    assert_eq!(told(Kind::Quotas, "silver"), None);
    assert_eq!(told(Kind::Namespaces, "dev"), None);
    assert_eq!(told(Kind::NodePools, "big"), None);
}

/// Answers to questions with this token: what the lists name, and the secrets of the tokens.
async fn ask(server: &TestServer, token: &str) -> Value {
    let lists = About::Lists { after: BTreeMap::from([(Kind::Namespaces, 0), (Kind::Tokens, 0)]), wait_ms: 0 };
    let rows = About::Rows { kind: Kind::Tokens, keys: [1, 2].map(|nth| Str::from(uuid(nth))).into() };
    let mut told = Vec::new();
    for about in [lists, rows] {
        let question = encode(&Question { token: Secret::new(token), about });
        told.push(match server.core.answer_region(&question).await.map(|answer| decode(&answer)) {
            Err(refusal) => json!(refusal),
            Ok(Ok(Answer::Lists(lists))) => {
                json!(lists.into_values().map(|list| list.objects.into_keys().collect()).collect::<Vec<Vec<_>>>())
            }
            Ok(Ok(Answer::Rows(Rows::Tokens(tokens)))) => {
                json!(tokens.iter().map(|token| token.secret_id.reveal()).collect::<Vec<_>>())
            }
            Ok(other) => json!(format!("{other:?}")),
        });
    }
    Value::Array(told)
}

fn uuid(nth: u8) -> String {
    AccessorId::from_bytes([nth; 16]).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_with_secrets_are_for_management_tokens() {
    let server = TestServer::start(Settings { acl: true, ..Settings::default() }).await.expect("a server starts");
    let client = AclToken { kind: AclTokenKind::Client, policies: Some(vec!["p".into()]), ..token(2, true) };
    let expired = AclToken { expiration_time: Some(Time::from_secs(1)), ..token(3, true) };
    let commands: [Command; 3] = [
        BootstrapAclToken { token: token(1, true), reset_index: 0 }.into(),
        UpsertAclTokens { tokens: vec![client, expired] }.into(),
        UpsertNamespaces { namespaces: vec![namespace("dev", "")] }.into(),
    ];
    for command in commands {
        server.core.propose_as(Actor::Anonymous, None, command).await.expect("is written");
    }
    let secret = |nth: u8| SecretId::from_bytes([100 + nth; 16]).reveal();
    for (token, expected) in [
        (String::new(), json!(["Permission denied", "Permission denied"])),
        ("root".to_owned(), json!(["Permission denied", "Permission denied"])),
        (secret(2), json!(["Permission denied", "Permission denied"])),
        (secret(3), json!(["ACL token expired", "ACL token expired"])),
        (secret(1), json!([[["default", "dev"], [uuid(1), uuid(2), uuid(3)]], [secret(1), secret(2)]])),
    ] {
        assert_eq!(ask(&server, &token).await, expected);
    }
    server.stop().await;

    let open = TestServer::start(Settings::default()).await.expect("a server starts");
    assert_eq!(ask(&open, "").await, json!(["ACL support disabled", "ACL support disabled"]));
    let about = About::Lists { after: BTreeMap::from([(Kind::Namespaces, 0)]), wait_ms: 0 };
    let question = encode(&Question { token: Secret::default(), about });
    assert!(open.core.answer_region(&question).await.is_ok(), "namespaces are replicated without ACLs, too");
    open.stop().await;
}
