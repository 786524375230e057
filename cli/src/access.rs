//! Access control and logins.

pub(crate) mod acl;

use crate::Entry;

pub(crate) const COMMANDS: &[Entry] =
    &[Entry::tree::<acl::Command>("acl", "Interact with ACL policies, roles and tokens")];
