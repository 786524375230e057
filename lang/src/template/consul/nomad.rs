//! Variables and services as values of templates.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::ServiceRegistration;

use super::{Moment, moment};
use crate::template::{Map, Object, Type, Value};

/// A variable as templates see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variable {
    /// Its path.
    pub path: String,
    /// Its namespace.
    pub namespace: String,
    /// Index at which it was created.
    pub create_index: u64,
    /// Index of its last change.
    pub modify_index: u64,
    /// Time at which it was created, in nanoseconds since 1970.
    pub create_time: i64,
    /// Time of its last change, in nanoseconds since 1970.
    pub modify_time: i64,
    /// Its texts by key. Empty in lists.
    pub items: BTreeMap<String, String>,
}

impl Variable {
    /// The value of `nomadVar`.
    pub fn value(&self) -> Value {
        Value::Object(Arc::new(Items(Arc::new(self.clone()))))
    }

    /// An element of the value of `nomadVarList`.
    pub fn listed(&self) -> Value {
        Value::Object(Arc::new(Meta(Arc::new(self.clone()))))
    }

    fn record(&self, of: &'static str, items: bool) -> Value {
        let uint = Value::Uint;
        let mut fields = vec![
            ("Namespace", Value::text(&self.namespace)),
            ("Path", Value::text(&self.path)),
            ("CreateIndex", uint(self.create_index)),
            ("ModifyIndex", uint(self.modify_index)),
            ("CreateTime", time(self.create_time)),
            ("ModifyTime", time(self.modify_time)),
        ];
        if items {
            fields.push(("Items", self.value()));
        }
        Value::record(of, fields)
    }
}

fn time(nanos: i64) -> Value {
    let (seconds, nanos) = (nanos.div_euclid(1_000_000_000), nanos.rem_euclid(1_000_000_000));
    let moment = Moment { seconds, nanos: u32::try_from(nanos).unwrap_or_default() };
    Value::text(moment::format(moment, "2006-01-02 15:04:05.999999999 -0700 MST"))
}

/// The items of a variable.
#[derive(Debug)]
struct Items(Arc<Variable>);

impl Items {
    fn item(&self, key: &str, text: &str) -> Value {
        Value::Object(Arc::new(Item { of: Arc::clone(&self.0), key: key.to_owned(), text: text.to_owned() }))
    }
}

impl Object for Items {
    fn of(&self) -> &'static str {
        "*dependency.NomadVarItems"
    }

    fn plain(&self) -> Value {
        let items = self.0.items.iter().map(|(key, text)| (key.as_str().into(), self.item(key, text))).collect();
        Value::Map(Arc::new(Map::new("dependency.NomadVarItem", self.item("", ""), items)))
    }

    fn method(&self, name: &str) -> Option<&'static [Type]> {
        matches!(name, "Keys" | "Values" | "Tuples" | "ItemsMap" | "Metadata" | "Parent").then_some(&[])
    }

    fn call(&self, name: &str, _: &[Value]) -> Result<Value, String> {
        let items = &self.0.items;
        Ok(match name {
            "Keys" => Value::texts(items.keys()),
            "Values" => Value::texts(items.values()),
            "Tuples" => {
                let tuple = |(key, text): (&String, &String)| {
                    Value::record(
                        "struct { K string; V string }",
                        vec![("K", Value::text(key)), ("V", Value::text(text))],
                    )
                };
                Value::list(items.iter().map(tuple).collect())
            }
            "ItemsMap" => {
                Value::map(items.iter().map(|(key, text)| (key.as_str().into(), Value::text(text))).collect())
            }
            "Metadata" => self.0.listed(),
            _ => self.0.record("*dependency.NomadVariable", true),
        })
    }
}

/// One item of a variable.
#[derive(Debug)]
struct Item {
    of: Arc<Variable>,
    key: String,
    text: String,
}

impl Object for Item {
    fn of(&self) -> &'static str {
        "dependency.NomadVarItem"
    }

    fn plain(&self) -> Value {
        let fields = vec![("Key", Value::text(&self.key)), ("Value", Value::text(&self.text))];
        Value::record("dependency.NomadVarItem", fields)
    }

    fn method(&self, name: &str) -> Option<&'static [Type]> {
        matches!(name, "Metadata" | "Parent" | "String").then_some(&[])
    }

    fn call(&self, name: &str, _: &[Value]) -> Result<Value, String> {
        Ok(match name {
            "Metadata" => self.of.listed(),
            "String" => Value::text(&self.text),
            _ => self.of.record("*dependency.NomadVariable", true),
        })
    }

    fn printed(&self) -> Option<String> {
        Some(self.text.clone())
    }
}

/// A variable without its items.
#[derive(Debug)]
struct Meta(Arc<Variable>);

impl Object for Meta {
    fn of(&self) -> &'static str {
        "*dependency.NomadVarMeta"
    }

    fn plain(&self) -> Value {
        self.0.record("dependency.NomadVarMeta", false)
    }

    fn method(&self, _: &str) -> Option<&'static [Type]> {
        None
    }

    fn call(&self, name: &str, _: &[Value]) -> Result<Value, String> {
        Err(format!("{name} is no method"))
    }

    fn printed(&self) -> Option<String> {
        Some(self.0.path.clone())
    }
}

/// A registration in the value of `nomadService`.
pub fn service(row: &ServiceRegistration) -> Value {
    Value::record(
        "*dependency.NomadService",
        vec![
            ("ID", Value::text(&*row.id)),
            ("Name", Value::text(&*row.service_name)),
            ("Node", Value::text(row.node_id.to_string())),
            ("Address", Value::text(&*row.address)),
            ("Port", Value::Int(row.port)),
            ("Datacenter", Value::text(&*row.datacenter)),
            ("Tags", tags(row.tags.iter().map(|tag| &**tag))),
            ("JobID", Value::text(&*row.job_id)),
            ("AllocID", Value::text(row.alloc_id.to_string())),
        ],
    )
}

/// A name with its tags in the value of `nomadServices`.
pub fn service_name<'a>(name: &str, all: impl IntoIterator<Item = &'a str>) -> Value {
    Value::record("*dependency.NomadServicesSnippet", vec![("Name", Value::text(name)), ("Tags", tags(all))])
}

/// Tags of a service, as a list with the method `Contains`.
pub(super) fn tags<'a>(all: impl IntoIterator<Item = &'a str>) -> Value {
    Value::Object(Arc::new(Tags(all.into_iter().map(str::to_owned).collect())))
}

/// Tags of a service.
#[derive(Debug)]
struct Tags(Vec<String>);

impl Object for Tags {
    fn of(&self) -> &'static str {
        "dependency.ServiceTags"
    }

    fn plain(&self) -> Value {
        Value::texts(&self.0)
    }

    fn method(&self, name: &str) -> Option<&'static [Type]> {
        (name == "Contains").then_some(&[Type::Text])
    }

    fn call(&self, _: &str, args: &[Value]) -> Result<Value, String> {
        Ok(Value::Bool(self.0.iter().any(|tag| tag == super::arg(args, 0))))
    }
}
