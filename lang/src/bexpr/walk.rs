//! A serializer that follows one selector through a row and answers one question about the value at its end. Nothing
//! of the row is copied; values outside the path are skipped.

mod compound;

use serde::Serialize;
use serde::ser::{self, Impossible, Serializer};
use songline_model::{Blob, form};

use super::EvalError;
use super::eval::{Place, Scalar};
use super::syntax::{Binding, Expression, Matching};
use crate::rust_type;
use compound::{Elements, Entries, Key, Members};

impl ser::Error for EvalError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        EvalError::Row(message.to_string())
    }
}

/// A row, or a part of a row that a name is bound to.
pub(super) trait Datum {
    /// The value of a field that is available without a walk.
    fn plain(&self, _field: &str) -> Option<Scalar<'_>> {
        None
    }

    fn walk(&self, walker: Walker<'_>) -> Result<Outcome, EvalError>;
}

impl<T: Serialize + ?Sized> Datum for &T {
    fn walk(&self, walker: Walker<'_>) -> Result<Outcome, EvalError> {
        walker.into_value::<T>(self)
    }
}

/// Result at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Is(bool),
    /// The last part of the path is a key that is missing from a map.
    Missing,
}

/// Question about the value at the end of the path.
pub(super) enum Probe<'a> {
    Matching(&'a Matching),
    Each { any: bool, binding: &'a Binding, inner: &'a Expression, place: Place<'a> },
}

/// Type of a nil value, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nil {
    Map,
    List,
    Bytes,
    Pointer,
    /// A field omitted because it is empty, or null for another reason.
    Unknown,
}

/// Walks along `path`; the first `at` parts are already resolved.
#[derive(Clone, Copy)]
pub(super) struct Walker<'a> {
    path: &'a [String],
    at: usize,
    probe: &'a Probe<'a>,
    selector: &'a str,
    /// Name of the current value's Rust type: distinguishes nil maps from nil pointers.
    rust: &'static str,
}

impl<'a> Walker<'a> {
    pub(super) fn new(path: &'a [String], at: usize, probe: &'a Probe<'a>, selector: &'a str) -> Walker<'a> {
        Walker { path, at, probe, selector, rust: "" }
    }

    pub(super) fn into_value<T: Serialize + ?Sized>(mut self, value: &T) -> Result<Outcome, EvalError> {
        self.rust = std::any::type_name::<T>();
        value.serialize(self)
    }

    fn further(mut self) -> Walker<'a> {
        self.at += 1;
        self
    }

    /// The part to look up in the current value; `None` at the end of the path.
    fn part(&self) -> Option<&'a str> {
        self.path.get(self.at).map(String::as_str)
    }

    /// The first field of the path.
    pub(super) fn root(&self) -> Option<&'a str> {
        self.path.first().map(String::as_str)
    }

    fn is_last_part(&self) -> bool {
        self.at + 1 == self.path.len()
    }

    fn pointer(&self) -> String {
        self.path.iter().map(|part| format!("/{part}")).collect()
    }

    fn invalid_kind(&self, kind: &str) -> EvalError {
        EvalError::NotFound(format!("{}: at part {}, invalid value kind: {kind}", self.pointer(), self.at))
    }

    fn no_such_field(&self, name: &str) -> EvalError {
        EvalError::NotFound(format!(
            "{} at part {}: couldn't find key: struct field with name {name:?}",
            self.pointer(),
            self.at
        ))
    }

    fn out_of_range(&self, index: &str, length: usize) -> EvalError {
        let reason = match index.parse::<u64>() {
            Ok(index) => format!("index {index} is out of range (length = {length})"),
            Err(_) => format!("couldn't convert {index:?} to an index"),
        };
        EvalError::NotFound(format!("{} at part {}: {reason}", self.pointer(), self.at))
    }

    fn missing_key(&self, key: &str) -> Result<Outcome, EvalError> {
        if self.is_last_part() && self.at > 0 {
            return Ok(Outcome::Missing);
        }
        Err(EvalError::NotFound(format!("{} at part {}: couldn't find key {key:?}", self.pointer(), self.at)))
    }

    fn wrong_kind(&self, operation: &'static str, kind: &'static str) -> EvalError {
        EvalError::WrongKind { operation, kind, selector: self.selector.to_string() }
    }

    /// The error for a value of a kind that the question does not apply to.
    fn unfit(&self, kind: &'static str) -> EvalError {
        match self.probe {
            Probe::Matching(Matching::Equal(_)) => EvalError::NotComparable,
            Probe::Matching(Matching::In(_)) => self.wrong_kind("in/contains", kind),
            Probe::Matching(Matching::Empty) => self.wrong_kind("is empty", kind),
            Probe::Matching(Matching::Regexp(_)) => EvalError::NotText(kind),
            Probe::Each { .. } => self.wrong_kind("any/all", kind),
        }
    }

    pub(super) fn scalar(self, scalar: Scalar<'_>) -> Result<Outcome, EvalError> {
        if self.part().is_some() {
            return Err(self.invalid_kind(scalar.kind()));
        }
        let truth = match (self.probe, scalar) {
            (Probe::Matching(Matching::Equal(literal)), scalar) => scalar.equals(literal)?,
            (Probe::Matching(Matching::In(literal)), Scalar::Text(text)) => text.contains(literal.as_str()),
            (Probe::Matching(Matching::Empty), Scalar::Text(text)) => text.is_empty(),
            (Probe::Matching(Matching::Regexp(pattern)), Scalar::Text(text)) => match &pattern.compiled {
                Ok(regexp) => regexp.is_match(text),
                Err(reason) => {
                    return Err(EvalError::Regexp { expression: pattern.text.clone(), reason: reason.clone() });
                }
            },
            (_, other) => return Err(self.unfit(other.kind())),
        };
        Ok(Outcome::Is(truth))
    }

    fn nil(self, nil: Nil) -> Result<Outcome, EvalError> {
        if let Some(part) = self.part() {
            return match nil {
                Nil::Map => self.missing_key(part),
                Nil::List | Nil::Bytes => Err(self.out_of_range(part, 0)),
                Nil::Unknown if self.is_last_part() && self.at > 0 => Ok(Outcome::Missing),
                Nil::Pointer | Nil::Unknown => Err(self.invalid_kind("invalid")),
            };
        }
        let kind = match nil {
            Nil::Map => "map",
            Nil::List | Nil::Bytes => "slice",
            Nil::Pointer => "ptr",
            Nil::Unknown => "invalid",
        };
        match (self.probe, nil) {
            (_, Nil::Pointer) => Err(self.unfit(kind)),
            (Probe::Matching(Matching::Empty), _) => Ok(Outcome::Is(true)),
            (Probe::Matching(Matching::In(_)), _) => Ok(Outcome::Is(false)),
            (Probe::Each { any, .. }, _) => Ok(Outcome::Is(!any)),
            // The type of an omitted field is unknown; its value was the zero value.
            (Probe::Matching(Matching::Equal(literal)), Nil::Unknown) => {
                Ok(Outcome::Is(matches!(literal.as_str(), "" | "0" | "f" | "F" | "false" | "FALSE" | "False")))
            }
            (Probe::Matching(Matching::Regexp(_)), Nil::Bytes | Nil::Unknown) => self.scalar(Scalar::Text("")),
            (Probe::Matching(Matching::Equal(_) | Matching::Regexp(_)), _) => Err(self.unfit(kind)),
        }
    }

    /// Answers for bytes. Go treats them as a list, except that a regular expression matches them as a text.
    fn bytes(self, bytes: &[u8]) -> Result<Outcome, EvalError> {
        match (self.part(), self.probe) {
            (None, Probe::Matching(Matching::Regexp(_))) => self.scalar(Scalar::Text(&String::from_utf8_lossy(bytes))),
            _ => self.into_value(bytes),
        }
    }

    /// Answers for a field of an allocation or an evaluation that was omitted because it is empty.
    fn omitted(self, field: &str) -> Result<Outcome, EvalError> {
        /// Fields of these rows that are pointers in Go, and nil when omitted.
        const POINTERS: [&str; 6] =
            ["DeploymentStatus", "RescheduleTracker", "NetworkStatus", "Metrics", "AllocatedResources", "Job"];
        /// The field that is a struct of pointers in Go.
        const OF_POINTERS: &str = "DesiredTransition";
        /// The field that is a time, and so a struct without visible fields.
        const TIME: &str = "WaitUntil";
        match self.part() {
            None if field == TIME => Err(self.unfit("struct")),
            Some(part) if field == TIME => Err(self.no_such_field(part)),
            None if field == OF_POINTERS => Err(self.unfit("struct")),
            Some(_) if field == OF_POINTERS && self.is_last_part() => Err(self.unfit("ptr")),
            None | Some(_) if POINTERS.contains(&field) => self.nil(Nil::Pointer),
            None | Some(_) => self.nil(Nil::Unknown),
        }
    }

    fn nil_of_type(&self) -> Nil {
        if rust_type::last_word(self.rust) != "Option" {
            return Nil::Unknown;
        }
        let mut inner = self.rust;
        while let Some(deeper) = rust_type::pointee(inner) {
            inner = deeper;
        }
        if inner.starts_with('[') {
            return Nil::List;
        }
        match rust_type::last_word(inner) {
            "BTreeMap" | "OrdMap" | "Map" => Nil::Map,
            "Vec" | "Vector" | "BTreeSet" | "OrdSet" => Nil::List,
            "Blob" => Nil::Bytes,
            _ => Nil::Pointer,
        }
    }

    fn elements(self, length: Option<usize>) -> Result<Elements<'a>, EvalError> {
        if self.part().is_none() {
            match self.probe {
                Probe::Matching(Matching::Equal(_) | Matching::Regexp(_)) => return Err(self.unfit("slice")),
                Probe::Matching(Matching::In(_) | Matching::Empty) | Probe::Each { .. } => {}
            }
        }
        let wanted = self.part().map(|part| part.parse::<usize>().unwrap_or(usize::MAX));
        Ok(Elements { walker: self, wanted, length: length.unwrap_or(0), seen: 0, found: None })
    }

    fn entries(self) -> Result<Entries<'a>, EvalError> {
        if self.part().is_none() {
            match self.probe {
                Probe::Matching(Matching::Equal(_) | Matching::Regexp(_)) => return Err(self.unfit("map")),
                Probe::Matching(Matching::In(_) | Matching::Empty) | Probe::Each { .. } => {}
            }
        }
        Ok(Entries { walker: self, seen: 0, key: Key::Other, found: None })
    }

    fn members(self) -> Result<Members<'a>, EvalError> {
        match self.part() {
            Some(part) => Ok(Members { walker: self, part, found: None }),
            None => Err(self.unfit("struct")),
        }
    }
}

impl<'a> Serializer for Walker<'a> {
    type Ok = Outcome;
    type Error = EvalError;
    type SerializeSeq = Elements<'a>;
    type SerializeTuple = Elements<'a>;
    type SerializeTupleStruct = Elements<'a>;
    type SerializeTupleVariant = Impossible<Outcome, EvalError>;
    type SerializeMap = Entries<'a>;
    type SerializeStruct = Members<'a>;
    type SerializeStructVariant = Impossible<Outcome, EvalError>;

    fn serialize_bool(self, value: bool) -> Result<Outcome, EvalError> {
        self.scalar(Scalar::Bool(value))
    }
    fn serialize_i8(self, value: i8) -> Result<Outcome, EvalError> {
        self.scalar(Scalar::Signed(value.into()))
    }
    fn serialize_i16(self, value: i16) -> Result<Outcome, EvalError> {
        self.scalar(Scalar::Signed(value.into()))
    }
    fn serialize_i32(self, value: i32) -> Result<Outcome, EvalError> {
        self.scalar(Scalar::Signed(value.into()))
    }
    fn serialize_i64(self, value: i64) -> Result<Outcome, EvalError> {
        self.scalar(Scalar::Signed(value))
    }
    fn serialize_u8(self, value: u8) -> Result<Outcome, EvalError> {
        self.scalar(Scalar::Unsigned(value.into()))
    }
    fn serialize_u16(self, value: u16) -> Result<Outcome, EvalError> {
        self.scalar(Scalar::Unsigned(value.into()))
    }
    fn serialize_u32(self, value: u32) -> Result<Outcome, EvalError> {
        self.scalar(Scalar::Unsigned(value.into()))
    }
    fn serialize_u64(self, value: u64) -> Result<Outcome, EvalError> {
        self.scalar(Scalar::Unsigned(value))
    }
    fn serialize_f32(self, value: f32) -> Result<Outcome, EvalError> {
        self.scalar(Scalar::Float(value.into()))
    }
    fn serialize_f64(self, value: f64) -> Result<Outcome, EvalError> {
        self.scalar(Scalar::Float(value))
    }
    fn serialize_char(self, value: char) -> Result<Outcome, EvalError> {
        self.scalar(Scalar::Text(value.encode_utf8(&mut [0; 4])))
    }
    fn serialize_str(self, value: &str) -> Result<Outcome, EvalError> {
        match rust_type::last_word(self.rust) {
            // Go treats a time as a struct; it is a text only in JSON.
            "Time" => Err(self.part().map_or_else(|| self.unfit("struct"), |part| self.no_such_field(part))),
            // Bytes are base64 only in JSON.
            "Blob" => self.bytes(&Blob::from_base64(value).unwrap_or_default().0),
            _ => self.scalar(Scalar::Text(value)),
        }
    }
    fn serialize_bytes(self, value: &[u8]) -> Result<Outcome, EvalError> {
        self.scalar(Scalar::Text(&String::from_utf8_lossy(value)))
    }
    fn serialize_none(self) -> Result<Outcome, EvalError> {
        let nil = self.nil_of_type();
        self.nil(nil)
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Outcome, EvalError> {
        self.into_value(value)
    }
    fn serialize_unit(self) -> Result<Outcome, EvalError> {
        self.nil(Nil::Unknown)
    }
    fn serialize_unit_struct(self, _name: &'static str) -> Result<Outcome, EvalError> {
        self.nil(Nil::Unknown)
    }
    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<Outcome, EvalError> {
        self.scalar(Scalar::Text(variant))
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<Outcome, EvalError> {
        match name {
            // The inner value is the text of the outer one, whose type counts.
            form::TIME | form::BLOB => value.serialize(self),
            _ => self.into_value(value),
        }
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Outcome, EvalError> {
        match self.part() {
            Some(part) if part == variant => self.further().into_value(value),
            Some(part) => Err(self.no_such_field(part)),
            None => Err(self.unfit("struct")),
        }
    }
    fn serialize_seq(self, length: Option<usize>) -> Result<Elements<'a>, EvalError> {
        self.elements(length)
    }
    fn serialize_tuple(self, length: usize) -> Result<Elements<'a>, EvalError> {
        self.elements(Some(length))
    }
    fn serialize_tuple_struct(self, _name: &'static str, length: usize) -> Result<Elements<'a>, EvalError> {
        self.elements(Some(length))
    }
    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeTupleVariant, EvalError> {
        Err(self.unfit("struct"))
    }
    fn serialize_map(self, _length: Option<usize>) -> Result<Entries<'a>, EvalError> {
        self.entries()
    }
    fn serialize_struct(self, _name: &'static str, _length: usize) -> Result<Members<'a>, EvalError> {
        self.members()
    }
    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeStructVariant, EvalError> {
        Err(self.unfit("struct"))
    }
}
