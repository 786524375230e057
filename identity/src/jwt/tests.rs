//! Tests of tokens against the requirements of a method, and of keys from files and sets.

mod id_token;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use expect_test::{Expect, expect};
use proptest::prelude::*;
use ring::hmac;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use songline_model::{AclAuthMethodConfig, Time};

use super::*;

/// Time of all tests in Unix seconds.
const NOW: i64 = 1_700_000_000;
const RSA: &str = include_str!("tests/rsa.pem");
const RS256: &str = include_str!("tests/rs256.jwt");

fn pair(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
}

/// The public key in PEM.
fn pem(pair: &Ed25519KeyPair) -> String {
    let mut der = vec![0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
    der.extend_from_slice(pair.public_key().as_ref());
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der))
}

/// Signs as the header says: with the key pair, with the text of the public key as a shared secret, or not at all.
fn token(header: &Value, payload: &str) -> String {
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(payload));
    let signature = match header["alg"].as_str() {
        Some("EdDSA") => pair(if header["by"] == "stranger" { 2 } else { 1 }).sign(signed.as_bytes()).as_ref().to_vec(),
        Some("HS256") => hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, pem(&pair(1)).as_bytes()), signed.as_bytes())
            .as_ref()
            .to_vec(),
        _ => Vec::new(),
    };
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn verdict(config: &AclAuthMethodConfig, text: &str) -> Result<(), JwtError> {
    let key = PublicKey::from_pem(&pem(&pair(1)))?;
    let token = Compact::parse(text)?;
    let claims = token.claims([&key].into_iter()).ok_or(Refusal::Unsigned)?;
    validate(&token, &claims, &Expected::of(config), Time::from_secs(NOW))
}

fn show(verdict: Result<(), impl std::fmt::Display>) -> String {
    verdict.map_or_else(|error| error.to_string(), |()| "ok".to_owned())
}

/// Each line is a header and claims; the claims may be any text.
fn check(config: Value, story: &str, expected: Expect) {
    let config: AclAuthMethodConfig = serde_json::from_value(config).unwrap();
    let mut out = String::new();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (header, payload) = line.split_once(' ').unwrap();
        let verdict = verdict(&config, &token(&serde_json::from_str(header).unwrap(), payload));
        out.push_str(&format!("{line}\n    {}\n", show(verdict)));
    }
    expected.assert_eq(&out);
}

fn eddsa() -> Value {
    json!({"SigningAlgs": ["EdDSA"]})
}

#[test]
fn jwt_times_have_leeway_and_missing_ones_are_derived() {
    check(
        eddsa(),
        r#"{"alg":"EdDSA"} {"iat":1700000000}
        {"alg":"EdDSA"} {"exp":1699999941}
        {"alg":"EdDSA"} {"exp":1699999939}
        {"alg":"EdDSA"} {"exp":1700000209}
        {"alg":"EdDSA"} {"exp":1700000211}
        {"alg":"EdDSA"} {"iat":1699999791}
        {"alg":"EdDSA"} {"iat":1699999789}
        {"alg":"EdDSA"} {"nbf":1700000060}
        {"alg":"EdDSA"} {"nbf":1700000061}
        {"alg":"EdDSA"} {"iat":1700000061,"nbf":1,"exp":4102444800}
        {"alg":"EdDSA"} {"iat":0,"nbf":0,"exp":0}
        {"alg":"EdDSA"} {"iat":1699999999.9,"exp":4102444800.5}
        {"alg":"EdDSA"} {"iat":1,"exp":1e300}
        {"alg":"EdDSA"} {"nbf":1e300}
        {"alg":"EdDSA"} {"exp":"soon"}
        {"alg":"EdDSA"} null"#,
        expect![[r#"
            {"alg":"EdDSA"} {"iat":1700000000}
                ok
            {"alg":"EdDSA"} {"exp":1699999941}
                ok
            {"alg":"EdDSA"} {"exp":1699999939}
                unable to verify signature of JWT token: invalid expiration time (exp) claim: token is expired
            {"alg":"EdDSA"} {"exp":1700000209}
                ok
            {"alg":"EdDSA"} {"exp":1700000211}
                unable to verify signature of JWT token: invalid not before (nbf) claim: token not yet valid
            {"alg":"EdDSA"} {"iat":1699999791}
                ok
            {"alg":"EdDSA"} {"iat":1699999789}
                unable to verify signature of JWT token: invalid expiration time (exp) claim: token is expired
            {"alg":"EdDSA"} {"nbf":1700000060}
                ok
            {"alg":"EdDSA"} {"nbf":1700000061}
                unable to verify signature of JWT token: invalid not before (nbf) claim: token not yet valid
            {"alg":"EdDSA"} {"iat":1700000061,"nbf":1,"exp":4102444800}
                unable to verify signature of JWT token: invalid issued at (iat) claim: token issued in the future
            {"alg":"EdDSA"} {"iat":0,"nbf":0,"exp":0}
                unable to verify signature of JWT token: no issued at (iat), not before (nbf), or expiration time (exp) claims in token
            {"alg":"EdDSA"} {"iat":1699999999.9,"exp":4102444800.5}
                ok
            {"alg":"EdDSA"} {"iat":1,"exp":1e300}
                ok
            {"alg":"EdDSA"} {"nbf":1e300}
                unable to verify signature of JWT token: invalid not before (nbf) claim: token not yet valid
            {"alg":"EdDSA"} {"exp":"soon"}
                unable to verify signature of JWT token: square/go-jose/jwt: expected number value to unmarshal NumericDate
            {"alg":"EdDSA"} null
                unable to verify signature of JWT token: no issued at (iat), not before (nbf), or expiration time (exp) claims in token
        "#]],
    );
    let strict =
        json!({"SigningAlgs": ["EdDSA"], "ExpirationLeeway": -1, "NotBeforeLeeway": -1, "ClockSkewLeeway": -1});
    check(
        strict,
        r#"{"alg":"EdDSA"} {"iat":1700000000}
        {"alg":"EdDSA"} {"iat":1699999999}
        {"alg":"EdDSA"} {"exp":1700000000}
        {"alg":"EdDSA"} {"exp":1700000001}
        {"alg":"EdDSA"} {"nbf":1700000001,"exp":1700000002}"#,
        expect![[r#"
            {"alg":"EdDSA"} {"iat":1700000000}
                ok
            {"alg":"EdDSA"} {"iat":1699999999}
                unable to verify signature of JWT token: invalid expiration time (exp) claim: token is expired
            {"alg":"EdDSA"} {"exp":1700000000}
                ok
            {"alg":"EdDSA"} {"exp":1700000001}
                unable to verify signature of JWT token: invalid not before (nbf) claim: token not yet valid
            {"alg":"EdDSA"} {"nbf":1700000001,"exp":1700000002}
                unable to verify signature of JWT token: invalid not before (nbf) claim: token not yet valid
        "#]],
    );
}

#[test]
fn jwt_needs_a_bound_issuer_and_audience() {
    let config = json!({"SigningAlgs": ["EdDSA"], "BoundIssuer": ["a", "b"], "BoundAudiences": ["us", "them"]});
    check(
        config,
        r#"{"alg":"EdDSA"} {"iat":1700000000,"iss":"b","aud":"us"}
        {"alg":"EdDSA"} {"iat":1700000000,"iss":"b","aud":["x","them"]}
        {"alg":"EdDSA"} {"iat":1700000000,"iss":"b","aud":["x"]}
        {"alg":"EdDSA"} {"iat":1700000000,"iss":"b","aud":[]}
        {"alg":"EdDSA"} {"iat":1700000000,"iss":"b"}
        {"alg":"EdDSA"} {"iat":1700000000,"iss":"b","aud":7}
        {"alg":"EdDSA"} {"iat":1700000000,"iss":"c","aud":"us"}
        {"alg":"EdDSA"} {"iat":1700000000,"aud":"us"}
        {"alg":"EdDSA"} {"iat":1700000000,"iss":5,"aud":"us"}
        {"alg":"EdDSA"} {"iat":1700000000,"iss":"b","aud":"us","sub":[]}
        {"alg":"EdDSA"} {"iat":1700000000,"iss":"b","aud":"us","iss":"c"}"#,
        expect![[r#"
            {"alg":"EdDSA"} {"iat":1700000000,"iss":"b","aud":"us"}
                ok
            {"alg":"EdDSA"} {"iat":1700000000,"iss":"b","aud":["x","them"]}
                ok
            {"alg":"EdDSA"} {"iat":1700000000,"iss":"b","aud":["x"]}
                unable to verify signature of JWT token: invalid audience (aud) claim: audience claim does not match any expected audience
            {"alg":"EdDSA"} {"iat":1700000000,"iss":"b","aud":[]}
                unable to verify signature of JWT token: invalid audience (aud) claim: audience claim does not match any expected audience
            {"alg":"EdDSA"} {"iat":1700000000,"iss":"b"}
                unable to verify signature of JWT token: invalid audience (aud) claim: audience claim does not match any expected audience
            {"alg":"EdDSA"} {"iat":1700000000,"iss":"b","aud":7}
                unable to verify signature of JWT token: square/go-jose/jwt: expected string or array value to unmarshal to Audience
            {"alg":"EdDSA"} {"iat":1700000000,"iss":"c","aud":"us"}
                invalid JWT issuer: c
            {"alg":"EdDSA"} {"iat":1700000000,"aud":"us"}
                auth method specifies BoundIssuers but the provided token does not contain issuer information
            {"alg":"EdDSA"} {"iat":1700000000,"iss":5,"aud":"us"}
                unable to verify signature of JWT token: json: cannot unmarshal number into Go struct field Claims.iss of type string
            {"alg":"EdDSA"} {"iat":1700000000,"iss":"b","aud":"us","sub":[]}
                unable to verify signature of JWT token: json: cannot unmarshal array into Go struct field Claims.sub of type string
            {"alg":"EdDSA"} {"iat":1700000000,"iss":"b","aud":"us","iss":"c"}
                invalid JWT issuer: c
        "#]],
    );
}

#[test]
fn unsigned_jwt_and_hmac_with_a_public_key_are_refused() {
    check(
        json!({"SigningAlgs": ["EdDSA", "RS256"]}),
        r#"{"alg":"HS256"} {"iat":1700000000}
        {"alg":"none"} {"iat":1700000000}
        {"alg":"None"} {"iat":1700000000}
        {"alg":""} {"iat":1700000000}
        {"typ":"JWT"} {"iat":1700000000}
        {"alg":"RS256"} {"iat":1700000000}
        {"alg":"ES256"} {"iat":1700000000}
        {"alg":"EdDSA","by":"stranger"} {"iat":1700000000}
        {"alg":"EdDSA","crit":["exp"]} {"iat":1700000000}
        {"alg":"EdDSA","kid":7} {"iat":1700000000}
        {"alg":"EdDSA"} [1]
        {"alg":"EdDSA"} {"iat":1700000000"#,
        expect![[r#"
            {"alg":"HS256"} {"iat":1700000000}
                unable to verify signature of JWT token: error verifying token signature: no known key successfully validated the token signature
            {"alg":"none"} {"iat":1700000000}
                unable to verify signature of JWT token: error verifying token signature: no known key successfully validated the token signature
            {"alg":"None"} {"iat":1700000000}
                unable to verify signature of JWT token: error verifying token signature: no known key successfully validated the token signature
            {"alg":""} {"iat":1700000000}
                unable to verify signature of JWT token: error verifying token signature: no known key successfully validated the token signature
            {"typ":"JWT"} {"iat":1700000000}
                unable to verify signature of JWT token: error verifying token signature: no known key successfully validated the token signature
            {"alg":"RS256"} {"iat":1700000000}
                unable to verify signature of JWT token: error verifying token signature: no known key successfully validated the token signature
            {"alg":"ES256"} {"iat":1700000000}
                unable to verify signature of JWT token: error verifying token signature: no known key successfully validated the token signature
            {"alg":"EdDSA","by":"stranger"} {"iat":1700000000}
                unable to verify signature of JWT token: error verifying token signature: no known key successfully validated the token signature
            {"alg":"EdDSA","crit":["exp"]} {"iat":1700000000}
                unable to verify signature of JWT token: error verifying token signature: no known key successfully validated the token signature
            {"alg":"EdDSA","kid":7} {"iat":1700000000}
                unable to verify signature of JWT token: error verifying token signature: json: cannot unmarshal number into Go struct field Header.kid of type string
            {"alg":"EdDSA"} [1]
                unable to verify signature of JWT token: error verifying token signature: no known key successfully validated the token signature
            {"alg":"EdDSA"} {"iat":1700000000
                unable to verify signature of JWT token: error verifying token signature: no known key successfully validated the token signature
        "#]],
    );
    let allowing = [json!(null), json!(["RS256", "ES256"]), json!(["EdDSA", "HS256"]), json!(["none"])];
    let told = allowing.map(|algorithms| {
        let config = serde_json::from_value(json!({"SigningAlgs": algorithms})).unwrap();
        show(verdict(&config, &token(&json!({"alg": "EdDSA"}), r#"{"iat":1700000000}"#)))
    });
    expect![[r#"
        unable to verify signature of JWT token: invalid algorithm (alg) header parameter: token signed with unexpected algorithm
        unable to verify signature of JWT token: invalid algorithm (alg) header parameter: token signed with unexpected algorithm
        unable to verify signature of JWT token: invalid algorithm (alg) header parameter: unsupported signing algorithm "HS256"
        unable to verify signature of JWT token: invalid algorithm (alg) header parameter: unsupported signing algorithm "none""#]]
    .assert_eq(&told.join("\n"));
}

#[test]
fn malformed_jwt_is_refused_with_the_reference_error() {
    let config = AclAuthMethodConfig::default();
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"EdDSA"}"#);
    let deep = URL_SAFE_NO_PAD.encode("[".repeat(100_000));
    let long = format!("{header}.{}.{header}", "a".repeat(TOKEN_BYTES_MAX));
    let texts = ["", "x", "x.y", "a.b.c.d", "x.y.z", "..", &format!("{header}.e30="), &format!("{header}.e%30.")];
    let mut out = String::new();
    for text in texts {
        out.push_str(&format!("{}\n", show(verdict(&config, text))));
    }
    for text in [format!("{deep}.e30."), format!("{header}.{deep}."), long] {
        out.push_str(&format!("{}\n", show(verdict(&config, &text))));
    }
    expect![[r#"
        unable to verify signature of JWT token: error verifying token signature: square/go-jose: compact JWS format must have three parts
        unable to verify signature of JWT token: error verifying token signature: square/go-jose: compact JWS format must have three parts
        unable to verify signature of JWT token: error verifying token signature: square/go-jose: compact JWS format must have three parts
        unable to verify signature of JWT token: error verifying token signature: square/go-jose: compact JWS format must have three parts
        unable to verify signature of JWT token: error verifying token signature: illegal base64 data at input byte 0
        unable to verify signature of JWT token: error verifying token signature: EOF
        unable to verify signature of JWT token: error verifying token signature: square/go-jose: compact JWS format must have three parts
        unable to verify signature of JWT token: error verifying token signature: illegal base64 data at input byte 1
        unable to verify signature of JWT token: error verifying token signature: exceeded max depth
        unable to verify signature of JWT token: error verifying token signature: no known key successfully validated the token signature
        unable to verify signature of JWT token: error verifying token signature: token is too long
    "#]]
    .assert_eq(&out);
}

#[test]
fn rsa_jwt_verifies_and_any_changed_character_invalidates_the_signature() {
    let key = PublicKey::from_pem(RSA).unwrap();
    let token = Compact::parse(&format!(" {RS256}")).unwrap();
    let claims = token.claims([&key].into_iter()).unwrap();
    let expected =
        AclAuthMethodConfig { bound_audiences: Some(vec!["nomad".into()]), ..AclAuthMethodConfig::default() };
    assert_eq!(validate(&token, &claims, &Expected::of(&expected), Time::from_secs(NOW)), Ok(()));
    for at in 0..RS256.trim().len() {
        let mut bytes = RS256.trim().as_bytes().to_vec();
        // The last character has unused bits.
        bytes[at] = if bytes[at] == b'A' { b'w' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        let signed = Compact::parse(&changed).is_ok_and(|token| token.is_signed_by(&key));
        assert!(!signed, "letter {at} may change");
    }
}

/// Keys and tokens from another program: an algorithm, the key's file without its first and last line, a token.
#[test]
fn every_algorithm_verifies_with_its_own_kind_of_key_and_no_other() {
    let lines: Vec<Vec<&str>> =
        include_str!("tests/algorithms.txt").lines().map(|line| line.split(' ').collect()).collect();
    let keys: Vec<PublicKey> = lines
        .iter()
        .map(|line| {
            PublicKey::from_pem(&format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----", line[1])).unwrap()
        })
        .collect();
    assert_eq!(lines.len(), Algorithm::ALL.len());
    for line in &lines {
        let token = Compact::parse(line[2]).unwrap();
        for (other, key) in lines.iter().zip(&keys) {
            assert_eq!(token.is_signed_by(key), line[1] == other[1], "{} by the key of {}", line[0], other[0]);
        }
        let (signed, signature) = line[2].rsplit_once('.').unwrap();
        for (other, key) in lines.iter().zip(&keys).filter(|(other, _)| other[0] != line[0]) {
            let header = URL_SAFE_NO_PAD.encode(json!({"alg": other[0]}).to_string());
            let (_, payload) = signed.split_once('.').unwrap();
            let renamed = Compact::parse(&format!("{header}.{payload}.{signature}")).unwrap();
            assert!(!renamed.is_signed_by(key), "{} taken for {}", line[0], other[0]);
        }
    }
}

#[test]
fn public_keys_are_read_from_pem_files_certificates_and_key_sets() {
    let named = |key: PublicKey| {
        format!("{key:?}").split_once("material: ").unwrap().1.split(['(', ' ']).next().unwrap().to_owned()
    };
    let told = |text: &str| PublicKey::from_pem(text).map_or_else(|error| error.to_string(), named);
    let certificate = include_str!("tests/certificate.pem");
    let of_certificate = include_str!("tests/of_certificate.pem");
    assert_eq!(PublicKey::from_pem(certificate), PublicKey::from_pem(of_certificate));
    assert!(is_certificate(certificate) && !is_certificate(of_certificate) && !is_certificate("junk"));
    let texts = [
        RSA,
        &pem(&pair(1)),
        of_certificate,
        include_str!("tests/p384.pem"),
        "junk",
        "-----BEGIN X-----\nMAA=\n-----END X-----",
    ];
    expect![[r#"
        Rsa
        Ed25519
        P256
        P384
        unable to parse public key for JWT auth: data does not contain any valid RSA or ECDSA public keys
        unable to parse public key for JWT auth: data does not contain any valid RSA or ECDSA public keys"#]]
    .assert_eq(&texts.map(told).join("\n"));
    let x = URL_SAFE_NO_PAD.encode(pair(1).public_key());
    let set = json!({"keys": [
        {"kty": "OKP", "crv": "Ed25519", "kid": "one", "x": x},
        {"kty": "OKP", "crv": "Ed25519", "kid": "other", "x": URL_SAFE_NO_PAD.encode(pair(2).public_key())},
        {"kty": "OKP", "crv": "Ed25519", "kid": "not to sign", "use": "enc", "x": x},
        {"kty": "OKP", "crv": "Ed25519", "kid": "for something else", "alg": "ES256", "x": x},
        {"kty": "oct", "kid": "a secret", "k": x},
        {"kty": "EC", "crv": "P-256", "kid": "too long", "x": URL_SAFE_NO_PAD.encode([1; 33]), "y": x},
        {"kty": "RSA", "kid": "no exponent", "n": x},
        7,
    ]});
    let keys = key_set(set.to_string().as_bytes()).unwrap();
    let by = |kid: Value| {
        let token = Compact::parse(&token(&json!({"alg": "EdDSA", "kid": kid}), "{}")).unwrap();
        token.claims_by_set(&keys).is_some()
    };
    let found = ["one", "other", "not to sign", "for something else", "a secret", "nobody", ""]
        .map(|kid| format!("{kid}: {}", by(json!(kid))));
    expect![[r#"
        one: true
        other: false
        not to sign: false
        for something else: false
        a secret: false
        nobody: false
        : true"#]]
    .assert_eq(&found.join("\n"));
    assert_eq!((key_set(b"{}"), key_set(b"[1]"), key_set(b"")), (None, None, None));
}

proptest! {
    #[test]
    fn random_tokens_and_keys_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in ".{0,80}") {
        let token = format!("{}.{}.{}", URL_SAFE_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&text), URL_SAFE_NO_PAD.encode(&bytes));
        let _refused = (Compact::parse(&text).is_err(), Compact::parse(&token).is_err());
        let file = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----", STANDARD.encode(&bytes));
        prop_assert!(PublicKey::from_pem(&file).is_err() || bytes.len() > 32);
        let _set = (key_set(&bytes), key_set(text.as_bytes()), is_certificate(&text));
    }

    #[test]
    fn damaged_certificate_never_panics(at in 0..400_usize, byte in any::<u8>()) {
        let pem = include_str!("tests/certificate.pem");
        let body: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let mut der = STANDARD.decode(body).unwrap();
        let at = at % der.len();
        der[at] = byte;
        let _key = PublicKey::from_pem(&format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----", STANDARD.encode(der)));
    }
}
