//! The recorded conversations against the OpenAPI document: each request that was answered well is an operation of it, and what was answered
//! has the shape that the document says. Nothing is sent to anybody.

use std::path::Path as File;

use serde_json::Value;

use crate::case::{self, Step};

/// One operation of the document, ready to be compared.
struct Operation<'d> {
    method: String,
    path: &'d str,
    responses: &'d Value,
}

#[test]
fn recorded_answers_have_the_shapes_of_the_openapi_document() {
    let document = songline_api::openapi::document("test", &songline_api::openapi::whole_table());
    let mut operations = Vec::new();
    for (path, slot) in document["paths"].as_object().expect("paths") {
        for (method, operation) in slot.as_object().expect("operations") {
            operations.push(Operation { method: method.to_uppercase(), path, responses: &operation["responses"] });
        }
    }
    let cases = case::load(File::new("tests/conformance/cases")).expect("cases");
    let (mut checked, mut bodies, mut faults) = (0, 0, Vec::new());
    for case in &cases {
        for (number, step) in case.steps.iter().enumerate() {
            let Some(wanted) = step.res.as_ref().filter(|wanted| (200..300).contains(&wanted.status)) else { continue };
            let Some((method, path)) = request(step) else { continue };
            if method == "OPTIONS" || path == "/" {
                continue;
            }
            let at = format!("{} step {number}: {method} {path}", case.name);
            let Some(operation) = find(&operations, &method, &path) else {
                faults.push(format!("{at}: no operation"));
                continue;
            };
            checked += 1;
            let Some(response) = operation.responses.get(wanted.status.to_string()) else {
                faults.push(format!("{at}: {} has no answer {}", operation.path, wanted.status));
                continue;
            };
            let Some(schema) = response.pointer("/content/application~1json/schema") else { continue };
            let values: Vec<&Value> = match &wanted.body {
                Some(Value::Array(frames)) if step.stream.is_some() || step.frames.is_some() => frames.iter().collect(),
                Some(body) if step.ws.is_none() && !step.archive => vec![body],
                Some(_) | None => continue,
            };
            for value in values {
                bodies += 1;
                let mut fault = None;
                fits(&document, schema, value, &mut String::from("$"), &mut fault);
                faults.extend(fault.map(|fault| format!("{at}: {fault}")));
            }
        }
    }
    println!("{checked} recorded requests are operations of the document, {bodies} bodies have its shapes");
    faults.sort();
    faults.dedup();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert!(checked > 1000 && bodies > 800, "{checked} requests, {bodies} bodies");
}

fn request(step: &Step) -> Option<(String, String)> {
    let text = |key: &str| step.req.get(key).and_then(Value::as_str).map(str::to_owned);
    Some((text("method")?, text("path")?))
}

/// The operation with the longest literal text in its path. An id may have slashes. Routes that take every verb are written down with the
/// one that their clients use.
fn find<'o, 'd>(operations: &'o [Operation<'d>], method: &str, path: &str) -> Option<&'o Operation<'d>> {
    let paths = operations.iter().filter(|operation| path_fits(operation.path, path));
    let best = paths.map(|operation| literal(operation.path)).max()?;
    let candidates = || operations.iter().filter(|operation| path_fits(operation.path, path) && literal(operation.path) == best);
    candidates().find(|operation| operation.method == method).or_else(|| candidates().find(|_| !best.eq(&0) && takes_any(path)))
}

fn takes_any(path: &str) -> bool {
    let ends = ["/summary", "/versions", "/checks", "/stats", "/restart", "/gc", "/submission"];
    path.starts_with("/v1/client/") || path.starts_with("/v1/agent/keyring/") || ends.iter().any(|end| path.ends_with(end))
}

fn literal(template: &str) -> usize {
    template.split('{').enumerate().map(|(n, part)| if n == 0 { part.len() } else { part.split('}').nth(1).map_or(0, str::len) }).sum()
}

fn path_fits(template: &str, path: &str) -> bool {
    let Some((start, rest)) = template.split_once('{') else { return template == path };
    let Some(left) = path.strip_prefix(start) else { return false };
    let after = rest.split_once('}').map_or("", |(_, after)| after);
    if after.is_empty() {
        return true;
    }
    (0..=left.len()).filter(|at| left.is_char_boundary(*at)).any(|at| path_fits(after, &left[at..]))
}

/// What a recorded value may stand for when it is a token.
fn token_kinds(text: &str) -> Option<&'static [&'static str]> {
    let token = text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).filter(|token| !token.contains(['<', '>']))?;
    match token.split(':').next()? {
        "index" | "port" | "num" | "int" => Some(&["integer", "number"]),
        "time" => Some(&["integer", "number", "string"]),
        "any" => Some(&["integer", "number", "string", "boolean", "null", "object", "array"]),
        "uuid" | "text" | "ip" | "str" | "env" => Some(&["string"]),
        _ => None,
    }
}

/// Whether a value fits a schema; the first place where it does not is told. Only the keywords that the document uses are known.
fn fits(document: &Value, schema: &Value, value: &Value, at: &mut String, fault: &mut Option<String>) {
    if fault.is_some() {
        return;
    }
    let rules = schema.as_object().expect("a schema is an object");
    for (keyword, rule) in rules {
        match keyword.as_str() {
            "$ref" => {
                let path = rule.as_str().and_then(|path| path.strip_prefix('#')).expect("a reference into the document");
                fits(document, document.pointer(path).expect("it leads somewhere"), value, at, fault);
            }
            "anyOf" => {
                let mut faults = Vec::new();
                for one in rule.as_array().expect("schemas") {
                    let mut inner = None;
                    fits(document, one, value, at, &mut inner);
                    match inner {
                        None => return,
                        Some(inner) => faults.push(inner),
                    }
                }
                // The deepest one is the one that was meant.
                *fault = faults.into_iter().max_by_key(String::len);
            }
            "type" => {
                let is = match value {
                    Value::Null => &["null"][..],
                    Value::Bool(_) => &["boolean"],
                    Value::Number(number) if number.is_f64() => &["number"],
                    Value::Number(_) => &["integer", "number"],
                    Value::String(text) => token_kinds(text).unwrap_or(&["string"]),
                    Value::Array(_) => &["array"],
                    Value::Object(_) => &["object"],
                };
                let allowed = |kind: &Value| is.iter().any(|is| kind == *is);
                if !rule.as_array().map_or_else(|| allowed(rule), |kinds| kinds.iter().any(allowed)) {
                    *fault = Some(format!("{at} is {value}, not {rule}"));
                }
            }
            "minimum" => {
                if value.as_f64().is_some_and(|value| value < rule.as_f64().unwrap_or(f64::MIN)) {
                    *fault = Some(format!("{at} is {value}"));
                }
            }
            "properties" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    let Some(schema) = rule.get(name) else { continue };
                    let length = at.len();
                    at.push_str(&format!(".{name}"));
                    fits(document, schema, value, at, fault);
                    at.truncate(length);
                }
            }
            "required" => {
                let Some(object) = value.as_object() else { continue };
                let missing = rule.as_array().expect("names").iter().find(|name| !object.contains_key(name.as_str().unwrap_or_default()));
                if let Some(name) = missing {
                    *fault = Some(format!("{at} has no {name}"));
                }
            }
            "additionalProperties" => {
                let known = rules.get("properties");
                for (name, value) in value.as_object().into_iter().flatten() {
                    if known.is_some_and(|known| known.get(name).is_some()) {
                        continue;
                    }
                    if *rule == Value::Bool(false) {
                        *fault = Some(format!("{at} has {name}"));
                    } else {
                        let length = at.len();
                        at.push_str(&format!("[{name}]"));
                        fits(document, rule, value, at, fault);
                        at.truncate(length);
                    }
                }
            }
            "items" => {
                for (n, value) in value.as_array().into_iter().flatten().enumerate() {
                    let length = at.len();
                    at.push_str(&format!("[{n}]"));
                    fits(document, rule, value, at, fault);
                    at.truncate(length);
                }
            }
            "description" | "format" | "contentEncoding" => {}
            other => panic!("the document uses `{other}`, which nobody checks"),
        }
    }
}
