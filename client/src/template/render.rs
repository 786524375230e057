//! One rendering of one template.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use songline_lang::template::consul::{Functions, Moment, Noted, Question, World};
use songline_lang::template::{Bounds, MissingKey, Options, Template, TemplateError, Value};
use songline_model::Time;

use super::plan::{Plan, read_below, reason};
use crate::artifact::Dirs;
use crate::beneath::NotFound;

/// Knowledge of a task's templates at one time.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// Environment of the task.
    pub env: Arc<BTreeMap<String, String>>,
    /// Directories of the task.
    pub dirs: Dirs,
    /// Answers by question.
    pub answers: BTreeMap<Question, Value>,
    /// The time.
    pub now: Time,
    /// Namespace of the job.
    pub namespace: String,
    /// Region of the node.
    pub region: String,
    /// Seed of random values. The same one gives the same values again.
    pub seed: [u8; 32],
}

impl World for Known {
    fn now(&self) -> Moment {
        let nanos = self.now.nanos();
        Moment {
            seconds: nanos.div_euclid(1_000_000_000),
            nanos: u32::try_from(nanos.rem_euclid(1_000_000_000)).unwrap_or_default(),
        }
    }

    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }

    fn file(&self, path: &str) -> Result<Vec<u8>, String> {
        let outside = || format!("'{path}' is outside of sandbox");
        let task = self.dirs.alloc.join(self.dirs.task.as_str());
        let wanted = Path::new(path);
        let below = match wanted.strip_prefix(&task) {
            Ok(below) => below,
            Err(_) if wanted.is_absolute() => return Err(outside()),
            Err(_) => wanted,
        };
        read_below(&task, below).map_err(|error| match error {
            NotFound::Escapes => outside(),
            NotFound::Io(error) => format!("lstat {path}: {}", reason(&error)),
        })
    }

    fn answer(&self, question: &Question) -> Option<Value> {
        self.answers.get(question).cloned()
    }

    fn random(&self, number: u64) -> [u8; 32] {
        Sha256::new().chain_update(self.seed).chain_update(number.to_be_bytes()).finalize().into()
    }
}

/// Renders a template, the task's `at`th one. The error is what the task's event shows after `Template failed: `.
pub(super) fn render(
    at: usize,
    plan: &Plan,
    known: &Known,
    denied: &BTreeSet<String>,
) -> Result<(Vec<u8>, Noted), String> {
    // Each template has random values of its own.
    let draws = (at as u64) << 32;
    let functions = Functions::new(known, &known.namespace, &known.region, denied).drawing_from(draws);
    let options = Options {
        left: plan.template.left_delim.to_string(),
        right: plan.template.right_delim.to_string(),
        missing_key: if plan.template.err_missing_key { MissingKey::Error } else { MissingKey::Zero },
    };
    let shown = |error: TemplateError| match &error {
        TemplateError::Parse(_) => format!("(dynamic): parse: {error}"),
        TemplateError::Execute(_) => format!("(dynamic): execute: {error}"),
    };
    let template = Template::parse("", &plan.text, &options, &functions).map_err(shown)?;
    match template.render(Value::Missing, &functions, Bounds::default()) {
        Ok(output) => Ok((output, functions.noted())),
        // An error may come from an answer that is not there yet.
        Err(_) if !functions.noted().missing.is_empty() => Ok((Vec::new(), functions.noted())),
        Err(error) => Err(shown(error)),
    }
}

/// A text without the values of variables.
pub(super) fn redacted(text: &str, secrets: &BTreeSet<String>) -> String {
    let mut longest_first: Vec<&String> = secrets.iter().filter(|secret| !secret.is_empty()).collect();
    longest_first.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    let mut text = text.to_owned();
    for secret in longest_first {
        text = text.replace(secret.as_str(), "[redacted]");
    }
    text
}
