//! Functions of templates in jobs: those of consul-template as the reference's agent offers them.
//!
//! Functions ask the world through [`World`]. A question without an answer yet gives an empty
//! value and is noted, so that one rendering collects all of them; the caller renders again when answers have come.

mod ask;
pub mod catalog;
mod collection;
mod encode;
mod identity;
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

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

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

    /// Random bytes, the same for the same number, so that a template that is rendered again draws what it has drawn
    /// before. Unless a world has a source of its own they follow from its time, and are no secret.
    fn random(&self, number: u64) -> [u8; 32] {
        let Moment { seconds, nanos } = self.now();
        let seed = Sha256::new().chain_update(seconds.to_be_bytes()).chain_update(nanos.to_be_bytes());
        seed.chain_update(number.to_be_bytes()).finalize().into()
    }
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
    /// Number of the next random bytes.
    draws: Cell<u64>,
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
        let (scratch, noted, draws) = Default::default();
        Self { world, namespace, region, denied, scratch, noted, draws }
    }

    /// The same functions with other random bytes: those from this number on.
    #[must_use]
    pub fn drawing_from(self, number: u64) -> Self {
        Self { draws: Cell::new(number), ..self }
    }

    /// The questions that were asked so far.
    pub fn noted(&self) -> Noted {
        self.noted.borrow().clone()
    }

    /// The next random bytes.
    fn draw(&self) -> [u8; 32] {
        let number = self.draws.get();
        self.draws.set(number.wrapping_add(1));
        self.world.random(number)
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

/// A function of its arguments, the time and random bytes.
type Worldly = (&'static str, &'static [Type], Option<Type>, fn(&Functions<'_>, &[Value]) -> Result<Value, String>);

const PLAIN: &[&[Plain]] = &[collection::PLAIN, encode::PLAIN, number::PLAIN, text::PLAIN];

fn plain(name: &str) -> Option<&'static Plain> {
    let (groups, name) = match name.strip_prefix(sprig::PREFIX) {
        Some(name) => (sprig::PLAIN, name),
        None => (PLAIN, name),
    };
    groups.iter().flat_map(|group| group.iter()).find(|(known, ..)| *known == name)
}

fn worldly(name: &str) -> Option<&'static Worldly> {
    let name = name.strip_prefix(sprig::PREFIX)?;
    sprig::WORLDLY.iter().flat_map(|group| group.iter()).find(|(known, ..)| *known == name)
}

impl Library for Functions<'_> {
    fn signature(&self, name: &str) -> Option<Signature> {
        let asking = ask::signature(name);
        let asking = asking.or_else(|| worldly(name).map(|(_, params, rest, _)| Signature { params, rest: *rest }));
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
        let value = match (plain(name), worldly(name)) {
            (Some((_, _, _, run)), _) => run(args),
            (None, Some((_, _, _, run))) => run(self, args),
            (None, None) => self.asking(name, args),
        }?;
        Ok(match args.first() {
            Some(Value::Map(was)) if sprig::changes_its_map(name) => {
                Called::Changed { was: Arc::clone(was), now: value }
            }
            Some(_) | None => Called::Value(value),
        })
    }
}

/// The text of an argument that its signature makes a text.
fn arg(args: &[Value], place: usize) -> &str {
    args.get(place).and_then(Value::as_text).unwrap_or_default()
}
