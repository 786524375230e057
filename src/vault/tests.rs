//! Requests to a small Vault in this process.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use parking_lot::Mutex;
use serde_json::{Value, json};
use songline_model::Secret;
use songline_server::vault::{TaskToken, Vault, VaultError};

use super::HttpVault;
use crate::config::VaultConfig;

/// Requests that the small Vault got, and its next answer.
#[derive(Default)]
struct Seen {
    requests: Vec<String>,
    bodies: Vec<Value>,
    fails: Option<(u16, &'static str)>,
}

async fn answer(
    State(seen): State<Arc<Mutex<Seen>>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    let mut seen = seen.lock();
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("-").to_owned();
    let (wrap, namespace) = (header("X-Vault-Wrap-TTL"), header("X-Vault-Namespace"));
    seen.requests.push(format!("{} wrap {wrap} namespace {namespace}", uri.path()));
    seen.bodies.push(serde_json::from_slice(&body).unwrap_or_default());
    if header("X-Vault-Token") != "own" {
        return (StatusCode::FORBIDDEN, json!({ "errors": ["permission denied"] }).to_string());
    }
    match seen.fails.take() {
        Some((status, text)) => (StatusCode::from_u16(status).expect("a status"), text.to_owned()),
        None => (StatusCode::OK, json!({ "wrap_info": { "token": "wrapped" } }).to_string()),
    }
}

async fn small_vault() -> (Arc<Mutex<Seen>>, String) {
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}/", listener.local_addr().expect("an address"));
    let router = Router::new().fallback(answer).with_state(Arc::clone(&seen));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (seen, address)
}

fn vault(address: &str, role: &str, token: &str) -> HttpVault {
    let config = VaultConfig {
        enabled: true,
        address: address.to_owned(),
        create_from_role: role.to_owned(),
        token: Secret::new(token),
        ..VaultConfig::default()
    };
    HttpVault::new(&config).expect("a client")
}

fn wanted(namespace: &str) -> TaskToken {
    TaskToken {
        display_name: "a-web".into(),
        policies: vec!["read-db".into()],
        namespace: namespace.into(),
        meta: BTreeMap::from([("Task", "web".to_owned())]),
    }
}

#[tokio::test]
async fn token_is_created_wrapped_from_the_role_or_with_a_period() {
    let (seen, address) = small_vault().await;
    let made = vault(&address, "", "own").create_token(wanted("")).await.expect("a token");
    assert_eq!(made.reveal(), "wrapped");
    vault(&address, "tasks", "own").create_token(wanted("team")).await.expect("a token");
    let seen = seen.lock();
    let expected = ["/v1/auth/token/create wrap 5m namespace -", "/v1/auth/token/create/tasks wrap 5m namespace team"];
    assert_eq!(seen.requests, expected);
    let (plain, of_role) = (&seen.bodies[0], &seen.bodies[1]);
    assert_eq!((&plain["period"], &of_role["period"]), (&json!("72h"), &Value::Null));
    assert_eq!((&plain["policies"], &plain["meta"]["Task"]), (&json!(["read-db"]), &json!("web")));
    assert_eq!((&plain["display_name"], &plain["renewable"]), (&json!("a-web"), &json!(true)));
}

#[tokio::test]
async fn failure_is_recoverable_unless_vault_refuses() {
    let (seen, address) = small_vault().await;
    let refused = vault(&address, "", "another").create_token(wanted("")).await.expect_err("is refused");
    assert!(matches!(refused, VaultError::Refused { status: 403, .. }) && !refused.is_recoverable(), "{refused}");
    seen.lock().fails = Some((503, "sealed"));
    let sealed = vault(&address, "", "own").create_token(wanted("")).await.expect_err("is sealed");
    assert!(sealed.is_recoverable() && sealed.to_string().contains("status 503: sealed"), "{sealed}");
    let closed = vault("http://127.0.0.1:1", "", "own").create_token(wanted("")).await.expect_err("nobody is there");
    assert!(closed.is_recoverable() && !closed.to_string().contains("own"), "{closed}");
}
