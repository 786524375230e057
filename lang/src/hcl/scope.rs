//! What expressions can refer to, and what all expressions of one text have in common: how much memory they took and what they draw from.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::functions;
use super::value::Value;

/// How many bytes the values that names stand for may add up to in all expressions of a text. Without a bound,
/// a page of locals that each name the one before twice fills any memory.
const NAMED_BYTES_MAX: usize = 64 << 20;

/// Names that expressions can refer to, innermost first.
pub(crate) struct Scope<'a> {
    names: BTreeMap<String, Value>,
    outer: Option<&'a Scope<'a>>,
    /// Bytes of values taken so far, the same count in all scopes of a text.
    taken: Rc<Cell<usize>>,
    /// What functions draw from, the same in all scopes of a text.
    pub(super) lots: Rc<functions::Lots>,
}

impl<'a> Scope<'a> {
    pub(crate) fn root(names: BTreeMap<String, Value>) -> Scope<'static> {
        Scope { names, outer: None, taken: Rc::default(), lots: Rc::default() }
    }

    /// A root scope whose functions draw from this number.
    pub(crate) fn drawing(names: BTreeMap<String, Value>, entropy: u128) -> Scope<'static> {
        Scope { lots: Rc::new(functions::Lots::new(entropy)), ..Scope::root(names) }
    }

    pub(crate) fn inside(outer: &'a Scope<'a>, names: BTreeMap<String, Value>) -> Scope<'a> {
        Scope { names, outer: Some(outer), taken: Rc::clone(&outer.taken), lots: Rc::clone(&outer.lots) }
    }

    /// Adds a member to the object that a name stands for.
    pub(crate) fn add_member(&mut self, name: &str, member: &str, value: Value) {
        if let Some(Value::Mapping(_, members)) = self.names.get_mut(name) {
            members.insert(member.to_string(), value);
        }
    }

    pub(super) fn lookup(&self, name: &str) -> Option<&Value> {
        match self.names.get(name) {
            Some(value) => Some(value),
            None => self.outer.and_then(|outer| outer.lookup(name)),
        }
    }

    /// Counts a value that is taken; false: it is too much.
    pub(super) fn take(&self, value: &Value) -> bool {
        self.taken.set(self.taken.get().saturating_add(value.bytes()));
        self.taken.get() <= NAMED_BYTES_MAX
    }
}
