//! Logins with identity providers.

use super::Agent;
use crate::sso::Sso;

/// Logins with identity providers.
pub trait Logins: Agent {
    /// State and outside connections that logins need.
    fn sso(&self) -> &Sso;
}
