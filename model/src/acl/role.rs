//! ACL roles: several policies under one name.

use serde::{Deserialize, Serialize};

use super::hash::Hasher;
use super::{DESCRIPTION_BYTES_MAX, is_acl_name};
use crate::job::Errors;
use crate::{Blob, RoleId, Str};

/// A named list of policies.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AclRole {
    #[serde(rename = "ID")]
    pub id: RoleId,
    /// Name, unique among roles.
    pub name: Str,
    pub description: Str,
    /// Links to policies; a link to a missing policy grants nothing.
    pub policies: Option<Vec<AclRolePolicyLink>>,
    pub hash: Option<Blob>,
    pub create_index: u64,
    pub modify_index: u64,
}

/// The name of a policy that a role includes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AclRolePolicyLink {
    pub name: Str,
}

impl AclRole {
    /// The names of the role's policies.
    pub fn policy_names(&self) -> impl Iterator<Item = &Str> {
        self.policies.iter().flatten().map(|link| &link.name)
    }

    /// Hash of the role's content.
    pub fn compute_hash(&self) -> Blob {
        let mut hasher = Hasher::default();
        hasher.texts([self.name.as_str(), &self.description]);
        hasher.texts(self.policy_names().map(Str::as_str));
        hasher.finish()
    }

    /// Returns everything that is wrong with the role.
    pub fn validate(&self) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if !is_acl_name(&self.name) {
            errors.push(format!("invalid name '{}'", self.name));
        }
        if self.description.len() > DESCRIPTION_BYTES_MAX {
            errors.push(format!("description longer than {DESCRIPTION_BYTES_MAX}"));
        }
        if self.policy_names().next().is_none() {
            errors.push("at least one policy should be specified");
        }
        errors.into_result()
    }
}
