//! Binding rules: the roles and policies that a login of an auth method receives. Selectors are evaluated in another
//! crate.

use serde::{Deserialize, Serialize};

use super::hash::Hasher;
use super::{DESCRIPTION_BYTES_MAX, kinds};
use crate::job::Errors;
use crate::{BindingRuleId, Blob, Str, Time};

kinds!(
    /// Kind of grant that a rule gives to a login.
    AclBindKind { Role = "role", Policy = "policy", Management = "management" }
);

/// A rule that grants a role, a policy or management to the logins that match its selector.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AclBindingRule {
    #[serde(rename = "ID")]
    pub id: BindingRuleId,
    pub description: Str,
    /// Name of the auth method.
    pub auth_method: Str,
    /// Selector of the logins that the rule applies to; empty selects all.
    pub selector: Str,
    #[serde(rename = "BindType")]
    pub bind_kind: AclBindKind,
    /// Name of the role or policy; may contain claims to interpolate.
    pub bind_name: Str,
    pub hash: Option<Blob>,
    pub create_time: Time,
    pub modify_time: Time,
    pub create_index: u64,
    pub modify_index: u64,
}

impl AclBindingRule {
    /// Hash of the rule's content.
    pub fn compute_hash(&self) -> Blob {
        let mut hasher = Hasher::default();
        hasher.text(&self.id.to_string());
        hasher.texts([
            self.description.as_str(),
            &self.auth_method,
            &self.selector,
            self.bind_kind.as_str(),
            &self.bind_name,
        ]);
        hasher.finish()
    }

    /// Returns everything that is wrong with the rule; `selector` is the result of parsing its selector.
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
