//! An OpenID provider without a socket: its document, keys, tokens and users, each of which a story can change.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use parking_lot::Mutex;
use ring::hmac;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use sha2::Digest as _;
use songline_api::sso::{Credentials, Fetch, FetchError, FetchFuture, Fetched, Outgoing};

/// Issue time of its tokens, in seconds: the start time of these tests' servers.
pub const NOW: i64 = 1_700_000_000;

/// A provider at `https://id.test`.
pub struct Provider {
    /// Deviations from the usual: members of `document`, `keys`, `header`, `claims`, `tokens` and `user`, and
    /// `broken`, a URL that answers 500.
    bent: Mutex<Value>,
    /// Parameters of the authorization URL that the user visited last.
    sent_to: Mutex<Vec<(String, String)>>,
    asked: Mutex<Vec<String>>,
}

fn pair(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).expect("a seed")
}

/// Bytes of a public key.
pub fn public_key(seed: u8) -> Vec<u8> {
    pair(seed).public_key().as_ref().to_vec()
}

/// A public key as a JWK.
pub fn jwk(seed: u8) -> Value {
    json!({"kty": "OKP", "crv": "Ed25519", "kid": format!("key-{seed}"), "x": URL_SAFE_NO_PAD.encode(pair(seed).public_key())})
}

/// A token. Its header determines its signature: `EdDSA` with the key in `kid`, `HS256` with the public key's text,
/// or none.
pub fn signed(header: &Value, claims: &Value) -> String {
    let signed =
        format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()));
    let by = header["by"].as_u64().and_then(|seed| u8::try_from(seed).ok()).unwrap_or(1);
    let signature = match header["alg"].as_str() {
        Some("EdDSA") => pair(by).sign(signed.as_bytes()).as_ref().to_vec(),
        Some("HS256") => {
            let secret = hmac::Key::new(hmac::HMAC_SHA256, pair(by).public_key().as_ref());
            hmac::sign(&secret, signed.as_bytes()).as_ref().to_vec()
        }
        _ => Vec::new(),
    };
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

impl Provider {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { bent: Mutex::new(json!({})), sent_to: Mutex::default(), asked: Mutex::default() })
    }

    /// Replaces all deviations by these.
    pub fn bend(&self, bent: Value) {
        *self.bent.lock() = bent;
    }

    /// Requests that the provider got since the last call.
    pub fn asked(&self) -> String {
        std::mem::take(&mut *self.asked.lock()).join("\n")
    }

    /// Visits the authorization URL as a user and logs in; returns the state that the provider sends back.
    pub fn visit(&self, auth_url: &str) -> String {
        let (_, query) = auth_url.split_once('?').expect("a query");
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        *self.sent_to.lock() = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        self.sent("state")
    }

    fn sent(&self, name: &str) -> String {
        let sent = self.sent_to.lock();
        sent.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()).unwrap_or_default()
    }

    /// The usual object with the deviations of the story. A null member is removed.
    fn usual(&self, what: &str, mut usual: Value) -> Value {
        let bent = self.bent.lock();
        for (name, value) in bent[what].as_object().into_iter().flatten() {
            usual[name] = value.clone();
        }
        if let Some(members) = usual.as_object_mut() {
            members.retain(|_, value| !value.is_null());
        }
        usual
    }

    fn id_token(&self) -> String {
        let claims = json!({
            "iss": "https://id.test", "aud": "songline", "sub": "ann", "nonce": self.sent("nonce").replace("%26", "&"), "iat": NOW, "exp": NOW + 3600,
        });
        signed(&self.usual("header", json!({"alg": "EdDSA", "kid": "key-1"})), &self.usual("claims", claims))
    }

    /// Whether a token request comes from the client, and from the one that started the login.
    fn may_have_tokens(&self, outgoing: &Outgoing) -> bool {
        let form = outgoing.form.as_ref().map(|form| form.0.clone()).unwrap_or_default();
        let pair = |name: &str| {
            form.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}="))).unwrap_or_default().to_owned()
        };
        let is_client = match &outgoing.credentials {
            Credentials::Basic(name, secret) => name == "songline" && secret.reveal() == "hush%26",
            Credentials::None => pair("client_id") == "songline" && pair("client_secret") == "hush%26",
            Credentials::Bearer(_) => false,
        };
        let challenge = self.sent("code_challenge");
        let proves =
            challenge.is_empty() || challenge == URL_SAFE_NO_PAD.encode(sha2::Sha256::digest(pair("code_verifier")));
        is_client && proves && pair("code") == "code" && pair("redirect_uri") == self.sent("redirect_uri")
    }

    fn answer(&self, outgoing: &Outgoing) -> Result<Fetched, FetchError> {
        let path = outgoing.url.strip_prefix("https://id.test").unwrap_or(&outgoing.url);
        self.asked.lock().push(format!("{} {path}", if outgoing.form.is_some() { "POST" } else { "GET" }));
        if self.bent.lock()["broken"] == path {
            return Ok(Fetched { status: 500, body: Bytes::from_static(b"out of\nservice") });
        }
        let refused = Ok(Fetched { status: 401, body: Bytes::from_static(b"{\"error\":\"refused\"}") });
        let body = match path {
            "/.well-known/openid-configuration" => self.usual(
                "document",
                json!({
                    "issuer": "https://id.test",
                    "authorization_endpoint": "https://id.test/login",
                    "token_endpoint": "https://id.test/token",
                    "userinfo_endpoint": "https://id.test/user",
                    "jwks_uri": "https://id.test/keys",
                    "code_challenge_methods_supported": ["S256"],
                }),
            ),
            "/keys" => self.usual("keys", json!({"keys": [jwk(1)]})),
            "/token" if self.may_have_tokens(outgoing) => self.usual(
                "tokens",
                json!({"id_token": self.id_token(), "access_token": "access", "token_type": "Bearer"}),
            ),
            "/user" => match &outgoing.credentials {
                Credentials::Bearer(token) if token.reveal() == "access" => {
                    self.usual("user", json!({"sub": "ann", "team": "ops", "roles": ["dev", "admin"]}))
                }
                Credentials::Bearer(_) | Credentials::Basic(..) | Credentials::None => return refused,
            },
            _ => return refused,
        };
        let body = Bytes::from(body.to_string());
        if body.len() > outgoing.bytes_max {
            Err(FetchError::TooLong(outgoing.bytes_max))
        } else {
            Ok(Fetched { status: 200, body })
        }
    }
}

impl Fetch for Provider {
    fn fetch(&self, outgoing: Outgoing) -> FetchFuture<'_> {
        let answer = self.answer(&outgoing);
        Box::pin(async { answer })
    }
}
