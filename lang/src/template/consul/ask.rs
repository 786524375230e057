//! Functions that ask the world.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ConsulQuestion, Functions, Question, VariableName, VaultQuestion, arg, moment};
use crate::template::value::text_of_bytes;
use crate::template::{Signature, Type, Value};

/// Parameters of the functions that ask.
pub(super) fn signature(name: &str) -> Option<Signature> {
    let (params, rest): (&'static [Type], _) = match name {
        "env" | "mustEnv" | "file" | "key" | "keyExists" | "ls" | "safeLs" | "tree" | "safeTree" => {
            (&[Type::Text], None)
        }
        "envOrDefault" | "keyOrDefault" => (&[Type::Text, Type::Text], None),
        "nomadVar" | "nomadVarExists" => (&[Type::Text], None),
        "nomadVarList" | "nomadVarListSafe" | "nomadServices" => (&[], Some(Type::Text)),
        "nomadService" => (&[], Some(Type::Any)),
        "service" | "connect" | "services" | "node" | "nodes" => (&[], Some(Type::Text)),
        "datacenters" => (&[], Some(Type::Bool)),
        "caLeaf" | "caRoots" => (&[], Some(Type::Any)),
        "secret" | "pkiCert" => (&[Type::Text], Some(Type::Text)),
        "secrets" | "sockaddr" => (&[Type::Text], None),
        "timestamp" => (&[], Some(Type::Text)),
        "scratch" => (&[], None),
        "executeTemplate" | "plugin" => (&[Type::Text], Some(Type::Any)),
        "writeToFile" => (&[Type::Text, Type::Text, Type::Text, Type::Text], Some(Type::Text)),
        _ => return None,
    };
    Some(Signature { params, rest })
}

impl Functions<'_> {
    /// Calls a function that asks.
    pub(super) fn asking(&self, name: &str, args: &[Value]) -> Result<Value, String> {
        let first = arg(args, 0);
        let empty = || Value::list(Vec::new());
        match name {
            "env" => Ok(Value::text(self.world.env(first).unwrap_or_default())),
            "envOrDefault" => Ok(Value::text(self.world.env(first).unwrap_or_else(|| arg(args, 1).to_owned()))),
            "mustEnv" => match self.world.env(first) {
                Some(value) if !value.is_empty() => Ok(Value::text(value)),
                Some(_) | None => Err(format!("required environment variable {first} is empty")),
            },
            "file" if first.is_empty() => Ok(Value::text("")),
            "file" => self.world.file(first).map(|bytes| Value::text(text_of_bytes(&bytes))),
            "timestamp" => moment::timestamp(self.world.now(), args),
            "scratch" => Ok(Value::Object(Arc::clone(&self.scratch) as Arc<dyn crate::template::Object>)),
            "nomadVar" if first.is_empty() => Ok(Value::Nil),
            "nomadVar" => Ok(self.ask(Question::Variable(self.variable(first))).unwrap_or(Value::Missing)),
            "nomadVarExists" => {
                let found = self.ask(Question::VariableExists(self.variable(first)));
                Ok(found.unwrap_or(Value::Bool(false)))
            }
            "nomadVarList" | "nomadVarListSafe" => {
                Ok(self.ask(Question::VariableList(self.variable(first))).unwrap_or_else(empty))
            }
            "nomadService" => self.service(args),
            "nomadServices" => Ok(self.ask(Question::Services).unwrap_or_else(empty)),
            "plugin" | "writeToFile" | "sockaddr" => Err("function is disabled".to_owned()),
            "secret" if first.is_empty() => Ok(Value::Nil),
            "secrets" if first.is_empty() => Ok(empty()),
            "pkiCert" => Err("function is not offered, secret issues certificates too".to_owned()),
            "secret" | "secrets" => {
                let path = first.trim_matches('/').to_owned();
                let question = match (name, args.len()) {
                    ("secrets", _) => VaultQuestion::List(path),
                    (_, 1) => VaultQuestion::Read(path),
                    _ => VaultQuestion::Write { path, data: pairs(args.get(1..).unwrap_or_default())? },
                };
                let otherwise = if name == "secrets" { empty() } else { Value::Missing };
                Ok(self.ask(Question::Vault(question)).unwrap_or(otherwise))
            }
            _ => self.consul(name, args),
        }
    }

    /// `PATH`, `PATH@NAMESPACE` or `PATH@NAMESPACE.REGION`.
    fn variable(&self, name: &str) -> VariableName {
        let (path, place) = name.split_once('@').unwrap_or((name, ""));
        let (namespace, region) = place.split_once('.').unwrap_or((place, ""));
        let or = |given: &str, default: &str| if given.is_empty() { default.to_owned() } else { given.to_owned() };
        VariableName {
            path: path.trim_matches('/').to_owned(),
            namespace: or(namespace, self.namespace),
            region: or(region, self.region),
        }
    }

    fn service(&self, args: &[Value]) -> Result<Value, String> {
        let question = match args {
            [Value::Text(name)] => Question::Service { name: name.to_string(), choose: None },
            [Value::Int(count), Value::Text(key), Value::Text(name)] => {
                Question::Service { name: name.to_string(), choose: Some(format!("{count}|{key}")) }
            }
            _ => return Err("expected arguments <service> or <count> <key> <service>".to_owned()),
        };
        Ok(self.ask(question).unwrap_or_else(|| Value::list(Vec::new())))
    }

    fn consul(&self, name: &str, args: &[Value]) -> Result<Value, String> {
        let first = arg(args, 0);
        let list = || Value::list(Vec::new());
        let joined = |by: &str| args.iter().filter_map(Value::as_text).collect::<Vec<_>>().join(by);
        let (question, otherwise) = match name {
            "key" if first.is_empty() => return Ok(Value::text("")),
            "key" => (ConsulQuestion::key(first, true)?, Value::text("")),
            "keyOrDefault" => return self.key_or_default(first, arg(args, 1)),
            "keyExists" if first.is_empty() => return Ok(Value::Bool(false)),
            "keyExists" => (ConsulQuestion::key_exists(first)?, Value::Bool(false)),
            "ls" | "safeLs" | "tree" | "safeTree" => return self.keys(name, first),
            "service" | "connect" if first.is_empty() => return Ok(list()),
            "service" => (ConsulQuestion::health(&joined("|"), false)?, list()),
            "connect" => (ConsulQuestion::health(&joined("|"), true)?, list()),
            "services" => (ConsulQuestion::services(&joined(""))?, list()),
            "node" => (ConsulQuestion::node(&joined(""))?, Value::Missing),
            "nodes" => (ConsulQuestion::nodes(&joined(""))?, list()),
            "datacenters" => match args {
                [] => (ConsulQuestion::Datacenters { reachable: false }, list()),
                [Value::Bool(reachable)] => (ConsulQuestion::Datacenters { reachable: *reachable }, list()),
                _ => {
                    let given = args.len();
                    return Err(format!("datacenters: wrong number of arguments, expected 0 or 1, but got {given}"));
                }
            },
            "caRoots" => (ConsulQuestion::Mesh("connect.caroots".to_owned()), list()),
            _ => (ConsulQuestion::Mesh(format!("connect.caleaf({first})")), Value::Missing),
        };
        Ok(self.ask(Question::Consul(question)).unwrap_or(otherwise))
    }

    /// The value of a key; the default for a key that is empty or absent, and while there is no answer.
    fn key_or_default(&self, key: &str, default: &str) -> Result<Value, String> {
        let answer = match key {
            "" => None,
            key => self.ask(Question::Consul(ConsulQuestion::key(key, false)?)),
        };
        Ok(answer.filter(|value| value.as_text().is_some_and(|text| !text.is_empty())).unwrap_or(Value::text(default)))
    }

    /// Keys below a prefix: those of the first level for `ls`, all for `tree`. Folders are left out. A list without
    /// elements is no answer for the functions that are safe.
    fn keys(&self, name: &str, prefix: &str) -> Result<Value, String> {
        if prefix.is_empty() {
            return Ok(Value::list(Vec::new()));
        }
        let question = Question::Consul(ConsulQuestion::keys(prefix)?);
        let levels = matches!(name, "tree" | "safeTree");
        let wanted = |pair: &&Value| {
            let key = field(pair, "Key");
            !key.is_empty() && !key.ends_with('/') && (levels || !key.contains('/'))
        };
        let all = self.ask(question.clone()).and_then(|answer| answer.items()).unwrap_or_default();
        let found: Vec<Value> = all.items.iter().filter(wanted).cloned().collect();
        if found.is_empty() && matches!(name, "safeLs" | "safeTree") {
            self.noted.borrow_mut().missing.insert(question);
        }
        Ok(Value::list(found))
    }
}

/// A field of a structure, as text.
fn field(of: &Value, name: &str) -> String {
    let Value::Record(record) = of else { return String::new() };
    let found = record.fields.iter().find(|(known, _)| *known == name);
    found.and_then(|(_, value)| value.as_text()).unwrap_or_default().to_owned()
}

/// Arguments `KEY=VALUE`.
fn pairs(args: &[Value]) -> Result<BTreeMap<String, String>, String> {
    let pair = |arg: &Value| {
        let text = arg.as_text().unwrap_or_default();
        let (key, value) = text.split_once('=').ok_or_else(|| format!("not k=v pair {text:?}"))?;
        Ok((key.trim().to_owned(), value.trim().to_owned()))
    };
    args.iter().map(pair).collect()
}
