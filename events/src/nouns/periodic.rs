//! Announcements of launches of periodic jobs.

use songline_projections::tables;

use super::Announce;

// The launched job has an event.
impl Announce for tables::PeriodicLaunch {}
