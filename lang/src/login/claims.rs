//! Claims by the names that an auth method gives them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use songline_model::AclAuthMethodConfig;

use crate::jwt::Claims;

/// Why a claim cannot be used; displays as the reference's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// A claim of one value is a list or an object.
    #[error("error converting claim '{claim}' to string from unknown type {kind}")]
    NotAScalar {
        /// Which.
        claim: String,
        /// What it is, in Go's words.
        kind: &'static str,
    },
    /// A claim of several values is an object.
    #[error("{0:?} list claim could not be converted to string list")]
    NotAList(String),
    /// An element of a claim of several values is no text.
    #[error("value {value} in {claim:?} list claim could not be parsed as string")]
    NotAText {
        /// The element, as Go prints it.
        value: String,
        /// Which.
        claim: String,
    },
}

/// Who has logged in, as far as the auth method's mappings tell. It is what selectors look at.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Identity {
    /// Claims of one value.
    value: BTreeMap<String, String>,
    /// Claims of several values.
    list: BTreeMap<String, Vec<String>>,
    /// The names of all claims of one value, there or not.
    #[serde(skip)]
    names: Vec<String>,
}

impl Identity {
    /// Names the claims of a login as the method says.
    pub fn of(claims: &Claims, config: &AclAuthMethodConfig) -> Result<Self, ClaimError> {
        let mut identity = Self::default();
        for (claim, name) in config.claim_mappings.iter().flatten() {
            identity.names.push(name.to_string());
            if let Some(found) = find(claims, claim) {
                let kind = go_kind(found);
                let text = scalar(found).ok_or_else(|| ClaimError::NotAScalar { claim: claim.to_string(), kind })?;
                identity.value.insert(name.to_string(), text);
            }
        }
        for (claim, name) in config.list_claim_mappings.iter().flatten() {
            if let Some(found) = find(claims, claim) {
                identity.list.insert(name.to_string(), list(claim, found)?);
            }
        }
        Ok(identity)
    }

    /// What `${name}` of a binding rule stands for, in small letters. `None`: no mapping has that name.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let name = name.strip_prefix("value.")?;
        let known = self.names.iter().any(|known| known == name);
        known.then(|| self.value.get(name).map(|text| text.to_lowercase()).unwrap_or_default())
    }
}

/// Adds what a provider says of a user to what the id token says. The token has the last word on who the user is, and on who says so.
pub fn overlay(claims: &mut Claims, user: Claims) {
    for (name, value) in user {
        if name != "iss" && name != "sub" {
            claims.insert(name, value);
        }
    }
}

/// A top-level claim, or with a slash before it one further down. One that is null is not there.
fn find<'a>(claims: &'a Claims, path: &str) -> Option<&'a Value> {
    let Some(below) = path.strip_prefix('/') else { return claims.get(path).filter(|value| !value.is_null()) };
    let (first, rest) = below.find('/').map_or((below, ""), |at| below.split_at(at));
    let first = first.replace("~1", "/").replace("~0", "~");
    claims.get(&first)?.pointer(rest).filter(|value| !value.is_null())
}

fn list(claim: &str, found: &Value) -> Result<Vec<String>, ClaimError> {
    let element = |value: &Value| scalar(value).ok_or_else(|| ClaimError::NotAText { value: printed(value), claim: claim.to_owned() });
    let texts: Vec<String> = match found {
        Value::Array(values) => values.iter().map(element).collect::<Result<_, _>>()?,
        Value::Object(_) => return Err(ClaimError::NotAList(claim.to_owned())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => vec![element(found)?],
    };
    Ok(texts.into_iter().filter(|text| !text.is_empty()).collect())
}

/// One value as text. Integers keep all their digits: two long ids that differ in the last one are two users. Fractions are cut off.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Number(number) if number.is_i64() || number.is_u64() => Some(number.to_string()),
        Value::Number(number) => number.as_f64().map(|float| (float as i64).to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as Go prints one of any type.
fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(values) => format!("[{}]", values.iter().map(printed).collect::<Vec<_>>().join(" ")),
        Value::Object(members) => {
            let sorted: BTreeMap<&String, &Value> = members.iter().collect();
            let members: Vec<String> = sorted.into_iter().map(|(name, value)| format!("{name}:{}", printed(value))).collect();
            format!("map[{}]", members.join(" "))
        }
    }
}
