//! Request bodies of tokens and roles. Ids are strings, because an error quotes an invalid id.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use songline_lang::{duration, go_json};
use songline_model::{Blob, Dur, Str, Time};
use songline_wire::go_time::GoTime;

use crate::error::ApiError;
use crate::http::call::Call;

/// `ACLToken` in a body.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct AclToken {
    #[serde(rename = "AccessorID")]
    pub(super) accessor_id: String,
    pub(super) name: Str,
    #[serde(rename = "Type")]
    pub(super) kind: Str,
    pub(super) policies: Option<Vec<Str>>,
    pub(super) roles: Option<Vec<Option<AclTokenRoleLink>>>,
    pub(super) global: bool,
    expiration_time: GoTime,
    #[serde(rename = "ExpirationTTL")]
    expiration_ttl: Value,
    #[serde(rename = "SecretID")]
    _secret_id: String,
    #[serde(rename = "Hash")]
    _hash: Option<Blob>,
    #[serde(rename = "CreateTime")]
    _create_time: GoTime,
    #[serde(rename = "CreateIndex")]
    _create_index: u64,
    #[serde(rename = "ModifyIndex")]
    _modify_index: u64,
}

/// `ACLTokenRoleLink` in a body.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct AclTokenRoleLink {
    #[serde(rename = "ID")]
    pub(super) id: String,
    pub(super) name: String,
}

/// `ACLRole` in a body.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct AclRole {
    #[serde(rename = "ID")]
    pub(super) id: String,
    pub(super) name: Str,
    pub(super) description: Str,
    pub(super) policies: Option<Vec<Option<AclRolePolicyLink>>>,
    #[serde(rename = "Hash")]
    _hash: Option<Blob>,
    #[serde(rename = "CreateIndex")]
    _create_index: u64,
    #[serde(rename = "ModifyIndex")]
    _modify_index: u64,
}

/// `ACLRolePolicyLink` in a body.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct AclRolePolicyLink {
    pub(super) name: Str,
}

impl AclToken {
    /// Lifetime of the token: a duration string, or nanoseconds. Other values count as zero.
    pub(super) fn ttl(&self) -> Result<Dur, ApiError> {
        match &self.expiration_ttl {
            Value::String(text) if text.is_empty() => Ok(Dur::ZERO),
            Value::String(text) => {
                duration::parse(text).map(Dur).map_err(|error| ApiError::bad_request(error.to_string()))
            }
            // A float that is too large saturates.
            Value::Number(number) => {
                Ok(Dur(number.as_i64().or_else(|| number.as_f64().map(|float| float as i64)).unwrap_or(0)))
            }
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Ok(Dur::ZERO),
        }
    }

    /// Expiration time of the token. Go's zero time, in the year 1, means never.
    pub(super) fn expiration(&self) -> Option<Time> {
        self.expiration_time.0
    }
}

/// Entries of a list, none of which may be null.
pub(super) fn entries<'a, T>(what: &str, list: Option<&'a Vec<Option<T>>>) -> Result<Vec<&'a T>, ApiError> {
    let entry =
        |entry: &'a Option<T>| entry.as_ref().ok_or_else(|| ApiError::bad_request(format!("{what} must not be null")));
    list.into_iter().flatten().map(entry).collect()
}

/// Parses the body as JSON. Error texts name ACL types as Go does.
pub(super) async fn json<S, T: DeserializeOwned>(call: &mut Call<S>) -> Result<T, ApiError> {
    let body = call.bytes().await?;
    if body.is_empty() {
        return Err(ApiError::bad_request("Request body is empty"));
    }
    go_json::from_slice(&body).map_err(|error| ApiError::bad_request(go_text(&error)))
}

/// Text of an error in a body, with ACL types named as Go does.
pub(super) fn go_text(error: &go_json::Error) -> String {
    match error {
        go_json::Error::Type { .. } => error.to_string().replace("Acl", "ACL"),
        go_json::Error::Eof | go_json::Error::UnexpectedEof | go_json::Error::Syntax(_) | go_json::Error::Custom(_) => {
            error.to_string()
        }
    }
}
