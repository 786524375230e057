//! ACL rows: policies, tokens, roles, auth methods and binding rules, with their hashes and validation.
//!
//! The policy language and the check of a caller are in other crates: a row holds its policy's text as written.

mod auth_method;
mod binding_rule;
mod hash;
mod one_time;
mod policy;
mod role;
mod secret_id;
#[cfg(test)]
mod tests;
mod token;

pub use auth_method::{AclAuthMethod, AclAuthMethodConfig, AclAuthMethodKind, TokenLocality};
pub use binding_rule::{AclBindKind, AclBindingRule};
pub use one_time::OneTimeToken;
pub use policy::{AclPolicy, JobAcl};
pub use role::{AclRole, AclRolePolicyLink};
pub use secret_id::SecretId;
pub use token::{AclToken, AclTokenKind, AclTokenRoleLink, TtlBounds};

/// Longest name of a policy, role or auth method, in bytes.
const NAME_BYTES_MAX: usize = 128;
/// Longest description of a policy, role or binding rule, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 256;

/// Whether a text can name a policy, role or auth method: 1 to 128 letters, digits and dashes.
pub fn is_acl_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Enum of Nomad's words for a field. Unknown words are kept, because the refusal names them; a valid row has none.
macro_rules! kinds {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $(#[doc = concat!("`", $word, "`")] $variant,)*
            /// An unknown word; validation refuses it.
            Other($crate::Str),
        }

        impl $name {
            /// The word as the wire spells it.
            pub fn as_str(&self) -> &str {
                match self {
                    $($name::$variant => $word,)*
                    $name::Other(word) => word,
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                $name::Other($crate::Str::default())
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => $name::$variant,)*
                    other => $name::Other(other.into()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                Ok($name::from(<$crate::Str as serde::Deserialize>::deserialize(d)?.as_str()))
            }
        }
    };
}
use kinds;
