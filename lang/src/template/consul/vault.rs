//! Secrets of Vault as values of templates.

use crate::template::Value;

/// A secret as Vault answers it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Secret {
    /// Id of the request.
    pub request_id: String,
    /// Id of its lease; empty without one.
    pub lease_id: String,
    /// Time of its lease in seconds.
    pub lease_duration: u64,
    /// Whether its lease can be renewed.
    pub renewable: bool,
    /// Its data.
    pub data: serde_json::Map<String, serde_json::Value>,
}

impl Secret {
    /// The value of `secret`.
    pub fn value(&self) -> Value {
        let data = self.data.iter().map(|(key, item)| (key.as_str().into(), exact(item))).collect();
        let duration = i64::try_from(self.lease_duration).unwrap_or(i64::MAX);
        Value::record(
            "dependency.Secret",
            vec![
                ("RequestID", Value::text(&self.request_id)),
                ("LeaseID", Value::text(&self.lease_id)),
                ("LeaseDuration", Value::Int(duration)),
                ("Renewable", Value::Bool(self.renewable)),
                ("Data", Value::map(data)),
            ],
        )
    }

    /// All texts in its data.
    pub fn texts(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.data.values().for_each(|item| texts(item, &mut found));
        found
    }
}

/// A value of JSON whose whole numbers stay whole: a lease of 2764800 s is not `2.7648e+06`.
fn exact(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Number(number) => number.as_i64().map_or_else(|| Value::of_json(json), Value::Int),
        serde_json::Value::Array(items) => Value::list(items.iter().map(exact).collect()),
        serde_json::Value::Object(items) => {
            Value::map(items.iter().map(|(key, item)| (key.as_str().into(), exact(item))).collect())
        }
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::String(_) => Value::of_json(json),
    }
}

fn texts(json: &serde_json::Value, found: &mut Vec<String>) {
    match json {
        serde_json::Value::String(text) => found.push(text.clone()),
        serde_json::Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        serde_json::Value::Object(items) => items.values().for_each(|item| texts(item, found)),
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {}
    }
}
