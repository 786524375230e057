//! Binding rules: what a login of an auth method may. Evaluating a selector is not here.

use serde::{Deserialize, Serialize};

use super::hash::Hasher;
use super::{DESCRIPTION_BYTES_MAX, kinds};
use crate::job::Errors;
use crate::{BindingRuleId, Blob, Str, Time};

kinds!(
    /// What a login is bound to.
    AclBindKind { Role = "role", Policy = "policy", Management = "management" }
);

/// `ACLBindingRule` of the wire.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AclBindingRule {
    #[serde(rename = "ID")]
    pub id: BindingRuleId,
    pub description: Str,
    /// Name of the auth method.
    pub auth_method: Str,
    /// Which logins; empty means all.
    pub selector: Str,
    #[serde(rename = "BindType")]
    pub bind_kind: AclBindKind,
    /// Name of the role or policy, with claims filled in.
    pub bind_name: Str,
    pub hash: Option<Blob>,
    pub create_time: Time,
    pub modify_time: Time,
    pub create_index: u64,
    pub modify_index: u64,
}

impl AclBindingRule {
    /// The hash of its content.
    pub fn compute_hash(&self) -> Blob {
        let mut hasher = Hasher::default();
        hasher.text(&self.id.to_string());
        hasher.texts([self.description.as_str(), &self.auth_method, &self.selector, self.bind_kind.as_str(), &self.bind_name]);
        hasher.finish()
    }

    /// Everything that is wrong with it; `selector` is what reading its selector said.
    pub fn validate(&self, selector: Result<(), String>) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if self.auth_method.is_empty() {
            errors.push("auth method is missing");
        }
        if self.description.len() > DESCRIPTION_BYTES_MAX {
            errors.push(format!("description longer than {DESCRIPTION_BYTES_MAX}"));
        }
        match &self.bind_kind {
            AclBindKind::Role | AclBindKind::Policy if self.bind_name.is_empty() => errors.push("bind name is missing"),
            AclBindKind::Management if !self.bind_name.is_empty() => errors.push("bind name should be empty"),
            AclBindKind::Other(word) if word.is_empty() => errors.push("bind type is missing"),
            AclBindKind::Other(word) => errors.push(format!("unsupported bind type: {:?}", word.as_str())),
            AclBindKind::Role | AclBindKind::Policy | AclBindKind::Management => {}
        }
        if let Err(error) = selector {
            errors.push(format!("selector is invalid: {error}"));
        }
        errors.into_result()
    }
}
