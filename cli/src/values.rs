//! Values for people: sizes, percents, times, ages.

use songline_lang::duration;

const NANOS: i64 = 1_000_000_000;

/// A size with IEC units, one decimal below ten: `5 B`, `4.0 KiB`, `20 MiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let rounded = (value * 10.0 + 0.5).floor() / 10.0;
    if unit > 0 && rounded < 10.0 {
        return format!("{rounded:.1} {}", UNITS[unit]);
    }
    format!("{rounded:.0} {}", UNITS[unit])
}

/// `12.34%`.
pub fn percent(value: f64) -> String {
    format!("{value:.2}%")
}

/// A number with three significant digits, as Go's `%.3g` writes it: `0.00596`, `1.5e-05`.
pub fn three_digits(value: f64) -> String {
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    let rounded = format!("{value:.2e}");
    let Some((digits, exponent)) = rounded.split_once('e') else { return rounded };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..3).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(digits), exponent.unsigned_abs());
    }
    let decimals = usize::try_from(2 - exponent).unwrap_or(0);
    trimmed(&format!("{value:.decimals$}"))
}

/// `<n> MHz`.
pub fn megahertz(value: f64) -> String {
    format!("{value:.0} MHz")
}

/// An age of a time in nanoseconds since 1970, `1h2m ago`, `5s from now`; empty for 0.
pub fn age(nanos: i64, now: i64) -> String {
    if nanos <= 0 {
        return String::new();
    }
    let far = now - nanos;
    let text = span(far.unsigned_abs());
    if far < 0 { format!("{text} from now") } else { format!("{text} ago") }
}

/// The age of a time of RFC 3339 that is still to come, `29s from now`; `None` for no time and for the past.
pub fn from_now(text: &str, now: i64) -> Option<String> {
    nanos_of(text).filter(|at| *at > now).map(|at| age(at, now))
}

/// The two largest units of a span in nanoseconds, rounded to seconds.
fn span(nanos: u64) -> String {
    let mut rest = (nanos + NANOS as u64 / 2) / NANOS as u64;
    let units: [(&str, u64); 6] =
        [("y", 12 * 30 * 86_400), ("mo", 30 * 86_400), ("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)];
    let mut parts = Vec::new();
    for (unit, seconds) in units {
        let count = rest / seconds;
        rest %= seconds;
        if count > 0 {
            parts.push(format!("{count}{unit}"));
        }
    }
    parts.truncate(2);
    if parts.is_empty() { "0s".to_owned() } else { parts.concat() }
}

/// Now, in nanoseconds since 1970.
pub fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// A time in nanoseconds since 1970 in the zone of `TZ`: `2006-01-02T15:04:05Z`; empty for 0.
pub fn time(nanos: i64) -> String {
    if nanos == 0 {
        return String::new();
    }
    let seconds = nanos.div_euclid(NANOS);
    written(seconds, local_offset(seconds))
}

/// This moment, as steps of monitors begin.
pub fn stamp() -> String {
    time(now())
}

/// A time of RFC 3339 in nanoseconds since 1970; `None` for no time and for the zero of Go.
pub fn nanos_of(text: &str) -> Option<i64> {
    let at = chrono::DateTime::parse_from_rfc3339(text).ok()?;
    at.timestamp_nanos_opt().filter(|nanos| *nanos > 0)
}

/// A time of RFC 3339 in the zone of `TZ`, without fractions; empty for none.
pub fn time_of(text: &str) -> String {
    nanos_of(text).map_or_else(String::new, time)
}

/// A duration in nanoseconds, as Go writes it: `1h30m0s`.
pub fn go_duration(nanos: i64) -> String {
    duration::format(nanos)
}

fn written(seconds: i64, offset: i32) -> String {
    let zone = chrono::FixedOffset::east_opt(offset);
    let at = chrono::DateTime::from_timestamp(seconds, 0);
    let (Some(zone), Some(at)) = (zone, at) else { return String::new() };
    at.with_timezone(&zone).to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
}

/// Seconds east of UTC at a time, by `TZ`, else by the machine's zone.
fn local_offset(seconds: i64) -> i32 {
    let name = match std::env::var("TZ") {
        Ok(name) => name.trim_start_matches(':').to_owned(),
        Err(_) => machine_zone().unwrap_or_default(),
    };
    offset(&name, seconds)
}

/// The name of the machine's zone, from the link `/etc/localtime`.
fn machine_zone() -> Option<String> {
    let target = std::fs::read_link("/etc/localtime").ok()?;
    Some(target.to_str()?.split_once("zoneinfo/")?.1.to_owned())
}

/// Unknown zones are UTC, as in Go.
fn offset(zone: &str, seconds: i64) -> i32 {
    use chrono::{Offset, TimeZone};
    let Ok(zone) = zone.parse::<chrono_tz::Tz>() else { return 0 };
    match chrono::DateTime::from_timestamp(seconds, 0) {
        Some(at) => zone.offset_from_utc_datetime(&at.naive_utc()).fix().local_minus_utc(),
        None => 0,
    }
}

/// A duration flag: Go's form, `300ms`, `1h30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GoDuration(pub i64);

impl std::str::FromStr for GoDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        duration::parse(text).map(Self).map_err(|_| "parse error".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_one_decimal_below_ten() {
        let shown: Vec<String> = [0, 5, 1023, 4096, 20 << 20, 1_610_612_736].map(size).into();
        assert_eq!(shown, ["0 B", "5 B", "1023 B", "4.0 KiB", "20 MiB", "1.5 GiB"]);
        assert_eq!(percent(12.341), "12.34%");
    }

    #[test]
    fn numbers_have_three_significant_digits() {
        let shown = [0.0, 1.0, 0.005958686, 0.00005958, 0.9996, 12.34, 999.4, 1234.0, -0.25].map(three_digits);
        assert_eq!(shown, ["0", "1", "0.00596", "5.96e-05", "1", "12.3", "999", "1.23e+03", "-0.25"]);
    }

    #[test]
    fn ages_have_the_two_largest_units() {
        let now = 2_000_000_000 * NANOS;
        let ago = |seconds: i64| age(now - seconds * NANOS, now);
        assert_eq!(ago(0), "0s ago");
        assert_eq!(ago(3725), "1h2m ago");
        assert_eq!(ago(312 * 86_400), "10mo12d ago");
        assert_eq!(ago(400 * 86_400), "1y1mo ago");
        assert_eq!(ago(-90), "1m30s from now");
        assert_eq!(age(0, now), "");
        assert_eq!(from_now("2033-05-18T03:33:49Z", now).as_deref(), Some("29s from now"));
        assert_eq!(from_now("2033-05-18T03:33:20Z", now), None);
        assert_eq!(from_now("", now), None);
    }

    #[test]
    fn times_are_written_in_their_zone() {
        assert_eq!(written(1_704_164_645, offset("UTC", 1_704_164_645)), "2024-01-02T03:04:05Z");
        assert_eq!(written(1_704_164_645, offset("Europe/Berlin", 1_704_164_645)), "2024-01-02T04:04:05+01:00");
        assert_eq!(written(1_704_164_645, offset("Nowhere", 1_704_164_645)), "2024-01-02T03:04:05Z");
        assert_eq!(time(0), "");
        assert_eq!(nanos_of("0001-01-01T00:00:00Z"), None);
    }

    #[test]
    fn durations_of_flags_are_those_of_go() {
        assert_eq!("1h30m".parse(), Ok(GoDuration(5_400 * NANOS)));
        assert_eq!("0".parse(), Ok(GoDuration(0)));
        assert!("5".parse::<GoDuration>().is_err());
    }
}
