//! Job files: from a path, standard input or a URL to the body of a registration.

use clap::Args;
use serde_json::{Map, Value, json};
use songline_lang::jobspec::{self, ParseOptions};

use crate::client::because;
use crate::exit::Failure;
use crate::input;

/// Flags of commands that read a job file.
#[derive(Args, Debug, Clone, Default)]
pub struct JobFile {
    /// The file is JSON, with the job bare or below `Job`.
    #[arg(long)]
    pub json: bool,
    /// The file is written in HCL 1.
    #[arg(long)]
    pub hcl1: bool,
    /// Refuse values of variables that the file does not declare.
    #[arg(long, action = clap::ArgAction::Set, default_value_t = true)]
    pub hcl2_strict: bool,
    /// A value of a variable, `name=value`; may be repeated.
    #[arg(long, action = clap::ArgAction::Append)]
    pub var: Vec<String>,
    /// A file with values of variables; may be repeated.
    #[arg(long, action = clap::ArgAction::Append)]
    pub var_file: Vec<String>,
}

/// A job file that was read.
#[derive(Debug, Clone)]
pub struct ReadJob {
    /// The job in the form of the HTTP API.
    pub job: Value,
    /// Source and variables, which the server keeps.
    pub submission: Value,
}

impl JobFile {
    /// Reads and parses the job at a path, on standard input (`-`) or at a URL.
    ///
    /// # Errors
    /// `Invalid job options: ..`: flags that exclude each other. `Error getting job struct: ..`: the rest.
    pub async fn read(&self, path: &str) -> Result<ReadJob, Failure> {
        self.check().map_err(|reason| Failure::of("Invalid job options", reason))?;
        let source = fetch(path).await.map_err(|error| Failure::of("Error getting job struct", error))?;
        self.parse(path, source).map_err(|error| Failure::of("Error getting job struct", error))
    }

    /// The body of a registration from a file, HCL or JSON by its content. JSON has no variables.
    ///
    /// # Errors
    /// The file cannot be read or parsed.
    pub fn registration(&self, path: &str) -> Result<Value, Failure> {
        let source = input::read(path)?;
        let flags = JobFile { json: source.trim_start().starts_with('{'), ..self.clone() };
        let read = flags.parse(path, source).map_err(Failure::new)?;
        Ok(json!({ "Job": read.job, "Submission": read.submission }))
    }

    fn check(&self) -> Result<(), &'static str> {
        let (variables, files) = (!self.var.is_empty(), !self.var_file.is_empty());
        match (self.json, self.hcl1) {
            (true, true) => Err("cannot parse job file as HCL and JSON."),
            (true, false) if variables => Err("cannot use variables with JSON files."),
            (true, false) if files => Err("cannot use variable files with JSON files."),
            (false, true) if variables => Err("cannot use variables with HCLv1."),
            (false, true) if files => Err("cannot use variable files with HCLv1."),
            _ => Ok(()),
        }
    }

    fn parse(&self, path: &str, source: String) -> Result<ReadJob, String> {
        if self.json {
            let value: Value = serde_json::from_str(&source)
                .map_err(|error| format!("Failed to parse JSON job: {}", of_json(&error, &source)))?;
            let job = value.get("Job").cloned().unwrap_or(value);
            return Ok(ReadJob { job, submission: json!({ "Source": source, "Format": "json" }) });
        }
        let mut files = String::new();
        for file in &self.var_file {
            let text = std::fs::read_to_string(file).map_err(|error| {
                let reason = format!("failed to read {file:?}: open {file}: {}", input::words(&error));
                format!("Error parsing job file from {path}:\nunable to parse var file: <nil>: Failed to read file; {reason}")
            })?;
            files.push_str(&text);
            files.push('\n');
        }
        let environment = std::env::vars()
            .filter_map(|(key, value)| key.strip_prefix("NOMAD_VAR_").map(|name| (name.to_owned(), value)));
        let flags = self.var.iter().map(|pair| {
            pair.split_once('=')
                .map(|(name, value)| (name.trim().to_owned(), value.to_owned()))
                .ok_or_else(|| format!("Invalid -var value {pair:?}: it must be NAME=VALUE"))
        });
        let flags: Vec<(String, String)> = flags.collect::<Result<_, _>>()?;
        let options = ParseOptions {
            variables: files.clone(),
            environment: environment.collect(),
            flags: flags.iter().cloned().collect(),
            strict: self.hcl2_strict && !self.hcl1,
            hclv1: self.hcl1,
            filename: if path == "-" { "stdin" } else { path }.to_owned(),
            entropy: uuid::Uuid::new_v4().as_u128(),
        };
        let job = jobspec::parse(&source, &options)
            .map_err(|found| format!("Error parsing job file from {path}:\n{found}"))?;
        let mut merged: Map<String, Value> =
            options.environment.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        merged.extend(flags.into_iter().map(|(name, value)| (name, Value::String(value))));
        let submission = json!({
            "Source": source,
            "Format": if self.hcl1 { "hcl1" } else { "hcl2" },
            "VariableFlags": merged,
            "Variables": files,
        });
        let job = serde_json::to_value(job).map_err(|error| error.to_string())?;
        Ok(ReadJob { job, submission })
    }
}

/// The text at a path, on standard input or at a URL.
async fn fetch(path: &str) -> Result<String, String> {
    if path.starts_with("http://") || path.starts_with("https://") {
        let client = crate::client::plain()?;
        let answer = client.get(path).send().await.and_then(reqwest::Response::error_for_status);
        let failed = |error: reqwest::Error| format!("Error fetching {path}: {}", because(&error));
        return answer.map_err(failed)?.text().await.map_err(failed);
    }
    if path == "-" {
        return input::read(path).map_err(|error| error.message().to_owned());
    }
    std::fs::read_to_string(path).map_err(|error| {
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.into());
        format!(
            "Error getting jobfile from {path:?}: source path error: stat {}: {}",
            whole.display(),
            input::words(&error)
        )
    })
}

/// The words of Go about a text that is not JSON.
fn of_json(error: &serde_json::Error, source: &str) -> String {
    if error.is_eof() {
        return "unexpected EOF".to_owned();
    }
    let line = source.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
    match line.chars().nth(error.column().saturating_sub(1)) {
        Some(found) if error.to_string().starts_with("expected value") => {
            format!("invalid character {found:?} looking for beginning of value")
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_exclude_each_other_are_named() {
        let reason = |json, hcl1, var: &[&str], var_file: &[&str]| {
            let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            JobFile { json, hcl1, var: words(var), var_file: words(var_file), ..JobFile::default() }.check()
        };
        assert_eq!(reason(true, true, &[], &[]), Err("cannot parse job file as HCL and JSON."));
        assert_eq!(reason(true, false, &["a=1"], &["f"]), Err("cannot use variables with JSON files."));
        assert_eq!(reason(true, false, &[], &["f"]), Err("cannot use variable files with JSON files."));
        assert_eq!(reason(false, true, &["a=1"], &[]), Err("cannot use variables with HCLv1."));
        assert_eq!(reason(false, true, &[], &["f"]), Err("cannot use variable files with HCLv1."));
        assert_eq!(reason(false, false, &["a=1"], &["f"]), Ok(()));
    }
}
