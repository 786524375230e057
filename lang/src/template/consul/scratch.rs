//! `scratch`: values that a template keeps while it is rendered.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::template::{Object, Type, Value};

/// Values by name.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    values: Mutex<BTreeMap<String, Value>>,
}

impl Object for Scratch {
    fn of(&self) -> &'static str {
        "*template.Scratch"
    }

    fn plain(&self) -> Value {
        Value::record("template.Scratch", Vec::new())
    }

    fn method(&self, name: &str) -> Option<&'static [Type]> {
        Some(match name {
            "Key" | "Get" | "MapValues" => &[Type::Text],
            "Set" | "SetX" => &[Type::Text, Type::Any],
            "MapSet" | "MapSetX" => &[Type::Text, Type::Text, Type::Any],
            _ => return None,
        })
    }

    fn call(&self, name: &str, args: &[Value]) -> Result<Value, String> {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let key = super::arg(args, 0).to_owned();
        let given = args.last().cloned().unwrap_or_default();
        match name {
            "Key" => return Ok(Value::Bool(values.contains_key(&key))),
            "Get" => return Ok(values.get(&key).cloned().unwrap_or(Value::Nil)),
            "Set" => drop(values.insert(key, given)),
            "SetX" => drop(values.entry(key).or_insert(given)),
            "MapValues" => {
                let Some(Value::Map(map)) = values.get(&key) else {
                    return if values.contains_key(&key) { Err(no_map(&key)) } else { Ok(Value::Nil) };
                };
                return Ok(Value::list(map.items.values().cloned().collect()));
            }
            _ => {
                let mut items = match values.get(&key) {
                    None => BTreeMap::new(),
                    Some(Value::Map(map)) => map.items.clone(),
                    Some(_) => return Err(no_map(&key)),
                };
                let field: Arc<str> = super::arg(args, 1).into();
                if name == "MapSet" || !items.contains_key(&field) {
                    items.insert(field, given);
                }
                values.insert(key, Value::map(items));
            }
        }
        Ok(Value::text(""))
    }
}

fn no_map(key: &str) -> String {
    format!("{key:?} is not a map")
}
