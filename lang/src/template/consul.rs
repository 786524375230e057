//! Functions of templates in jobs: those of consul-template as the reference's agent offers them.
//!
//! Functions ask the world through [`World`]. A question without an answer yet gives an empty
//! value and is noted, so that one rendering collects all of them; the caller renders again when answers have come.

mod ask;
pub mod catalog;
mod collection;
mod encode;
mod json;
mod moment;
pub mod nomad;
mod number;
mod query;
mod scratch;
mod sprig;
mod text;
mod toml;
pub mod vault;
mod yaml;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

pub use self::query::{ConsulQuestion, Place};
use self::scratch::Scratch;
use super::{Called, Library, Signature, Type, Value};

/// A point in time: seconds and nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds of the second.
    pub nanos: u32,
}

/// Source of data from outside of templates.
pub trait World {
    /// The time now.
    fn now(&self) -> Moment;

    /// A variable of the task's environment.
    fn env(&self, name: &str) -> Option<String>;

    /// Contents of a file that the task may read.
    ///
    /// # Errors
    /// The text that follows `error calling file: `.
    fn file(&self, path: &str) -> Result<Vec<u8>, String>;

    /// The answer to a question, if it is known.
    fn answer(&self, question: &Question) -> Option<Value>;
}

/// A question to the servers, to Consul or to Vault. Displays as the reference names it in `Missing: ..`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// A variable, which must exist.
    Variable(VariableName),
    /// Whether a variable exists.
    VariableExists(VariableName),
    /// Variables whose paths have this prefix.
    VariableList(VariableName),
    /// Registrations of a service.
    Service {
        /// Name of the service.
        name: String,
        /// `COUNT|KEY` of a stable choice.
        choose: Option<String>,
    },
    /// Names and tags of all services.
    Services,
    /// A question to Consul.
    Consul(ConsulQuestion),
    /// A question to Vault.
    Vault(VaultQuestion),
}

/// A question to Vault, whose path may have a query such as `?version=2`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum VaultQuestion {
    /// Names below a path.
    List(String),
    /// The secret at a path.
    Read(String),
    /// The answer to a write, such as a new certificate.
    Write {
        /// Its path.
        path: String,
        /// Members of the request's body.
        data: BTreeMap<String, String>,
    },
}

/// Name of a variable in a template.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct VariableName {
    /// Its path, or the prefix of paths.
    pub path: String,
    /// Its namespace.
    pub namespace: String,
    /// Its region.
    pub region: String,
}

impl fmt::Display for VariableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}.{}", self.path, self.namespace, self.region)
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "nomad.var.block({name})"),
            Self::VariableExists(name) => write!(f, "nomad.var.get({name})"),
            Self::VariableList(name) => write!(f, "nomad.var.list({name})"),
            Self::Service { name, choose: None } => write!(f, "nomad.service({name})"),
            Self::Service { name, choose: Some(choose) } => write!(f, "nomad.service({name}:{choose})"),
            Self::Services => f.write_str("nomad.services"),
            Self::Consul(question) => question.fmt(f),
            Self::Vault(VaultQuestion::Read(path)) => write!(f, "vault.read({path})"),
            Self::Vault(VaultQuestion::Write { path, .. }) => write!(f, "vault.write({path})"),
            Self::Vault(VaultQuestion::List(path)) => write!(f, "vault.list({path})"),
        }
    }
}

/// The functions in one rendering.
pub struct Functions<'w> {
    world: &'w dyn World,
    namespace: &'w str,
    region: &'w str,
    denied: &'w BTreeSet<String>,
    scratch: Arc<Scratch>,
    noted: RefCell<Noted>,
}

/// Questions of one rendering.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Noted {
    /// All questions.
    pub asked: BTreeSet<Question>,
    /// Questions without an answer.
    pub missing: BTreeSet<Question>,
}

impl<'w> Functions<'w> {
    /// Functions for a task of this namespace and region. Calls of `denied` ones fail.
    pub fn new(world: &'w dyn World, namespace: &'w str, region: &'w str, denied: &'w BTreeSet<String>) -> Self {
        Self { world, namespace, region, denied, scratch: Arc::default(), noted: RefCell::default() }
    }

    /// The questions that were asked so far.
    pub fn noted(&self) -> Noted {
        self.noted.borrow().clone()
    }

    /// Asks, and notes the question.
    fn ask(&self, question: Question) -> Option<Value> {
        let answer = self.world.answer(&question);
        let mut noted = self.noted.borrow_mut();
        if answer.is_none() {
            noted.missing.insert(question.clone());
        }
        noted.asked.insert(question);
        answer
    }
}

/// A function of its arguments alone.
type Plain = (&'static str, &'static [Type], Option<Type>, fn(&[Value]) -> Result<Value, String>);

const PLAIN: &[&[Plain]] = &[collection::PLAIN, encode::PLAIN, number::PLAIN, sprig::PLAIN, text::PLAIN];

fn plain(name: &str) -> Option<&'static Plain> {
    PLAIN.iter().flat_map(|group| group.iter()).find(|(known, ..)| *known == name)
}

impl Library for Functions<'_> {
    fn signature(&self, name: &str) -> Option<Signature> {
        let asking = ask::signature(name);
        asking.or_else(|| plain(name).map(|(_, params, rest, _)| Signature { params, rest: *rest }))
    }

    fn call(&self, name: &str, args: &[Value]) -> Result<Called, String> {
        if self.denied.contains(name) {
            return Err("function is disabled".to_owned());
        }
        if name == "executeTemplate" {
            return match args {
                [Value::Text(name)] => Ok(Called::Template { name: name.to_string(), dot: Value::Missing }),
                [Value::Text(name), dot] => Ok(Called::Template { name: name.to_string(), dot: dot.clone() }),
                _ => {
                    Err(format!("executeTemplate: wrong number of arguments, expected 1 or 2, but got {}", args.len()))
                }
            };
        }
        match plain(name) {
            Some((_, _, _, run)) => run(args),
            None => self.asking(name, args),
        }
        .map(Called::Value)
    }
}

/// The text of an argument that its signature makes a text.
fn arg(args: &[Value], place: usize) -> &str {
    args.get(place).and_then(Value::as_text).unwrap_or_default()
}
