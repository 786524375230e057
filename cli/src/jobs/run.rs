//! `job run` and `job validate`.

use clap::Args;
use serde_json::{Value, json};
use songline_lang::languages::JobLanguages;
use songline_model::quote;

use crate::client::{Client, RequestError, escape, text};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::jobfile::{JobFile, ReadJob};
use crate::{Context, General, format, monitor, out, outln, values};

/// Tokens and namespaces of Consul and Vault that become part of the job.
#[derive(Args, Default)]
pub(super) struct Foreign {
    /// Token of Consul; else `CONSUL_HTTP_TOKEN`.
    #[arg(long)]
    consul_token: Option<String>,
    /// Namespace of Consul.
    #[arg(long)]
    consul_namespace: Option<String>,
    /// Token of Vault; else `VAULT_TOKEN`.
    #[arg(long)]
    vault_token: Option<String>,
    /// Namespace of Vault.
    #[arg(long)]
    vault_namespace: Option<String>,
}

impl Foreign {
    /// Puts the flags into the job, or the tokens of the environment where there is no flag.
    pub(super) fn put_into(&self, job: &mut Value) {
        self.put_with(job, |name| std::env::var(name).ok());
    }

    fn put_with(&self, job: &mut Value, variable: impl Fn(&str) -> Option<String>) {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let consul = self.consul_token.clone().or_else(|| variable("CONSUL_HTTP_TOKEN"));
        let vault = self.vault_token.clone().or_else(|| variable("VAULT_TOKEN"));
        let all = [
            ("ConsulToken", consul),
            ("ConsulNamespace", self.consul_namespace.clone()),
            ("VaultToken", vault),
            ("VaultNamespace", self.vault_namespace.clone()),
        ];
        for (key, value) in all {
            if let Some(value) = value {
                job[key] = Value::String(value);
            }
        }
    }
}

/// The client for a job: the region and the namespace of its file go before flags and variables.
pub(super) fn client_of(general: &General, job: &Value) -> Result<Client, Failure> {
    let (region, namespace) = scope_of(job);
    Ok(general.client()?.with_scope(region, namespace))
}

/// The region and the namespace that a job's file names.
fn scope_of(job: &Value) -> (Option<&str>, Option<&str>) {
    let named = |key: &str| Some(text(&job[key])).filter(|name| !name.is_empty());
    (named("Region"), named("Namespace"))
}

/// Arguments of `job run`.
#[derive(Args)]
pub(crate) struct Run {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    file: JobFile,
    #[command(flatten)]
    foreign: Foreign,
    /// Return at once, without following the evaluation.
    #[arg(long)]
    detach: bool,
    /// Print full ids.
    #[arg(long)]
    verbose: bool,
    /// Only register while the job was last changed at this index; 0: while there is none.
    #[arg(long)]
    check_index: Option<String>,
    /// Priority of the evaluation.
    #[arg(long)]
    eval_priority: Option<i64>,
    /// Print the request and send nothing.
    #[arg(long)]
    output: bool,
    /// Override policies that may be overridden.
    #[arg(long)]
    policy_override: bool,
    /// Keep the counts that the running job has.
    #[arg(long)]
    preserve_counts: bool,
    /// The job file, `-` for standard input, or a URL.
    path: String,
}

impl crate::Run for Run {
    async fn run(self, _: &Context) -> Outcome {
        let ReadJob { mut job, submission } = self.file.read(&self.path).await?;
        self.foreign.put_into(&mut job);
        if self.output {
            outln!("{}", format::json(&json!({ "Job": job })));
            return Ok(Exit::DONE);
        }
        let client = client_of(&self.general, &job)?;
        let mut body = json!({ "Job": job, "Submission": submission });
        if let Some(typed) = self.check_index.as_deref().filter(|typed| !typed.is_empty()) {
            let index: u64 = typed.parse().tried(&format!("Error parsing check-index value {}", quote(typed)))?;
            body["EnforceIndex"] = json!(true);
            body["JobModifyIndex"] = json!(index);
        }
        for (key, set) in [("PolicyOverride", self.policy_override), ("PreserveCounts", self.preserve_counts)] {
            if set {
                body[key] = json!(true);
            }
        }
        if let Some(priority) = self.eval_priority {
            body["EvalPriority"] = json!(priority);
        }
        let answer = match client.put("/v1/jobs", &body).await {
            Ok(answer) => answer,
            Err(RequestError::Refused { body, .. }) if body.contains("Enforcing job modify index") => {
                let at = body.find("Enforcing job modify index").unwrap_or(0);
                return Err(Failure::new(format!("{}\nJob not updated", &body[at..])));
            }
            Err(error) => return Err(Failure::of("Error submitting job", error)),
        };
        monitor::warnings(&answer);
        self.finish(&client, &body["Job"], text(&answer["EvalID"])).await
    }
}

impl Run {
    async fn finish(&self, client: &Client, job: &Value, eval: &str) -> Outcome {
        let (periodic, parameterized) = (job["Periodic"].is_object(), job["ParameterizedJob"].is_object());
        let regions = job["Multiregion"]["Regions"].as_array().is_some_and(|regions| !regions.is_empty());
        if !self.detach && !periodic && !parameterized && !regions && !eval.is_empty() {
            return monitor::evaluation(client, eval, self.verbose).await;
        }
        outln!("Job registration successful");
        if periodic && !parameterized && job["Periodic"]["Enabled"] != false {
            if let Some(launch) = next_launch(job) {
                outln!("Approximate next launch time: {launch}");
            }
        } else if !eval.is_empty() {
            outln!("Evaluation ID: {eval}");
        }
        Ok(Exit::DONE)
    }
}

/// The next launch of a periodic job from now, in the job's time zone, with the time until then.
pub(super) fn next_launch(job: &Value) -> Option<String> {
    let mut config = job["Periodic"].clone();
    // Members of a parsed file that are null have their defaults.
    let members = config.as_object_mut()?;
    members.retain(|_, value| !value.is_null());
    members.entry("SpecType").or_insert_with(|| json!("cron"));
    let periodic: songline_model::PeriodicConfig = serde_json::from_value(config).ok()?;
    let now = values::now();
    let next = songline_lang::schedule::Schedule::of(&periodic).next(songline_model::Time::from_nanos(now))?;
    let zone: chrono_tz::Tz = periodic.time_zone.parse().unwrap_or(chrono_tz::UTC);
    let at = chrono::DateTime::from_timestamp_nanos(next.nanos()).with_timezone(&zone);
    let seconds = (next.nanos() - now) / 1_000_000_000 * 1_000_000_000;
    let shown = at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    Some(format!("{shown} ({} from now)", values::go_duration(seconds)))
}

/// Arguments of `job validate`.
#[derive(Args)]
pub(crate) struct Validate {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    file: JobFile,
    #[command(flatten)]
    foreign: Foreign,
    /// The job file, `-` for standard input, or a URL.
    path: String,
}

impl crate::Run for Validate {
    async fn run(self, _: &Context) -> Outcome {
        let ReadJob { mut job, .. } = self.file.read(&self.path).await?;
        self.foreign.put_into(&mut job);
        let client = client_of(&self.general, &job)?;
        let answer = match client.put("/v1/validate/job", &json!({ "Job": job })).await {
            Ok(answer) => answer,
            Err(_) => {
                outln!("Driver configuration not validated since connection to Nomad agent couldn't be established.\n");
                validated_here(job)?
            }
        };
        let error = text(&answer["Error"]);
        if !error.is_empty() {
            out::error(&format!("Job validation errors:\n{error}"));
            return Ok(Exit::FAILED);
        }
        monitor::warnings(&answer);
        outln!("Job validation successful");
        Ok(Exit::DONE)
    }
}

/// The answer that an agent would give, as far as it can be known without one.
fn validated_here(job: Value) -> Result<Value, Failure> {
    let job: songline_model::spec::Job = serde_json::from_value(job).tried("Error validating job")?;
    let mut job = songline_model::Job::from_spec(job);
    job.canonicalize();
    let errors = job.validate(&JobLanguages).err().map(|errors| errors.to_string()).unwrap_or_default();
    Ok(json!({ "Error": errors, "Warnings": songline_model::warnings_text(&job.warnings()) }))
}

/// Path of one job's route.
pub(super) fn route(job: &str, rest: &str) -> String {
    format!("/v1/job/{}{rest}", escape(job))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn region_and_namespace_of_the_file_go_before_those_of_the_request() {
        let job = json!({ "Region": "global", "Namespace": "apps" });
        assert_eq!(scope_of(&job), (Some("global"), Some("apps")));
        let silent = json!({ "Region": null, "Namespace": "" });
        assert_eq!(scope_of(&silent), (None, None));
    }

    #[test]
    fn tokens_of_the_environment_stand_in_for_missing_flags() {
        let environment = |name: &str| match name {
            "CONSUL_HTTP_TOKEN" => Some("from-environment".to_owned()),
            _ => Some(String::new()),
        };
        let put = |foreign: Foreign| {
            let mut job = json!({ "ID": "web" });
            foreign.put_with(&mut job, environment);
            job
        };
        assert_eq!(put(Foreign::default()), json!({ "ID": "web", "ConsulToken": "from-environment" }));
        let flags = Foreign {
            consul_token: Some("flag".to_owned()),
            consul_namespace: Some("one".to_owned()),
            vault_namespace: Some("two".to_owned()),
            ..Foreign::default()
        };
        let expected = json!({ "ID": "web", "ConsulToken": "flag", "ConsulNamespace": "one", "VaultNamespace": "two" });
        assert_eq!(put(flags), expected);
    }
}
