//! The little languages: any bytes are a value or a refusal, and the same ones again are the same. Memory and time are
//! bounded from outside, by the fuzzer's own limits.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use songline_lang::acl::{self, Acl};
use songline_lang::bexpr::{Filter, PlainNames};
use songline_lang::jobspec::{self, ParseOptions};
use songline_lang::version::{Constraints, Dialect, Version};
use songline_lang::{config, duration, go_json, regexp};

/// How long an error's text may be for an input of so many bytes: it may quote the input, and must not multiply it
/// without end.
fn error_bytes_max(input_bytes: usize) -> usize {
    4096 + 512 * input_bytes
}

fn refused(error: impl Display, input_bytes: usize) {
    let text = error.to_string();
    assert!(!text.is_empty(), "an error says something");
    assert!(text.len() <= error_bytes_max(input_bytes), "{} bytes of error for {input_bytes} of input", text.len());
}

/// A row with every kind of field that rows have.
#[derive(Serialize)]
struct Row {
    #[serde(rename = "ID")]
    id: &'static str,
    #[serde(rename = "Count")]
    count: i64,
    #[serde(rename = "Index")]
    index: u64,
    #[serde(rename = "Ratio")]
    ratio: f64,
    #[serde(rename = "Stop")]
    stop: bool,
    #[serde(rename = "Kind")]
    kind: Kind,
    #[serde(rename = "Parent")]
    parent: Option<Box<Row>>,
    #[serde(rename = "Names")]
    names: Vec<&'static str>,
    #[serde(rename = "Meta")]
    meta: BTreeMap<&'static str, &'static str>,
    #[serde(rename = "Rest")]
    rest: Value,
}

#[derive(Serialize)]
enum Kind {
    #[serde(rename = "service")]
    Service,
}

fn row(parent: Option<Box<Row>>) -> Row {
    Row {
        id: "web",
        count: -3,
        index: 7,
        ratio: 0.5,
        stop: true,
        kind: Kind::Service,
        parent,
        names: vec!["a", "b", ""],
        meta: [("k", "v"), ("a.b", "1")].into(),
        rest: json!({"A": [{"B": 1}, {"B": null}], "C": {"D": {"E": "x"}}, "F": []}),
    }
}

static ROW: LazyLock<Row> = LazyLock::new(|| row(Some(Box::new(row(None)))));

/// A filter, and whether rows pass it.
pub fn bexpr(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match Filter::parse(text) {
        Err(error) => {
            assert!(error.offset <= text.len(), "an error lies inside of its text");
            refused(error, text.len());
        }
        Ok(filter) => {
            let _ = filter.selectors();
            let _ = filter.bad_pattern();
            let demands = filter.demands(PlainNames { texts: &["ID"], integers: &["Index"] });
            let demanded = demands.iter().all(|(field, wanted)| *field != "ID" || *wanted == "web");
            match filter.matches(&*ROW) {
                Err(error) => refused(error, text.len()),
                // An index finds the rows that the filter itself would let through.
                Ok(passes) => assert!(!passes || demanded, "{text}"),
            }
            let _ = filter.matches(&json!({"ID": "web", "Names": {"a": 1}}));
        }
    }
}

/// A job file of HCL 2; what follows the first NUL is a file of variables.
pub fn hcl(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (source, variables) = text.split_once('\0').unwrap_or((text, ""));
    let options = ParseOptions { variables: variables.to_owned(), ..ParseOptions::default() };
    job(source, &options, text.len());
}

/// A job file of HCL 1.
pub fn hcl1(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    job(text, &ParseOptions { hclv1: true, ..ParseOptions::default() }, text.len());
}

fn job(source: &str, options: &ParseOptions, bytes: usize) {
    match jobspec::parse(source, options) {
        Err(error) => refused(error, bytes),
        Ok(mut job) => {
            job.canonicalize();
            let once = job.clone();
            job.canonicalize();
            assert_eq!(job, once, "the canonical form of a canonical form is itself");
        }
    }
}

/// A policy: what it is read as, shown as, and allows.
pub fn acl(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(written) = acl::written(text) {
        serde_json::to_string(&written).expect("rules are JSON");
    }
    match acl::parse(text) {
        Err(error) => refused(error, text.len()),
        Ok(policy) => {
            let acl = Acl::of(&[policy]);
            assert!(!acl.is_management(), "no policy makes a manager");
            for name in ["default", "*", "", "a-b", "ü"] {
                let _ = acl.any_in_namespace(name);
                acl.namespace(name, acl::NamespaceCapability::SubmitJob);
                acl.host_volume(name, acl::HostVolumeCapability::MountReadwrite);
                acl.node_pool(name, acl::NodePoolCapability::Read);
                acl.variable("default", name, acl::VariableCapability::Read);
            }
        }
    }
}

/// A configuration document.
pub fn config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match config::parse(text) {
        Err(error) => refused(error, text.len()),
        Ok(document) => {
            serde_json::to_string(&document).expect("a document is JSON");
        }
    }
}

/// The body of a request, as a document and as a type.
pub fn json(input: &[u8]) {
    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default, rename_all = "PascalCase")]
    struct Body {
        name: String,
        count: Option<i32>,
        small: u8,
        large: u64,
        ratio: f64,
        flag: bool,
        items: Option<Vec<Body>>,
        members: BTreeMap<String, Value>,
        boxed: Option<Box<Body>>,
    }
    match go_json::value_from_slice(input) {
        Err(error) => refused(error, input.len()),
        Ok(value) => {
            let again = serde_json::to_vec(&value).expect("a value is JSON");
            assert_eq!(go_json::value_from_slice(&again), Ok(value), "what was read is read again");
        }
    }
    match go_json::from_slice::<Body>(input) {
        Err(error) => refused(error, input.len()),
        Ok(body) => {
            let again = serde_json::to_vec(&body).expect("a body is JSON");
            assert_eq!(go_json::from_slice::<Body>(&again), Ok(body), "what was read is read again");
        }
    }
}

/// Short texts: versions, constraints, durations, regular expressions. The first byte says which.
pub fn words(input: &[u8]) {
    let Some((which, rest)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    match which % 5 {
        0 => match Version::parse(text) {
            Err(error) => refused(error, text.len()),
            Ok(version) => assert!(version.compare(&version).is_eq(), "{text}"),
        },
        which @ (1 | 2) => {
            let dialect = if which == 1 { Dialect::Version } else { Dialect::Semver };
            match Constraints::parse(text, dialect) {
                Err(error) => refused(error, text.len()),
                Ok(constraints) => {
                    for version in ["0.0.0", "1.6.5", "1.7.0-dev", "99999999999.1+x"] {
                        if let Ok(version) = Version::parse(version) {
                            let _ = constraints.check(&version);
                        }
                    }
                }
            }
        }
        3 => match duration::parse(text) {
            Err(error) => refused(error, text.len()),
            Ok(nanos) => assert_eq!(duration::parse(&duration::format(nanos)), Ok(nanos), "{text}"),
        },
        _ => match regexp::compile(text) {
            Err(error) => refused(error, text.len()),
            Ok(pattern) => {
                pattern.is_match("the quick brown fox");
            }
        },
    }
}
