//! Shapes of bodies: parser of the notation in `types.txt`, and conversion to JSON Schema. The table maps routes to
//! shapes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Type of a value on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// String.
    Str,
    /// `true` or `false`.
    Bool,
    /// Integer.
    Int,
    /// Non-negative integer.
    Uint,
    /// Floating-point number.
    Float,
    /// Duration: integer of nanoseconds.
    Dur,
    /// RFC 3339 time, or null.
    Time,
    /// Base64 string, or null.
    Base64,
    /// Any JSON value.
    Any,
    /// A named shape; `true` for the form in which a client sends it.
    Named(String, bool),
    /// An array.
    List(Box<Shape>),
    /// An object with arbitrary keys.
    Map(Box<Shape>),
    /// The shape or null.
    Nullable(Box<Shape>),
    /// One of these shapes.
    Either(Vec<Shape>),
}

/// A member of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Name of the member.
    pub name: String,
    /// Shape of the value.
    pub shape: Shape,
    /// Whether the member is omitted when it is empty.
    pub omitted: bool,
}

/// All named shapes: their fields, with those of included shapes resolved.
#[derive(Debug, Default)]
pub struct Shapes(BTreeMap<String, Vec<Field>>);

/// Error in the notation.
#[derive(Debug, thiserror::Error)]
#[error("{what} in `{text}`")]
pub struct NotationError {
    what: &'static str,
    text: String,
}

impl NotationError {
    /// Error for a line that is no row of a table.
    pub(super) fn of_row(text: &str) -> Self {
        wrong("not a row", text)
    }
}

fn wrong(what: &'static str, text: &str) -> NotationError {
    NotationError { what, text: text.to_owned() }
}

impl Shape {
    /// Parses a shape: `[T]`, `{str:T}`, `T?`, `T!` (never null), `A|B` or a name.
    pub fn parse(text: &str) -> Result<Self, NotationError> {
        if let Some(inner) = text.strip_suffix('?') {
            return Ok(Shape::Nullable(Box::new(Shape::parse(inner)?)));
        }
        if let Some(inner) = text.strip_suffix('!') {
            return match Shape::parse(inner)? {
                Shape::Nullable(inner) => Ok(*inner),
                other => Ok(other),
            };
        }
        if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return Ok(Shape::Nullable(Box::new(Shape::List(Box::new(Shape::parse(inner)?)))));
        }
        if let Some(inner) = text.strip_prefix("{str:").and_then(|rest| rest.strip_suffix('}')) {
            return Ok(Shape::Nullable(Box::new(Shape::Map(Box::new(Shape::parse(inner)?)))));
        }
        if text.contains('|') {
            return text.split('|').map(Shape::parse).collect::<Result<_, _>>().map(Shape::Either);
        }
        Ok(match text {
            "str" => Shape::Str,
            "bool" => Shape::Bool,
            "int" => Shape::Int,
            "uint" => Shape::Uint,
            "float" => Shape::Float,
            "dur" => Shape::Dur,
            "time" => Shape::Time,
            "b64" => Shape::Base64,
            "any" => Shape::Any,
            name if name.starts_with(|letter: char| letter.is_ascii_uppercase()) => match name.strip_suffix(".Input") {
                Some(name) => Shape::Named(name.to_owned(), true),
                None => Shape::Named(name.to_owned(), false),
            },
            _ => return Err(wrong("unknown shape", text)),
        })
    }

    /// The shape in the form that clients send: the server treats null as absent.
    fn sent(&self) -> Shape {
        let inner = match self {
            Shape::Named(name, _) => Shape::Named(name.clone(), true),
            Shape::List(inner) => Shape::List(Box::new(inner.sent())),
            Shape::Map(inner) => Shape::Map(Box::new(inner.sent())),
            Shape::Nullable(inner) => return inner.sent(),
            Shape::Either(shapes) => Shape::Either(shapes.iter().map(Shape::sent).collect()),
            plain @ (Shape::Str
            | Shape::Bool
            | Shape::Int
            | Shape::Uint
            | Shape::Float
            | Shape::Dur
            | Shape::Time
            | Shape::Base64
            | Shape::Any) => plain.clone(),
        };
        Shape::Nullable(Box::new(inner))
    }

    /// JSON Schema of the shape, with references into the components of the document.
    pub fn schema(&self) -> Value {
        match self {
            Shape::Str => json!({"type": "string"}),
            Shape::Bool => json!({"type": "boolean"}),
            Shape::Int => json!({"type": "integer"}),
            Shape::Uint => json!({"type": "integer", "minimum": 0}),
            Shape::Float => json!({"type": "number"}),
            Shape::Dur => json!({"type": "integer", "description": "nanoseconds"}),
            Shape::Time => json!({"type": ["string", "null"], "format": "date-time"}),
            Shape::Base64 => json!({"type": ["string", "null"], "contentEncoding": "base64"}),
            Shape::Any => json!({}),
            Shape::Named(name, sent) => json!({"$ref": format!("#/components/schemas/{}", component(name, *sent))}),
            Shape::List(inner) => json!({"type": "array", "items": inner.schema()}),
            Shape::Map(inner) => json!({"type": "object", "additionalProperties": inner.schema()}),
            Shape::Either(shapes) => json!({"anyOf": shapes.iter().map(Shape::schema).collect::<Vec<_>>()}),
            Shape::Nullable(inner) => nullable(inner.schema()),
        }
    }

    /// Adds the named shapes that the shape mentions directly.
    fn names(&self, out: &mut Vec<(String, bool)>) {
        match self {
            Shape::Named(name, sent) => out.push((name.clone(), *sent)),
            Shape::List(inner) | Shape::Map(inner) | Shape::Nullable(inner) => inner.names(out),
            Shape::Either(shapes) => shapes.iter().for_each(|shape| shape.names(out)),
            Shape::Str
            | Shape::Bool
            | Shape::Int
            | Shape::Uint
            | Shape::Float
            | Shape::Dur
            | Shape::Time
            | Shape::Base64
            | Shape::Any => {}
        }
    }
}

fn component(name: &str, sent: bool) -> String {
    if sent { format!("{name}.Input") } else { name.to_owned() }
}

fn nullable(mut schema: Value) -> Value {
    match schema.get("type") {
        Some(Value::String(kind)) => schema["type"] = json!([kind, "null"]),
        Some(_) => {}
        None if schema.get("$ref").is_some() => return json!({"anyOf": [schema, {"type": "null"}]}),
        None => {}
    }
    schema
}

impl Shapes {
    /// Parses a list of shapes.
    pub fn parse(text: &str) -> Result<Self, NotationError> {
        let mut raw: BTreeMap<String, (Vec<&str>, bool)> = BTreeMap::new();
        let joined = text.replace("\n  ", " ");
        for line in joined.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (head, body) = line.split_once(':').ok_or_else(|| wrong("no colon", line))?;
            let (name, sparse) = head.strip_suffix(" sparse").map_or((head, false), |name| (name, true));
            let fields = body.split(", ").map(str::trim).filter(|field| !field.is_empty()).collect();
            raw.insert(name.to_owned(), (fields, sparse));
        }
        let mut out = BTreeMap::new();
        for name in raw.keys() {
            let mut fields = Vec::new();
            gather(&raw, name, &mut fields)?;
            out.insert(name.clone(), fields);
        }
        Ok(Shapes(out))
    }

    /// Whether a shape has this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Fields of a named shape.
    pub fn fields(&self, name: &str) -> &[Field] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// Schemas of these shapes and of all shapes that they mention, by component name.
    pub fn components(&self, wanted: &[Shape]) -> Map<String, Value> {
        let mut open = Vec::new();
        wanted.iter().for_each(|shape| shape.names(&mut open));
        let mut done = BTreeMap::new();
        while let Some((name, sent)) = open.pop() {
            let key = component(&name, sent);
            if done.contains_key(&key) {
                continue;
            }
            let fields = self.fields(&name);
            for field in fields {
                let shape = if sent { field.shape.sent() } else { field.shape.clone() };
                shape.names(&mut open);
            }
            done.insert(key, object(fields, sent));
        }
        done.into_iter().collect()
    }
}

/// Schema of an object. Answers have exactly these fields. Requests may omit any field and may have others, which are
/// ignored.
fn object(fields: &[Field], sent: bool) -> Value {
    let mut properties = Map::new();
    for field in fields {
        let schema = if sent { field.shape.sent().schema() } else { field.shape.schema() };
        properties.insert(field.name.clone(), schema);
    }
    if sent {
        return json!({"type": "object", "properties": properties});
    }
    let required: Vec<&str> = fields.iter().filter(|field| !field.omitted).map(|field| field.name.as_str()).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn gather(raw: &BTreeMap<String, (Vec<&str>, bool)>, name: &str, out: &mut Vec<Field>) -> Result<(), NotationError> {
    let (fields, sparse) = raw.get(name).ok_or_else(|| wrong("unknown shape", name))?;
    for field in fields {
        if let Some(included) = field.strip_prefix('+') {
            gather(raw, included, out)?;
            continue;
        }
        let (name, rest) = field.split_once(' ').ok_or_else(|| wrong("a field without a type", field))?;
        let (shape, omitted) = rest.strip_suffix(" oe").map_or((rest, *sparse), |shape| (shape, true));
        if out.iter().all(|known| known.name != name) {
            out.push(Field { name: name.to_owned(), shape: Shape::parse(shape)?, omitted });
        }
    }
    Ok(())
}
