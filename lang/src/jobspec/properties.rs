//! Properties of all job files: recorded ones, random ones, and recorded ones with changed bytes. `tests.rs` tests
//! single files.

use proptest::prelude::*;
use songline_model::spec::Job;

use super::tests::{RECORDED, steps};
use super::{ParseOptions, parse};

fn options(hclv1: bool) -> ParseOptions {
    ParseOptions { hclv1, ..ParseOptions::default() }
}

/// Checks that a job written as JSON and read again is the same job, and that its canonical form is stable.
fn survives(job: &Job) -> Result<(), String> {
    let text = serde_json::to_string(job).map_err(|error| error.to_string())?;
    let again: Job = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
    if again != *job {
        return Err(format!("read again it differs: {text}"));
    }
    let mut canonical = again;
    canonical.canonicalize();
    let mut twice = canonical.clone();
    twice.canonicalize();
    if twice != canonical {
        return Err(format!("a second time the canonical form is another: {text}"));
    }
    Ok(())
}

#[test]
fn recorded_job_files_survive_being_written_and_read() {
    let (mut checked, mut faults) = (0, Vec::new());
    for (name, recording) in RECORDED {
        for (at, step) in steps(recording).iter().enumerate().filter(|(_, step)| step.status == 200) {
            let Ok(job) = parse(&step.source, &options(step.hclv1)) else { continue };
            checked += 1;
            if let Err(fault) = survives(&job) {
                faults.push(format!("{name} {at}: {fault}"));
            }
        }
    }
    assert!(faults.is_empty(), "{} of {checked}:\n{}", faults.len(), faults.join("\n"));
    assert!(checked > 150, "{checked}");
}

/// Texts of recorded files, both valid and invalid.
fn recorded() -> impl Strategy<Value = (String, bool)> {
    let all: Vec<(String, bool)> =
        RECORDED.iter().flat_map(|(_, recording)| steps(recording)).map(|step| (step.source, step.hclv1)).collect();
    prop::sample::select(all)
}

/// Changes of a file's bytes: position (as a fraction of the length), number of bytes to remove, text to insert.
fn changes() -> impl Strategy<Value = Vec<(f64, usize, String)>> {
    let piece = prop_oneof![
        "[ -~\\n]{0,3}",
        prop::sample::select(vec![
            "${",
            "%{",
            "}",
            "{",
            "\"",
            "<<E\n",
            "[",
            "(",
            "=",
            "dynamic \"x\" {",
            "for_each = ",
            "é",
            "\u{0}",
            "null",
            "-1",
            "1e999",
            "...",
            "/*",
            "#",
            "local.",
            "var.",
            "group \"g\" {",
            "\\u",
            "$${",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec((0.0..1.0, 0_usize..12, piece), 1..5)
}

fn changed(source: &str, changes: &[(f64, usize, String)]) -> String {
    let mut letters: Vec<char> = source.chars().collect();
    for (place, gone, come) in changes {
        let at = ((letters.len() as f64) * place) as usize;
        let end = (at + gone).min(letters.len());
        letters.splice(at..end, come.chars());
    }
    letters.into_iter().collect()
}

fn word() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9_-]{0,6}"
}

/// A task with some of the possible attributes and blocks.
fn task() -> impl Strategy<Value = String> {
    let attributes = (
        prop::option::of(1_u32..5_000),
        prop::option::of(prop::sample::select(vec!["5s", "1m30s", "0s", "100ms"])),
        prop::collection::btree_map(word(), "[ -!#-\\[\\]-~&&[^$%]]{0,6}", 0..3),
        prop::option::of((any::<bool>(), 0_i64..9)),
        prop::collection::vec(word(), 0..3),
        prop::option::of((1_u32..9, prop::sample::select(vec!["fail", "delay"]))),
    );
    attributes.prop_map(|(cpu, kill_timeout, env, log, args, restart)| {
        let mut out = String::from("driver = \"raw_exec\"\n");
        if let Some(cpu) = cpu {
            out.push_str(&format!("resources {{\n cpu = {cpu}\n memory = {}\n}}\n", cpu / 3 + 10));
        }
        if let Some(timeout) = kill_timeout {
            out.push_str(&format!("kill_timeout = \"{timeout}\"\n"));
        }
        out.push_str("env {\n");
        for (name, value) in env {
            out.push_str(&format!("{name} = \"{value}\"\n"));
        }
        out.push_str("}\n");
        if let Some((disabled, files)) = log {
            out.push_str(&format!("logs {{\n disabled = {disabled}\n max_files = {files}\n}}\n"));
        }
        out.push_str(&format!(
            "config {{\n command = \"x\"\n args = {args:?}\n nested {{\n deep = [1, 2.5, true, null, {{ a = \"b\" }}]\n }}\n}}\n"
        ));
        if let Some((attempts, mode)) = restart {
            out.push_str(&format!("restart {{\n attempts = {attempts}\n mode = \"{mode}\"\n}}\n"));
        }
        out
    })
}

fn job() -> impl Strategy<Value = String> {
    let kind = prop::sample::select(vec!["service", "batch", "system", "sysbatch"]);
    let group = (
        word(),
        prop::option::of(0_u32..20),
        prop::collection::vec((word(), task()), 1..3),
        prop::option::of(0_u32..4),
    );
    (word(), kind, prop::option::of(1_u32..100), prop::collection::vec(group, 1..3), any::<bool>()).prop_map(
        |(id, kind, priority, groups, has_update)| {
            let mut out = format!("job \"{id}\" {{\ntype = \"{kind}\"\n");
            if let Some(priority) = priority {
                out.push_str(&format!("priority = {priority}\n"));
            }
            if has_update {
                out.push_str("update {\n max_parallel = 2\n min_healthy_time = \"3s\"\n}\n");
            }
            for (name, count, tasks, ports) in groups {
                out.push_str(&format!("group \"{name}\" {{\n"));
                if let Some(count) = count {
                    out.push_str(&format!("count = {count}\n"));
                }
                if let Some(ports) = ports {
                    out.push_str("network {\n");
                    for port in 0..ports {
                        out.push_str(&format!(
                            "port \"p{port}\" {{ {} }}\n",
                            if port % 2 == 0 { "static = 80" } else { "" }
                        ));
                    }
                    out.push_str("}\n");
                }
                for (name, body) in tasks {
                    out.push_str(&format!("task \"{name}\" {{\n{body}}}\n"));
                }
                out.push_str("}\n");
            }
            out.push_str("}\n");
            out
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn changed_job_files_never_panic((source, hclv1) in recorded(), changes in changes()) {
        let source = changed(&source, &changes);
        let _ = parse(&source, &ParseOptions { variables: source.clone(), ..options(hclv1) });
        match parse(&source, &options(hclv1)) {
            Ok(job) => prop_assert_eq!(survives(&job), Ok(()), "{}", source),
            // What the schemas let through has the types of the model.
            Err(error) => prop_assert!(!error.to_string().starts_with("job: "), "{error}: {source}"),
        }
    }

    #[test]
    fn random_jobs_survive_being_written_and_read(source in job()) {
        let job = parse(&source, &options(false));
        prop_assert!(job.is_ok(), "{job:?}\n{source}");
        prop_assert_eq!(job.map_or_else(|error| Err(error.to_string()), |job| survives(&job)), Ok(()), "{}", source);
    }
}
