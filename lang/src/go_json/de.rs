//! [`Node`] to any `Deserialize` type, with Go's rules for names, nulls and numbers.

mod access;

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{self, Deserializer, IntoDeserializer, Visitor};

use super::{Error, Names, Node, Place, go_type};
use access::{Fields, Items, Members, Tagged};

impl de::Error for Error {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Error::Custom(message.to_string())
    }
}

/// Decodes `node` as a `T`.
pub(super) fn read<'de, T: Deserialize<'de>>(node: Node<'de>, names: Names<'_>) -> Result<T, Error> {
    let root = names.root;
    T::deserialize(Reader { node, names }).map_err(|error| match (error, root) {
        (Error::Type { value, place, .. }, Some(root)) if place.structure.is_none() => {
            Error::Type { value, place, go_type: root.to_string() }
        }
        (error, _) => error,
    })
}

struct Reader<'de, 'n> {
    node: Node<'de>,
    names: Names<'n>,
}

impl<'de> Reader<'de, '_> {
    fn mismatch(&self, go_type: String) -> Error {
        Error::Type { value: self.node.kind().to_string(), place: Place::default(), go_type }
    }

    /// The error shows a number that is out of range, but not one where another kind is expected.
    fn bad_number(literal: &str, go_type: String) -> Error {
        Error::Type { value: format!("number {literal}"), place: Place::default(), go_type }
    }
}

macro_rules! integer {
    ($method:ident, $visit:ident, $rust:ty) => {
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match &self.node {
                Node::Null => visitor.$visit(0),
                Node::Number(literal) => match literal.parse::<$rust>() {
                    Ok(number) => visitor.$visit(number),
                    Err(_) => Err(Self::bad_number(literal, go_type::name_of::<$rust>(self.names))),
                },
                _ => Err(self.mismatch(go_type::name_of::<$rust>(self.names))),
            }
        }
    };
}

impl<'de> Deserializer<'de> for Reader<'de, '_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.node {
            Node::Null => visitor.visit_unit(),
            Node::Bool(truth) => visitor.visit_bool(truth),
            Node::Number(literal) => any_number(&literal, visitor),
            Node::Text(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Node::Text(Cow::Owned(text)) => visitor.visit_string(text),
            Node::Array(items) => visitor.visit_seq(Items { items: items.into_iter(), names: self.names }),
            Node::Object(members) => {
                visitor.visit_map(Members { members: members.into_iter(), value: None, names: self.names })
            }
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.node {
            Node::Null => visitor.visit_bool(false),
            Node::Bool(truth) => visitor.visit_bool(truth),
            _ => Err(self.mismatch("bool".to_string())),
        }
    }

    integer!(deserialize_i8, visit_i8, i8);
    integer!(deserialize_i16, visit_i16, i16);
    integer!(deserialize_i32, visit_i32, i32);
    integer!(deserialize_i64, visit_i64, i64);
    integer!(deserialize_u8, visit_u8, u8);
    integer!(deserialize_u16, visit_u16, u16);
    integer!(deserialize_u32, visit_u32, u32);
    integer!(deserialize_u64, visit_u64, u64);

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.node {
            Node::Null => visitor.visit_f64(0.0),
            Node::Number(literal) => match literal.parse::<f64>() {
                Ok(number) if number.is_finite() => visitor.visit_f64(number),
                _ => Err(Self::bad_number(literal, "float64".to_string())),
            },
            _ => Err(self.mismatch("float64".to_string())),
        }
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.node {
            Node::Null => visitor.visit_borrowed_str(""),
            Node::Text(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Node::Text(Cow::Owned(text)) => visitor.visit_string(text),
            _ => Err(self.mismatch("string".to_string())),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.node {
            Node::Array(_) => Err(self.mismatch("[]uint8".to_string())),
            _ => self.deserialize_str(visitor),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.node {
            Node::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.node {
            Node::Null => visitor.visit_seq(Items { items: Vec::new().into_iter(), names: self.names }),
            Node::Array(items) => visitor.visit_seq(Items { items: items.into_iter(), names: self.names }),
            _ => Err(self.mismatch(go_type::name_of::<V::Value>(self.names))),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.node {
            Node::Null => {
                visitor.visit_map(Members { members: Vec::new().into_iter(), value: None, names: self.names })
            }
            Node::Object(members) => {
                visitor.visit_map(Members { members: members.into_iter(), value: None, names: self.names })
            }
            _ => Err(self.mismatch(go_type::name_of::<V::Value>(self.names))),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let members = match self.node {
            Node::Null => Vec::new(),
            Node::Object(members) => members,
            _ => {
                return Err(self.mismatch(format!(
                    "{}.{}",
                    self.names.package,
                    go_type::structure(name, self.names.package)
                )));
            }
        };
        let chosen = choose_fields(fields, members);
        visitor.visit_map(Fields { structure: name, members: chosen.into_iter(), value: None, names: self.names })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.node {
            Node::Null => visitor.visit_enum(de::value::StrDeserializer::new("")),
            Node::Text(text) => visitor.visit_enum(text.as_ref().into_deserializer()),
            Node::Object(members) if members.len() == 1 => {
                let mut members = members;
                match members.pop() {
                    Some((tag, node)) => visitor.visit_enum(Tagged { tag, node, names: self.names }),
                    None => Err(de::Error::custom(format!("empty object for {name}"))),
                }
            }
            _ => Err(self.mismatch("string".to_string())),
        }
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    integer!(deserialize_i128, visit_i128, i128);
    integer!(deserialize_u128, visit_u128, u128);
}

/// Go has a single number type for values of any shape, so `10.0` becomes `10`; integers keep all their digits here.
fn any_number<'de, V: Visitor<'de>>(literal: &str, visitor: V) -> Result<V::Value, Error> {
    /// Above this, some integers have no exact float.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if let Ok(number) = literal.parse::<u64>() {
        return visitor.visit_u64(number);
    }
    if let Ok(number) = literal.parse::<i64>() {
        return visitor.visit_i64(number);
    }
    match literal.parse::<f64>() {
        Ok(number) if number.fract() == 0.0 && number.abs() <= EXACT_MAX => visitor.visit_i64(number as i64),
        Ok(number) if number.is_finite() => visitor.visit_f64(number),
        _ => Err(Reader::bad_number(literal, "float64".to_string())),
    }
}

/// Selects the members that belong to fields: an exact name before other letter cases, the last of duplicates, and no
/// nulls.
fn choose_fields<'de>(
    fields: &'static [&'static str],
    members: Vec<(Cow<'de, str>, Node<'de>)>,
) -> Vec<(&'static str, Node<'de>)> {
    let mut chosen: Vec<(&'static str, Node<'de>)> = Vec::with_capacity(members.len());
    for (name, node) in members {
        if node == Node::Null {
            continue;
        }
        let field = fields
            .iter()
            .find(|field| **field == name)
            .or_else(|| fields.iter().find(|field| same_folded(field, &name)));
        let Some(field) = field else { continue };
        match chosen.iter_mut().find(|(taken, _)| taken == field) {
            // A duplicate object is merged into the first one.
            Some((_, Node::Object(known))) if matches!(node, Node::Object(_)) => {
                if let Node::Object(more) = node {
                    known.extend(more);
                }
            }
            Some((_, slot)) => *slot = node,
            None => chosen.push((field, node)),
        }
    }
    chosen
}

/// Equality under Go's case folding, where two letters outside ASCII fold into ASCII.
fn same_folded(field: &str, name: &str) -> bool {
    if name.is_ascii() {
        return field.eq_ignore_ascii_case(name);
    }
    let plain: String = name
        .chars()
        .map(|letter| match letter {
            '\u{212A}' => 'k',
            '\u{017F}' => 's',
            other => other,
        })
        .collect();
    field.eq_ignore_ascii_case(&plain)
}
