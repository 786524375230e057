//! Bodies to JSON by a [`Schema`]: which attributes and blocks there may be, and how each is converted.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::Object;
use super::free;
use super::schema::{Absent, Field, Kind, Schema};
use crate::duration;
use crate::hcl::ast::{Attribute, Block, Body, Expression};
use crate::hcl::convert::{Type, convert};
use crate::hcl::eval::{self, Allowed, Scope};
use crate::hcl::value::{Number, Value};
use crate::hcl::{Diagnostic, Range, suggestion};

/// Gathers what is wrong while bodies are decoded.
pub(super) struct Decoder<'a> {
    pub(super) file: &'a str,
    pub(super) found: Vec<Diagnostic>,
    /// Of bodies free in form, which are evaluated last.
    pub(super) late: Vec<Diagnostic>,
}

/// A block to be decoded: one of the text, or one made by a `dynamic` block.
#[derive(Clone)]
pub(super) struct Instance<'b> {
    pub(super) labels: Vec<(String, Range)>,
    pub(super) body: &'b Body,
    pub(super) header: Range,
    /// Names that a `dynamic` block gives to its content.
    names: BTreeMap<String, Value>,
}

impl Instance<'_> {
    /// Runs `decode` where the names of this block are known.
    pub(super) fn within<T>(&self, scope: &Scope<'_>, decode: impl FnOnce(&Scope<'_>) -> T) -> T {
        if self.names.is_empty() {
            return decode(scope);
        }
        decode(&Scope::inside(scope, self.names.clone()))
    }

    pub(super) fn label(&self) -> &str {
        self.labels.first().map_or("", |(label, _)| label)
    }
}

impl<'a> Decoder<'a> {
    pub(super) fn new(file: &'a str) -> Decoder<'a> {
        Decoder { file, found: Vec::new(), late: Vec::new() }
    }

    pub(super) fn report(&mut self, range: Range, summary: &str, detail: impl Into<String>) {
        self.found.push(Diagnostic::new(range, summary, detail));
    }

    fn unsuitable(&mut self, expression: &Expression, reason: &str) {
        self.report(expression.start(), "Unsuitable value type", format!("Unsuitable value: {reason}"));
    }

    /// Decodes all that the schema names, after saying what it does not name.
    pub(super) fn object(&mut self, schema: &Schema, instance: &Instance<'_>, scope: &Scope<'_>) -> Object {
        instance.within(scope, |scope| {
            let blocks = self.content(schema, instance.body, scope);
            let mut object = Object::new();
            for field in schema.fields {
                self.field(field, instance, &blocks, scope, &mut object);
            }
            object
        })
    }

    /// The blocks of a body that fit the schema, `dynamic` ones expanded; says what does not fit.
    pub(super) fn content<'b>(&mut self, schema: &Schema, body: &'b Body, scope: &Scope<'_>) -> Vec<(String, Instance<'b>)> {
        let attributes: Vec<&str> = schema.attribute_names();
        let kinds: Vec<(&str, &[&str])> = schema.block_kinds();
        for field in schema.fields {
            if let Field::Attribute { name, required: true, .. } = field
                && body.attribute(name).is_none()
            {
                self.found.push(Diagnostic {
                    range: body.missing,
                    summary: "Missing required argument".to_string(),
                    detail: format!("The argument {name:?} is required, but no definition was found."),
                });
            }
        }
        let sound = check_labels(&body.blocks, &kinds, &mut self.found);
        let names: Vec<&str> = kinds.iter().map(|(kind, _)| *kind).collect();
        unexpected(body, &attributes, &names, &mut self.found);
        let mut instances = Vec::new();
        for block in sound {
            if block.kind == "dynamic" {
                self.expand(block, &names, scope, &mut instances);
            } else {
                instances.push((block.kind.clone(), plain(block)));
            }
        }
        instances
    }

    fn field(&mut self, field: &Field, instance: &Instance<'_>, blocks: &[(String, Instance<'_>)], scope: &Scope<'_>, object: &mut Object) {
        let of_kind =
            |name: &str| -> Vec<&Instance<'_>> { blocks.iter().filter(|(kind, _)| kind == name).map(|(_, block)| block).collect() };
        match field {
            Field::Attribute { name, key, kind, absent, .. } => {
                let given = instance.body.attribute(name).and_then(|attribute| self.attribute(attribute, *kind, scope));
                object.insert((*key).to_string(), given.unwrap_or_else(|| absent.json()));
            }
            Field::Label { key } => {
                object.insert((*key).to_string(), json!(instance.label()));
            }
            Field::Fixed { key, value } => {
                object.insert((*key).to_string(), value.json());
            }
            Field::Strings { name, key, attribute_too } => {
                let given = self.strings(name, *attribute_too, instance.body, &of_kind(name), scope);
                object.insert((*key).to_string(), given);
            }
            Field::StringLists { name, key } => {
                let given = match self.only(name, &of_kind(name)) {
                    Some(block) => {
                        self.just_attributes(block, scope, |decoder, attribute, scope| decoder.attribute(attribute, Kind::Texts, scope))
                    }
                    None => Json::Null,
                };
                object.insert((*key).to_string(), given);
            }
            Field::Free { name, key } => {
                let given = match self.only(name, &of_kind(name)) {
                    Some(block) => Json::Object(free::body(block, scope, &mut self.late)),
                    None => Json::Null,
                };
                object.insert((*key).to_string(), given);
            }
            Field::Block { name, key, schema } => {
                let given = match self.only(name, &of_kind(name)) {
                    Some(block) => Json::Object(self.object(schema, block, scope)),
                    None => Json::Null,
                };
                object.insert((*key).to_string(), given);
            }
            Field::Blocks { name, key, schema } => {
                let items: Vec<Json> = of_kind(name).into_iter().map(|block| Json::Object(self.object(schema, block, scope))).collect();
                object.insert((*key).to_string(), list_or_null(items));
            }
            Field::Keyed { name, key, schema } => {
                let blocks = of_kind(name);
                let mut entries = Object::new();
                for block in &blocks {
                    let entry = self.object(schema, block, scope);
                    entries.insert(block.label().to_string(), Json::Object(entry));
                }
                object.insert((*key).to_string(), if blocks.is_empty() { Json::Null } else { Json::Object(entries) });
            }
            Field::Special { name, decode, .. } => decode(self, &of_kind(name), scope, object),
            Field::After { check } => check(self, instance.body, object),
        }
    }

    /// The one block of this kind; a second one is an error.
    pub(super) fn only<'i, 'b>(&mut self, name: &str, blocks: &[&'i Instance<'b>]) -> Option<&'i Instance<'b>> {
        if let [first, second, ..] = blocks {
            let detail = format!("Only one {name} block is allowed. Another was defined at {}.", first.header.shown(self.file));
            self.report(second.header, &format!("Duplicate {name} block"), detail);
            return None;
        }
        blocks.first().copied()
    }

    // ---- attributes

    pub(super) fn value(&mut self, expression: &Expression, scope: &Scope<'_>) -> Value {
        eval::value(expression, scope, Allowed::All, &mut self.found)
    }

    /// The JSON of an attribute. `None`: it is null, or wrong and reported.
    pub(super) fn attribute(&mut self, attribute: &Attribute, kind: Kind, scope: &Scope<'_>) -> Option<Json> {
        let expression = &attribute.expression;
        let value = self.value(expression, scope);
        if kind == Kind::Duration {
            return self.duration(expression, &value);
        }
        let converted = match convert(&value, &kind.wanted()) {
            Ok(Value::Null) => return None,
            Ok(converted) if converted.is_known() => converted,
            Ok(_) => {
                self.unsuitable(expression, "value must be known");
                return None;
            }
            Err(reason) => {
                self.unsuitable(expression, &reason);
                return None;
            }
        };
        match to_json(&converted, kind) {
            Ok(json) => Some(json),
            Err(reason) => {
                self.unsuitable(expression, &reason);
                None
            }
        }
    }

    fn duration(&mut self, expression: &Expression, value: &Value) -> Option<Json> {
        let refused = match value {
            Value::Text(text) => match duration::parse(text) {
                Ok(nanos) => return Some(json!(nanos)),
                Err(error) => format!("Unsuitable duration value: {error}"),
            },
            Value::Number(number) => match number.as_integer().and_then(|nanos| i64::try_from(nanos).ok()) {
                Some(nanos) => return Some(json!(nanos)),
                None => format!("Unsuitable duration value: {WHOLE_NUMBER}"),
            },
            Value::Unknown => "Unsuitable value: value must be known".to_string(),
            Value::Null => "Unsuitable value: null value is not allowed".to_string(),
            Value::Bool(_) | Value::Sequence(..) | Value::Mapping(..) => "Unsuitable value: expected a string".to_string(),
        };
        self.report(expression.start(), "Unsuitable value type", refused);
        None
    }

    // ---- maps

    /// A map of strings: a block of attributes, and for some also an attribute.
    fn strings(&mut self, name: &str, attribute_too: bool, body: &Body, blocks: &[&Instance<'_>], scope: &Scope<'_>) -> Json {
        let attribute = body.attribute(name).filter(|_| attribute_too);
        if let (Some(attribute), Some(block)) = (attribute, blocks.first()) {
            let detail =
                format!("{name} may not be defined more than once. Another definition is defined at {}.", attribute.range.shown(self.file));
            self.report(block.header, &format!("Duplicate {name} block"), detail);
            return Json::Null;
        }
        if let Some(attribute) = attribute {
            return self.attribute(attribute, Kind::TextMap, scope).unwrap_or(Json::Null);
        }
        match self.only(name, blocks) {
            Some(block) => self.just_attributes(block, scope, |decoder, attribute, scope| {
                let before = decoder.found.len();
                let text = decoder.attribute(attribute, Kind::Text, scope);
                if text.is_none() && decoder.found.len() == before {
                    decoder.unsuitable(&attribute.expression, "null value is not allowed");
                }
                text
            }),
            None => Json::Null,
        }
    }

    /// A body of any attributes and no blocks.
    fn just_attributes(
        &mut self,
        block: &Instance<'_>,
        scope: &Scope<'_>,
        decode: impl Fn(&mut Self, &Attribute, &Scope<'_>) -> Option<Json>,
    ) -> Json {
        no_blocks(block.body, &mut self.found);
        block.within(scope, |scope| {
            let mut entries = Object::new();
            for attribute in &block.body.attributes {
                if let Some(json) = decode(self, attribute, scope) {
                    entries.insert(attribute.name.clone(), json);
                }
            }
            Json::Object(entries)
        })
    }

    // ---- dynamic blocks

    /// `dynamic "kind" { for_each = .. content { .. } }`: a block for each element.
    fn expand<'b>(&mut self, block: &'b Block, names: &[&str], scope: &Scope<'_>, instances: &mut Vec<(String, Instance<'b>)>) {
        let Some((kind, kind_range)) = block.labels.first() else { return };
        if !names.contains(&kind.as_str()) {
            self.report(*kind_range, "Unsupported block type", format!("Blocks of type {kind:?} are not expected here."));
            return;
        }
        let missing = |name: &str| Diagnostic {
            range: block.body.missing,
            summary: "Missing required argument".to_string(),
            detail: format!("The argument {name:?} is required, but no definition was found."),
        };
        let Some(for_each) = block.body.attribute("for_each") else {
            self.found.push(missing("for_each"));
            return;
        };
        let Some(content) = block.body.blocks.iter().find(|inner| inner.kind == "content") else {
            self.found.push(Diagnostic {
                range: block.body.missing,
                summary: "Missing content block".to_string(),
                detail: "A content block is required.".to_string(),
            });
            return;
        };
        let iterator = block.body.attribute("iterator").and_then(|given| given.expression.keyword()).unwrap_or(kind).to_string();
        let collection = self.value(&for_each.expression, scope);
        let pairs: Vec<(Value, Value)> = match collection {
            Value::Sequence(_, items) => items.into_iter().enumerate().map(|(at, item)| (Value::Number(Number::from(at)), item)).collect(),
            Value::Mapping(_, members) => members.into_iter().map(|(name, value)| (Value::Text(name), value)).collect(),
            Value::Unknown => return,
            Value::Null => {
                self.report(for_each.expression.range(), "Invalid dynamic for_each value", "Cannot use a null value in for_each.");
                return;
            }
            other => {
                let detail = format!("Cannot use a {} value in for_each. An iterable collection is required.", other.type_name());
                self.report(for_each.expression.range(), "Invalid dynamic for_each value", detail);
                return;
            }
        };
        for (key, value) in pairs {
            let element = BTreeMap::from([("key".to_string(), key), ("value".to_string(), value)]);
            let names = BTreeMap::from([(iterator.clone(), eval::names_object(element))]);
            let labels = self.dynamic_labels(block, &Scope::inside(scope, names.clone()));
            instances.push((kind.clone(), Instance { labels, body: &content.body, header: block.header(), names }));
        }
    }

    fn dynamic_labels(&mut self, block: &Block, scope: &Scope<'_>) -> Vec<(String, Range)> {
        let Some(labels) = block.body.attribute("labels") else { return Vec::new() };
        let range = labels.expression.range();
        match self.attribute(labels, Kind::Texts, scope) {
            Some(Json::Array(items)) => {
                items.into_iter().filter_map(|item| item.as_str().map(|label| (label.to_string(), range))).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn plain(block: &Block) -> Instance<'_> {
    Instance { labels: block.labels.clone(), body: &block.body, header: block.header(), names: BTreeMap::new() }
}

/// The block of the text itself, to be decoded.
pub(super) fn instance(block: &Block) -> Instance<'_> {
    plain(block)
}

pub(super) fn list_or_null(items: Vec<Json>) -> Json {
    if items.is_empty() { Json::Null } else { Json::Array(items) }
}

const WHOLE_NUMBER: &str = "value must be a whole number, between -9223372036854775808 and 9223372036854775807";

/// A converted value as JSON; the error is the reference's reason.
fn to_json(value: &Value, kind: Kind) -> Result<Json, String> {
    match value {
        Value::Null | Value::Unknown => Err("null value is not allowed".to_string()),
        Value::Bool(truth) => Ok(json!(truth)),
        Value::Text(text) => Ok(json!(text)),
        Value::Number(number) => {
            let integer = number.as_integer();
            let fits = match kind {
                Kind::Unsigned => integer.and_then(|number| u64::try_from(number).ok()).map(|number| json!(number)),
                Kind::Byte => integer.and_then(|number| u8::try_from(number).ok()).map(|number| json!(number)),
                _ => integer.and_then(|number| i64::try_from(number).ok()).map(|number| json!(number)),
            };
            fits.ok_or_else(|| match kind {
                Kind::Unsigned => "value must be a whole number, between 0 and 18446744073709551615 inclusive".to_string(),
                Kind::Byte => "value must be a whole number, between 0 and 255 inclusive".to_string(),
                _ => WHOLE_NUMBER.to_string(),
            })
        }
        Value::Sequence(_, items) => items.iter().map(|item| to_json(item, kind)).collect::<Result<_, _>>().map(Json::Array),
        Value::Mapping(_, members) => {
            let entries = members.iter().map(|(name, value)| Ok((name.clone(), to_json(value, kind)?)));
            entries.collect::<Result<Object, String>>().map(Json::Object)
        }
    }
}

impl Kind {
    fn wanted(self) -> Type {
        match self {
            Kind::Text => Type::Text,
            Kind::Integer | Kind::Unsigned | Kind::Byte => Type::Number,
            Kind::Bool => Type::Bool,
            Kind::Texts => Type::List(Box::new(Type::Text)),
            Kind::TextMap => Type::Map(Box::new(Type::Text)),
            Kind::Duration => Type::Any,
        }
    }
}

impl Absent {
    pub(super) fn json(self) -> Json {
        match self {
            Absent::Null => Json::Null,
            Absent::Text(text) => json!(text),
            Absent::Number(number) => json!(number),
            Absent::Bool(truth) => json!(truth),
            Absent::EmptyList => json!([]),
        }
    }
}

// ---- shared checks

/// Says which blocks have too few or too many labels; gives those that are right, and `dynamic` ones.
pub(super) fn check_labels<'b>(blocks: &'b [Block], kinds: &[(&str, &[&str])], found: &mut Vec<Diagnostic>) -> Vec<&'b Block> {
    let mut sound = Vec::new();
    for block in blocks {
        let labels: &[&str] = match kinds.iter().find(|(kind, _)| *kind == block.kind) {
            Some((_, labels)) => labels,
            None if block.kind == "dynamic" && !kinds.is_empty() => &["type"],
            None => continue,
        };
        let kind = &block.kind;
        let listed = labels.join(", ");
        if let Some((_, extra)) = block.labels.get(labels.len()) {
            let detail = if labels.is_empty() {
                format!("No labels are expected for {kind} blocks.")
            } else {
                format!("Only {} labels ({listed}) are expected for {kind} blocks.", labels.len())
            };
            found.push(Diagnostic::new(*extra, format!("Extraneous label for {kind}"), detail));
        } else if let Some(missing) = labels.get(block.labels.len()) {
            let detail = format!("All {kind} blocks must have {} labels ({listed}).", labels.len());
            found.push(Diagnostic::new(block.open_brace, format!("Missing {missing} for {kind}"), detail));
        } else {
            sound.push(block);
        }
    }
    sound
}

/// Says which attributes and blocks are not expected, with a guess at what was meant.
pub(super) fn unexpected(body: &Body, attributes: &[&str], blocks: &[&str], found: &mut Vec<Diagnostic>) {
    let mut sorted_attributes = attributes.to_vec();
    sorted_attributes.sort_unstable();
    let mut sorted_blocks = blocks.to_vec();
    sorted_blocks.sort_unstable();
    for attribute in &body.attributes {
        let name = &attribute.name;
        if attributes.contains(&name.as_str()) {
            continue;
        }
        let unset = sorted_attributes.iter().copied().filter(|known| body.attribute(known).is_none());
        let hint = match suggestion(name, unset) {
            Some(known) => format!(" Did you mean {known:?}?"),
            None if blocks.contains(&name.as_str()) => format!(" Did you mean to define a block of type {name:?}?"),
            None => String::new(),
        };
        found.push(Diagnostic::new(
            attribute.name_range,
            "Unsupported argument",
            format!("An argument named {name:?} is not expected here.{hint}"),
        ));
    }
    for block in &body.blocks {
        let kind = &block.kind;
        if blocks.contains(&kind.as_str()) || (kind == "dynamic" && !attributes.is_empty()) {
            continue;
        }
        let hint = match suggestion(kind, sorted_blocks.iter().copied()) {
            Some(known) => format!(" Did you mean {known:?}?"),
            None if attributes.contains(&kind.as_str()) => {
                format!(" Did you mean to define argument {kind:?}? If so, use the equals sign to assign it a value.")
            }
            None => String::new(),
        };
        found.push(Diagnostic::new(
            block.kind_range,
            "Unsupported block type",
            format!("Blocks of type {kind:?} are not expected here.{hint}"),
        ));
    }
}

/// Says which blocks stand where only attributes may.
pub(super) fn no_blocks(body: &Body, found: &mut Vec<Diagnostic>) {
    for block in &body.blocks {
        found.push(Diagnostic::new(block.kind_range, format!("Unexpected {:?} block", block.kind), "Blocks are not allowed here."));
    }
}
