//! Volumes, plugins, scaling policies.

use crate::Entry;

pub(crate) const COMMANDS: &[Entry] = &[];
