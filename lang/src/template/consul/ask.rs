//! Functions that ask the world.

use std::sync::Arc;

use super::{Functions, Question, VariableName, arg, moment};
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
        "service" | "connect" | "services" | "node" | "nodes" | "datacenters" | "caLeaf" | "caRoots" => {
            (&[], Some(Type::Any))
        }
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
            "secret" | "secrets" | "pkiCert" => {
                let path = first.trim_matches('/');
                let question = match (name, args.len()) {
                    ("secrets", _) => format!("vault.list({path})"),
                    ("pkiCert", _) => format!("vault.pki({path})"),
                    (_, 1) => format!("vault.read({path})"),
                    _ => format!("vault.write({path})"),
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
        let named = |what: &str| if first.is_empty() { what.to_owned() } else { format!("{what}({first})") };
        let (question, otherwise) = match name {
            "key" => (format!("kv.block({first})"), Value::text("")),
            "keyOrDefault" => (format!("kv.get({first})"), Value::text(arg(args, 1))),
            "keyExists" => (format!("kv.exists({first})"), Value::Bool(false)),
            "ls" | "safeLs" | "tree" | "safeTree" => (format!("kv.list({first})"), Value::list(Vec::new())),
            "service" => (health("health.service", first), Value::list(Vec::new())),
            "connect" => (health("health.connect", first), Value::list(Vec::new())),
            "services" => (named("catalog.services"), Value::list(Vec::new())),
            "node" => (named("catalog.node"), Value::Missing),
            "nodes" => (named("catalog.nodes"), Value::list(Vec::new())),
            "datacenters" => ("catalog.datacenters".to_owned(), Value::list(Vec::new())),
            "caRoots" => ("connect.caroots".to_owned(), Value::list(Vec::new())),
            _ => (format!("connect.caleaf({first})"), Value::Missing),
        };
        Ok(self.ask(Question::Consul(question)).unwrap_or(otherwise))
    }
}

fn health(what: &str, name: &str) -> String {
    if name.contains('|') { format!("{what}({name})") } else { format!("{what}({name}|passing)") }
}
