//! Type expressions such as `list(string)`, used by variables and conversions.

use std::collections::BTreeMap;

use super::ast::Expression;
use super::convert::Type;
use super::{Diagnostic, Range};

/// Whether a type expression may leave a type open with the keyword `any`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exactness {
    /// Each type is named: types of variables.
    Exact,
    /// `any` stands for a type that the value determines: conversions.
    Open,
}

/// The type of an expression such as `list(string)`.
pub(crate) fn type_expression(expression: &Expression, exactness: Exactness) -> Result<Type, Diagnostic> {
    if let Some(name) = expression.keyword() {
        return keyword(name, expression.range(), exactness);
    }
    let Expression::Call { name, arguments, open, close, .. } = expression else {
        return Err(wrong(
            expression.range(),
            "A type specification is either a primitive type keyword (bool, number, string) or a complex type constructor call, like \
             list(string)."
                .to_string(),
        ));
    };
    match name.as_str() {
        "bool" | "string" | "number" | "any" => {
            return Err(wrong(open.to(*close), format!("Primitive type keyword {name:?} does not expect arguments.")));
        }
        "list" | "set" | "map" | "object" | "tuple" => {}
        _ => return Err(wrong(expression.range(), format!("Keyword {name:?} is not a valid type constructor."))),
    }
    let [argument] = arguments.as_slice() else {
        let range = arguments.get(1).map_or(open.to(*close), Expression::range);
        return Err(wrong(range, one_argument(name)));
    };
    constructed(name, argument, exactness)
}

fn wrong(range: Range, detail: String) -> Diagnostic {
    Diagnostic::new(range, "Invalid type specification", detail)
}

/// The type of a single word.
fn keyword(name: &str, range: Range, exactness: Exactness) -> Result<Type, Diagnostic> {
    match name {
        "bool" => Ok(Type::Bool),
        "string" => Ok(Type::Text),
        "number" => Ok(Type::Number),
        "any" if exactness == Exactness::Open => Ok(Type::Any),
        "any" => {
            let reason = "cannot be used in this type specification: an exact type is required.";
            Err(wrong(range, format!("The keyword {name:?} {reason}")))
        }
        "list" | "set" | "map" | "object" | "tuple" => Err(wrong(range, one_argument(name))),
        other => Err(wrong(range, format!("The keyword {other:?} is not a valid type specification."))),
    }
}

/// The error of a type constructor without exactly one argument.
fn one_argument(name: &str) -> String {
    let what = match name {
        "object" => "the attribute types and values as a map",
        "tuple" => "the element types as a list",
        _ => "the element type",
    };
    format!("The {name} type constructor requires one argument specifying {what}.")
}

/// The type that a constructor makes of its argument.
fn constructed(name: &str, argument: &Expression, exactness: Exactness) -> Result<Type, Diagnostic> {
    let element = |expression: &Expression| type_expression(expression, exactness);
    match (name, argument) {
        ("list", _) => Ok(Type::List(Box::new(element(argument)?))),
        ("set", _) => Ok(Type::Set(Box::new(element(argument)?))),
        ("map", _) => Ok(Type::Map(Box::new(element(argument)?))),
        ("object", Expression::Object { items, .. }) => {
            let mut members = BTreeMap::new();
            for (key, value) in items {
                let Expression::Key { wrapped, .. } = key else { continue };
                let Some(name) = wrapped.keyword().or(wrapped.literal_text()) else {
                    return Err(wrong(key.range(), "Object constructor map keys must be attribute names.".to_string()));
                };
                members.insert(name.to_string(), element(value)?);
            }
            Ok(Type::Object(members))
        }
        ("object", _) => Err(wrong(
            argument.range(),
            "Object type constructor requires a map whose keys are attribute names and whose values are the corresponding attribute types."
                .to_string(),
        )),
        (_, Expression::Tuple { items, .. }) => Ok(Type::Tuple(items.iter().map(element).collect::<Result<_, _>>()?)),
        _ => Err(wrong(argument.range(), "Tuple type constructor requires a list of element types.".to_string())),
    }
}
