//! Comparisons of values: with the description in a capture, and with each other.

use serde_json::Value;
use songline_rpc::msgpack::{Tree, ZERO_TIME};

/// Checks that a value equals the JSON in a capture.
pub fn says(path: &str, said: &Value, tree: &Tree) -> Result<(), String> {
    let same = match (said, tree) {
        (Value::Null, Tree::Nil) => true,
        (Value::Bool(said), Tree::Bool(is)) => said == is,
        (Value::Number(said), Tree::Int(is)) => said.as_i64() == Some(*is),
        (Value::Number(said), Tree::UInt(is)) => said.as_u64() == Some(*is),
        (Value::Number(said), Tree::Float(is)) => said.as_f64() == Some(*is),
        (Value::String(said), Tree::Raw(is)) => said.as_bytes() == is,
        (Value::Array(said), Tree::Array(is)) => {
            for (at, (said, is)) in said.iter().zip(is).enumerate() {
                says(&format!("{path}[{at}]"), said, is)?;
            }
            said.len() == is.len()
        }
        (Value::Object(said), Tree::Raw(is)) => match (said.get("$raw"), said.get("$time")) {
            (Some(hex), _) => hex.as_str() == Some(&is.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
            (_, Some(time)) => time.as_str() == Some(&time_text(is)),
            (None, None) => false,
        },
        (Value::Object(said), Tree::Map(is)) => {
            for ((key, said), (name, is)) in said.iter().zip(is) {
                if name.as_text() != Some(key) {
                    return Err(format!("{path}: {name:?} in place of {key}"));
                }
                says(&format!("{path}.{key}"), said, is)?;
            }
            said.len() == is.len()
        }
        _ => false,
    };
    if same { Ok(()) } else { Err(format!("{path}: {tree:?} is not {said}")) }
}

/// A time as text in the form of captures, with its zone.
fn time_text(bytes: &[u8]) -> String {
    if is_zero(bytes) {
        return "1-01-01T00:00:00Z".to_owned();
    }
    let seconds = i64::from_be_bytes(bytes[1..9].try_into().unwrap()) - 62_135_596_800;
    let nanos = i64::from(u32::from_be_bytes(bytes[9..13].try_into().unwrap()));
    let whole = songline_model::Time::from_secs(seconds).to_string();
    let fraction = if nanos == 0 { String::new() } else { format!(".{nanos:09}") };
    let zone = match i16::from_be_bytes(bytes[13..15].try_into().unwrap()) {
        -1 => "Z".to_owned(),
        minutes => format!("{minutes:+}min"),
    };
    format!("{}{fraction}{zone}", whole.trim_end_matches('Z'))
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.len() == 15 && bytes[..13] == ZERO_TIME[..13]
}

/// Fields that one of `theirs` and `ours` lacks, or whose values differ. A field is named once for all rows that have
/// it; zones of times are ignored.
pub fn differences(theirs: &Tree, ours: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    differ("", theirs, ours, &mut found);
    found
}

fn differ(path: &str, theirs: &Tree, ours: &Tree, found: &mut Vec<String>) {
    match (theirs, ours) {
        (Tree::Map(theirs), Tree::Map(ours)) => {
            let get = |of: &[(Tree, Tree)], key: &Tree| {
                of.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
            };
            for (key, their) in theirs {
                let path = format!("{path}.{}", name(key));
                match get(ours, key) {
                    Some(our) => differ(&path, their, &our, found),
                    None => found.push(format!("{path} is left out: {}", short(their))),
                }
            }
            for (key, our) in ours {
                if get(theirs, key).is_none() {
                    found.push(format!("{path}.{} is put in: {}", name(key), short(our)));
                }
            }
        }
        (Tree::Array(theirs), Tree::Array(ours)) if theirs.len() == ours.len() => {
            theirs.iter().zip(ours).for_each(|(their, our)| differ(&format!("{path}[]"), their, our, found));
        }
        (Tree::Raw(theirs), Tree::Raw(ours)) if same_time(theirs, ours) => {}
        (theirs, ours) if theirs == ours => {}
        (theirs, ours) => found.push(format!("{path}: {} and not {}", short(ours), short(theirs))),
    }
}

fn same_time(theirs: &[u8], ours: &[u8]) -> bool {
    let time = |bytes: &[u8]| bytes.len() == 15 && bytes[0] == 1;
    time(theirs) && time(ours) && theirs[..13] == ours[..13]
}

/// Name for a key: field names begin with a capital; all other map keys share one name.
fn name(key: &Tree) -> String {
    match key.as_text() {
        Some(text) if text.starts_with(|first: char| first.is_ascii_uppercase()) => text.to_owned(),
        _ => "*".to_owned(),
    }
}

fn short(tree: &Tree) -> String {
    let text = format!("{tree:?}");
    text.chars().take(60).collect()
}
