//! ACL tokens: the permissions that a secret stands for. Token lookup and permission checks are in other crates.

use serde::{Deserialize, Serialize};

use super::hash::Hasher;
use super::{SecretId, kinds};
use crate::job::Errors;
use crate::{AccessorId, Blob, Dur, RoleId, Str, Time};

/// Longest name of a token, in bytes.
const TOKEN_NAME_BYTES_MAX: usize = 256;

kinds!(
    /// Extent of a token's permissions: those of its policies, or all.
    AclTokenKind { Client = "client", Management = "management" }
);

/// An ACL token. This row's JSON has no secret; a response for an authorised reader adds it from
/// `secret_id`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AclToken {
    #[serde(rename = "AccessorID")]
    pub accessor_id: AccessorId,
    #[serde(rename = "SecretID")]
    pub secret_id: SecretId,
    pub name: Str,
    #[serde(rename = "Type")]
    pub kind: AclTokenKind,
    /// Names of policies; a missing policy grants nothing.
    pub policies: Option<Vec<Str>>,
    /// Links to roles; stored with the role's id only.
    pub roles: Option<Vec<AclTokenRoleLink>>,
    /// Whether the token is valid in every region.
    pub global: bool,
    pub hash: Option<Blob>,
    pub create_time: Time,
    /// The token is invalid after this time. Absent: the token never expires.
    pub expiration_time: Option<Time>,
    /// Life that the creator asked for; 0 for a token that does not expire, or whose expiry was given as a time.
    #[serde(rename = "ExpirationTTL")]
    pub expiration_ttl: Dur,
    pub create_index: u64,
    pub modify_index: u64,
}

/// A role that a token has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AclTokenRoleLink {
    #[serde(rename = "ID")]
    pub id: RoleId,
    /// The role's current name; empty in the stored row.
    pub name: Str,
}

/// Bounds of a token's time to live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TtlBounds {
    /// Shortest allowed time to live.
    pub min: Dur,
    /// Longest allowed time to live.
    pub max: Dur,
}

impl Default for TtlBounds {
    fn default() -> Self {
        Self { min: Dur::from_mins(1), max: Dur::from_hours(24) }
    }
}

impl AclToken {
    /// Whether this is a management token, which may do everything.
    pub fn is_management(&self) -> bool {
        self.kind == AclTokenKind::Management
    }

    /// Whether the token has expired. A token whose expiration time is exactly `now` is still valid.
    pub fn is_expired(&self, now: Time) -> bool {
        self.expiration_time.is_some_and(|expires| expires < now)
    }

    /// The token's links to roles.
    pub fn role_links(&self) -> &[AclTokenRoleLink] {
        self.roles.as_deref().unwrap_or_default()
    }

    /// The names of the policies that the token has directly.
    pub fn policy_names(&self) -> &[Str] {
        self.policies.as_deref().unwrap_or_default()
    }

    /// Hash of the token's content; the expiration time is not included.
    pub fn compute_hash(&self) -> Blob {
        let mut hasher = Hasher::default();
        hasher.texts([self.name.as_str(), self.kind.as_str()]);
        hasher.texts(self.policy_names().iter().map(Str::as_str));
        hasher.text(if self.global { "global" } else { "local" });
        for link in self.role_links() {
            hasher.text(&link.id.to_string());
        }
        hasher.finish()
    }

    /// Returns everything that is wrong with the token as a new token, or as an update of `stored`.
    pub fn validate(&self, stored: Option<&AclToken>, bounds: TtlBounds) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if self.name.len() > TOKEN_NAME_BYTES_MAX {
            errors.push("token name too long");
        }
        let links = !self.policy_names().is_empty() || !self.role_links().is_empty();
        match &self.kind {
            AclTokenKind::Client if !links => errors.push("client token missing policies or roles"),
            AclTokenKind::Management if links => {
                errors.push("management token cannot be associated with policies or roles")
            }
            AclTokenKind::Other(_) => errors.push("token type must be client or management"),
            AclTokenKind::Client | AclTokenKind::Management => {}
        }
        match stored {
            None => self.validate_expiration(bounds, &mut errors),
            Some(stored) => self.validate_update(stored, &mut errors),
        }
        errors.into_result()
    }

    fn validate_expiration(&self, TtlBounds { min, max }: TtlBounds, errors: &mut Errors) {
        if self.expiration_ttl < Dur::ZERO {
            errors.push(format!("token expiration TTL '{}' should not be negative", self.expiration_ttl));
        }
        let Some(expires) = self.expiration_time else { return };
        let life = expires.since(self.create_time);
        if life < Dur::ZERO {
            errors.push("expiration time cannot be before create time");
        }
        if life > max {
            errors.push(format!("expiration time cannot be more than {max} in the future (was {life})"));
        } else if life < min {
            errors.push(format!("expiration time cannot be less than {min} in the future (was {life})"));
        }
    }

    /// An update without an expiration keeps the stored one.
    fn validate_update(&self, stored: &AclToken, errors: &mut Errors) {
        if self.global != stored.global {
            errors.push("cannot toggle global mode");
        }
        if self.expiration_ttl != stored.expiration_ttl {
            errors.push("cannot update expiration TTL");
        }
        if self.expiration_time.is_some() && self.expiration_time != stored.expiration_time {
            errors.push("cannot update expiration time");
        }
    }
}
