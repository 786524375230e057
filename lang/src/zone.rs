//! Time zones by name, with their offsets from UTC. The zone data is compiled in, so that servers agree whatever their
//! systems have.

#[cfg(test)]
mod tests;

use chrono::{DateTime, Offset, SecondsFormat, TimeZone};
use chrono_tz::Tz;

/// A time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone(Tz);

impl Default for Zone {
    fn default() -> Self {
        Self(Tz::UTC)
    }
}

impl Zone {
    /// The zone with this name in the IANA database. The empty name and `Local` are UTC: a server has no location of
    /// its own.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "" | "Local" => Some(Self::default()),
            name => name.parse().ok().map(Self),
        }
    }

    /// The offset from UTC in seconds at a time in Unix seconds.
    pub fn ahead(self, at: i64) -> i64 {
        DateTime::from_timestamp(at, 0)
            .map_or(0, |time| self.0.offset_from_utc_datetime(&time.naive_utc()).fix().local_minus_utc().into())
    }

    /// The zone's abbreviation at a time in Unix seconds, such as `CEST`.
    pub fn abbreviation(self, at: i64) -> String {
        DateTime::from_timestamp(at, 0)
            .map_or_else(String::new, |time| self.0.offset_from_utc_datetime(&time.naive_utc()).to_string())
    }

    /// The local time of a time in Unix seconds, in RFC 3339.
    pub fn shown(self, at: i64) -> Option<String> {
        Some(DateTime::from_timestamp(at, 0)?.with_timezone(&self.0).to_rfc3339_opts(SecondsFormat::AutoSi, true))
    }
}
