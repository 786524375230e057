//! Calls of functions and their arguments.

use std::sync::Arc;

use super::{At, DEPTH_MAX, Done, Run, State};
use crate::template::node::{Kind, Operand};
use crate::template::value::{List, Map, Value};
use crate::template::{Called, Signature, Type, builtin, literal};

impl<'t> Run<'t> {
    /// Calls a function. Its own errors are reported at `whole`.
    #[expect(clippy::too_many_arguments, reason = "the state of an evaluation, and a command with its parts")]
    pub(super) fn function(
        &mut self,
        state: &mut State<'t>,
        dot: &Value,
        word: &'t Operand,
        whole: At<'t>,
        name: &'t str,
        args: &'t [Operand],
        last: Option<Value>,
    ) -> Done<Value> {
        state.at = At::Operand(word);
        let own = self.library.signature(name);
        let Some(Signature { params, rest }) = own.or_else(|| builtin::signature(name)) else {
            return self.fail(state, &format!("{} is not a defined function", literal::quoted(name)));
        };
        if own.is_none() && (name == "and" || name == "or") {
            return self.short_circuit(state, dot, name, args, last);
        }
        let mut values = self.arguments(state, dot, (name, params, rest), args, last)?;
        let reads = own.is_some() || !matches!(name, "index" | "len");
        let counted = self.bounds.call(&values, reads);
        self.checked(state, counted)?;
        let called = match own {
            Some(_) => {
                as_interfaces(&mut values);
                self.library.call(name, &values)
            }
            None => builtin::call(name, &values).map(Called::Value),
        };
        let value = match called {
            Ok(Called::Value(value)) => Ok(value),
            Ok(Called::Changed { was, now }) => self.change(state, &was, now),
            Ok(Called::Template { name: other, dot }) => self.execute(&other, &dot),
            Err(error) => Err(error),
        };
        let made = value.map_err(|error| format!("error calling {name}: {error}")).and_then(|value| {
            self.bounds.made(&value)?;
            Ok(value)
        });
        if made.is_err() {
            state.at = whole;
        }
        self.checked(state, made)
    }

    /// Output of another template, as a function's result.
    fn execute(&mut self, name: &str, dot: &Value) -> Result<Value, String> {
        if !self.template.bodies.contains_key(name) {
            let (name, own) = (literal::quoted(name), literal::quoted(&self.template.name));
            return Err(format!("template: no template {name} associated with template {own}"));
        }
        if self.depth >= DEPTH_MAX {
            return Err(format!("exceeded maximum template depth ({DEPTH_MAX})"));
        }
        self.enter(name, dot).map(Value::text)
    }

    /// Gives the variables that hold a map, or something around it, the changed map in its place. Returns that.
    fn change(&mut self, state: &mut State<'t>, was: &Arc<Map>, now: Value) -> Result<Value, String> {
        self.bounds.made(&now)?;
        for at in 0..state.vars.len() {
            let value = state.vars[at].1.clone();
            if let Some(changed) = self.with_changed(&value, was, &now)? {
                self.bounds.made(&changed)?;
                state.vars[at].1 = changed;
            }
        }
        Ok(now)
    }

    /// A value with one map in it exchanged; `None` if the value does not have the map.
    fn with_changed(&mut self, value: &Value, was: &Arc<Map>, now: &Value) -> Result<Option<Value>, String> {
        self.bounds.step()?;
        match value {
            Value::Map(map) if Arc::ptr_eq(map, was) => Ok(Some(now.clone())),
            Value::Map(map) => {
                let mut changed = None;
                for (key, item) in &map.items {
                    if let Some(item) = self.with_changed(item, was, now)? {
                        changed.get_or_insert_with(|| map.items.clone()).insert(Arc::clone(key), item);
                    }
                }
                Ok(changed.map(|items| Value::Map(Arc::new(Map::new(map.of, map.zero.clone(), items)))))
            }
            Value::List(list) => {
                let mut changed = None;
                for (at, item) in list.items.iter().enumerate() {
                    if let Some(item) = self.with_changed(item, was, now)? {
                        changed.get_or_insert_with(|| list.items.clone())[at] = item;
                    }
                }
                Ok(changed.map(|items| Value::List(Arc::new(List::new(list.of, items)))))
            }
            Value::Missing
            | Value::Nil
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Float(_)
            | Value::Text(_)
            | Value::Record(_)
            | Value::Object(_) => Ok(None),
        }
    }

    /// `and` and `or` evaluate arguments until one decides.
    fn short_circuit(
        &mut self,
        state: &mut State<'t>,
        dot: &Value,
        name: &str,
        args: &'t [Operand],
        last: Option<Value>,
    ) -> Done<Value> {
        if args.is_empty() && last.is_none() {
            return self.fail(state, &format!("wrong number of args for {name}: want at least 1 got 0"));
        }
        let mut value = Value::Missing;
        for arg in args {
            value = self.argument(state, dot, Type::Any, arg)?;
            if value.is_true() == (name == "or") {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }

    /// Values of a call's arguments.
    pub(super) fn arguments(
        &mut self,
        state: &mut State<'t>,
        dot: &Value,
        (name, params, rest): (&str, &[Type], Option<Type>),
        args: &'t [Operand],
        last: Option<Value>,
    ) -> Done<Vec<Value>> {
        let given = args.len() + usize::from(last.is_some());
        if rest.is_some() && given < params.len() {
            let (want, got) = (params.len(), args.len());
            return self.fail(state, &format!("wrong number of args for {name}: want at least {want} got {got}"));
        }
        if rest.is_none() && given != params.len() {
            let want = params.len();
            return self.fail(state, &format!("wrong number of args for {name}: want {want} got {given}"));
        }
        let wanted = |place: usize| params.get(place).copied().or(rest).unwrap_or(Type::Any);
        let mut values = Vec::with_capacity(given);
        for (place, arg) in args.iter().enumerate() {
            values.push(self.argument(state, dot, wanted(place), arg)?);
        }
        if let Some(last) = last {
            let place = values.len();
            values.push(self.validated(state, last, wanted(place))?);
        }
        Ok(values)
    }

    /// An argument as a value of a type.
    fn argument(&mut self, state: &mut State<'t>, dot: &Value, wanted: Type, arg: &'t Operand) -> Done<Value> {
        state.at = At::Operand(arg);
        match &arg.kind {
            Kind::Nil if wanted == Type::Any => Ok(Value::Missing),
            Kind::Nil if wanted.takes_nil() => Ok(Value::Nil),
            Kind::Nil => self.fail(state, &format!("cannot assign nil to {}", wanted.name())),
            Kind::Bool(_) | Kind::Number(_) | Kind::Text { .. } => self.literal(state, dot, wanted, arg),
            Kind::Dot | Kind::Field(_) | Kind::Variable(_) | Kind::Pipe(_) | Kind::Identifier(_) | Kind::Chain(..) => {
                let value = self.evaluated(state, dot, arg)?;
                self.validated(state, value, wanted)
            }
        }
    }

    /// Value of an operand without arguments.
    pub(super) fn evaluated(&mut self, state: &mut State<'t>, dot: &Value, operand: &'t Operand) -> Done<Value> {
        state.at = At::Operand(operand);
        match &operand.kind {
            Kind::Dot | Kind::Bool(_) | Kind::Number(_) | Kind::Text { .. } | Kind::Nil => {
                self.constant(state, dot, operand)
            }
            Kind::Field(names) => self.fields(state, dot, dot.clone(), (operand, names), &[], None),
            Kind::Variable(names) => self.variable(state, dot, (operand, names), &[], None),
            Kind::Pipe(pipe) => self.pipe(state, dot, pipe),
            Kind::Identifier(name) => self.function(state, dot, operand, At::Operand(operand), name, &[], None),
            Kind::Chain(of, names) => self.chain(state, dot, (operand, of), names, &[], None),
        }
    }

    /// A literal as a value of a type.
    fn literal(&self, state: &State<'t>, dot: &Value, wanted: Type, arg: &Operand) -> Done<Value> {
        let found = match (wanted, &arg.kind) {
            (Type::Any, _) => return self.constant(state, dot, arg),
            (Type::Bool, Kind::Bool(truth)) => Some(Value::Bool(*truth)),
            (Type::Text, Kind::Text { text, .. }) => Some(Value::text(text)),
            (Type::Int, Kind::Number(number)) => number.int.map(Value::Int),
            (Type::Uint, Kind::Number(number)) => number.uint.map(Value::Uint),
            (Type::Float, Kind::Number(number)) => number.float.map(Value::Float),
            _ => None,
        };
        let what = match wanted {
            _ if found.is_some() => return Ok(found.unwrap_or_default()),
            Type::Int => "integer",
            Type::Uint => "unsigned integer",
            Type::Float => "float",
            Type::Bool => "bool",
            Type::Text => "string",
            Type::Texts | Type::List | Type::Map | Type::Any => {
                return self.fail(state, &format!("can't handle {arg} for arg of type {}", wanted.name()));
            }
        };
        self.fail(state, &format!("expected {what}; found {arg}"))
    }

    /// A value as one of a type. No value at all stays what it is for functions of the language that take anything.
    fn validated(&self, state: &State<'t>, value: Value, wanted: Type) -> Done<Value> {
        match value {
            Value::Missing if wanted == Type::Any => Ok(Value::Missing),
            Value::Missing | Value::Nil if wanted.takes_nil() => Ok(Value::Nil),
            Value::Missing | Value::Nil => self.fail(state, &format!("invalid value; expected {}", wanted.name())),
            value if wanted.takes(&value) => Ok(value),
            // A named type of Go is passed as the type that it names.
            Value::Object(object) if wanted.takes(&object.plain()) => Ok(object.plain()),
            value => {
                let (wanted, got) = (wanted.name(), value.type_name());
                self.fail(state, &format!("wrong type for value; expected {wanted}; got {got}"))
            }
        }
    }
}

/// Arguments for functions of a library, which take an empty interface where there is no value.
pub(super) fn as_interfaces(values: &mut [Value]) {
    for value in values.iter_mut().filter(|value| matches!(value, Value::Missing)) {
        *value = Value::Nil;
    }
}
