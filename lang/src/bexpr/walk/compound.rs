//! Steps of a walk through lists, maps and structs.

use serde::Serialize;
use serde::ser;

use super::{Nil, Outcome, Probe, Walker};
use crate::bexpr::EvalError;
use crate::bexpr::eval::{self, Element};
use crate::bexpr::same::SameAs;
use crate::bexpr::syntax::Matching;
use crate::rust_type;

/// Walks a list: an index into it, a search, or its elements one by one.
pub(in crate::bexpr) struct Elements<'a> {
    pub(super) walker: Walker<'a>,
    pub(super) wanted: Option<usize>,
    pub(super) length: usize,
    pub(super) seen: usize,
    pub(super) found: Option<Outcome>,
}

impl Elements<'_> {
    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), EvalError> {
        let index = self.seen;
        self.seen += 1;
        if self.found.is_some() {
            return Ok(());
        }
        if let Some(wanted) = self.wanted {
            if wanted == index {
                self.found = Some(self.walker.further().into_value(value)?);
            }
            return Ok(());
        }
        match self.walker.probe {
            Probe::Matching(Matching::In(literal)) => {
                if value.serialize(SameAs::new(literal, self.walker.selector))? {
                    self.found = Some(Outcome::Is(true));
                }
            }
            Probe::Each { any, binding, inner, place } => {
                let mut base = self.walker.path.to_vec();
                base.push(index.to_string());
                let element = Element { single: &value, key: &&index, value: &value, base: &base };
                let truth = eval::test_element(binding, inner, *place, element)?;
                if truth == *any {
                    self.found = Some(Outcome::Is(truth));
                }
            }
            Probe::Matching(Matching::Equal(_) | Matching::Empty | Matching::Regexp(_)) => {}
        }
        Ok(())
    }

    fn answer(self) -> Result<Outcome, EvalError> {
        if let Some(found) = self.found {
            return Ok(found);
        }
        if let Some(part) = self.walker.part() {
            return Err(self.walker.out_of_range(part, self.seen.max(self.length)));
        }
        Ok(Outcome::Is(match self.walker.probe {
            Probe::Matching(Matching::Empty) => self.seen == 0,
            Probe::Matching(_) => false,
            Probe::Each { any, .. } => !any,
        }))
    }
}

/// A tuple is walked like a list.
macro_rules! walk_elements {
    ($($kind:ident::$method:ident)*) => {$(
        impl ser::$kind for Elements<'_> {
            type Ok = Outcome;
            type Error = EvalError;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), EvalError> {
                self.element(value)
            }

            fn end(self) -> Result<Outcome, EvalError> {
                self.answer()
            }
        }
    )*};
}

walk_elements! { SerializeSeq::serialize_element SerializeTuple::serialize_element SerializeTupleStruct::serialize_field }

/// Role of the current key for its value.
pub(super) enum Key {
    Wanted,
    Bound(String),
    Other,
}

/// Walks a map: one of its keys, or its entries one by one.
pub(in crate::bexpr) struct Entries<'a> {
    pub(super) walker: Walker<'a>,
    pub(super) seen: usize,
    pub(super) key: Key,
    pub(super) found: Option<Outcome>,
}

impl ser::SerializeMap for Entries<'_> {
    type Ok = Outcome;
    type Error = EvalError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), EvalError> {
        self.seen += 1;
        self.key = Key::Other;
        if self.found.is_some() {
            return Ok(());
        }
        if let Some(part) = self.walker.part() {
            if key.serialize(SameAs::new(part, self.walker.selector))? {
                self.key = Key::Wanted;
            }
            return Ok(());
        }
        match self.walker.probe {
            Probe::Matching(Matching::In(literal)) => {
                if key.serialize(SameAs::new(literal, self.walker.selector))? {
                    self.found = Some(Outcome::Is(true));
                }
            }
            Probe::Each { .. } => {
                let text = serde_json::to_value(key).map_err(ser::Error::custom)?;
                self.key = Key::Bound(text.as_str().map_or_else(|| text.to_string(), str::to_string));
            }
            Probe::Matching(Matching::Equal(_) | Matching::Empty | Matching::Regexp(_)) => {}
        }
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), EvalError> {
        match std::mem::replace(&mut self.key, Key::Other) {
            Key::Other => {}
            Key::Wanted => self.found = Some(self.walker.further().into_value(value)?),
            Key::Bound(key) => {
                if let Probe::Each { any, binding, inner, place } = self.walker.probe {
                    let mut base = self.walker.path.to_vec();
                    base.push(key.clone());
                    let element = Element { single: &&key, key: &&key, value: &value, base: &base };
                    let truth = eval::test_element(binding, inner, *place, element)?;
                    if truth == *any {
                        self.found = Some(Outcome::Is(truth));
                    }
                }
            }
        }
        Ok(())
    }

    fn end(self) -> Result<Outcome, EvalError> {
        if let Some(found) = self.found {
            return Ok(found);
        }
        if let Some(part) = self.walker.part() {
            return self.walker.missing_key(part);
        }
        Ok(Outcome::Is(match self.walker.probe {
            Probe::Matching(Matching::Empty) => self.seen == 0,
            Probe::Matching(_) => false,
            Probe::Each { any, .. } => !any,
        }))
    }
}

/// Walks a struct: one of its fields.
pub(in crate::bexpr) struct Members<'a> {
    pub(super) walker: Walker<'a>,
    pub(super) part: &'a str,
    pub(super) found: Option<Outcome>,
}

impl ser::SerializeStruct for Members<'_> {
    type Ok = Outcome;
    type Error = EvalError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), EvalError> {
        if name == self.part && self.found.is_none() {
            self.found = Some(self.walker.further().into_value(value)?);
        }
        Ok(())
    }

    fn skip_field(&mut self, name: &'static str) -> Result<(), EvalError> {
        if name == self.part && self.found.is_none() {
            self.found = Some(self.walker.further().omitted(name)?);
        }
        Ok(())
    }

    fn end(self) -> Result<Outcome, EvalError> {
        match self.found {
            Some(found) => Ok(found),
            // Evaluations have this list in Go only. Stored ones have no elements in it.
            None if self.part == "RelatedEvals" && rust_type::last_word(self.walker.rust) == "Evaluation" => {
                self.walker.further().nil(Nil::List)
            }
            None => Err(self.walker.no_such_field(self.part)),
        }
    }
}
