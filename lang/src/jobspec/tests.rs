//! Recorded responses of `jobs/parse`, and small stories.

mod messages;

use expect_test::expect;
use proptest::prelude::*;
use serde_json::Value;

use super::{ParseOptions, parse};

/// Recorded conversations with the reference's parser; the conformance tests replay the same ones over HTTP.
pub(super) const RECORDED: &[(&str, &str)] = &[
    ("affinity", include_str!("../../../tests/conformance/cases/hcl/affinity.json")),
    ("artifact", include_str!("../../../tests/conformance/cases/hcl/artifact.json")),
    ("check", include_str!("../../../tests/conformance/cases/hcl/check.json")),
    ("collections", include_str!("../../../tests/conformance/cases/hcl/collections.json")),
    ("comments", include_str!("../../../tests/conformance/cases/hcl/comments.json")),
    ("config", include_str!("../../../tests/conformance/cases/hcl/config.json")),
    ("config_errors", include_str!("../../../tests/conformance/cases/hcl/config_errors.json")),
    ("config_runtime", include_str!("../../../tests/conformance/cases/hcl/config_runtime.json")),
    ("connect_gateway", include_str!("../../../tests/conformance/cases/hcl/connect_gateway.json")),
    ("connect_sidecar", include_str!("../../../tests/conformance/cases/hcl/connect_sidecar.json")),
    ("constraint", include_str!("../../../tests/conformance/cases/hcl/constraint.json")),
    ("constraint_corners", include_str!("../../../tests/conformance/cases/hcl/constraint_corners.json")),
    ("durations", include_str!("../../../tests/conformance/cases/hcl/durations.json")),
    ("durations_plain", include_str!("../../../tests/conformance/cases/hcl/durations_plain.json")),
    ("dynamic", include_str!("../../../tests/conformance/cases/hcl/dynamic.json")),
    ("dynamic_errors", include_str!("../../../tests/conformance/cases/hcl/dynamic_errors.json")),
    ("empty", include_str!("../../../tests/conformance/cases/hcl/empty.json")),
    ("ephemeral_disk", include_str!("../../../tests/conformance/cases/hcl/ephemeral_disk.json")),
    ("fn_crypto", include_str!("../../../tests/conformance/cases/hcl/fn_crypto.json")),
    ("fn_date", include_str!("../../../tests/conformance/cases/hcl/fn_date.json")),
    ("fn_encoding", include_str!("../../../tests/conformance/cases/hcl/fn_encoding.json")),
    ("fn_files", include_str!("../../../tests/conformance/cases/hcl/fn_files.json")),
    ("fn_format", include_str!("../../../tests/conformance/cases/hcl/fn_format.json")),
    ("fn_formatlist", include_str!("../../../tests/conformance/cases/hcl/fn_formatlist.json")),
    ("fn_infinite", include_str!("../../../tests/conformance/cases/hcl/fn_infinite.json")),
    ("fn_lists", include_str!("../../../tests/conformance/cases/hcl/fn_lists.json")),
    ("fn_maps", include_str!("../../../tests/conformance/cases/hcl/fn_maps.json")),
    ("fn_network", include_str!("../../../tests/conformance/cases/hcl/fn_network.json")),
    ("fn_numeric", include_str!("../../../tests/conformance/cases/hcl/fn_numeric.json")),
    ("fn_panic", include_str!("../../../tests/conformance/cases/hcl/fn_panic.json")),
    ("fn_reverse", include_str!("../../../tests/conformance/cases/hcl/fn_reverse.json")),
    ("fn_sets", include_str!("../../../tests/conformance/cases/hcl/fn_sets.json")),
    ("fn_text", include_str!("../../../tests/conformance/cases/hcl/fn_text.json")),
    ("fn_try", include_str!("../../../tests/conformance/cases/hcl/fn_try.json")),
    ("fn_unknown", include_str!("../../../tests/conformance/cases/hcl/fn_unknown.json")),
    ("group_attributes", include_str!("../../../tests/conformance/cases/hcl/group_attributes.json")),
    ("group_labels", include_str!("../../../tests/conformance/cases/hcl/group_labels.json")),
    ("job_attributes", include_str!("../../../tests/conformance/cases/hcl/job_attributes.json")),
    ("job_id_name", include_str!("../../../tests/conformance/cases/hcl/job_id_name.json")),
    ("job_meta", include_str!("../../../tests/conformance/cases/hcl/job_meta.json")),
    ("job_null", include_str!("../../../tests/conformance/cases/hcl/job_null.json")),
    ("job_task", include_str!("../../../tests/conformance/cases/hcl/job_task.json")),
    ("job_types", include_str!("../../../tests/conformance/cases/hcl/job_types.json")),
    ("json", include_str!("../../../tests/conformance/cases/hcl/json.json")),
    ("locals", include_str!("../../../tests/conformance/cases/hcl/locals.json")),
    ("many_errors", include_str!("../../../tests/conformance/cases/hcl/many_errors.json")),
    ("migrate", include_str!("../../../tests/conformance/cases/hcl/migrate.json")),
    ("minimal", include_str!("../../../tests/conformance/cases/hcl/minimal.json")),
    ("minimal_types", include_str!("../../../tests/conformance/cases/hcl/minimal_types.json")),
    ("multiregion", include_str!("../../../tests/conformance/cases/hcl/multiregion.json")),
    ("network", include_str!("../../../tests/conformance/cases/hcl/network.json")),
    ("network_ports", include_str!("../../../tests/conformance/cases/hcl/network_ports.json")),
    ("numbers", include_str!("../../../tests/conformance/cases/hcl/numbers.json")),
    ("operators", include_str!("../../../tests/conformance/cases/hcl/operators.json")),
    ("parameterized", include_str!("../../../tests/conformance/cases/hcl/parameterized.json")),
    ("periodic", include_str!("../../../tests/conformance/cases/hcl/periodic.json")),
    ("register_parsed", include_str!("../../../tests/conformance/cases/hcl/register_parsed.json")),
    ("request_names", include_str!("../../../tests/conformance/cases/hcl/request_names.json")),
    ("request_namespace", include_str!("../../../tests/conformance/cases/hcl/request_namespace.json")),
    ("reschedule", include_str!("../../../tests/conformance/cases/hcl/reschedule.json")),
    ("resources", include_str!("../../../tests/conformance/cases/hcl/resources.json")),
    ("restart", include_str!("../../../tests/conformance/cases/hcl/restart.json")),
    ("scaling_group", include_str!("../../../tests/conformance/cases/hcl/scaling_group.json")),
    ("scaling_task", include_str!("../../../tests/conformance/cases/hcl/scaling_task.json")),
    ("service", include_str!("../../../tests/conformance/cases/hcl/service.json")),
    ("spread", include_str!("../../../tests/conformance/cases/hcl/spread.json")),
    ("syntax", include_str!("../../../tests/conformance/cases/hcl/syntax.json")),
    ("task_attributes", include_str!("../../../tests/conformance/cases/hcl/task_attributes.json")),
    ("task_blocks_empty", include_str!("../../../tests/conformance/cases/hcl/task_blocks_empty.json")),
    ("task_env", include_str!("../../../tests/conformance/cases/hcl/task_env.json")),
    ("template", include_str!("../../../tests/conformance/cases/hcl/template.json")),
    ("template_corners", include_str!("../../../tests/conformance/cases/hcl/template_corners.json")),
    ("templates", include_str!("../../../tests/conformance/cases/hcl/templates.json")),
    ("undefined_variable", include_str!("../../../tests/conformance/cases/hcl/undefined_variable.json")),
    ("unknown", include_str!("../../../tests/conformance/cases/hcl/unknown.json")),
    ("update", include_str!("../../../tests/conformance/cases/hcl/update.json")),
    ("v1_constraints", include_str!("../../../tests/conformance/cases/hcl/v1_constraints.json")),
    ("v1_errors", include_str!("../../../tests/conformance/cases/hcl/v1_errors.json")),
    ("v1_group", include_str!("../../../tests/conformance/cases/hcl/v1_group.json")),
    ("v1_job", include_str!("../../../tests/conformance/cases/hcl/v1_job.json")),
    ("v1_minimal", include_str!("../../../tests/conformance/cases/hcl/v1_minimal.json")),
    ("v1_service", include_str!("../../../tests/conformance/cases/hcl/v1_service.json")),
    ("v1_syntax", include_str!("../../../tests/conformance/cases/hcl/v1_syntax.json")),
    ("v1_task", include_str!("../../../tests/conformance/cases/hcl/v1_task.json")),
    ("v1_types", include_str!("../../../tests/conformance/cases/hcl/v1_types.json")),
    ("variable_block", include_str!("../../../tests/conformance/cases/hcl/variable_block.json")),
    ("variable_type_errors", include_str!("../../../tests/conformance/cases/hcl/variable_type_errors.json")),
    ("variable_types", include_str!("../../../tests/conformance/cases/hcl/variable_types.json")),
    ("variable_use", include_str!("../../../tests/conformance/cases/hcl/variable_use.json")),
    ("variable_validation", include_str!("../../../tests/conformance/cases/hcl/variable_validation.json")),
    ("variables_block", include_str!("../../../tests/conformance/cases/hcl/variables_block.json")),
    ("variables_content", include_str!("../../../tests/conformance/cases/hcl/variables_content.json")),
    ("vault_levels", include_str!("../../../tests/conformance/cases/hcl/vault_levels.json")),
    ("volume", include_str!("../../../tests/conformance/cases/hcl/volume.json")),
];

/// One request of a recording with its expected response.
pub(super) struct Step {
    pub(super) source: String,
    variables: String,
    pub(super) hclv1: bool,
    canonicalize: bool,
    pub(super) status: u64,
    /// The job, or the text of the error; `None` if the recording does not fix it.
    answer: Option<Value>,
}

pub(super) fn steps(recording: &str) -> Vec<Step> {
    let case: Value = serde_json::from_str(recording).expect("a recording is JSON");
    let mut steps = Vec::new();
    for step in case["steps"].as_array().expect("a recording has steps") {
        let (request, answer) = (&step["req"], &step["res"]);
        if request["path"] != "/v1/jobs/parse" || !request["body"]["JobHCL"].is_string() {
            continue;
        }
        let body = request["body"].as_object().expect("a request is an object");
        let flag =
            |name: &str| body.iter().any(|(key, value)| key.eq_ignore_ascii_case(name) && value == &Value::Bool(true));
        let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default().to_string();
        steps.push(Step {
            source: text("JobHCL"),
            variables: text("Variables"),
            hclv1: flag("hclv1"),
            canonicalize: flag("canonicalize"),
            status: answer["status"].as_u64().unwrap_or_default(),
            answer: answer.get("body").or(answer.get("text")).cloned(),
        });
    }
    steps
}

/// The answer to a step, as `jobs/parse` gives it.
fn answer(step: &Step) -> Result<Value, String> {
    let options = ParseOptions { variables: step.variables.clone(), hclv1: step.hclv1, ..ParseOptions::default() };
    let mut job = parse(&step.source, &options).map_err(|refusal| refusal.to_string())?;
    if step.canonicalize {
        job.canonicalize();
    }
    serde_json::to_value(&job).map_err(|error| error.to_string())
}

fn problem(step: &Step) -> Option<String> {
    match (answer(step), &step.answer) {
        (Ok(job), Some(expected)) if step.status == 200 => difference(&job, expected, "$"),
        (Ok(_), _) => Some(format!("accepted, not: {}", step.answer.clone().unwrap_or_default())),
        (Err(_), None) if step.status == 400 => None,
        (Err(refusal), expected) => {
            let prefix = if step.hclv1 { "" } else { "Failed to parse job: " };
            let said = format!("{prefix}{refusal}");
            let expected = expected.as_ref().and_then(Value::as_str).unwrap_or("a job");
            let same = step.status == 400 && sorted_lines(&said) == sorted_lines(expected);
            (!same).then(|| format!("{said}\n    not: {expected}"))
        }
    }
}

/// Sorts the lines: diagnostics of attributes have no fixed order.
fn sorted_lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn difference(given: &Value, expected: &Value, path: &str) -> Option<String> {
    match (given, expected) {
        (Value::Object(given), Value::Object(expected)) => {
            for (key, value) in expected {
                match given.get(key) {
                    None => return Some(format!("{path}.{key} is missing")),
                    Some(given) => {
                        if let Some(found) = difference(given, value, &format!("{path}.{key}")) {
                            return Some(found);
                        }
                    }
                }
            }
            given.keys().find(|key| !expected.contains_key(*key)).map(|key| format!("{path}.{key} is too much"))
        }
        (Value::Array(given), Value::Array(expected)) if given.len() == expected.len() => given
            .iter()
            .zip(expected)
            .enumerate()
            .find_map(|(at, (given, expected))| difference(given, expected, &format!("{path}[{at}]"))),
        (Value::Number(given), Value::Number(expected)) if exact(given) == exact(expected) => None,
        (given, expected) if given == expected => None,
        (given, expected) => Some(format!("{path}: {given}, not {expected}")),
    }
}

/// A number as a whole one, or as a float. A float of the size of a whole number may be another number.
fn exact(number: &serde_json::Number) -> (Option<i128>, Option<f64>) {
    let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    let float = number.as_f64().filter(|_| whole.is_none());
    match float {
        Some(float) if float.fract() == 0.0 => (Some(float as i128), None),
        _ => (whole, float),
    }
}

#[test]
fn recorded_job_files_are_answered_as_the_reference_does() {
    let (mut passed, mut lines) = (0, Vec::new());
    for (name, recording) in RECORDED {
        let said: Vec<String> = steps(recording)
            .iter()
            .filter_map(|step| {
                let found = problem(step);
                passed += usize::from(found.is_none());
                found
            })
            .collect();
        if let Some(first) = said.first() {
            let first: String = first.lines().next().unwrap_or_default().chars().take(120).collect();
            lines.push(format!("{name}: {} differ, the first: {first}", said.len()));
        }
    }
    lines.insert(0, format!("{passed} are the same"));
    expect![[r#"
        998 are the same
        fn_infinite: 5 differ, the first: $: {"Region":null,"Namespace":null,"ID":"j","Name":"j","Type":null,"Priority":null,"AllAtOnce":null,"Datacenters":null,""#]].assert_eq(&lines.join("\n"));
}

/// Parses a text and shows the job's structure, or the error.
fn check(source: &str, expected: &str) {
    let said = match parse(source, &ParseOptions::default()) {
        Ok(job) => {
            let names: Vec<&str> = job.task_groups.iter().flatten().filter_map(|group| group.name.as_deref()).collect();
            names.join(" ")
        }
        Err(refusal) => refusal.to_string(),
    };
    assert_eq!(said, expected, "{source}");
}

#[test]
fn dynamic_blocks_expand_to_a_block_for_each_element() {
    check(
        "locals {
           names = [\"a\", \"b\"]
         }
         job \"j\" {
           dynamic \"group\" {
             for_each = local.names
             labels   = [\"g-${group.value}\"]
             content {
               count = group.key
             }
           }
           dynamic \"group\" {
             for_each = { x = 1 }
             iterator = it
             labels   = [it.key]
             content {}
           }
         }",
        "g-a g-b x",
    );
    check(
        "job \"j\" {
  dynamic \"group\" {
    for_each = 5
    labels = []
    content {}
  }
}",
        "input.hcl:3,16-17: Invalid dynamic for_each value; Cannot use a number value in for_each. An iterable collection is required.",
    );
}

#[test]
fn task_outside_a_group_gets_a_group_of_its_name_before_the_others() {
    check("job \"j\" {\n  group \"g\" {}\n  task \"t\" {}\n}\n", "t g");
}

#[test]
fn hcl_expression_values_are_bounded_in_size() {
    let mut locals = String::from("v0 = \"0123456789\"\n");
    for at in 0..60 {
        locals.push_str(&format!("v{} = \"${{local.v{at}}}${{local.v{at}}}\"\n", at + 1));
    }
    let source = format!("locals {{\n{locals}}}\njob \"j\" {{}}\n");
    let refusal = parse(&source, &ParseOptions::default()).expect_err("too large").to_string();
    assert!(refusal.contains("Expressions too large"), "{refusal}");
    let loops = "locals {\n  v = [for a in range(1000) : [for b in range(1000) : [for c in range(1000) : \"x\"]]]\n}\njob \"j\" {}\n";
    let refusal = parse(loops, &ParseOptions::default()).expect_err("too large").to_string();
    assert!(refusal.contains("Expressions too large"), "{refusal}");
}

#[test]
fn nesting_is_bounded() {
    for deep in ["[", "(", "{a=", "-", "\"${", "a ? b : "] {
        let source = format!("job \"j\" {{\n  meta = {}\n}}\n", deep.repeat(50_000));
        assert!(parse(&source, &ParseOptions::default()).is_err(), "{deep}");
    }
    for long in ["1 + ", "a[b]", "a.*", "a[*]"] {
        let source = format!("job \"j\" {{\n  meta = {}1\n}}\n", long.repeat(50_000));
        assert!(parse(&source, &ParseOptions::default()).is_err(), "{long}");
    }
    assert!(parse(&"a {\n".repeat(50_000), &ParseOptions::default()).is_err());
}

proptest! {
    #[test]
    fn random_text_never_panics(text in ".{0,80}") {
        for hclv1 in [false, true] {
            let _ = parse(&text, &ParseOptions { variables: text.clone(), hclv1, ..ParseOptions::default() });
        }
    }

    #[test]
    fn random_sentences_never_panic(words in proptest::collection::vec(
        prop_oneof![
            Just("job \"j\" {\n"), Just("group \"g\" {\n"), Just("task \"t\" {\n"), Just("config {\n"), Just("}\n"), Just("meta = "),
            Just("count = "), Just("x = "), Just("["), Just("]"), Just("{"), Just("}"), Just("("), Just(")"), Just("1"), Just("\"a${"),
            Just("\""), Just("}"), Just("%{ if true }"), Just("%{ endif }"), Just("for x in "), Just(" : "), Just("=>"), Just("..."),
            Just("var.x"), Just("local"), Just(".*"), Just("[*]"), Just("[0]"), Just("upper("), Just(","), Just("<<-E\n"), Just("E\n"),
            Just("\n"), Just("- "), Just("!"), Just(" ? "), Just("null"), Just("locals {\n"), Just("variable \"x\" {\n"), Just("~"),
        ], 0..30)) {
        for hclv1 in [false, true] {
            let _ = parse(&words.concat(), &ParseOptions { hclv1, ..ParseOptions::default() });
        }
    }
}
