//! A serializer that compares one scalar with a literal. Containers are refused.

use serde::Serialize;
use serde::ser::{Impossible, Serializer};

use super::EvalError;
use super::eval::Scalar;

/// Compares a scalar (an element of a list or a key of a map) with a literal.
pub(super) struct SameAs<'a> {
    literal: &'a str,
    selector: &'a str,
}

impl<'a> SameAs<'a> {
    pub(super) fn new(literal: &'a str, selector: &'a str) -> SameAs<'a> {
        SameAs { literal, selector }
    }

    fn compare(&self, scalar: Scalar<'_>) -> Result<bool, EvalError> {
        scalar.equals(self.literal)
    }

    fn unfit(&self) -> EvalError {
        EvalError::WrongKind { operation: "in/contains", kind: "slice", selector: self.selector.to_string() }
    }
}

impl Serializer for SameAs<'_> {
    type Ok = bool;
    type Error = EvalError;
    type SerializeSeq = Impossible<bool, EvalError>;
    type SerializeTuple = Impossible<bool, EvalError>;
    type SerializeTupleStruct = Impossible<bool, EvalError>;
    type SerializeTupleVariant = Impossible<bool, EvalError>;
    type SerializeMap = Impossible<bool, EvalError>;
    type SerializeStruct = Impossible<bool, EvalError>;
    type SerializeStructVariant = Impossible<bool, EvalError>;

    fn serialize_bool(self, value: bool) -> Result<bool, EvalError> {
        self.compare(Scalar::Bool(value))
    }
    fn serialize_i8(self, value: i8) -> Result<bool, EvalError> {
        self.compare(Scalar::Signed(value.into()))
    }
    fn serialize_i16(self, value: i16) -> Result<bool, EvalError> {
        self.compare(Scalar::Signed(value.into()))
    }
    fn serialize_i32(self, value: i32) -> Result<bool, EvalError> {
        self.compare(Scalar::Signed(value.into()))
    }
    fn serialize_i64(self, value: i64) -> Result<bool, EvalError> {
        self.compare(Scalar::Signed(value))
    }
    fn serialize_u8(self, value: u8) -> Result<bool, EvalError> {
        self.compare(Scalar::Unsigned(value.into()))
    }
    fn serialize_u16(self, value: u16) -> Result<bool, EvalError> {
        self.compare(Scalar::Unsigned(value.into()))
    }
    fn serialize_u32(self, value: u32) -> Result<bool, EvalError> {
        self.compare(Scalar::Unsigned(value.into()))
    }
    fn serialize_u64(self, value: u64) -> Result<bool, EvalError> {
        self.compare(Scalar::Unsigned(value))
    }
    fn serialize_f32(self, value: f32) -> Result<bool, EvalError> {
        self.compare(Scalar::Float(value.into()))
    }
    fn serialize_f64(self, value: f64) -> Result<bool, EvalError> {
        self.compare(Scalar::Float(value))
    }
    fn serialize_char(self, value: char) -> Result<bool, EvalError> {
        self.compare(Scalar::Text(value.encode_utf8(&mut [0; 4])))
    }
    fn serialize_str(self, value: &str) -> Result<bool, EvalError> {
        self.compare(Scalar::Text(value))
    }
    fn serialize_bytes(self, value: &[u8]) -> Result<bool, EvalError> {
        self.compare(Scalar::Text(&String::from_utf8_lossy(value)))
    }
    fn serialize_none(self) -> Result<bool, EvalError> {
        Err(self.unfit())
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<bool, EvalError> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<bool, EvalError> {
        Err(self.unfit())
    }
    fn serialize_unit_struct(self, _name: &'static str) -> Result<bool, EvalError> {
        Err(self.unfit())
    }
    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<bool, EvalError> {
        self.compare(Scalar::Text(variant))
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<bool, EvalError> {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _value: &T,
    ) -> Result<bool, EvalError> {
        Err(self.unfit())
    }
    fn serialize_seq(self, _length: Option<usize>) -> Result<Self::SerializeSeq, EvalError> {
        Err(self.unfit())
    }
    fn serialize_tuple(self, _length: usize) -> Result<Self::SerializeTuple, EvalError> {
        Err(self.unfit())
    }
    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeTupleStruct, EvalError> {
        Err(self.unfit())
    }
    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeTupleVariant, EvalError> {
        Err(self.unfit())
    }
    fn serialize_map(self, _length: Option<usize>) -> Result<Self::SerializeMap, EvalError> {
        Err(self.unfit())
    }
    fn serialize_struct(self, _name: &'static str, _length: usize) -> Result<Self::SerializeStruct, EvalError> {
        Err(self.unfit())
    }
    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeStructVariant, EvalError> {
        Err(self.unfit())
    }
}
