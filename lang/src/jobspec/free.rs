//! Free-form bodies, a task's `config` and a scaling `policy`: arbitrary attributes and blocks.

use serde_json::{Value as Json, json};

use super::Object;
use super::decode::Instance;
use crate::hcl::Diagnostic;
use crate::hcl::ast::{Body, Expression};
use crate::hcl::eval::{self, Allowed, Scope};
use crate::hcl::value::{Number, Value};

/// The JSON of a body. Null attributes are dropped; blocks become lists of objects, and their labels nest.
pub(super) fn body(block: &Instance<'_>, scope: &Scope<'_>, late: &mut Vec<Diagnostic>) -> Object {
    block.within(scope, |scope| contents(block.body, scope, late))
}

fn contents(body: &Body, scope: &Scope<'_>, late: &mut Vec<Diagnostic>) -> Object {
    let mut object = Object::new();
    for attribute in &body.attributes {
        let before = late.len();
        let value = eval::value(&attribute.expression, scope, Allowed::All, late);
        if late.len() > before {
            // The reference also converts a value that failed to evaluate, and reports that as a second error.
            late.push(Diagnostic::new(
                attribute.expression.start(),
                "Unsuitable value type",
                "Unsuitable value: value must be known",
            ));
            continue;
        }
        match json_of(&value) {
            Json::Null => {}
            json if matches!(attribute.expression, Expression::Object { .. }) => {
                object.insert(attribute.name.clone(), json!([json]));
            }
            json => {
                object.insert(attribute.name.clone(), json);
            }
        }
    }
    for block in &body.blocks {
        let mut nested = Json::Object(contents(&block.body, scope, late));
        for (label, _) in block.labels.iter().rev() {
            nested = json!({ label: [nested] });
        }
        match object.get_mut(&block.kind) {
            Some(Json::Array(items)) => items.push(nested),
            _ => {
                object.insert(block.kind.clone(), json!([nested]));
            }
        }
    }
    object
}

/// A value of any shape as JSON. Whole numbers beyond 64 bits with a sign become floats, and numbers that JSON can not
/// represent their names.
pub(crate) fn json_of(value: &Value) -> Json {
    match value {
        Value::Null | Value::Unknown => Json::Null,
        Value::Bool(truth) => json!(truth),
        Value::Text(text) => json!(text),
        Value::Number(number) => number_json(*number),
        Value::Sequence(_, items) => Json::Array(items.iter().map(json_of).collect()),
        Value::Mapping(_, members) => {
            Json::Object(members.iter().map(|(name, value)| (name.clone(), json_of(value))).collect())
        }
    }
}

fn number_json(number: Number) -> Json {
    if let Some(integer) = number.as_integer().and_then(|integer| i64::try_from(integer).ok()) {
        return json!(integer);
    }
    let float = number.as_f64();
    if float.is_finite() { json!(float) } else { json!(number.to_string()) }
}
