//! Admission of jobs, plans' diffs and parsed jobs, against recorded conversations: what a request asked and what was
//! answered. The whole conversations, over HTTP, are replayed by `tests/conformance`; here only this crate's part of
//! them is.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]
#![expect(clippy::disallowed_methods, reason = "tests read the recordings")]

#[path = "recorded/case.rs"]
mod case;
#[path = "recorded/languages.rs"]
mod languages;

use case::{Step, differences, passing_steps, steps};
use languages::context_for;
use serde_json::Value;
use songline_model::{Job, JobDiff, NotAdmitted, PlanAnnotations, spec, warnings_text};

fn submitted(step: &Step) -> Option<spec::Job> {
    let job = step.request_body()?.get("Job").filter(|job| job.is_object())?;
    let mut spec: spec::Job = serde_json::from_value(case::go_names(job)).unwrap();
    // The region of the query is stronger than that of the job.
    spec.region = step.query("region").map(Into::into).or(spec.region);
    // Nomad sells jobs of several regions, and its open agents refuse them.
    Some(spec).filter(|spec| spec.multiregion.is_none())
}

/// Fails with all problems at once.
fn report(checked: usize, at_least: usize, problems: &[String]) {
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    assert!(checked >= at_least, "only {checked} were found in the recordings");
}

fn expect_same<T: PartialEq + std::fmt::Debug>(ours: &T, expected: &T, place: &str, problems: &mut Vec<String>) {
    if ours != expected {
        problems.push(format!("{place}:\n  ours     {ours:?}\n  expected {expected:?}"));
    }
}

#[test]
fn every_recorded_validation_has_its_exact_texts() {
    let (mut checked, mut problems) = (0, Vec::new());
    for step in steps("jobs").into_iter().filter(|step| step.path() == "/v1/validate/job") {
        let (Some(spec), Some(expected)) =
            (submitted(&step), step.answer().filter(|answer| answer.get("ValidationErrors").is_some()))
        else {
            continue;
        };
        let outcome = context_for(&spec, |context| Job::from_spec(spec.clone()).admit(context));
        let (errors, text, warnings) = match outcome {
            Ok(admitted) => (Value::Null, String::new(), admitted.warnings),
            Err(NotAdmitted::Invalid { errors, warnings }) => {
                (errors.list().to_vec().into(), errors.to_string(), warnings)
            }
            Err(mutator) => panic!("{}: {mutator}", step.place()),
        };
        let ours = (errors, text, warnings_text(&warnings));
        let text_of = |name: &str| expected[name].as_str().unwrap().to_owned();
        let theirs = (expected["ValidationErrors"].clone(), text_of("Error"), text_of("Warnings"));
        expect_same(&ours, &theirs, &step.place(), &mut problems);
        checked += 1;
    }
    report(checked, 100, &problems);
}

#[test]
fn every_recorded_refusal_of_a_registration_or_plan_has_its_exact_text() {
    let (mut checked, mut problems) = (0, Vec::new());
    for step in steps("jobs") {
        let Some(expected) = step.answer_text().filter(|text| step.status() == 500 && text.contains(" occurred:\n"))
        else {
            continue;
        };
        let Some(spec) = submitted(&step) else { continue };
        let outcome = context_for(&spec, |context| Job::from_spec(spec.clone()).admit(context));
        let ours = outcome.map_or_else(|refusal| refusal.to_string(), |_| "admitted".to_owned());
        expect_same(&ours.as_str(), &expected, &step.place(), &mut problems);
        checked += 1;
    }
    report(checked, 5, &problems);
}

#[test]
fn every_registered_job_is_stored_as_recorded() {
    /// Fields that only servers fill in when they store the row.
    const OF_SERVERS: [&str; 8] = [
        "Status",
        "StatusDescription",
        "Stable",
        "Version",
        "SubmitTime",
        "CreateIndex",
        "ModifyIndex",
        "JobModifyIndex",
    ];
    let (mut checked, mut problems) = (0, Vec::new());
    for topic in ["jobs", "scaling", "services", "events", "deployments", "tasks", "allocs", "evals"] {
        let mut registered: Option<spec::Job> = None;
        for step in steps(topic) {
            if step.is_first() {
                registered = None;
            }
            let about_one_job = step.path().starts_with("/v1/job/") && step.path().matches('/').count() == 3;
            if step.method() != "GET"
                && (step.path() == "/v1/jobs" || step.path().starts_with("/v1/job/"))
                && !step.path().ends_with("/plan")
            {
                // A request may keep the counts of the stored job: that needs the stored job.
                let keeps_counts = step.request_body().is_some_and(|body| body.get("PreserveCounts").is_some());
                registered = submitted(&step).filter(|_| step.status() == 200 && !keeps_counts);
                continue;
            }
            let (true, Some(spec), Some(expected)) =
                (about_one_job && step.method() == "GET", &registered, step.answer())
            else {
                continue;
            };
            if expected["ID"].as_str() != spec.id.as_deref() {
                continue;
            }
            let admitted = context_for(spec, |context| Job::from_spec(spec.clone()).admit(context)).unwrap();
            let again = context_for(spec, |context| admitted.job.clone().admit(context)).unwrap();
            expect_same(&again.job, &admitted.job, &format!("{} admitted twice", step.place()), &mut problems);
            let mut ours = serde_json::to_value(&admitted.job).unwrap();
            let mut expected = expected.clone();
            for field in OF_SERVERS {
                ours.as_object_mut().unwrap().remove(field);
                expected.as_object_mut().unwrap().remove(field);
            }
            let found = differences(&expected, &ours);
            problems.extend(found.iter().map(|difference| format!("{}: {difference}", step.place())));
            checked += 1;
        }
    }
    report(checked, 10, &problems);
}

#[test]
fn every_parsed_job_has_its_recorded_canonical_form() {
    let (mut checked, mut problems) = (0, Vec::new());
    let all = passing_steps("hcl");
    let asked = |step: &Step, canonical: bool| {
        let body = step.request_body().cloned().unwrap_or_default();
        let wanted = body.get("Canonicalize").and_then(Value::as_bool).unwrap_or_default();
        (wanted == canonical && step.status() == 200).then(|| (body["JobHCL"].clone(), body["Variables"].clone()))
    };
    for step in &all {
        let (Some(source), Some(expected)) = (asked(step, true), step.answer()) else { continue };
        let Some(plain) = all.iter().find(|other| asked(other, false).is_some_and(|other| other == source)) else {
            continue;
        };
        let Some(parsed) = plain.answer() else { continue };
        let mut spec: spec::Job = serde_json::from_value(parsed.clone()).unwrap();
        let again = serde_json::to_value(&spec).unwrap();
        let lost = differences(parsed, &again);
        problems.extend(lost.iter().map(|difference| format!("{} read: {difference}", plain.place())));
        spec.canonicalize();
        let found = differences(expected, &serde_json::to_value(&spec).unwrap());
        problems.extend(found.iter().map(|difference| format!("{}: {difference}", step.place())));
        let once = spec.clone();
        spec.canonicalize();
        expect_same(&spec, &once, &step.place(), &mut problems);
        checked += 1;
    }
    report(checked, 10, &problems);
}

#[test]
fn every_recorded_plan_shows_its_diff() {
    let (mut checked, mut problems) = (0, Vec::new());
    let mut stored: Option<Job> = None;
    for step in steps("jobs") {
        if step.is_first() {
            stored = None;
        }
        let Some(spec) = submitted(&step).filter(|_| step.status() == 200) else { continue };
        let Ok(admitted) = context_for(&spec, |context| Job::from_spec(spec.clone()).admit(context)) else { continue };
        if step.path() == "/v1/jobs" {
            stored = Some(admitted.job);
            continue;
        }
        let Some(expected) = step.answer().filter(|answer| answer.get("Diff").is_some_and(Value::is_object)) else {
            continue;
        };
        let annotations: PlanAnnotations = serde_json::from_value(expected["Annotations"].clone()).unwrap();
        let mut diff = JobDiff::between(stored.as_ref(), Some(&admitted.job), true).unwrap();
        diff.annotate(Some(&annotations));
        let found = differences(&expected["Diff"], &serde_json::to_value(&diff).unwrap());
        problems.extend(found.iter().map(|difference| format!("{}: {difference}", step.place())));
        checked += 1;
    }
    report(checked, 5, &problems);
}

#[test]
fn tokens_of_other_systems_leave_an_admitted_job() {
    let spec: spec::Job = serde_json::from_value(serde_json::json!({
        "ID": "j",
        "ConsulToken": "c",
        "VaultToken": "v",
        "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "exec"}]}],
    }))
    .unwrap();
    let submitted = Job::from_spec(spec.clone());
    assert_eq!((submitted.consul_token.reveal(), submitted.vault_token.reveal()), ("c", "v"));
    let admitted = context_for(&spec, |context| submitted.admit(context)).unwrap();
    assert!(admitted.job.consul_token.is_empty() && admitted.job.vault_token.is_empty());
}
