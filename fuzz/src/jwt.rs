//! Untrusted input of a login: tokens, keys and sets of keys, and claims signed by a trusted issuer. Nothing that is
//! not signed counts, and what is signed is claims or a refusal of bounded length. The first byte says which.

use std::fmt::Display;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use songline_identity::jwt::{self, Compact, Expected, IdTokenExpected, PublicKey};
use songline_identity::login::{self, Identity};
use songline_model::{AclAuthMethodConfig, AclBindingRule, Dur, Time};

/// One of the four.
pub fn jwt(input: &[u8]) {
    let Some((which, rest)) = input.split_first() else { return };
    match which % 4 {
        0 => token(rest),
        1 => keys(rest),
        2 => signed(rest),
        _ => pem(rest),
    }
}

const NOW: Time = Time::from_secs(1_700_000_000);

static PAIR: LazyLock<Ed25519KeyPair> =
    LazyLock::new(|| Ed25519KeyPair::from_seed_unchecked(&[1; 32]).expect("any seed is a key"));

static KEY: LazyLock<PublicKey> = LazyLock::new(|| {
    let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode(PAIR.public_key())});
    PublicKey::from_jwk(&jwk).expect("this is a key")
});

/// A method that asks for everything it can.
static METHOD: LazyLock<AclAuthMethodConfig> = LazyLock::new(|| {
    let config = json!({
        "SigningAlgs": ["EdDSA", "RS256"], "BoundAudiences": ["here"], "BoundIssuer": ["them"],
        "ClaimMappings": {"name": "name", "/a/b": "deep"}, "ListClaimMappings": {"groups": "groups", "/a/c": "all"},
    });
    serde_json::from_value(config).expect("this is a method")
});

fn refused(error: impl Display, bytes: usize) {
    let text = error.to_string();
    assert!(text.len() <= 4096 + 64 * bytes, "{} bytes of error for {bytes} of input", text.len());
}

/// A token as it came: no input has guessed a signature.
fn token(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match Compact::parse(text) {
        Err(error) => refused(error, text.len()),
        Ok(token) => {
            assert!(!token.is_signed_by(&KEY), "nobody signed it");
            assert_eq!(token.claims_by_set(std::slice::from_ref(&KEY)), None, "nobody signed it");
        }
    }
}

/// A set of keys, as a provider publishes it; none of them has signed nothing.
fn keys(input: &[u8]) {
    let Some(keys) = jwt::key_set(input) else { return };
    let algorithms = ["RS256", "ES256", "ES384", "ES512", "PS512", "EdDSA"];
    for algorithm in algorithms {
        let token = Compact::parse(&compact(json!({"alg": algorithm}).to_string().as_bytes(), b"{}", &[7; 64]))
            .expect("this is a token");
        assert_eq!(token.claims_by_set(&keys), None, "no key signs by chance");
    }
}

fn compact(header: &[u8], claims: &[u8], signature: &[u8]) -> String {
    [header, claims, signature].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".")
}

/// A header and claims, apart by NUL, that the one who is trusted has signed: what follows from them.
fn signed(input: &[u8]) {
    let at = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let (header, claims) = (&input[..at], input.get(at + 1..).unwrap_or_default());
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let text = format!("{message}.{}", URL_SAFE_NO_PAD.encode(PAIR.sign(message.as_bytes())));
    let token = match Compact::parse(&text) {
        Ok(token) => token,
        Err(error) => return refused(error, input.len()),
    };
    let Some(claims) = token.claims([&*KEY].into_iter()) else { return };
    assert_eq!(token.alg, "EdDSA", "no other way of signing counts");
    if let Err(error) = jwt::validate(&token, &claims, &Expected::of(&METHOD), NOW) {
        refused(error, input.len());
    }
    let (audiences, algorithms) = (["here".into()], ["EdDSA".into()]);
    let expected = IdTokenExpected {
        issuer: "them",
        client_id: "us",
        audiences: &audiences,
        algorithms: &algorithms,
        nonce: "n",
        clock_skew: Dur::from_secs(1),
    };
    if let Err(error) = jwt::check_id_token(&token, &claims, &expected, NOW) {
        refused(error, input.len());
    }
    if let Err(error) = jwt::check_access_token(&token, &claims, "access") {
        refused(error, input.len());
    }
    bound(&claims, input.len());
}

/// The outcome of a login by these claims. Their texts are used as selectors and names too: those come from people.
fn bound(claims: &jwt::Claims, bytes: usize) {
    let identity = match Identity::of(claims, &METHOD) {
        Ok(identity) => identity,
        Err(error) => return refused(error, bytes),
    };
    let text = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default();
    let rule = json!({"BindType": "role", "Selector": text("selector"), "BindName": text("bind")});
    let Ok(rule) = serde_json::from_value::<AclBindingRule>(rule) else { return };
    if let Err(error) = login::bind([&rule].into_iter(), &identity) {
        refused(error, bytes);
    }
}

/// A key in a file; its bytes may be given as they are.
fn pem(input: &[u8]) {
    let body = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(input));
    for text in [Some(body.as_str()), std::str::from_utf8(input).ok()].into_iter().flatten() {
        let _ = jwt::is_certificate(text);
        match PublicKey::from_pem(text) {
            Err(error) => refused(error, text.len()),
            Ok(key) => {
                let token = Compact::parse(&compact(br#"{"alg":"EdDSA"}"#, b"{}", &[7; 64])).expect("this is a token");
                assert!(!token.is_signed_by(&key), "no key signs by chance");
            }
        }
    }
}
