//! ID tokens and access tokens of OpenID providers.

use super::*;

/// An id token with these changes to the expected claims.
fn id_token(changes: &Value) -> String {
    let mut claims = json!({
        "iss": "https://provider", "aud": "songline", "sub": "ann", "nonce": "n", "iat": NOW, "exp": NOW + 60,
    });
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    let token = Compact::parse(&token(&json!({"alg": "EdDSA"}), &claims.to_string())).unwrap();
    let key = PublicKey::from_pem(&pem(&pair(1))).unwrap();
    let claims = token.claims([&key].into_iter()).unwrap();
    let expected = IdTokenExpected {
        issuer: "https://provider",
        client_id: "songline",
        audiences: &[],
        algorithms: &["EdDSA".into()],
        nonce: "n",
        clock_skew: Leeways::of(&AclAuthMethodConfig::default()).clock_skew,
    };
    let verdict = check_id_token(&token, &claims, &expected, Time::from_secs(NOW)).map(drop);
    show(verdict.and_then(|()| check_access_token(&token, &claims, "access")))
}

#[test]
fn id_token_is_valid_for_one_request_of_one_client() {
    let half = |text: &str| {
        use sha2::Digest as _;
        URL_SAFE_NO_PAD.encode(&sha2::Sha512::digest(text)[..32])
    };
    let stories = [
        json!({}),
        json!({"nonce": "other"}),
        json!({"nonce": null}),
        json!({"nonce": ""}),
        json!({"iss": "https://provider/"}),
        json!({"aud": "other"}),
        json!({"aud": ["songline", "other"]}),
        json!({"aud": ["songline", "other"], "azp": "songline"}),
        json!({"aud": ["songline", "other"], "azp": "other"}),
        json!({"azp": "other"}),
        json!({"exp": NOW - 59}),
        json!({"exp": NOW - 61}),
        json!({"exp": null}),
        json!({"nbf": NOW + 61}),
        json!({"iat": NOW + 61}),
        json!({"sub": null}),
        json!({"sub": ""}),
        json!({"sub": 7}),
        json!({"at_hash": half("access")}),
        json!({"at_hash": half("another")}),
        json!({"at_hash": 7}),
    ];
    let told: String = stories.into_iter().map(|story| format!("{story}\n    {}\n", id_token(&story))).collect();
    expect![[r#"
        {}
            ok
        {"nonce":"other"}
            invalid id_token nonce: invalid nonce
        {"nonce":null}
            invalid id_token nonce: invalid nonce
        {"nonce":""}
            invalid id_token nonce: invalid nonce
        {"iss":"https://provider/"}
            invalid id_token issuer: expected "https://provider" got "https://provider/": invalid issuer
        {"aud":"other"}
            invalid id_token audiences: invalid audience
        {"aud":["songline","other"]}
            invalid id_token authorized party: invalid authorized party
        {"aud":["songline","other"],"azp":"songline"}
            ok
        {"aud":["songline","other"],"azp":"other"}
            invalid id_token authorized party: invalid authorized party
        {"azp":"other"}
            invalid id_token authorized party: invalid authorized party
        {"exp":1699999941}
            ok
        {"exp":1699999939}
            invalid id_token: invalid expiration time (exp) claim: token is expired
        {"exp":null}
            invalid id_token: token has no expiration time
        {"nbf":1700000061}
            invalid id_token: invalid not before (nbf) claim: token not yet valid
        {"iat":1700000061}
            invalid id_token: invalid issued at (iat) claim: token issued in the future
        {"sub":null}
            invalid id_token subject: sub claim is missing
        {"sub":""}
            invalid id_token subject: sub claim is missing
        {"sub":7}
            invalid id_token: json: cannot unmarshal number into Go struct field Claims.sub of type string
        {"at_hash":"kyd4-h3ZoV2sH212kLKbcOnCBajStKQ38Ae_bfT-PFI"}
            ok
        {"at_hash":"i1P38cbiUaT146jhVok6gybn46A1xz_6k7rm5-OOiEI"}
            invalid access_token hash: invalid at_hash
        {"at_hash":7}
            invalid access_token hash: invalid at_hash
    "#]]
    .assert_eq(&told);
}
