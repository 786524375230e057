//! A recorded case as it is stored in its file: a conversation of steps, each a request with its expected answer. Not
//! here: sending and comparing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path as File, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The agent that a case needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Server and client in one `-dev` agent.
    Dev,
    /// Like `Dev`, with the volumes that cases about the node agent expect.
    Agent,
    /// Like `Agent`, with two CSI plugins.
    Csi,
    /// Like `Dev`, with ACLs.
    Acl,
    /// Like `Dev`, with a data folder instead of `-dev`.
    Server,
}

/// One conversation.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// `TOPIC/NAME`.
    pub name: String,
    /// Description in one line.
    #[serde(rename = "about")]
    _about: String,
    pub profile: Profile,
    pub steps: Vec<Step>,
}

impl Case {
    pub fn topic(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    /// Whether the case runs containers.
    pub fn needs_engine(&self) -> bool {
        self.profile == Profile::Agent && self.runs("docker")
    }

    /// Whether the case runs tasks with a root of their own.
    pub fn needs_isolation(&self) -> bool {
        self.profile == Profile::Agent && self.runs("exec")
    }

    /// Whether a task of the case has this driver.
    fn runs(&self, driver: &str) -> bool {
        self.steps.iter().any(|step| {
            let groups = step.req.pointer("/body/Job/TaskGroups").and_then(Value::as_array);
            let tasks = groups.into_iter().flatten().filter_map(|group| group["Tasks"].as_array()).flatten();
            tasks.into_iter().any(|task| task["Driver"] == driver)
        })
    }

    /// Whether tasks of the case download files.
    pub fn needs_files(&self) -> bool {
        self.steps.iter().any(|step| step.req["body"].to_string().contains(crate::files::ADDRESS))
    }

    /// Whether the case needs an agent that was never bootstrapped, and bootstraps it.
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
    /// Values of the body until which the request is repeated.
    #[serde(default)]
    pub until: Vec<(Path, Value)>,
    /// Timeout of `until` or a stream, in seconds.
    pub within: Option<f64>,
    /// Paths whose values are not compared, but must exist.
    #[serde(default)]
    pub ignore: Vec<Path>,
    /// Lists whose order is not compared.
    #[serde(default)]
    pub unordered: Vec<Path>,
    pub stream: Option<StreamRules>,
    pub start: Option<String>,
    pub join: Option<String>,
    /// Bounds of the time from the request to the end of its answer, in seconds.
    pub took: Option<(f64, f64)>,
    pub save: Option<String>,
    pub frames: Option<Frames>,
    pub ws: Option<Websocket>,
    #[serde(default)]
    pub archive: bool,
    /// Delay before the step, in seconds.
    pub sleep: Option<f64>,
    /// The answer deliberately differs: values are bound from it, but it is not compared.
    #[serde(skip)]
    pub masked: bool,
}

/// The expected answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    pub status: u16,
    /// Expected headers. `None`: the header must be absent.
    #[serde(default)]
    pub headers: BTreeMap<String, Option<String>>,
    /// Expected body. Null is distinguished from absent.
    #[serde(default, deserialize_with = "present")]
    pub body: Option<Value>,
    pub text: Option<String>,
}

/// Frames of an event stream that count, and the end of the stream.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamRules {
    #[serde(default)]
    pub topics: Vec<String>,
    #[serde(rename = "where", default)]
    pub only: Vec<(Path, Value)>,
    #[serde(default)]
    pub raw: bool,
    /// Time in which no further frame may arrive, in seconds.
    pub quiet: Option<f64>,
    pub tail: Option<String>,
}

/// Concatenated objects; hang up after this many bytes of their `Data` (0: read to the end).
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

/// One part of a path to a value inside a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Key(String),
    Index(usize),
    /// Any element; in patterns only.
    Any,
}

/// A path, such as `$.a[*].b[0]`; a key with dots is written `$['a.b']`.
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

    /// The value at this path; null when it does not exist.
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

    /// Whether this pattern matches a concrete path.
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
