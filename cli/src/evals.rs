//! Evaluations and deployments.

use crate::Entry;

pub(crate) const COMMANDS: &[Entry] = &[Entry::alias("eval-status", "eval status").hidden()];
