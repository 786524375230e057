//! Compares the recorded conversations with the OpenAPI document: each successful request is an operation of the
//! document, and its answer has the documented shape. Nothing is sent.

use serde_json::Value;

use crate::case::{self, Path, Step};
use crate::shapes::Document;

/// Paths that lead to an operation by a quirk of the router.
const ODD: [&str; 2] = ["/v1%2Fregions", "/v1/operator/raft/configurationX"];

#[test]
fn recorded_answers_have_the_shapes_of_the_openapi_document() -> anyhow::Result<()> {
    let document = Document::new(songline_api::openapi::document("test", &songline_api::openapi::whole_table()));
    let (mut requests, mut bodies, mut faults) = (0, 0, Vec::new());
    for case in case::load(&crate::folder().join("cases"))? {
        for (number, step) in case.steps.iter().enumerate() {
            let Some((method, path)) = request(step).filter(|(_, path)| !ODD.contains(path)) else { continue };
            // A log without frames is a text, which may look like JSON.
            if step.req["query"]["plain"] == "true" {
                continue;
            }
            let Some(wanted) = step.res.as_ref().filter(|wanted| (200..300).contains(&wanted.status)) else { continue };
            requests += 1;
            let mut say = |fault| faults.push(format!("{} step {number}: {method} {path}: {fault}", case.name));
            let schema = match document.schema(method, path, wanted.status) {
                Ok(schema) => schema,
                Err(fault) => {
                    say(fault);
                    continue;
                }
            };
            let Some((schema, body)) = schema.zip(wanted.body.as_ref()) else { continue };
            let values: Vec<&Value> = match body {
                Value::Array(frames) if step.stream.is_some() || step.frames.is_some() => frames.iter().collect(),
                body => vec![body],
            };
            let ignored = |at: &str| step.ignore.iter().any(|path| path.matches(&Path::parse(at).0));
            bodies += values.len();
            values.iter().filter_map(|value| document.fit(schema, value, &ignored).err()).for_each(say);
        }
    }
    println!("{requests} recorded requests are operations of the document, {bodies} recorded bodies have its shapes");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert!(requests > 3000 && bodies > 1500, "{requests} requests, {bodies} bodies");
    Ok(())
}

/// The method and path of a request. `None` for a preflight, which is no operation: the layer for CORS answers it on
/// every path.
fn request(step: &Step) -> Option<(&str, &str)> {
    let text = |key: &str| step.req.get(key).and_then(Value::as_str);
    Some((text("method")?, text("path")?)).filter(|(method, _)| *method != "OPTIONS")
}
