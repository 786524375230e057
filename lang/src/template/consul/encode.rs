//! Values to and from other notations, and digests.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use md5::Md5;
use sha2::{Digest, Sha256};

use super::json::{Style, text as json};
use super::{Plain, arg, toml, yaml};
use crate::template::value::{bytes_of_text, text_of_bytes};
use crate::template::{Type, Value, format};

pub(super) const PLAIN: &[Plain] = &[
    ("base64Decode", &[Type::Text], None, |args| decoded("base64Decode", &STANDARD, arg(args, 0))),
    ("base64Encode", &[Type::Text], None, |args| Ok(Value::text(STANDARD.encode(bytes_of_text(arg(args, 0)))))),
    ("base64URLDecode", &[Type::Text], None, |args| decoded("base64URLDecode", &URL_SAFE, arg(args, 0))),
    ("base64URLEncode", &[Type::Text], None, |args| Ok(Value::text(URL_SAFE.encode(bytes_of_text(arg(args, 0)))))),
    ("hmacSHA256Hex", &[Type::Text, Type::Text], None, |args| {
        Ok(Value::text(hex(&hmac(&bytes_of_text(arg(args, 1)), &bytes_of_text(arg(args, 0))))))
    }),
    ("md5sum", &[Type::Text], None, |args| Ok(Value::text(hex(&Md5::digest(bytes_of_text(arg(args, 0))))))),
    ("sha256Hex", &[Type::Text], None, |args| Ok(Value::text(sha256(arg(args, 0))))),
    ("parseJSON", &[Type::Text], None, |args| parse_json(arg(args, 0))),
    ("parseYAML", &[Type::Text], None, |args| yaml::parse(arg(args, 0))),
    ("spew_dump", &[], Some(Type::Any), |args| Ok(Value::text(format::sprintln(args)))),
    ("spew_sdump", &[], Some(Type::Any), |args| Ok(Value::text(format::sprintln(args)))),
    ("spew_printf", &[Type::Text], Some(Type::Any), spew),
    ("spew_sprintf", &[Type::Text], Some(Type::Any), spew),
    ("toJSON", &[Type::Any], None, |args| Ok(Value::text(json(&args[0], ESCAPED)))),
    ("toJSONPretty", &[Type::Any], None, |args| Ok(Value::text(json(&args[0], Style { pretty: true, ..ESCAPED })))),
    ("toUnescapedJSON", &[Type::Any], None, |args| Ok(Value::text(json(&args[0], Style { escape: false, ..ESCAPED })))),
    ("toUnescapedJSONPretty", &[Type::Any], None, |args| {
        Ok(Value::text(json(&args[0], Style { escape: false, pretty: true })))
    }),
    ("toTOML", &[Type::Any], None, |args| toml::text(&args[0]).map(Value::text)),
    ("toYAML", &[Type::Any], None, |args| Ok(Value::text(yaml::text(&args[0])))),
];

const ESCAPED: Style = Style { escape: true, pretty: false };

fn spew(args: &[Value]) -> Result<Value, String> {
    format::sprintf(arg(args, 0), args.get(1..).unwrap_or_default()).map(Value::text)
}

pub(super) fn decoded(function: &str, by: &base64::engine::GeneralPurpose, text: &str) -> Result<Value, String> {
    use base64::DecodeError;
    let compact = text.replace(['\r', '\n'], "");
    let bytes = by.decode(&compact).map_err(|error| {
        let at = match error {
            DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
            DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => compact.len() / 4 * 4,
        };
        format!("{function}: illegal base64 data at input byte {at}")
    })?;
    Ok(Value::text(text_of_bytes(&bytes)))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn sha256(text: &str) -> String {
    hex(&Sha256::digest(bytes_of_text(text)))
}

/// HMAC of a message with SHA-256 (RFC 2104).
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 64;
    let mut block = if key.len() > BLOCK { Sha256::digest(key).to_vec() } else { key.to_vec() };
    block.resize(BLOCK, 0);
    let pad = |with: u8| block.iter().map(|byte| byte ^ with).collect::<Vec<u8>>();
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().to_vec()
}

fn parse_json(text: &str) -> Result<Value, String> {
    if text.is_empty() {
        return Ok(Value::map(std::collections::BTreeMap::new()));
    }
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
    match documents.next() {
        Some(Ok(json)) => match text[documents.byte_offset()..].trim_start().chars().next() {
            None => Ok(Value::of_json(&json)),
            Some(letter) => Err(format!("invalid character {letter:?} after top-level value")),
        },
        Some(Err(error)) if error.is_eof() => Err("unexpected end of JSON input".to_owned()),
        None => Err("unexpected end of JSON input".to_owned()),
        Some(Err(error)) => match crate::go_json::value_from_slice(text.as_bytes()) {
            Err(error) => Err(error.to_string()),
            Ok(_) => Err(error.to_string()),
        },
    }
}
