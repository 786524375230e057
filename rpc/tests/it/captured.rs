//! Captured bytes of the protocol: each capture is decoded and compared with its description, encoded again byte by
//! byte, and read and written as its message type.
//!
//! Fields that our messages leave out or write differently are listed in `golden/differences.txt`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use expect_test::expect_file;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use songline_rpc::message::{Call, EventStreamWrapper, ExecMessage, RequestMeta, StreamCall, StreamErrWrapper};
use songline_rpc::msgpack::{self, Tree, skip};
use songline_rpc::net::{RequestHeader, ResponseHeader, StreamAnswer, StreamOpening};

use super::differences::{differences, says};

#[derive(Deserialize)]
struct Capture {
    method: String,
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    what: String,
    #[serde(default)]
    header: Value,
    #[serde(default)]
    header_hex: String,
    value: Value,
    hex: String,
}

/// Comparison of one of our messages with a captured one.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
enum Fit {
    /// The same bytes, keys in order.
    Exact,
    /// The same bytes except for the zones of times.
    ButZones,
    /// Some fields are missing or differ.
    Differs,
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn captures() -> Vec<(String, Capture)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    paths.sort();
    let read = |path: &Path| -> Capture {
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let whole = |mut capture: Capture| {
        // Some captures have only the header.
        capture.messages.retain(|message| !message.hex.is_empty());
        capture
    };
    paths.iter().map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), whole(read(path)))).collect()
}

/// Decodes captured bytes as a type and encodes the value again.
fn again<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let value: T = msgpack::from_slice(bytes).map_err(|error| error.on_wire(0))?;
    msgpack::to_vec(&value).map_err(|error| error.to_string())
}

type Again = fn(&[u8]) -> Result<Vec<u8>, String>;

/// Decoder for each message, by method and direction.
fn types() -> BTreeMap<(&'static str, &'static str), Again> {
    let mut types: BTreeMap<(&'static str, &'static str), Again> = BTreeMap::new();
    macro_rules! calls {
        ($($request:ident)*) => { $(
            type_of_call::<songline_rpc::message::$request>(&mut types);
        )* };
    }
    fn type_of_call<R: Call>(types: &mut BTreeMap<(&'static str, &'static str), Again>) {
        types.insert((R::METHOD, "request"), again::<R>);
        types.insert((R::METHOD, "response"), again::<R::Answer>);
    }
    macro_rules! streams {
        ($($request:ident)*) => { $(
            let method = songline_rpc::message::$request::METHOD;
            types.insert((method, "caller 0"), again::<StreamOpening>);
            types.insert((method, "callee 0"), again::<StreamAnswer>);
            types.insert((method, "caller 1"), again::<songline_rpc::message::$request>);
            types.insert((method, "caller 2"), again::<ExecMessage>);
            types.insert((method, "callee 1"), again::<StreamErrWrapper>);
        )* };
    }
    songline_rpc::every_call!(calls);
    songline_rpc::every_stream!(streams);
    types.insert(("Event.Stream", "callee 1"), again::<EventStreamWrapper>);
    types
}

#[test]
fn captured_bytes_decode_to_their_recorded_values_and_reencode_unchanged() {
    let mut values = 0;
    for (name, capture) in captures() {
        for message in capture.messages {
            for (value, hex) in [(&message.value, &message.hex), (&message.header, &message.header_hex)] {
                if hex.is_empty() {
                    continue;
                }
                let bytes = bytes(hex);
                assert_eq!(skip(&bytes, 1 << 20), Ok(Some(bytes.len())), "{name} {}", message.what);
                let tree = Tree::read(&bytes).unwrap();
                says("", value, &tree).unwrap_or_else(|error| panic!("{name} {}: {error}", message.what));
                assert_eq!(tree.to_bytes(), bytes, "{name} {}", message.what);
                values += 1;
            }
        }
    }
    println!("{values} values as trees");
    assert!(values > 300, "{values}");
}

#[test]
fn captured_rpc_headers_reencode_byte_for_byte() {
    let mut headers = 0;
    for (name, capture) in captures() {
        for message in capture.messages.iter().filter(|message| !message.header_hex.is_empty()) {
            let captured = bytes(&message.header_hex);
            let again: Again = if message.what == "request" { again::<RequestHeader> } else { again::<ResponseHeader> };
            assert_eq!(again(&captured), Ok(captured), "{name} {}", message.what);
            headers += 1;
        }
    }
    println!("{headers} headers");
    assert!(headers > 100, "{headers}");
}

#[test]
fn captured_messages_decode_and_reencode_as_their_types() {
    let types = types();
    let mut fits: BTreeMap<Fit, usize> = BTreeMap::new();
    let mut told = BTreeMap::<String, Vec<String>>::new();
    for (name, capture) in captures() {
        for message in &capture.messages {
            // After an error comes an empty map in place of an answer.
            let failed = message.header.get("Error").is_some_and(|error| error != "");
            if failed {
                continue;
            }
            let captured = bytes(&message.hex);
            let again = types
                .get(&(capture.method.as_str(), message.what.as_str()))
                .unwrap_or_else(|| panic!("{name} {}", message.what));
            let ours = again(&captured).unwrap_or_else(|error| panic!("{name} {}: {error}", message.what));
            let (theirs, ours) = (Tree::read(&captured).unwrap().sorted(), Tree::read(&ours).unwrap().sorted());
            let differences = differences(&theirs, &ours);
            let fit = match (theirs == ours, differences.is_empty()) {
                (true, _) => Fit::Exact,
                (false, true) => Fit::ButZones,
                (false, false) => Fit::Differs,
            };
            if fit == Fit::Exact {
                assert_eq!(theirs.to_bytes(), ours.to_bytes(), "{name} {}", message.what);
            }
            *fits.entry(fit).or_default() += 1;
            let list = told.entry(format!("{name} {}", message.what)).or_default();
            list.extend(differences);
        }
    }
    let mut text = format!("{fits:?}\n");
    for (message, mut differences) in told {
        differences.sort();
        differences.dedup();
        for difference in differences {
            text.push_str(&format!("{message}: {difference}\n"));
        }
    }
    println!("{fits:?}");
    expect_file!["../golden/differences.txt"].assert_eq(&text);
}

#[test]
fn every_captured_request_yields_region_token_and_min_query_index() {
    for (name, capture) in captures() {
        for message in capture.messages.iter().filter(|message| message.what == "request") {
            let meta: RequestMeta = msgpack::from_slice(&bytes(&message.hex)).unwrap();
            let text = |key: &str| message.value.get(key).and_then(Value::as_str).unwrap_or_default();
            assert_eq!(meta.region, text("Region"), "{name}");
            assert_eq!(meta.auth_token.reveal(), text("AuthToken"), "{name}");
            let index = message.value.get("MinQueryIndex").and_then(Value::as_u64).unwrap_or_default();
            assert_eq!(meta.min_query_index, index, "{name}");
        }
    }
}

/// Bodies of captured messages, without the large ones.
pub fn small_ones() -> Vec<Vec<u8>> {
    static ALL: std::sync::OnceLock<Vec<Vec<u8>>> = std::sync::OnceLock::new();
    let read = || {
        let messages = captures().into_iter().flat_map(|(_, capture)| capture.messages);
        messages.map(|message| bytes(&message.hex)).filter(|bytes| !bytes.is_empty() && bytes.len() < 8192).collect()
    };
    ALL.get_or_init(read).clone()
}
