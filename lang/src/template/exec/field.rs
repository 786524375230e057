//! Fields, keys and methods of values.

use super::call::as_interfaces;
use super::{At, Done, Run, State, element};
use crate::template::node::Operand;
use crate::template::value::Value;
use crate::template::{MissingKey, literal};

impl<'t> Run<'t> {
    /// Follows a chain of fields, of which the last one gets the arguments. `whole` is the operand that has them.
    pub(super) fn fields(
        &mut self,
        state: &mut State<'t>,
        dot: &Value,
        mut receiver: Value,
        (whole, names): (&'t Operand, &'t [String]),
        args: &'t [Operand],
        last: Option<Value>,
    ) -> Done<Value> {
        let Some((name, before)) = names.split_last() else { return Ok(receiver) };
        let mut of = None;
        for name in before {
            let element = self.field(state, dot, (&receiver, of), (whole, name), &[], None)?;
            of = element_type(&receiver);
            receiver = element;
        }
        self.field(state, dot, (&receiver, of), (whole, name), args, last)
    }

    /// One field. `of` is the receiver's type where the map that it is from says it.
    fn field(
        &mut self,
        state: &mut State<'t>,
        dot: &Value,
        (receiver, of): (&Value, Option<&str>),
        (whole, name): (&'t Operand, &'t str),
        args: &'t [Operand],
        last: Option<Value>,
    ) -> Done<Value> {
        let counted = self.bounds.step();
        self.checked(state, counted)?;
        match receiver {
            Value::Missing if self.template.missing_key == MissingKey::Error => {
                return self.fail(state, &format!("nil data; no entry for key {}", literal::quoted(name)));
            }
            Value::Missing => return Ok(Value::Missing),
            Value::Nil => return self.fail(state, &format!("nil pointer evaluating interface {{}}.{name}")),
            _ => {}
        }
        if let Value::Object(object) = receiver
            && let Some(params) = object.method(name)
        {
            let mut values = self.arguments(state, dot, (name, params, None), args, last)?;
            as_interfaces(&mut values);
            let called = object.call(name, &values).map_err(|error| format!("error calling {name}: {error}"));
            let made = called.and_then(|value| self.bounds.made(&value).map(|()| value));
            if made.is_err() {
                state.at = At::Operand(whole);
            }
            return self.checked(state, made);
        }
        let has_args = !args.is_empty() || last.is_some();
        match receiver.plain() {
            Value::Record(record) => {
                let found = record.fields.iter().find(|(known, _)| *known == name);
                match found {
                    Some(_) if has_args => {
                        return self.fail(state, &format!("{name} has arguments but cannot be invoked as function"));
                    }
                    Some((_, value)) => return Ok(value.clone()),
                    None => {}
                }
            }
            Value::Map(_) if has_args => {
                return self.fail(state, &format!("{name} is not a method but has arguments"));
            }
            Value::Map(map) => return self.checked(state, element(self.template, &map, name)),
            _ => {}
        }
        self.fail(
            state,
            &format!("can't evaluate field {name} in type {}", of.map_or_else(|| receiver.type_name(), str::to_owned)),
        )
    }
}

/// Type of a map's elements, which messages name instead of that of one element.
fn element_type(value: &Value) -> Option<&'static str> {
    match value.plain() {
        Value::Map(map) => Some(map.of),
        _ => None,
    }
}
