//! Serializer: writes values of the types that are also written as JSON and into the log, in the dialect.

use serde::ser::{self, Serialize};

use songline_model::form;

use super::raw::RAW;
use super::time::{ZERO_TIME, to_go};
use super::{texts, write};

/// Error of writing a value: a type without a form in the dialect, or a map whose keys are not texts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("writing msgpack: {0}")]
pub struct EncodeError(String);

impl ser::Error for EncodeError {
    fn custom<T: std::fmt::Display>(text: T) -> Self {
        Self(text.to_string())
    }
}

/// Fields that hold a time in Go and not a pointer to one: `None` is written as the zero time and not as nil.
const ZERO_TIMES: [&str; 14] = [
    "Timestamp",
    "UpdateTime",
    "LastRestart",
    "StartedAt",
    "FinishedAt",
    "ForceDeadline",
    "UpdatedAt",
    "ResourceExhausted",
    "RequireProgressBy",
    "WaitUntil",
    "Established",
    "Expiration",
    "CreateTime",
    "NextPeriodicLaunch",
];

/// Encodes a value.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, EncodeError> {
    encode(value, false)
}

/// Encodes a value as its JSON shows it: the same fields, without secrets. Times, durations and bytes, which are texts
/// in JSON, have the forms of the dialect.
pub fn shown<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, EncodeError> {
    encode(value, true)
}

fn encode<T: Serialize + ?Sized>(value: &T, as_shown: bool) -> Result<Vec<u8>, EncodeError> {
    let mut writer = Writer { out: Vec::with_capacity(256), next: Next::Plain, as_shown };
    value.serialize(&mut writer)?;
    Ok(writer.out)
}

struct Writer {
    out: Vec<u8>,
    next: Next,
    /// Whether types are written as JSON shows them.
    as_shown: bool,
}

/// Special form of the next plain value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Next {
    #[default]
    Plain,
    Time,
    Id,
    /// Already encoded bytes.
    Raw,
    /// A time field in which `None` is the zero time.
    ZeroTime,
    /// Bytes, which may come as base64.
    Bytes,
    /// A duration in Go's notation.
    Span,
}

/// A list or a map being written. Its head is corrected when it gets more or fewer values than announced.
struct Open<'a> {
    writer: &'a mut Writer,
    at: usize,
    announced: usize,
    head: fn(&mut Vec<u8>, usize),
    len: usize,
    /// The next value of a map is that of a time field.
    is_time: bool,
}

impl Writer {
    fn open(&mut self, announced: Option<usize>, head: fn(&mut Vec<u8>, usize)) -> Open<'_> {
        let at = self.out.len();
        head(&mut self.out, announced.unwrap_or(0));
        Open { writer: self, at, announced: announced.unwrap_or(0), head, len: 0, is_time: false }
    }

    /// Writes the beginning of an enum variant: a map of one entry, the name with its content.
    fn variant(&mut self, name: &str) {
        write::map(&mut self.out, 1);
        write::raw(&mut self.out, name.as_bytes());
    }
}

impl Open<'_> {
    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), EncodeError> {
        self.len += 1;
        value.serialize(&mut *self.writer)
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), EncodeError> {
        self.len += 1;
        write::raw(&mut self.writer.out, name.as_bytes());
        if ZERO_TIMES.contains(&name) {
            self.writer.next = Next::ZeroTime;
        }
        let written = value.serialize(&mut *self.writer);
        self.writer.next = Next::Plain;
        written
    }

    fn close(self) {
        if self.announced != self.len {
            let (mut wrong, mut right) = (Vec::new(), Vec::new());
            (self.head)(&mut wrong, self.announced);
            (self.head)(&mut right, self.len);
            self.writer.out.splice(self.at..self.at + wrong.len(), right);
        }
    }
}

impl<'a> ser::Serializer for &'a mut Writer {
    type Ok = ();
    type Error = EncodeError;
    type SerializeSeq = Open<'a>;
    type SerializeTuple = Open<'a>;
    type SerializeTupleStruct = Open<'a>;
    type SerializeTupleVariant = Open<'a>;
    type SerializeMap = Open<'a>;
    type SerializeStruct = Open<'a>;
    type SerializeStructVariant = Open<'a>;

    fn is_human_readable(&self) -> bool {
        self.as_shown
    }

    fn serialize_bool(self, v: bool) -> Result<(), EncodeError> {
        write::bool(&mut self.out, v);
        Ok(())
    }

    fn serialize_i8(self, v: i8) -> Result<(), EncodeError> {
        self.serialize_i64(v.into())
    }

    fn serialize_i16(self, v: i16) -> Result<(), EncodeError> {
        self.serialize_i64(v.into())
    }

    fn serialize_i32(self, v: i32) -> Result<(), EncodeError> {
        self.serialize_i64(v.into())
    }

    fn serialize_i64(self, v: i64) -> Result<(), EncodeError> {
        match std::mem::take(&mut self.next) {
            Next::Time => write::raw(&mut self.out, &to_go(v)),
            Next::Plain | Next::Id | Next::Raw | Next::ZeroTime | Next::Bytes | Next::Span => {
                write::int(&mut self.out, v);
            }
        }
        Ok(())
    }

    fn serialize_u8(self, v: u8) -> Result<(), EncodeError> {
        self.serialize_u64(v.into())
    }

    fn serialize_u16(self, v: u16) -> Result<(), EncodeError> {
        self.serialize_u64(v.into())
    }

    fn serialize_u32(self, v: u32) -> Result<(), EncodeError> {
        self.serialize_u64(v.into())
    }

    fn serialize_u64(self, v: u64) -> Result<(), EncodeError> {
        write::uint(&mut self.out, v);
        Ok(())
    }

    fn serialize_f32(self, v: f32) -> Result<(), EncodeError> {
        self.serialize_f64(v.into())
    }

    fn serialize_f64(self, v: f64) -> Result<(), EncodeError> {
        write::float(&mut self.out, v);
        Ok(())
    }

    fn serialize_char(self, v: char) -> Result<(), EncodeError> {
        self.serialize_str(v.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, v: &str) -> Result<(), EncodeError> {
        let is_valid = match std::mem::take(&mut self.next) {
            Next::Time => texts::time(&mut self.out, v),
            Next::Bytes => texts::bytes(&mut self.out, v),
            Next::Span => texts::span(&mut self.out, v),
            Next::Plain | Next::Id | Next::Raw | Next::ZeroTime => {
                write::raw(&mut self.out, v.as_bytes());
                true
            }
        };
        if is_valid { Ok(()) } else { Err(EncodeError(format!("text {v:?} is not of its type"))) }
    }

    fn serialize_bytes(self, v: &[u8]) -> Result<(), EncodeError> {
        match (std::mem::take(&mut self.next), <[u8; 16]>::try_from(v)) {
            (Next::Raw, _) => self.out.extend_from_slice(v),
            (Next::Id, Ok(digits)) => {
                // All kinds of ids have the same text form.
                let text = songline_model::NodeId::from_bytes(digits).to_string();
                write::raw(&mut self.out, text.as_bytes());
            }
            (Next::Plain | Next::Id | Next::Time | Next::ZeroTime | Next::Bytes | Next::Span, _) => {
                write::raw(&mut self.out, v);
            }
        }
        Ok(())
    }

    fn serialize_none(self) -> Result<(), EncodeError> {
        match std::mem::take(&mut self.next) {
            Next::ZeroTime => write::raw(&mut self.out, &ZERO_TIME),
            Next::Plain | Next::Time | Next::Id | Next::Raw | Next::Bytes | Next::Span => write::nil(&mut self.out),
        }
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), EncodeError> {
        self.next = Next::Plain;
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), EncodeError> {
        write::nil(&mut self.out);
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), EncodeError> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), EncodeError> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, value: &T) -> Result<(), EncodeError> {
        self.next = match name {
            form::TIME => Next::Time,
            form::ID => Next::Id,
            form::BLOB => Next::Bytes,
            form::SPAN => Next::Span,
            RAW => Next::Raw,
            _ => Next::Plain,
        };
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), EncodeError> {
        self.variant(variant);
        value.serialize(self)
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Open<'a>, EncodeError> {
        self.next = Next::Plain;
        Ok(self.open(len, write::array))
    }

    fn serialize_tuple(self, len: usize) -> Result<Open<'a>, EncodeError> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<Open<'a>, EncodeError> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Open<'a>, EncodeError> {
        self.variant(variant);
        self.serialize_seq(Some(len))
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Open<'a>, EncodeError> {
        self.next = Next::Plain;
        Ok(self.open(len, write::map))
    }

    fn serialize_struct(self, _: &'static str, len: usize) -> Result<Open<'a>, EncodeError> {
        self.serialize_map(Some(len))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Open<'a>, EncodeError> {
        self.variant(variant);
        self.serialize_map(Some(len))
    }
}

macro_rules! list {
    ($($kind:ident $method:ident),*) => { $(impl ser::$kind for Open<'_> {
        type Ok = ();
        type Error = EncodeError;

        fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), EncodeError> {
            self.value(value)
        }

        fn end(self) -> Result<(), EncodeError> {
            self.close();
            Ok(())
        }
    })* };
}
list!(
    SerializeSeq serialize_element, SerializeTuple serialize_element, SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
);

macro_rules! fields {
    ($($kind:ident),*) => { $(impl ser::$kind for Open<'_> {
        type Ok = ();
        type Error = EncodeError;

        fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), EncodeError> {
            self.field(name, value)
        }

        fn end(self) -> Result<(), EncodeError> {
            self.close();
            Ok(())
        }
    })* };
}
fields!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for Open<'_> {
    type Ok = ();
    type Error = EncodeError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), EncodeError> {
        let at = self.writer.out.len();
        key.serialize(&mut *self.writer)?;
        // Views of rows are maps. The names of fields are short, so one byte comes before them.
        let name = self.writer.out.get(at + 1..).unwrap_or_default();
        self.is_time = self.writer.as_shown && ZERO_TIMES.iter().any(|field| field.as_bytes() == name);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), EncodeError> {
        if self.is_time {
            self.writer.next = Next::ZeroTime;
        }
        let written = self.value(value);
        self.writer.next = Next::Plain;
        written
    }

    fn end(self) -> Result<(), EncodeError> {
        self.close();
        Ok(())
    }
}
