//! Job files: HCL text to a job as submitted. The model fills in defaults ([`Job::canonicalize`]) and validates the
//! job.

mod decode;
mod free;
mod json;
#[cfg(test)]
mod properties;
mod schema;
mod special;
#[cfg(test)]
mod tests;
mod v1;
mod variables;

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use songline_model::spec::Job;

use crate::hcl::ast::{Block, Body};
use crate::hcl::{self, Diagnostic, first_of};

pub(crate) use free::json_of;

/// Options for parsing a job file.
#[derive(Debug, Clone)]
pub struct ParseOptions {
    /// Values of variables, as the text of a variables file.
    pub variables: String,
    /// Values of variables from an environment. Names that the file does not declare are ignored.
    pub environment: BTreeMap<String, String>,
    /// Values of variables from a command line. They go before `variables`, and these before `environment`.
    pub flags: BTreeMap<String, String>,
    /// Whether names in `variables` and `flags` that the file does not declare are errors.
    pub strict: bool,
    /// Whether to parse the older language, HCL 1.
    pub hclv1: bool,
    /// Name of the text in diagnostics.
    pub filename: String,
    /// Seed for `uuidv4` and `bcrypt`; another seed gives other ids.
    pub entropy: u128,
}

impl Default for ParseOptions {
    fn default() -> Self {
        ParseOptions {
            variables: String::new(),
            environment: BTreeMap::new(),
            flags: BTreeMap::new(),
            strict: false,
            hclv1: false,
            filename: "input.hcl".to_string(),
            entropy: 0,
        }
    }
}

/// A job file was refused; displays as the reference's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Diagnostics(String);

impl Diagnostics {
    /// Syntax errors: the first one, and the number of others.
    fn counted(found: &[Diagnostic], file: &str) -> Diagnostics {
        Diagnostics(first_of(found, file))
    }

    /// Semantic errors: all of them.
    fn listed(found: &[Diagnostic], file: &str) -> Diagnostics {
        let lines: Vec<String> = found.iter().map(|diagnostic| diagnostic.shown(file)).collect();
        Diagnostics(lines.join("\n"))
    }
}

/// A text in HCL 2 in the canonical layout. `file` is named in errors of its syntax.
pub fn format(source: &str, file: &str) -> Result<String, Diagnostics> {
    let (_, found) = hcl::parse::body(source, file);
    if found.is_empty() { Ok(hcl::format::format(source)) } else { Err(Diagnostics::counted(&found, file)) }
}

/// Parses a job file. Each phase stops at its own errors: syntax, top level, variables, locals, the job, and last the
/// free-form bodies (a task's `config`, a scaling `policy`).
pub fn parse(source: &str, options: &ParseOptions) -> Result<Job, Diagnostics> {
    let file = options.filename.as_str();
    if options.hclv1 {
        return v1::parse(source).map_err(Diagnostics).and_then(typed);
    }
    let (body, found) = if is_json(source) { json::body(source, file) } else { hcl::parse::body(source, file) };
    if !found.is_empty() {
        return Err(Diagnostics::counted(&found, file));
    }
    let mut found = Vec::new();
    let Some(job) = top_level(&body, file, &mut found) else { return Err(Diagnostics::listed(&found, file)) };
    let scope = variables::resolve(&body, options)?;
    let mut decoder = decode::Decoder::new(file);
    let decoded = special::job(job, &scope, &mut decoder);
    if !decoder.found.is_empty() {
        return Err(Diagnostics::listed(&decoder.found, file));
    }
    if !decoder.late.is_empty() {
        return Err(Diagnostics::counted(&decoder.late, file));
    }
    typed(decoded)
}

/// Whether a text is JSON: it begins with a brace, after spaces only. A line break before the brace makes it a text of
/// the native syntax, in which no file begins with a brace.
fn is_json(source: &str) -> bool {
    source.trim_start_matches(' ').starts_with('{')
}

/// The job of a decoded object. The schemas convert every member to the type that it has in [`Job`], so an error here
/// is a defect of a schema.
fn typed(decoded: Object) -> Result<Job, Diagnostics> {
    serde_json::from_value(Value::Object(decoded)).map_err(|error| Diagnostics(format!("job: {error}")))
}

/// Checks the top level of the file and finds the job. `None`: an error was reported.
fn top_level<'b>(body: &'b Body, file: &str, found: &mut Vec<Diagnostic>) -> Option<&'b Block> {
    const KINDS: [(&str, &[&str]); 4] =
        [("variables", &[]), ("variable", &["name"]), ("locals", &[]), ("job", &["name"])];
    let sound = decode::check_labels(&body.blocks, &KINDS, found);
    decode::unexpected(body, &[], &KINDS.map(|(kind, _)| kind), found);
    if !found.is_empty() {
        return None;
    }
    let jobs: Vec<&Block> = sound.into_iter().filter(|block| block.kind == "job").collect();
    match jobs.as_slice() {
        [] => {
            found.push(Diagnostic::nowhere("Missing job block", "A job block is required"));
            None
        }
        [only] => Some(only),
        [first, second, ..] => {
            let detail = format!(
                "Only one block of type \"job\" is allowed. Previous definition was at {}.",
                first.header().shown(file)
            );
            found.push(Diagnostic::new(second.header(), "Duplicate job block", detail));
            None
        }
    }
}

/// A JSON object under construction.
type Object = Map<String, Value>;
