//! Hashes of text in lower-case hexadecimal, and UUIDs derived from hashes; and `rsadecrypt`, which is refused.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::{Sha256, Sha512};

use super::{Called, Function, Parameter, Takes, fail, plain, text_of};
use crate::hcl::value::Value;

const TEXT: &[Parameter] = &[("str", Takes::Text)];

pub(super) const FUNCTIONS: &[Function] = &[
    plain("md5", TEXT, |given| digest(&Md5::digest(text_of(given, 0)))),
    plain("sha1", TEXT, |given| digest(&Sha1::digest(text_of(given, 0)))),
    plain("sha256", TEXT, |given| digest(&Sha256::digest(text_of(given, 0)))),
    plain("sha512", TEXT, |given| digest(&Sha512::digest(text_of(given, 0)))),
    plain("rsadecrypt", &[("ciphertext", Takes::Text), ("privatekey", Takes::Text)], rsa_decrypt),
    plain("uuidv5", &[("namespace", Takes::Text), ("name", Takes::Text)], uuid_v5),
];

fn digest(bytes: &[u8]) -> Called {
    Ok(Value::Text(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// Refused after its arguments were looked at: no available implementation decrypts RSA in time that is independent of
/// the key (RUSTSEC-2023-0071).
fn rsa_decrypt(given: &[Value]) -> Called {
    let input = text_of(given, 0);
    if STANDARD.decode(input).is_err() {
        return fail(format!("failed to decode input {input:?}: cipher text must be base64-encoded"));
    }
    if !text_of(given, 1).contains("-----BEGIN ") {
        return fail("failed to parse key: no key found");
    }
    fail(
        "this server does not decrypt RSA; give the job the clear text as a variable of the job file, or keep it in a Nomad variable",
    )
}

/// Name spaces of RFC 4122, which differ in one byte.
const NAMESPACES: [(&str, u8); 4] = [("dns", 0x10), ("url", 0x11), ("oid", 0x12), ("x500", 0x14)];

fn uuid_v5(given: &[Value]) -> Called {
    let namespace = text_of(given, 0);
    let known = NAMESPACES.iter().find(|(name, _)| *name == namespace);
    let namespace = match known {
        Some((_, byte)) => {
            [0x6b, 0xa7, 0xb8, *byte, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8]
        }
        None => match uuid_bytes(namespace) {
            Some(bytes) => bytes,
            None => {
                let reason = match namespace.len() {
                    32 | 36 | 38 => "invalid UUID format".to_string(),
                    45 if !namespace.to_ascii_lowercase().starts_with("urn:uuid:") => {
                        format!("invalid urn prefix: {:?}", namespace.get(..9).unwrap_or(namespace))
                    }
                    45 => "invalid UUID format".to_string(),
                    length => format!("invalid UUID length: {length}"),
                };
                return fail(format!("uuidv5() doesn't support namespace {namespace} ({reason})"));
            }
        },
    };
    let digest = Sha1::new().chain_update(namespace).chain_update(text_of(given, 1)).finalize();
    Ok(Value::Text(uuid_text(&digest, 5)))
}

/// The first sixteen bytes as a UUID of this version.
pub(crate) fn uuid_text(bytes: &[u8], version: u8) -> String {
    let mut out = String::new();
    for (at, byte) in bytes.iter().take(16).enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        let byte = match at {
            6 => byte & 0x0f | version << 4,
            8 => byte & 0x3f | 0x80,
            _ => *byte,
        };
        out.push_str(&format!("{byte:02x}"));
    }
    out
}

fn uuid_bytes(text: &str) -> Option<[u8; 16]> {
    let text = text.strip_prefix("urn:uuid:").unwrap_or(text);
    let text = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(text);
    let has_hyphens = text.len() == 36 && [8, 13, 18, 23].iter().all(|at| text.as_bytes().get(*at) == Some(&b'-'));
    let digits: String = if has_hyphens { text.split('-').collect() } else { text.to_owned() };
    if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}
