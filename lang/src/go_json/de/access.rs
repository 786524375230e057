//! Access to elements, members, map keys, fields and variants.

use std::borrow::Cow;

use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::Reader;
use crate::go_json::{Error, Names, Node, go_type};

pub(super) struct Items<'de, 'n> {
    pub(super) items: std::vec::IntoIter<Node<'de>>,
    pub(super) names: Names<'n>,
}

impl<'de> SeqAccess<'de> for Items<'de, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        match self.items.next() {
            Some(node) => seed.deserialize(Reader { node, names: self.names }).map(Some),
            None => Ok(None),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

/// Members of a map, with their names as written.
pub(super) struct Members<'de, 'n> {
    pub(super) members: std::vec::IntoIter<(Cow<'de, str>, Node<'de>)>,
    pub(super) value: Option<Node<'de>>,
    pub(super) names: Names<'n>,
}

impl<'de> MapAccess<'de> for Members<'de, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((name, node)) = self.members.next() else { return Ok(None) };
        self.value = Some(node);
        seed.deserialize(MapKey { name }).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let node = self.value.take().expect("serde asks for a value after its key");
        seed.deserialize(Reader { node, names: self.names })
    }
}

/// A key of a map: a string, or an integer in quotes.
pub(super) struct MapKey<'de> {
    pub(super) name: Cow<'de, str>,
}

macro_rules! integer_key {
    ($method:ident, $visit:ident, $rust:ty) => {
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.name.parse::<$rust>() {
                Ok(number) => visitor.$visit(number),
                Err(_) => Err(Reader::bad_number(&self.name, go_type::name_of::<$rust>(Names::default()))),
            }
        }
    };
}

impl<'de> Deserializer<'de> for MapKey<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.name {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(self.name.as_ref().into_deserializer())
    }

    integer_key!(deserialize_i64, visit_i64, i64);
    integer_key!(deserialize_u64, visit_u64, u64);
    integer_key!(deserialize_i32, visit_i32, i32);
    integer_key!(deserialize_u32, visit_u32, u32);
    integer_key!(deserialize_u16, visit_u16, u16);

    forward_to_deserialize_any! {
        bool i8 i16 i128 u8 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

/// Members of a struct, already matched to its fields.
pub(super) struct Fields<'de, 'n> {
    pub(super) structure: &'static str,
    pub(super) members: std::vec::IntoIter<(&'static str, Node<'de>)>,
    pub(super) value: Option<(&'static str, Node<'de>)>,
    pub(super) names: Names<'n>,
}

impl<'de> MapAccess<'de> for Fields<'de, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((field, node)) = self.members.next() else { return Ok(None) };
        self.value = Some((field, node));
        seed.deserialize(de::value::BorrowedStrDeserializer::new(field)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let (field, node) = self.value.take().expect("serde asks for a value after its key");
        let read = seed.deserialize(Reader { node, names: self.names });
        read.map_err(|error| self.in_field(field, error, go_type::name_of_wrapper::<V::Value>()))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.members.len())
    }
}

impl Fields<'_, '_> {
    /// Adds this struct and `field` to the position of an error below it.
    fn in_field(&self, field: &'static str, error: Error, wrapper: Option<&'static str>) -> Error {
        let Error::Type { value, mut place, mut go_type } = error else { return error };
        if place.structure.is_none() {
            place.structure = Some(go_type::structure(self.structure, self.names.package));
            let here = self.names.fields.iter().find(|(name, _)| {
                name.rsplit_once('.').is_some_and(|(structure, of)| structure == self.structure && of == field)
            });
            // The name of a list must not replace that of its element.
            if let Some((_, known)) = here
                && go_type.starts_with('[') == known.starts_with('[')
                && go_type.starts_with("map[") == known.starts_with("map[")
            {
                go_type = (*known).to_string();
            } else if let Some(wrapper) = wrapper {
                go_type = wrapper.to_string();
            }
        }
        place.path.insert(0, field.to_string());
        Error::Type { value, place, go_type }
    }
}

/// An enum written as an object with one member.
pub(super) struct Tagged<'de, 'n> {
    pub(super) tag: Cow<'de, str>,
    pub(super) node: Node<'de>,
    pub(super) names: Names<'n>,
}

impl<'de, 'n> EnumAccess<'de> for Tagged<'de, 'n> {
    type Error = Error;
    type Variant = Reader<'de, 'n>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self::Variant), Error> {
        let variant = seed.deserialize(MapKey { name: self.tag })?;
        Ok((variant, Reader { node: self.node, names: self.names }))
    }
}

impl<'de> VariantAccess<'de> for Reader<'de, '_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        self.deserialize_struct("", fields, visitor)
    }
}
