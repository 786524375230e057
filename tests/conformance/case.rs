//! A recorded case as it stands in its file: a conversation of steps, each a request and what its answer must be.
//! Not here: sending and comparing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path as File, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Which agent a case expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Server and client in one `-dev` agent.
    Dev,
    /// The same with ACLs.
    Acl,
    /// The same with a data folder, not `-dev`.
    Server,
}

/// One conversation.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// `TOPIC/NAME`.
    pub name: String,
    /// One line for people.
    #[serde(rename = "about")]
    _about: String,
    pub profile: Profile,
    pub steps: Vec<Step>,
}

impl Case {
    pub fn topic(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    /// Needs an agent that was never bootstrapped, and leaves one that was.
    pub fn wants_own_agent(&self) -> bool {
        self.topic() == "acl_bootstrap"
    }
}

/// One request and its answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub req: Value,
    pub res: Option<Wanted>,
    /// Send again until the body has these values.
    #[serde(default)]
    pub until: Vec<(Path, Value)>,
    /// Seconds that `until` or a stream may take.
    pub within: Option<f64>,
    /// Values that are not compared, only required to be there.
    #[serde(default)]
    pub ignore: Vec<Path>,
    /// Lists whose order says nothing.
    #[serde(default)]
    pub unordered: Vec<Path>,
    pub stream: Option<StreamRules>,
    pub start: Option<String>,
    pub join: Option<String>,
    /// Bounds on the seconds from the request to the end of its answer.
    pub took: Option<(f64, f64)>,
    pub save: Option<String>,
    pub frames: Option<Frames>,
    pub ws: Option<Websocket>,
    #[serde(default)]
    pub archive: bool,
    /// Seconds to wait before the step.
    pub sleep: Option<f64>,
    /// The answer is meant to differ: values are bound from it, but it is not compared.
    #[serde(skip)]
    pub masked: bool,
}

/// What an answer must be.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    pub status: u16,
    /// `None`: the header must not be there.
    #[serde(default)]
    pub headers: BTreeMap<String, Option<String>>,
    /// Kept apart from absent when it is null.
    #[serde(default, deserialize_with = "present")]
    pub body: Option<Value>,
    pub text: Option<String>,
}

/// Which frames of an event stream count, and how it ends.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamRules {
    #[serde(default)]
    pub topics: Vec<String>,
    #[serde(rename = "where", default)]
    pub only: Vec<(Path, Value)>,
    #[serde(default)]
    pub raw: bool,
    /// Seconds in which no further frame may come.
    pub quiet: Option<f64>,
    pub tail: Option<String>,
}

/// Objects back to back; hang up after this many bytes of their Data (0: read to the end).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frames {
    #[serde(default)]
    pub bytes: usize,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Websocket {
    #[serde(default)]
    pub send: Vec<Value>,
}

fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

/// One part of the way to a value inside a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Key(String),
    Index(usize),
    /// Any element, in patterns only.
    Any,
}

/// `$.a[*].b[0]`; a key with dots is written `$['a.b']`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path(pub Vec<Part>);

impl Path {
    pub fn parse(text: &str) -> Path {
        let mut parts = Vec::new();
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        while !rest.is_empty() {
            if let Some(quoted) = rest.strip_prefix("['") {
                let (key, after) = quoted.split_once("']").unwrap_or((quoted, ""));
                parts.push(Part::Key(key.to_string()));
                rest = after;
            } else if let Some(index) = rest.strip_prefix('[') {
                let (index, after) = index.split_once(']').unwrap_or((index, ""));
                parts.push(index.parse().map_or(Part::Any, Part::Index));
                rest = after;
            } else {
                let key = rest.strip_prefix('.').unwrap_or(rest);
                let end = key.find(['.', '[']).unwrap_or(key.len());
                parts.push(match &key[..end] {
                    "*" => Part::Any,
                    name => Part::Key(name.to_string()),
                });
                rest = &key[end..];
            }
        }
        Path(parts)
    }

    /// The value at this path; null when there is none.
    pub fn look_up<'v>(&self, value: &'v Value) -> &'v Value {
        let mut at = value;
        for part in &self.0 {
            let next = match part {
                Part::Key(key) => at.get(key),
                Part::Index(index) => at.get(index),
                Part::Any => None,
            };
            match next {
                Some(next) => at = next,
                None => return &Value::Null,
            }
        }
        at
    }

    /// Whether a concrete way through a document is one that this pattern means.
    pub fn matches(&self, trail: &[Part]) -> bool {
        let pairs = || self.0.iter().zip(trail);
        self.0.len() == trail.len() && pairs().all(|(p, t)| *p == Part::Any || p == t)
    }
}

impl<'de> Deserialize<'de> for Path {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Path, D::Error> {
        String::deserialize(value).map(|text| Path::parse(&text))
    }
}

/// All cases under a folder, by name.
pub fn load(folder: &File) -> Result<Vec<Case>> {
    let mut files = Vec::new();
    for topic in list(folder)? {
        files.extend(list(&topic)?);
    }
    let mut cases = Vec::new();
    for file in files {
        let text = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
        let case: Case = serde_json::from_slice(&text).with_context(|| format!("the case in {}", file.display()))?;
        ensure!(file.ends_with(format!("{}.json", case.name)), "{} holds the case {}", file.display(), case.name);
        cases.push(case);
    }
    Ok(cases)
}

fn list(folder: &File) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.sort();
    Ok(paths)
}
