//! Access to an attribute or an element of a value.

use super::convert::{self, Type};
use super::value::{Mapping, Number, Value};
use super::{Diagnostic, Range};

/// Result of access to an unknown value.
static UNKNOWN: Value = Value::Unknown;

/// `value.name`.
pub(super) fn attribute<'v>(value: &'v Value, name: &str, range: Range) -> Result<&'v Value, Diagnostic> {
    match value {
        Value::Unknown => Ok(&UNKNOWN),
        Value::Null => Err(Diagnostic::new(
            range,
            "Attempt to get attribute from null value",
            "This value is null, so it does not have any attributes.",
        )),
        Value::Mapping(kind, members) => match (members.get(name), kind) {
            (Some(value), _) => Ok(value),
            (None, Mapping::Object) => Err(Diagnostic::new(
                range,
                "Unsupported attribute",
                format!("This object does not have an attribute named {name:?}."),
            )),
            (None, Mapping::Map) => Err(Diagnostic::new(
                range,
                "Missing map element",
                format!("This map does not have an element with the key {name:?}."),
            )),
        },
        Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Sequence(..) => {
            Err(Diagnostic::new(range, "Unsupported attribute", "This value does not have any attributes."))
        }
    }
}

/// `value[key]`.
pub(super) fn index<'v>(value: &'v Value, key: &Value, range: Range) -> Result<&'v Value, Diagnostic> {
    const NO_ELEMENT: &str = "The given key does not identify an element in this collection value";
    let invalid = |detail: String| Diagnostic::new(range, "Invalid index", detail);
    match value {
        Value::Null => Err(Diagnostic::new(
            range,
            "Attempt to index null value",
            "This value is null, so it does not have any indices.",
        )),
        Value::Unknown => Ok(&UNKNOWN),
        _ if *key == Value::Null => Err(invalid("Can't use a null value as an indexing key.".to_string())),
        _ if *key == Value::Unknown => Ok(&UNKNOWN),
        Value::Sequence(_, items) => {
            let key =
                convert::convert(key, &Type::Number).map_err(|reason| invalid(format!("{NO_ELEMENT}: {reason}.")))?;
            let Value::Number(number) = key else { return Ok(&UNKNOWN) };
            if let Number::Float(float) = number
                && float.is_finite()
            {
                return Err(invalid(format!(
                    "{NO_ELEMENT}: indexing a sequence requires a whole number, but the given index ({number}) has a fractional part."
                )));
            }
            let at = number.as_integer().and_then(|at| usize::try_from(at).ok());
            at.and_then(|at| items.get(at)).ok_or_else(|| invalid(format!("{NO_ELEMENT}.")))
        }
        Value::Mapping(_, members) => {
            let key =
                convert::convert(key, &Type::Text).map_err(|reason| invalid(format!("{NO_ELEMENT}: {reason}.")))?;
            let Value::Text(name) = key else { return Ok(&UNKNOWN) };
            members.get(&name).ok_or_else(|| invalid(format!("{NO_ELEMENT}.")))
        }
        Value::Bool(_) | Value::Number(_) | Value::Text(_) => {
            Err(invalid("This value does not have any indices.".to_string()))
        }
    }
}
