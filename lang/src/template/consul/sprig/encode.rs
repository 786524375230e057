//! Values to and from other notations, and digests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

use super::{Called, Plain, arg};
use crate::go_json;
use crate::template::consul::encode::{decoded, hex, sha256};
use crate::template::consul::json::{self, Style};
use crate::template::value::{bytes_of_text, text_of_bytes};
use crate::template::{Type, Value};

pub(super) const PLAIN: &[Plain] = &[
    ("adler32sum", &[Type::Text], None, |args| Ok(Value::text(adler32(&bytes_of_text(arg(args, 0))).to_string()))),
    ("b32dec", &[Type::Text], None, |args| {
        // An error is the result.
        Ok(match from_base32(arg(args, 0)) {
            Ok(bytes) => Value::text(text_of_bytes(&bytes)),
            Err(at) => Value::text(format!("illegal base32 data at input byte {at}")),
        })
    }),
    ("b32enc", &[Type::Text], None, |args| Ok(Value::text(to_base32(&bytes_of_text(arg(args, 0)))))),
    ("b64dec", &[Type::Text], None, |args| {
        let decoded = decoded("", &STANDARD, arg(args, 0));
        Ok(decoded.unwrap_or_else(|error| Value::text(error.trim_start_matches(": "))))
    }),
    ("b64enc", &[Type::Text], None, |args| Ok(Value::text(STANDARD.encode(bytes_of_text(arg(args, 0)))))),
    ("fromJson", &[Type::Text], None, |args| Ok(from_json(args).unwrap_or(Value::Nil))),
    ("mustFromJson", &[Type::Text], None, from_json),
    ("mustToJson", &[Type::Any], None, |args| Ok(Value::text(json::text(&args[0], PLAIN_JSON)))),
    ("mustToPrettyJson", &[Type::Any], None, |args| Ok(Value::text(json::text(&args[0], PRETTY_JSON)))),
    ("mustToRawJson", &[Type::Any], None, |args| Ok(Value::text(json::text(&args[0], RAW_JSON)))),
    ("sha1sum", &[Type::Text], None, |args| Ok(Value::text(hex(&Sha1::digest(bytes_of_text(arg(args, 0))))))),
    ("sha256sum", &[Type::Text], None, |args| Ok(Value::text(sha256(arg(args, 0))))),
    ("toJson", &[Type::Any], None, |args| Ok(Value::text(json::text(&args[0], PLAIN_JSON)))),
    ("toPrettyJson", &[Type::Any], None, |args| Ok(Value::text(json::text(&args[0], PRETTY_JSON)))),
    ("toRawJson", &[Type::Any], None, |args| Ok(Value::text(json::text(&args[0], RAW_JSON)))),
];

const PLAIN_JSON: Style = Style { escape: true, pretty: false };
const PRETTY_JSON: Style = Style { escape: true, pretty: true };
const RAW_JSON: Style = Style { escape: false, pretty: false };

fn from_json(args: &[Value]) -> Called {
    match serde_json::from_str(arg(args, 0)) {
        Ok(json) => Ok(Value::of_json(&json)),
        Err(error) => match go_json::value_from_slice(arg(args, 0).as_bytes()) {
            Err(error) => Err(error.to_string()),
            Ok(_) => Err(error.to_string()),
        },
    }
}

fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65521;
    let (a, b) = bytes.iter().fold((1, 0), |(a, b): (u32, u32), byte| {
        let a = (a + u32::from(*byte)) % MODULUS;
        (a, (b + a) % MODULUS)
    });
    b << 16 | a
}

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn to_base32(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.chunks(5) {
        let mut block = [0; 8];
        block[3..3 + chunk.len()].copy_from_slice(chunk);
        let bits = u64::from_be_bytes(block);
        let used = (chunk.len() * 8).div_ceil(5);
        for at in 0..8 {
            let index = (bits >> (35 - 5 * at)) & 31;
            out.push(if at < used { char::from(BASE32[index as usize]) } else { '=' });
        }
    }
    out
}

/// The bytes, or where the text goes wrong.
fn from_base32(text: &str) -> Result<Vec<u8>, usize> {
    let text: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    let mut out = Vec::new();
    for (block, letters) in text.chunks(8).enumerate() {
        let start = block * 8;
        let (mut bits, mut count) = (0_u64, 0);
        for (at, letter) in letters.iter().enumerate() {
            if *letter == b'=' && count >= 2 {
                break;
            }
            let index = BASE32.iter().position(|known| known == letter).ok_or(start + at)?;
            bits |= (index as u64) << (35 - 5 * at);
            count += 1;
        }
        let padding = &letters[count..];
        if count + padding.len() < 8 {
            return Err(if padding.is_empty() { start } else { text.len() });
        }
        if let Some(odd) = padding.iter().position(|letter| *letter != b'=') {
            return Err(start + count + odd);
        }
        // These numbers of letters are no whole bytes.
        if matches!(count, 1 | 3 | 6) {
            return Err(start + count);
        }
        out.extend_from_slice(&bits.to_be_bytes()[3..3 + count * 5 / 8]);
        if count < 8 && start + 8 < text.len() {
            return Err(start + 8);
        }
    }
    Ok(out)
}
