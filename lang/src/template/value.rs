//! Values of templates, with the names of their types in Go.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Type;

/// First of the 128 characters that stand for the bytes 0x80 to 0xff of texts that are not UTF-8.
const RAW_FIRST: u32 = 0x0010_ff80;

/// A value.
#[derive(Debug, Clone, Default)]
pub enum Value {
    /// No value at all: a key that a map does not have.
    #[default]
    Missing,
    /// Nothing, in the place of a value: `null` of JSON.
    Nil,
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating-point number.
    Float(f64),
    /// A text. Bytes that are not UTF-8 are characters of their own ([`text_of_bytes`]).
    Text(Arc<str>),
    /// A list.
    List(Arc<List>),
    /// A map from texts.
    Map(Arc<Map>),
    /// A structure with named fields.
    Record(Arc<Record>),
    /// A value with methods.
    Object(Arc<dyn Object>),
}

/// A list of values of one type.
#[derive(Debug, Default)]
pub struct List {
    /// Type of the elements in Go.
    pub of: &'static str,
    /// The elements.
    pub items: Vec<Value>,
    extent: Extent,
}

/// A map from texts to values of one type.
#[derive(Debug, Default)]
pub struct Map {
    /// Type of the elements in Go.
    pub of: &'static str,
    /// Zero value of the elements.
    pub zero: Value,
    /// The elements.
    pub items: BTreeMap<Arc<str>, Value>,
    extent: Extent,
}

/// Nesting and size of a value, with each part counted as often as it occurs. Lists share their elements, so a value
/// that takes little memory can be too large to print or to compare.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Number of lists, maps and structures around the innermost value.
    pub depth: usize,
    /// Approximate number of bytes.
    pub bytes: usize,
}

impl Extent {
    /// The extent of something with these elements.
    fn around<'v>(items: impl Iterator<Item = &'v Value>) -> Self {
        let own = Self { depth: 1, bytes: size_of::<Value>() };
        items.map(Value::extent).fold(own, |all, one| Self {
            depth: all.depth.max(one.depth + 1),
            bytes: all.bytes.saturating_add(one.bytes),
        })
    }
}

impl List {
    /// A list of elements of a type.
    pub fn new(of: &'static str, items: Vec<Value>) -> Self {
        Self { of, extent: Extent::around(items.iter()), items }
    }
}

impl Map {
    /// A map to elements of a type with this zero value.
    pub fn new(of: &'static str, zero: Value, items: BTreeMap<Arc<str>, Value>) -> Self {
        let mut extent = Extent::around(items.values());
        extent.bytes = items.keys().fold(extent.bytes, |bytes, key| bytes.saturating_add(key.len()));
        Self { of, zero, extent, items }
    }
}

/// A structure with named fields.
#[derive(Debug)]
pub struct Record {
    /// Type in Go. A star in front makes it a pointer.
    pub of: &'static str,
    /// The fields in their order.
    pub fields: Vec<(&'static str, Value)>,
}

/// A value with methods.
pub trait Object: fmt::Debug + Send + Sync {
    /// Type in Go.
    fn of(&self) -> &'static str;

    /// The value without its methods.
    fn plain(&self) -> Value;

    /// Parameters of a method; `None` if there is no such method.
    fn method(&self, name: &str) -> Option<&'static [Type]>;

    /// Calls a method. Arguments fit its parameters.
    ///
    /// # Errors
    /// The text that follows `error calling NAME: `.
    fn call(&self, name: &str, args: &[Value]) -> Result<Value, String>;

    /// The text as which the value is printed, if it is not that of the plain value.
    fn printed(&self) -> Option<String> {
        None
    }

    /// The value itself, for functions that take values of one kind only.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

impl Value {
    /// A text.
    pub fn text(text: impl AsRef<str>) -> Self {
        Self::Text(text.as_ref().into())
    }

    /// A list of anything.
    pub fn list(items: Vec<Self>) -> Self {
        Self::List(Arc::new(List::new("interface {}", items)))
    }

    /// A list of texts.
    pub fn texts<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::List(Arc::new(List::new("string", items.into_iter().map(Self::text).collect())))
    }

    /// A map from texts to anything.
    pub fn map(items: BTreeMap<Arc<str>, Self>) -> Self {
        Self::Map(Arc::new(Map::new("interface {}", Self::Nil, items)))
    }

    /// A structure.
    pub fn record(of: &'static str, fields: Vec<(&'static str, Self)>) -> Self {
        Self::Record(Arc::new(Record { of, fields }))
    }

    /// A value of JSON: numbers are floating-point numbers, as Go reads them.
    pub fn of_json(json: &serde_json::Value) -> Self {
        match json {
            serde_json::Value::Null => Self::Nil,
            serde_json::Value::Bool(truth) => Self::Bool(*truth),
            serde_json::Value::Number(number) => Self::Float(number.as_f64().unwrap_or_default()),
            serde_json::Value::String(text) => Self::text(text),
            serde_json::Value::Array(items) => Self::list(items.iter().map(Self::of_json).collect()),
            serde_json::Value::Object(items) => {
                Self::map(items.iter().map(|(key, item)| (key.as_str().into(), Self::of_json(item))).collect())
            }
        }
    }

    /// The value without methods.
    pub fn plain(&self) -> Self {
        match self {
            Self::Object(object) => object.plain(),
            other => other.clone(),
        }
    }

    /// The text, of a text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The elements, of a list.
    pub fn items(&self) -> Option<Arc<List>> {
        match self.plain() {
            Self::List(list) => Some(list),
            _ => None,
        }
    }

    /// Name of the type in Go.
    pub fn type_name(&self) -> String {
        match self {
            Self::Missing | Self::Nil => "interface {}".to_owned(),
            Self::Bool(_) => "bool".to_owned(),
            Self::Int(_) => "int".to_owned(),
            Self::Uint(_) => "uint".to_owned(),
            Self::Float(_) => "float64".to_owned(),
            Self::Text(_) => "string".to_owned(),
            Self::List(list) => format!("[]{}", list.of),
            Self::Map(map) => format!("map[string]{}", map.of),
            Self::Record(record) => record.of.to_owned(),
            Self::Object(object) => object.of().to_owned(),
        }
    }

    /// Whether the value is not the zero value of its type, or not empty. Structures are always true.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Missing | Self::Nil => false,
            Self::Bool(truth) => *truth,
            Self::Int(number) => *number != 0,
            Self::Uint(number) => *number != 0,
            Self::Float(number) => *number != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::List(list) => !list.items.is_empty(),
            Self::Map(map) => !map.items.is_empty(),
            Self::Record(_) => true,
            Self::Object(object) => object.plain().is_true(),
        }
    }

    /// Nesting and size of the value.
    pub(super) fn extent(&self) -> Extent {
        let bytes = size_of::<Self>();
        match self {
            Self::Missing | Self::Nil | Self::Bool(_) | Self::Int(_) | Self::Uint(_) | Self::Float(_) => {
                Extent { depth: 0, bytes }
            }
            Self::Text(text) => Extent { depth: 0, bytes: bytes + text.len() },
            Self::List(list) => list.extent,
            Self::Map(map) => map.extent,
            Self::Record(record) => Extent::around(record.fields.iter().map(|(_, field)| field)),
            Self::Object(object) => object.plain().extent(),
        }
    }

    /// Approximate size in bytes of what a function has made, without shared parts of lists and maps.
    pub(super) fn made(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::List(list) => list.items.len() * size_of::<Self>(),
            Self::Map(map) => map.items.len() * 2 * size_of::<Self>(),
            _ => 0,
        }
    }
}

impl Type {
    /// Name of the type in Go.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Float => "float64",
            Self::Text => "string",
            Self::Texts => "[]string",
            Self::List => "[]interface {}",
            Self::Map => "map[string]interface {}",
        }
    }

    /// Whether a value can be passed as this type.
    pub(super) fn takes(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Any, _)
            | (Self::Bool, Value::Bool(_))
            | (Self::Int, Value::Int(_))
            | (Self::Uint, Value::Uint(_))
            | (Self::Float, Value::Float(_))
            | (Self::Text, Value::Text(_)) => true,
            (Self::Texts, Value::List(list)) => list.of == "string",
            (Self::List, Value::List(list)) => list.of == "interface {}",
            (Self::Map, Value::Map(map)) => map.of == "interface {}",
            _ => false,
        }
    }

    /// Whether nothing can be passed as this type.
    pub(super) fn takes_nil(self) -> bool {
        matches!(self, Self::Any | Self::Texts | Self::List | Self::Map)
    }
}

/// The text of bytes. Bytes that are not UTF-8 become the last characters of Unicode, which are for private use, so
/// that [`bytes_of_text`] gives the same bytes again.
pub fn text_of_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().filter_map(|byte| char::from_u32(RAW_FIRST + u32::from(*byte) - 0x80)));
    }
    text
}

/// The bytes of a text that may have come from [`text_of_bytes`].
pub fn bytes_of_text(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for letter in text.chars() {
        match u8::try_from(u32::from(letter).wrapping_sub(RAW_FIRST)) {
            Ok(raw) if raw < 0x80 => bytes.push(raw + 0x80),
            _ => bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}
