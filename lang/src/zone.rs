//! Time zones by their names: by how many seconds the clocks of a place are ahead of UTC. They come with this program, so that servers agree
//! whatever their systems have.

#[cfg(test)]
mod tests;

use chrono::{DateTime, Offset, SecondsFormat, TimeZone};
use chrono_tz::Tz;

/// The clocks of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone(Tz);

impl Default for Zone {
    fn default() -> Self {
        Self(Tz::UTC)
    }
}

impl Zone {
    /// The zone of a name of the IANA's database. No name is UTC, and so is `Local`: servers have no place of their own.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "" | "Local" => Some(Self::default()),
            name => name.parse().ok().map(Self),
        }
    }

    /// How many seconds the clocks are ahead of UTC at a time, in seconds since 1970.
    pub fn ahead(self, at: i64) -> i64 {
        DateTime::from_timestamp(at, 0).map_or(0, |time| self.0.offset_from_utc_datetime(&time.naive_utc()).fix().local_minus_utc().into())
    }

    /// A time, in seconds since 1970, as the clocks show it: RFC 3339.
    pub fn shown(self, at: i64) -> Option<String> {
        Some(DateTime::from_timestamp(at, 0)?.with_timezone(&self.0).to_rfc3339_opts(SecondsFormat::AutoSi, true))
    }
}
