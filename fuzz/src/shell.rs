//! Input that the shell reads from strangers: configuration files, identities of workloads, snapshot archives. The first byte
//! says which.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use songline::config::AgentConfig;
use songline::model::{RootKeyId, Time};
use songline_server::KnownKey;

/// One of the three.
pub fn shell(input: &[u8]) {
    let Some((which, rest)) = input.split_first() else { return };
    match which % 4 {
        0 => config(rest),
        1 => token(rest),
        2 => signed(rest),
        _ => archive(rest),
    }
}

/// A configuration file: it is applied, or refused with a text of one line that is not longer than the file demands.
fn config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let document = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).ok()
    } else {
        songline_lang::config::parse(text).ok()
    };
    let Some(document) = document else { return };
    let mut config = AgentConfig::dev();
    if let Err(error) = songline::config::file::apply(&document, &mut config).and_then(|_| config.check()) {
        refused(&format!("{error:#}"), text);
    }
}

/// A refusal says something, in one line that is not longer than what it quotes demands.
fn refused(error: &str, input: &str) {
    assert!(!error.is_empty(), "an error says something");
    assert!(error.len() < 4096 + 8 * input.len(), "{} bytes of error for {} of input", error.len(), input.len());
    assert!(!error.contains('\n'), "{error:?} is one line");
}

const KEY_ID: [u8; 16] = [9; 16];

fn key() -> KnownKey {
    KnownKey::new(RootKeyId::from_bytes(KEY_ID), &[7; 32]).expect("all bytes are a key")
}

/// A token as it came: no input has guessed a signature.
fn token(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let error = key().verify(text, Time::from_secs(1_700_000_000)).expect_err("nobody signed it").to_string();
    refused(&error, text);
}

/// A header and claims (apart by NUL) that the cluster's own key signed: they are claims or a refusal, and only `EdDSA`
/// counts.
fn signed(input: &[u8]) {
    let at = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let (header, claims) = (&input[..at], input.get(at + 1..).unwrap_or_default());
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let key = key();
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(key.sign(message.as_bytes()).0));
    if key.verify(&token, Time::from_secs(1_700_000_000)).is_ok() {
        let header: serde_json::Value = serde_json::from_slice(header).expect("a header that counts is JSON");
        assert_eq!(header["alg"], "EdDSA", "no other way of signing counts");
    }
}

/// An archive: its state is never longer than what it holds times what gzip can do.
fn archive(input: &[u8]) {
    let mut state = Vec::new();
    let _ = songline_server::archive::read(input, &mut state);
    assert!(
        state.len() <= input.len() * 1100 + 1024,
        "an archive of {} bytes gave {} of state",
        input.len(),
        state.len()
    );
}
