//! Go type names for error texts, derived from Rust type names. Only texts depend on them; a name that can not be
//! derived (`int` and `int64`) is given in [`Names::fields`].

use super::Names;
use crate::rust_type::{last_word, pointee, split};

/// The Go name of the Rust type `T`, without outer pointers, as in Go.
pub(super) fn name_of<T: ?Sized>(names: Names<'_>) -> String {
    let mut rust = std::any::type_name::<T>();
    while let Some(inner) = pointee(rust) {
        rust = inner;
    }
    translate(rust, names.package)
}

/// The Go name of a field whose Rust type `T` is decoded from a simpler type: a duration from an integer, bytes from a
/// text.
pub(super) fn name_of_wrapper<T: ?Sized>() -> Option<&'static str> {
    let mut rust = std::any::type_name::<T>();
    while let Some(inner) = pointee(rust) {
        rust = inner;
    }
    match last_word(rust) {
        "Dur" => Some("time.Duration"),
        "Time" => Some("int64"),
        "Blob" => Some("[]uint8"),
        _ => None,
    }
}

/// Structs that lists and maps hold by value; they hold pointers to all others.
const HELD_BY_VALUE: [&str; 2] = ["Port", "ServiceCheck"];

/// The Go name of the element type of a list or map.
fn element(rust: &str, package: &str) -> String {
    let name = translate(rust, package);
    match name.strip_prefix(package).and_then(|rest| rest.strip_prefix('.')) {
        Some(of) if !HELD_BY_VALUE.contains(&of) => format!("*{name}"),
        Some(_) | None => name,
    }
}

/// The Go name of a struct: acronyms in capitals, after the package's name.
pub(super) fn structure(rust: &str, package: &str) -> String {
    match (package, rust) {
        ("api", "TaskLifecycleConfig") => return "TaskLifecycle".to_string(),
        // In Go, a volume request is the volume type itself.
        ("structs", "CsiVolumeRequest") => return "CSIVolume".to_string(),
        _ => {}
    }
    ["Acl", "Csi", "Dns", "Tls"].iter().fold(rust.to_string(), |name, word| name.replace(word, &word.to_uppercase()))
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
        "Vec" | "Vector" | "BTreeSet" | "OrdSet" => format!("[]{}", element(arguments, package)),
        "BTreeMap" | "OrdMap" | "Map" => match split_pair(arguments) {
            Some((key, value)) => format!("map[{}]{}", translate(key, package), element(value, package)),
            None => "map[string]interface {}".to_string(),
        },
        // Ids have types of their own only in Rust.
        name if name.ends_with("Id") => "string".to_string(),
        name => format!("{package}.{}", structure(name, package)),
    }
}

/// Splits `K, V` at the comma outside angle brackets; a third parameter is dropped.
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
