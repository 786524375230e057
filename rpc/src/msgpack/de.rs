//! Deserializer: reads any form of a value into derived types. Nil is the zero value of the wanted type; unknown keys
//! are skipped.
//!
//! Bounds apply to depth, and to memory for input that announces more than it contains. Announced lengths allocate
//! nothing.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Visitor};
use songline_model::form;

use super::marker::{Head, Marker};
use super::raw::RAW;
use super::{DEPTH_MAX, skip, time};

/// Reason why bytes are not the wanted value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct DecodeError {
    /// Number of bytes read before the error.
    pub at: usize,
    /// Description of the error.
    pub text: Cow<'static, str>,
}

impl DecodeError {
    pub(super) fn at(at: usize, text: &'static str) -> Self {
        Self { at, text: text.into() }
    }

    pub(super) fn ended(at: usize) -> Self {
        Self::at(at, "EOF")
    }

    /// The error as the reference writes it, for a value after `before` other bytes.
    pub fn on_wire(&self, before: usize) -> String {
        format!("msgpack decode error [pos {}]: {}", before + self.at, self.text)
    }
}

impl de::Error for DecodeError {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self { at: 0, text: text.to_string().into() }
    }
}

/// Bytes of memory that empty structs may take regardless of the input; `GROWTH_FACTOR` times the bytes read come on
/// top.
const GROWTH_FREE: usize = 1 << 20;
const GROWTH_FACTOR: usize = 16;
/// Rough size of a struct's field, in bytes.
const FIELD_BYTES: usize = 16;

/// Cost of a value kept as bytes, in fields.
const RAW_FIELDS: usize = 48;

/// Fields with another shape on the wire than in the rows. The messages fill them in (`message::alloc`).
const OTHER_SHAPES: [(&str, &str); 1] = [("Allocation", "SignedIdentities")];

/// Reads one value; bytes after it are an error.
pub fn from_slice<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, DecodeError> {
    let mut reader = Reader { bytes, at: 0, depth: 0, charged: 0 };
    let value = T::deserialize(&mut reader).map_err(|error| reader.placed(error))?;
    if reader.at < bytes.len() {
        return Err(DecodeError::at(reader.at, "bytes after the value"));
    }
    Ok(value)
}

struct Reader<'de> {
    bytes: &'de [u8],
    at: usize,
    depth: usize,
    charged: usize,
}

impl<'de> Reader<'de> {
    /// Adds the current position to errors of visitors, which lack it.
    fn placed(&self, error: DecodeError) -> DecodeError {
        DecodeError { at: if error.at == 0 { self.at } else { error.at }, ..error }
    }

    fn peek(&self) -> Result<Head, DecodeError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        match Head::read(rest) {
            Ok(Some(head)) => Ok(head),
            Ok(None) => Err(DecodeError::ended(self.bytes.len())),
            Err(_) => Err(DecodeError::at(self.at, "reserved byte 0xc1")),
        }
    }

    fn head(&mut self) -> Result<Marker, DecodeError> {
        let head = self.peek()?;
        self.at += head.size;
        Ok(head.marker)
    }

    fn take(&mut self, len: u32) -> Result<&'de [u8], DecodeError> {
        let end = self.at.saturating_add(len as usize);
        let taken = self.bytes.get(self.at..end).ok_or_else(|| DecodeError::ended(self.bytes.len()))?;
        self.at = end;
        Ok(taken)
    }

    /// Reads a value as bytes; nil is the empty string of bytes.
    fn raw(&mut self) -> Result<&'de [u8], DecodeError> {
        let first = self.bytes.get(self.at).copied().unwrap_or_default();
        match self.head()? {
            Marker::Nil => Ok(&[]),
            Marker::Raw(len) | Marker::Bin(len) => self.take(len),
            Marker::Bool(_)
            | Marker::Int(_)
            | Marker::UInt(_)
            | Marker::Float(_)
            | Marker::Ext(_)
            | Marker::Array(_)
            | Marker::Map(_) => {
                let text = format!("invalid byte descriptor for decoding bytes, got: {first:#x}");
                Err(DecodeError { at: self.at, text: text.into() })
            }
        }
    }

    fn text(&mut self) -> Result<Cow<'de, str>, DecodeError> {
        // Go accepts any bytes as text. Invalid UTF-8 becomes replacement characters here.
        Ok(String::from_utf8_lossy(self.raw()?))
    }

    fn visit_text<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.text()? {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    fn visit_number<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, DecodeError> {
        let at = self.at;
        match self.head()? {
            Marker::Nil => visitor.visit_u64(0),
            Marker::Int(n) => visitor.visit_i64(n),
            Marker::UInt(n) => visitor.visit_u64(n),
            Marker::Float(n) if n.fract() == 0.0 && n.abs() < 9e15 => visitor.visit_i64(n as i64),
            Marker::Raw(len @ 15..=16) | Marker::Bin(len @ 15..=16) => match time::from_go(self.take(len)?) {
                Some(nanos) => visitor.visit_i64(nanos),
                None => Err(self.no_number(at)),
            },
            Marker::Bool(_)
            | Marker::Float(_)
            | Marker::Raw(_)
            | Marker::Bin(_)
            | Marker::Ext(_)
            | Marker::Array(_)
            | Marker::Map(_) => Err(self.no_number(at)),
        }
    }

    fn no_number(&self, at: usize) -> DecodeError {
        let byte = self.bytes.get(at).copied().unwrap_or_default();
        DecodeError { at: at + 1, text: format!("unrecognized descriptor byte for a number: {byte:#x}").into() }
    }

    /// Runs `inside` one level deeper; an error beyond `DEPTH_MAX`.
    fn nested<T>(&mut self, inside: impl FnOnce(&mut Self) -> Result<T, DecodeError>) -> Result<T, DecodeError> {
        if self.depth == DEPTH_MAX {
            return Err(DecodeError::at(self.at, "value nests too deep"));
        }
        self.depth += 1;
        let value = inside(self);
        self.depth -= 1;
        value
    }

    fn list<V: Visitor<'de>>(&mut self, len: u32, visitor: V) -> Result<V::Value, DecodeError> {
        self.nested(|reader| {
            let mut items = Items { reader, left: len, name: "" };
            let value = visitor.visit_seq(&mut items)?;
            items.rest(1)?;
            Ok(value)
        })
    }

    fn entries<V: Visitor<'de>>(&mut self, len: u32, name: &'static str, visitor: V) -> Result<V::Value, DecodeError> {
        self.nested(|reader| {
            let mut items = Items { reader, left: len, name };
            let value = visitor.visit_map(&mut items)?;
            items.rest(2)?;
            Ok(value)
        })
    }

    fn map<V: Visitor<'de>>(&mut self, name: &'static str, visitor: V) -> Result<V::Value, DecodeError> {
        match self.head()? {
            Marker::Map(len) => self.entries(len, name, visitor),
            Marker::Nil | Marker::Array(0) => self.entries(0, name, visitor),
            Marker::Array(_) => Err(DecodeError::at(self.at, "a struct as an array is not taken")),
            Marker::Bool(_)
            | Marker::Int(_)
            | Marker::UInt(_)
            | Marker::Float(_)
            | Marker::Raw(_)
            | Marker::Bin(_)
            | Marker::Ext(_) => Err(DecodeError::at(self.at, "only encoded map or array can be decoded into a struct")),
        }
    }

    fn skip_value(&mut self) -> Result<&'de [u8], DecodeError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        match skip(rest, rest.len()) {
            Ok(Some(len)) => self.take(u32::try_from(len).map_err(|_| DecodeError::ended(self.at))?),
            Ok(None) => Err(DecodeError::ended(self.bytes.len())),
            Err(error) => Err(DecodeError { at: self.at, text: error.to_string().into() }),
        }
    }

    /// Charges for the fields of a struct. Bounds the memory that many empty structs in little input take.
    fn charge(&mut self, fields: usize) -> Result<(), DecodeError> {
        self.charged = self.charged.saturating_add(fields * FIELD_BYTES);
        if self.charged > GROWTH_FREE + GROWTH_FACTOR * self.at {
            return Err(DecodeError::at(self.at, "too many empty values"));
        }
        Ok(())
    }

    fn is_none(&self) -> Result<Option<usize>, DecodeError> {
        let Head { marker, size } = self.peek()?;
        let none = match marker {
            Marker::Nil => Some(size),
            Marker::Raw(15) | Marker::Bin(15) => {
                let digits = self.bytes.get(self.at + size..self.at + size + 15);
                digits.is_some_and(time::is_zero).then_some(size + 15)
            }
            Marker::Bool(_)
            | Marker::Int(_)
            | Marker::UInt(_)
            | Marker::Float(_)
            | Marker::Raw(_)
            | Marker::Bin(_)
            | Marker::Ext(_)
            | Marker::Array(_)
            | Marker::Map(_) => None,
        };
        Ok(none)
    }
}

/// The rest of a list or a map.
struct Items<'a, 'de> {
    reader: &'a mut Reader<'de>,
    left: u32,
    /// Name of the struct, for fields of another shape.
    name: &'static str,
}

impl Items<'_, '_> {
    /// Skips the values that the visitor did not take.
    fn rest(&mut self, each: u32) -> Result<(), DecodeError> {
        for _ in 0..u64::from(self.left) * u64::from(each) {
            self.reader.skip_value()?;
        }
        Ok(())
    }
}

impl<'de> de::SeqAccess<'de> for &mut Items<'_, 'de> {
    type Error = DecodeError;

    fn next_element_seed<T: de::DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, DecodeError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let value = seed.deserialize(&mut *self.reader);
        value.map(Some).map_err(|error| self.reader.placed(error))
    }

    fn size_hint(&self) -> Option<usize> {
        // Never more than there can be, and at most 64: elements may be larger in memory than on the wire.
        Some((self.left as usize).min(self.reader.bytes.len() - self.reader.at).min(64))
    }
}

impl<'de> de::MapAccess<'de> for &mut Items<'_, 'de> {
    type Error = DecodeError;

    fn next_key_seed<K: de::DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        while self.left > 0 {
            self.left -= 1;
            let at = self.reader.at;
            if !self.name.is_empty() {
                let key = self.reader.text()?;
                if OTHER_SHAPES.iter().any(|(of, field)| *of == self.name && *field == key) {
                    self.reader.skip_value()?;
                    continue;
                }
                self.reader.at = at;
            }
            let key = seed.deserialize(&mut *self.reader);
            return key.map(Some).map_err(|error| self.reader.placed(error));
        }
        Ok(None)
    }

    fn next_value_seed<V: de::DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DecodeError> {
        let value = seed.deserialize(&mut *self.reader);
        value.map_err(|error| self.reader.placed(error))
    }

    fn size_hint(&self) -> Option<usize> {
        Some((self.left as usize).min(64))
    }
}

macro_rules! numbers {
    ($($method:ident)*) => { $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.visit_number(visitor)
    })* };
}

macro_rules! texts {
    ($($method:ident)*) => { $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.visit_text(visitor)
    })* };
}

impl<'de> de::Deserializer<'de> for &mut Reader<'de> {
    type Error = DecodeError;

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.peek()?.marker {
            Marker::Nil => {
                self.head()?;
                visitor.visit_unit()
            }
            Marker::Bool(_) => self.deserialize_bool(visitor),
            Marker::Int(_) | Marker::UInt(_) => self.visit_number(visitor),
            Marker::Float(_) => self.deserialize_f64(visitor),
            Marker::Raw(_) | Marker::Bin(_) => self.visit_text(visitor),
            Marker::Ext(_) => Err(DecodeError::at(self.at, "extensions are not taken")),
            Marker::Array(_) => self.deserialize_seq(visitor),
            Marker::Map(_) => self.deserialize_map(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.head()? {
            Marker::Nil => visitor.visit_bool(false),
            Marker::Bool(yes) => visitor.visit_bool(yes),
            Marker::Int(_)
            | Marker::UInt(_)
            | Marker::Float(_)
            | Marker::Raw(_)
            | Marker::Bin(_)
            | Marker::Ext(_)
            | Marker::Array(_)
            | Marker::Map(_) => Err(DecodeError::at(self.at, "invalid single-byte value for bool")),
        }
    }

    numbers!(deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64);

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.peek()?.marker {
            Marker::Float(n) => {
                self.head()?;
                visitor.visit_f64(n)
            }
            Marker::Nil
            | Marker::Bool(_)
            | Marker::Int(_)
            | Marker::UInt(_)
            | Marker::Raw(_)
            | Marker::Bin(_)
            | Marker::Ext(_)
            | Marker::Array(_)
            | Marker::Map(_) => self.visit_number(visitor),
        }
    }

    texts!(deserialize_char deserialize_str deserialize_string deserialize_identifier);

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_borrowed_bytes(self.raw()?)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.is_none()? {
            Some(size) => {
                self.at += size;
                visitor.visit_none()
            }
            None => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.skip_value()?;
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match name {
            form::ID => self.visit_text(visitor),
            RAW => {
                // The value is decoded on its own later, so charge for its structs here.
                self.charge(RAW_FIELDS)?;
                visitor.visit_borrowed_bytes(self.skip_value()?)
            }
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.head()? {
            Marker::Array(len) => self.list(len, visitor),
            Marker::Nil | Marker::Map(0) => self.list(0, visitor),
            Marker::Bool(_)
            | Marker::Int(_)
            | Marker::UInt(_)
            | Marker::Float(_)
            | Marker::Raw(_)
            | Marker::Bin(_)
            | Marker::Ext(_)
            | Marker::Map(_) => Err(DecodeError::at(self.at, "only encoded map or array can decode into slice")),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.map("", visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.charge(fields.len())?;
        let shaped = OTHER_SHAPES.iter().any(|(of, _)| *of == name);
        self.map(if shaped { name } else { "" }, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let word = self.text()?;
        // The empty word is Go's zero value. If no variant has that name, it means our first variant.
        let word = match (word.as_ref(), variants.first()) {
            ("", Some(first)) if !variants.contains(&"") => Cow::Borrowed(*first),
            _ => word,
        };
        visitor.visit_enum(de::value::CowStrDeserializer::<DecodeError>::new(word))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.skip_value()?;
        visitor.visit_unit()
    }
}
