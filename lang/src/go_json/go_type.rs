//! Names of Go types for error texts, guessed from the names of Rust types.
//! Only texts depend on this: a name that cannot be told apart (`int` and `int64`) is given by [`Names::fields`].

use super::Names;
use crate::rust_type::{last_word, pointee, split};

/// What Go would call the Rust type `T`; pointers at the top are left out, as Go does.
pub(super) fn name_of<T: ?Sized>(names: Names<'_>) -> String {
    let mut rust = std::any::type_name::<T>();
    while let Some(inner) = pointee(rust) {
        rust = inner;
    }
    translate(rust, names.package)
}

/// Whether the Rust type is a span of time: an integer to serde, a type of its own to Go.
pub(super) fn is_duration(mut rust: &str) -> bool {
    while let Some(inner) = pointee(rust) {
        rust = inner;
    }
    last_word(rust) == "Dur"
}

fn translate(rust: &str, package: &str) -> String {
    if let Some(inner) = pointee(rust) {
        return format!("*{}", translate(inner, package));
    }
    let (_, arguments) = split(rust);
    match last_word(rust) {
        "bool" => "bool".to_string(),
        "i64" | "isize" => "int".to_string(),
        "i32" => "int32".to_string(),
        "i16" => "int16".to_string(),
        "i8" => "int8".to_string(),
        "u64" => "uint64".to_string(),
        "u32" => "uint32".to_string(),
        "u16" => "uint16".to_string(),
        "u8" => "uint8".to_string(),
        "usize" => "uint".to_string(),
        "f64" => "float64".to_string(),
        "f32" => "float32".to_string(),
        "String" | "str" | "SmolStr" | "Uuid" => "string".to_string(),
        "Value" => "interface {}".to_string(),
        "Vec" | "Vector" | "BTreeSet" | "OrdSet" => format!("[]{}", translate(arguments, package)),
        "BTreeMap" | "OrdMap" | "Map" => match split_pair(arguments) {
            Some((key, value)) => format!("map[{}]{}", translate(key, package), translate(value, package)),
            None => "map[string]interface {}".to_string(),
        },
        // Ids are types of their own only here.
        name if name.ends_with("Id") => "string".to_string(),
        name => format!("{package}.{name}"),
    }
}

/// Splits `K, V` at the comma that is not inside angle brackets; a third parameter is dropped.
fn split_pair(arguments: &str) -> Option<(&str, &str)> {
    let comma = outer_comma(arguments)?;
    let (key, rest) = (&arguments[..comma], arguments[comma + 1..].trim_start());
    let value = outer_comma(rest).map_or(rest, |end| &rest[..end]);
    Some((key, value))
}

fn outer_comma(arguments: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in arguments.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}
