//! Claims of a login under the names that an auth method maps them to.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use songline_model::AclAuthMethodConfig;

use crate::jwt::Claims;

/// A claim can not be used; displays as the reference's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// A single-valued claim is a list or an object.
    #[error("error converting claim '{claim}' to string from unknown type {kind}")]
    NotAScalar {
        /// Name of the claim.
        claim: String,
        /// Kind of the claim, as Go names it.
        kind: &'static str,
    },
    /// A multi-valued claim is an object.
    #[error("{0:?} list claim could not be converted to string list")]
    NotAList(String),
    /// An element of a multi-valued claim is not a text.
    #[error("value {value} in {claim:?} list claim could not be parsed as string")]
    NotAText {
        /// The element, as Go prints it.
        value: String,
        /// Name of the claim.
        claim: String,
    },
}

/// Identity of a login by the auth method's mappings. Selectors are tested on it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Identity {
    /// Single-valued claims.
    value: BTreeMap<String, String>,
    /// Multi-valued claims.
    list: BTreeMap<String, Vec<String>>,
    /// Names of all single-valued claims, including absent ones.
    #[serde(skip)]
    names: Vec<String>,
}

impl Identity {
    /// Maps the claims of a login as the method configures.
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

    /// The value of `${name}` in a binding rule, in lower case. `None`: no mapping has that name.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let name = name.strip_prefix("value.")?;
        let known = self.names.iter().any(|known| known == name);
        known.then(|| self.value.get(name).map(|text| text.to_lowercase()).unwrap_or_default())
    }
}

/// Adds the provider's user info to the claims of the id token. The id token's own subject and issuer are kept.
pub fn overlay(claims: &mut Claims, user: Claims) {
    for (name, value) in user {
        if name != "iss" && name != "sub" {
            claims.insert(name, value);
        }
    }
}

/// Finds a top-level claim, or a nested one by a path that begins with a slash. A null claim is absent.
fn find<'a>(claims: &'a Claims, path: &str) -> Option<&'a Value> {
    let Some(below) = path.strip_prefix('/') else { return claims.get(path).filter(|value| !value.is_null()) };
    let (first, rest) = below.find('/').map_or((below, ""), |at| below.split_at(at));
    let first = first.replace("~1", "/").replace("~0", "~");
    claims.get(&first)?.pointer(rest).filter(|value| !value.is_null())
}

fn list(claim: &str, found: &Value) -> Result<Vec<String>, ClaimError> {
    let element = |value: &Value| {
        scalar(value).ok_or_else(|| ClaimError::NotAText { value: printed(value), claim: claim.to_owned() })
    };
    let texts: Vec<String> = match found {
        Value::Array(values) => values.iter().map(element).collect::<Result<_, _>>()?,
        Value::Object(_) => return Err(ClaimError::NotAList(claim.to_owned())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => vec![element(found)?],
    };
    Ok(texts.into_iter().filter(|text| !text.is_empty()).collect())
}

/// A single value as text. Integers keep all digits, since long ids may differ in the last one only. Fractions are
/// truncated.
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
            let members: Vec<String> =
                sorted.into_iter().map(|(name, value)| format!("{name}:{}", printed(value))).collect();
            format!("map[{}]", members.join(" "))
        }
    }
}
