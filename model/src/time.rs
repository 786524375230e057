//! Points in time and durations, as the wire counts them. This module reads no clock.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::form;

/// A point in time: nanoseconds since 1970-01-01 UTC. RFC 3339 in JSON, an integer in the log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(i64);

/// A duration in nanoseconds; the wire has negative ones (a drain forced at once).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Dur(pub i64);

impl Time {
    /// The time that is `nanos` nanoseconds after 1970.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// The time that is `secs` seconds after 1970.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since 1970.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Whole seconds since 1970.
    pub const fn secs(self) -> i64 {
        self.0.div_euclid(1_000_000_000)
    }

    /// The time `span` later; saturates at the last representable time.
    #[must_use]
    pub const fn plus(self, span: Dur) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The duration from `earlier` to this time.
    pub const fn since(self, earlier: Time) -> Dur {
        Dur(self.0.saturating_sub(earlier.0))
    }

    /// Parses an RFC 3339 text.
    pub fn parse(text: &str) -> Option<Self> {
        DateTime::parse_from_rfc3339(text).ok()?.timestamp_nanos_opt().map(Self)
    }
}

/// `#[serde(with)]` module of a [`Time`] whose JSON is an integer of Unix nanoseconds, as that of the log is. Where a
/// row has no time it is 0.
pub mod unix_nanos {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Time;

    /// Writes the nanoseconds.
    pub fn serialize<S: Serializer>(time: &Time, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_i64(time.0)
    }

    /// Reads the nanoseconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Time, D::Error> {
        i64::deserialize(d).map(Time)
    }
}

/// A point in time in whole seconds since 1970-01-01 UTC, for rows and tokens that count seconds: an integer in every
/// encoding. Its fraction is cut off when it is made, so that a row in memory equals the row that is read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixSecs(pub i64);

impl UnixSecs {
    /// The beginning of the second.
    pub const fn time(self) -> Time {
        Time::from_secs(self.0)
    }
}

impl From<Time> for UnixSecs {
    fn from(time: Time) -> Self {
        Self(time.secs())
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at: DateTime<Utc> = DateTime::from_timestamp_nanos(self.0);
        let nanos = self.0.rem_euclid(1_000_000_000);
        write!(f, "{}", at.format("%Y-%m-%dT%H:%M:%S"))?;
        if nanos > 0 {
            write!(f, ".{}", format!("{nanos:09}").trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() {
            form::text(form::TIME, self, s)
        } else {
            s.serialize_newtype_struct(form::TIME, &self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        if d.is_human_readable() {
            let text = String::deserialize(d)?;
            Time::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("parsing time {text:?} as RFC 3339")))
        } else {
            i64::deserialize(d).map(Time)
        }
    }
}

impl Dur {
    /// The empty duration.
    pub const ZERO: Dur = Dur(0);

    /// A duration of `n` milliseconds.
    pub const fn from_millis(n: i64) -> Self {
        Self(n * 1_000_000)
    }

    /// A duration of `n` seconds.
    pub const fn from_secs(n: i64) -> Self {
        Self(n * 1_000_000_000)
    }

    /// A duration of `n` minutes.
    pub const fn from_mins(n: i64) -> Self {
        Self::from_secs(n * 60)
    }

    /// A duration of `n` hours.
    pub const fn from_hours(n: i64) -> Self {
        Self::from_mins(n * 60)
    }

    /// Length in nanoseconds.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Length in seconds, with fraction.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The duration as an unsigned one; negative durations become zero.
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(if self.0 < 0 { 0 } else { self.0 as u64 })
    }
}

impl From<std::time::Duration> for Dur {
    fn from(span: std::time::Duration) -> Self {
        Self(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Dur {
    /// Formats as Go prints a duration: `1h30m0s`, `1.5s`, `250ms`, `0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        if nanos < 1_000_000_000 {
            let (unit, size) = match nanos {
                0 => return f.write_str("0s"),
                1..=999 => ("ns", 1),
                1_000..=999_999 => ("µs", 1_000),
                _ => ("ms", 1_000_000),
            };
            return write!(f, "{}{unit}", fraction(nanos, size));
        }
        let secs = nanos / 1_000_000_000;
        let (hours, mins) = (secs / 3600, secs / 60 % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || mins > 0 {
            write!(f, "{mins}m")?;
        }
        write!(f, "{}s", fraction(nanos % 60_000_000_000, 1_000_000_000))
    }
}

impl fmt::Debug for Dur {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// `nanos` in units of `size` nanoseconds, with as many decimals as needed.
fn fraction(nanos: u64, size: u64) -> String {
    let (whole, rest) = (nanos / size, nanos % size);
    if rest == 0 {
        return whole.to_string();
    }
    let width = size.ilog10() as usize;
    let decimals = format!("{rest:0width$}");
    format!("{whole}.{}", decimals.trim_end_matches('0'))
}
