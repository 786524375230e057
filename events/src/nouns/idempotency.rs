//! Announcements of idempotency keys.

use songline_projections::tables;

use super::Announce;

// Written beside the rows of the write that the key protects, which are announced.
impl Announce for tables::Idempotency {}
