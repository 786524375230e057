//! Scopes: the names that expressions can use, and the memory bound and pseudo-random numbers that all expressions of
//! a text share.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::functions;
use super::value::Value;

/// Largest total size in bytes of the values that names are replaced by, over all expressions of a text. Without a
/// bound, a page of locals that each use the previous one twice fills any memory.
const NAMED_BYTES_MAX: usize = 64 << 20;

/// Names that expressions can use, innermost scope first.
pub(crate) struct Scope<'a> {
    names: BTreeMap<String, Value>,
    outer: Option<&'a Scope<'a>>,
    /// Bytes of values used so far, shared by all scopes of a text.
    taken: Rc<Cell<usize>>,
    /// Pseudo-random numbers for functions, shared by all scopes of a text.
    pub(super) lots: Rc<functions::Lots>,
    /// Name of the text in diagnostics that are part of a message.
    file: Rc<str>,
}

impl<'a> Scope<'a> {
    pub(crate) fn root(names: BTreeMap<String, Value>) -> Scope<'static> {
        Scope { names, outer: None, taken: Rc::default(), lots: Rc::default(), file: Rc::default() }
    }

    /// A root scope for the text of this name, whose pseudo-random numbers are seeded with `entropy`.
    pub(crate) fn of_file(names: BTreeMap<String, Value>, file: &str, entropy: u128) -> Scope<'static> {
        Scope { lots: Rc::new(functions::Lots::new(entropy)), file: Rc::from(file), ..Scope::root(names) }
    }

    pub(crate) fn inside(outer: &'a Scope<'a>, names: BTreeMap<String, Value>) -> Scope<'a> {
        let (taken, lots) = (Rc::clone(&outer.taken), Rc::clone(&outer.lots));
        Scope { names, outer: Some(outer), taken, lots, file: Rc::clone(&outer.file) }
    }

    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// The names of this scope and of those around it.
    pub(super) fn names(&self) -> Vec<&str> {
        let outer = self.outer.map(Scope::names).unwrap_or_default();
        self.names.keys().map(String::as_str).chain(outer).collect()
    }

    /// Adds a member to the object that a name refers to.
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

    /// Adds a value to the total size; returns false if the bound is exceeded.
    pub(super) fn take(&self, value: &Value) -> bool {
        self.taken.set(self.taken.get().saturating_add(value.bytes()));
        self.taken.get() <= NAMED_BYTES_MAX
    }
}
