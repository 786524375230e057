//! Tokens: what a secret stands for. Finding a token, and whether it may do something, is not here.

use serde::{Deserialize, Serialize};

use super::hash::Hasher;
use super::{SecretId, kinds};
use crate::job::Errors;
use crate::{AccessorId, Blob, Dur, RoleId, Str, Time};

/// Longest name of a token, in bytes.
const TOKEN_NAME_BYTES_MAX: usize = 256;

kinds!(
    /// What a token may: what its policies say, or everything.
    AclTokenKind { Client = "client", Management = "management" }
);

/// `ACLToken` of the wire. Its JSON here has no secret; who may see it gets it from `secret_id`.
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
    /// Names; those of missing policies count for nothing.
    pub policies: Option<Vec<Str>>,
    /// In the state by id alone.
    pub roles: Option<Vec<AclTokenRoleLink>>,
    /// Whether every region has it.
    pub global: bool,
    pub hash: Option<Blob>,
    pub create_time: Time,
    /// From then on it is nobody's. Absent: never.
    pub expiration_time: Option<Time>,
    #[serde(rename = "ExpirationTTL")]
    pub expiration_ttl: Dur,
    pub create_index: u64,
    pub modify_index: u64,
}

/// `ACLTokenRoleLink` of the wire.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AclTokenRoleLink {
    #[serde(rename = "ID")]
    pub id: RoleId,
    /// The role's name now; empty in the state.
    pub name: Str,
}

/// How far away an expiration may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TtlBounds {
    /// The shortest life of a token.
    pub min: Dur,
    /// The longest.
    pub max: Dur,
}

impl Default for TtlBounds {
    fn default() -> Self {
        Self { min: Dur::from_mins(1), max: Dur::from_hours(24) }
    }
}

impl AclToken {
    /// Whether it may everything.
    pub fn is_management(&self) -> bool {
        self.kind == AclTokenKind::Management
    }

    /// Whether it is past its time. A token that expires now still counts.
    pub fn is_expired(&self, now: Time) -> bool {
        self.expiration_time.is_some_and(|expires| expires < now)
    }

    /// Its links to roles.
    pub fn role_links(&self) -> &[AclTokenRoleLink] {
        self.roles.as_deref().unwrap_or_default()
    }

    /// The names of its own policies.
    pub fn policy_names(&self) -> &[Str] {
        self.policies.as_deref().unwrap_or_default()
    }

    /// The hash of its content; when it ends does not enter it.
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

    /// Everything that is wrong with it as a new token, or as an update of `stored`.
    pub fn validate(&self, stored: Option<&AclToken>, bounds: TtlBounds) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if self.name.len() > TOKEN_NAME_BYTES_MAX {
            errors.push("token name too long");
        }
        let links = !self.policy_names().is_empty() || !self.role_links().is_empty();
        match &self.kind {
            AclTokenKind::Client if !links => errors.push("client token missing policies or roles"),
            AclTokenKind::Management if links => errors.push("management token cannot be associated with policies or roles"),
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

    /// An update that does not say when the token ends leaves it as it is.
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
