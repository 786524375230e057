//! Recorded conversations, step by step, and how an answer is compared with one of ours.

use std::path::Path;

use serde_json::{Map, Value};

/// One request and its answer.
pub struct Step {
    file: String,
    index: usize,
    step: Value,
}

/// The steps of all conversations of a topic, in order.
pub fn steps(topic: &str) -> Vec<Step> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance/cases").join(topic);
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut steps = Vec::new();
    for path in files {
        let case: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let file = format!("{topic}/{}", path.file_name().unwrap().to_string_lossy());
        for (index, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            steps.push(Step { file: file.clone(), index, step: step.clone() });
        }
    }
    steps
}

/// The steps of those cases of a topic that pass as a whole. `known.txt` names the other cases.
pub fn passing_steps(topic: &str) -> Vec<Step> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance/known.txt");
    let known = std::fs::read_to_string(path).unwrap();
    let known: Vec<&str> = known.lines().filter_map(|line| Some(line.split_once(": ")?.0)).collect();
    steps(topic).into_iter().filter(|step| !known.contains(&step.file.trim_end_matches(".json"))).collect()
}

impl Step {
    pub fn place(&self) -> String {
        format!("{} step {}", self.file, self.index)
    }

    pub fn is_first(&self) -> bool {
        self.index == 0
    }

    pub fn method(&self) -> &str {
        self.step["req"]["method"].as_str().unwrap_or_default()
    }

    pub fn path(&self) -> &str {
        self.step["req"]["path"].as_str().unwrap_or_default()
    }

    pub fn query(&self, name: &str) -> Option<&str> {
        self.step["req"]["query"][name].as_str()
    }

    pub fn request_body(&self) -> Option<&Value> {
        self.step["req"].get("body").filter(|body| body.is_object())
    }

    pub fn status(&self) -> u64 {
        self.step["res"]["status"].as_u64().unwrap_or_default()
    }

    pub fn answer(&self) -> Option<&Value> {
        self.step["res"].get("body").filter(|body| body.is_object())
    }

    pub fn answer_text(&self) -> Option<&str> {
        self.step["res"].get("text").or_else(|| self.step["res"].get("body"))?.as_str()
    }
}

/// Every difference, by its path. A text in angle brackets stands for anything, as in the recordings; 1 and 1.0 are the
/// same number here, because how numbers are written is decided by the encoder of answers.
pub fn differences(expected: &Value, ours: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("$", expected, ours, &mut found);
    found
}

fn compare(path: &str, expected: &Value, ours: &Value, found: &mut Vec<String>) {
    match (expected, ours) {
        (Value::Object(expected), Value::Object(ours)) => {
            for (name, value) in expected {
                match ours.get(name) {
                    Some(own) => compare(&format!("{path}.{name}"), value, own, found),
                    None => found.push(format!("{path}.{name} is missing, expected {value}")),
                }
            }
            for (name, value) in ours.iter().filter(|(name, _)| !expected.contains_key(*name)) {
                found.push(format!("{path}.{name} is not expected: {value}"));
            }
        }
        (Value::Array(expected), Value::Array(ours)) if expected.len() == ours.len() => {
            for (index, (value, own)) in expected.iter().zip(ours).enumerate() {
                compare(&format!("{path}[{index}]"), value, own, found);
            }
        }
        (Value::String(token), _) if token.starts_with('<') && token.ends_with('>') => {}
        (Value::Number(expected), Value::Number(ours)) if expected.as_f64() == ours.as_f64() => {}
        _ if expected == ours => {}
        _ => found.push(format!("{path} is {ours}, expected {expected}")),
    }
}

/// A request with its names in the wire's case: requests may write them in any.
pub fn go_names(job: &Value) -> Value {
    const NAMES: [&str; 7] = ["ID", "Status", "TaskGroups", "Tasks", "Name", "Count", "Driver"];
    match job {
        Value::Object(members) => {
            let mut renamed = Map::new();
            for (name, value) in members {
                let known =
                    NAMES.iter().find(|known| known.eq_ignore_ascii_case(name)).map_or(name.as_str(), |known| *known);
                let nested = matches!(known, "TaskGroups" | "Tasks");
                renamed.insert(known.to_owned(), if nested { go_names(value) } else { value.clone() });
            }
            Value::Object(renamed)
        }
        Value::Array(items) => items.iter().map(go_names).collect(),
        other => other.clone(),
    }
}
