//! Functions on times in RFC 3339 notation. No clock is read.

use super::{Called, Failure, Function, Takes, fail, plain, text_of};
use crate::duration;
use crate::hcl::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    plain("formatdate", &[("format", Takes::Text), ("time", Takes::Text)], format_date),
    plain("timeadd", &[("timestamp", Takes::Text), ("duration", Takes::Text)], time_add),
];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// The first day of 1970 was a Thursday.
const WEEKDAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// A time in the calendar of its zone.
#[derive(Debug, Clone, Copy)]
struct Time {
    year: i64,
    /// Month, from 1.
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    nanosecond: i64,
    /// Offset from UTC in minutes.
    offset: i64,
}

/// Number of days from 1970-01-01 to a Gregorian date.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let of_era = shifted.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of a number of days since 1970-01-01.
fn date_of(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

// ---- reading

/// Whether a text is a valid time.
pub(super) fn is_time(text: &str) -> bool {
    parse(text).is_ok()
}

fn parse(text: &str) -> Result<Time, String> {
    let wrong = |reason: String| format!("not a valid RFC3339 timestamp: {reason}");
    let mut reader = Reader { rest: text };
    let year = reader.digits(4, "year").map_err(wrong)?;
    reader.separator('-', "separator '-' before month").map_err(wrong)?;
    let month = reader.digits(2, "month").map_err(wrong)?;
    if !(1..=12).contains(&month) {
        return Err(wrong(format!("cannot use {:?} as month", reader.rest)));
    }
    reader.separator('-', "separator '-' before day").map_err(wrong)?;
    let day = reader.digits(2, "day of month").map_err(wrong)?;
    reader.separator('T', "time introducer 'T'").map_err(wrong)?;
    let hour = reader.digits(2, "hour").map_err(wrong)?;
    reader.separator(':', "separator ':' before minute").map_err(wrong)?;
    let minute = reader.digits(2, "minute").map_err(wrong)?;
    reader.separator(':', "separator ':' before second").map_err(wrong)?;
    let second = reader.digits(2, "second").map_err(wrong)?;
    let nanosecond = reader.fraction();
    let offset = reader.zone().map_err(wrong)?;
    if !reader.rest.is_empty() {
        return Err(wrong(format!("extra characters {:?} after the timestamp", reader.rest)));
    }
    let next_month = if month == 12 { days_of(year + 1, 1, 1) } else { days_of(year, month + 1, 1) };
    if day < 1 || day > next_month - days_of(year, month, 1) {
        return Err(wrong("day out of range".to_string()));
    }
    for (value, most, name) in [(hour, 23, "hour"), (minute, 59, "minute"), (second, 59, "second")] {
        if value > most {
            return Err(wrong(format!("{name} out of range")));
        }
    }
    Ok(Time { year, month, day, hour, minute, second, nanosecond, offset })
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn digits(&mut self, count: usize, name: &str) -> Result<i64, String> {
        let digits = self.rest.get(..count).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
        let number = digits.and_then(|digits| digits.parse().ok());
        match number {
            Some(number) => {
                self.rest = &self.rest[count..];
                Ok(number)
            }
            None if self.rest.is_empty() => Err(format!("end of string before {name}")),
            None => Err(format!("cannot use {:?} as {name}", self.rest)),
        }
    }

    fn separator(&mut self, separator: char, name: &str) -> Result<(), String> {
        match self.rest.strip_prefix(separator) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(format!("missing required {name}")),
        }
    }

    /// Skips the fraction of a second and returns its nanoseconds.
    fn fraction(&mut self) -> i64 {
        let Some(after) = self.rest.strip_prefix('.') else { return 0 };
        let length = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
        self.rest = &after[length..];
        let digits: String = after[..length].chars().chain("000000000".chars()).take(9).collect();
        digits.parse().unwrap_or(0)
    }

    fn zone(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let sign = match self.rest.chars().next() {
            Some('+') => 1,
            Some('-') => -1,
            _ => return Err("missing UTC offset".to_string()),
        };
        self.rest = &self.rest[1..];
        let hours = self.digits(2, "UTC offset hours")?;
        self.separator(':', "separator ':' in UTC offset")?;
        let minutes = self.digits(2, "UTC offset minutes")?;
        Ok(sign * (hours * 60 + minutes))
    }
}

// ---- adding

fn time_add(given: &[Value]) -> Called {
    let time = parse(text_of(given, 0)).map_err(Failure::Call)?;
    let nanos = duration::parse(text_of(given, 1)).map_err(|error| Failure::Call(error.to_string()))?;
    let seconds =
        days_of(time.year, time.month, time.day) * 86_400 + time.hour * 3_600 + time.minute * 60 + time.second;
    let total = i128::from(seconds) * 1_000_000_000 + i128::from(time.nanosecond) + i128::from(nanos);
    let Ok(seconds) = i64::try_from(total.div_euclid(1_000_000_000)) else { return fail("the result is out of range") };
    let (year, month, day) = date_of(seconds.div_euclid(86_400));
    let of_day = seconds.rem_euclid(86_400);
    let zone = if time.offset == 0 { "Z".to_string() } else { zone(time.offset, ":") };
    Ok(Value::Text(format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}{zone}",
        of_day / 3_600,
        of_day / 60 % 60,
        of_day % 60
    )))
}

fn zone(offset: i64, separator: &str) -> String {
    let sign = if offset < 0 { '-' } else { '+' };
    format!("{sign}{:02}{separator}{:02}", offset.abs() / 60, offset.abs() % 60)
}

// ---- formatting

fn format_date(given: &[Value]) -> Called {
    let time = parse(text_of(given, 1)).map_err(|reason| Failure::Argument(1, reason))?;
    let mut output = String::new();
    let mut rest = text_of(given, 0);
    while let Some(first) = rest.chars().next() {
        if first == '\'' {
            let (literal, length) =
                quoted(rest).ok_or_else(|| Failure::Argument(0, "unterminated literal '".to_string()))?;
            output.push_str(&literal);
            rest = &rest[length..];
        } else if first.is_ascii_alphabetic() {
            let length = rest.find(|letter| letter != first).unwrap_or(rest.len());
            output.push_str(&verb(&rest[..length], &time).map_err(|reason| Failure::Argument(0, reason))?);
            rest = &rest[length..];
        } else {
            output.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    Ok(Value::Text(output))
}

/// The text of a quoted section, in which two quotes stand for one, and its length including the quotes.
fn quoted(text: &str) -> Option<(String, usize)> {
    let mut literal = String::new();
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if letter != '\'' {
            literal.push(letter);
        } else if letters.next_if(|(_, next)| *next == '\'').is_some() {
            literal.push('\'');
        } else {
            return Some((literal, at + 1));
        }
    }
    None
}

fn verb(verb: &str, time: &Time) -> Result<String, String> {
    let month = usize::try_from(time.month - 1).unwrap_or(0);
    let weekday = usize::try_from(days_of(time.year, time.month, time.day).rem_euclid(7)).unwrap_or(0);
    let twelve = (time.hour + 11) % 12 + 1;
    let wrong = |reason: &str| Err(format!("invalid date format verb {verb:?}: {reason}"));
    Ok(match verb {
        "YYYY" => format!("{:04}", time.year),
        "YY" => format!("{:02}", time.year.rem_euclid(100)),
        "MMMM" => MONTHS[month].to_string(),
        "MMM" => MONTHS[month][..3].to_string(),
        "MM" => format!("{:02}", time.month),
        "M" => time.month.to_string(),
        "DD" => format!("{:02}", time.day),
        "D" => time.day.to_string(),
        "EEEE" => WEEKDAYS[weekday].to_string(),
        "EEE" => WEEKDAYS[weekday][..3].to_string(),
        "hh" => format!("{:02}", time.hour),
        "h" => time.hour.to_string(),
        "HH" => format!("{twelve:02}"),
        "H" => twelve.to_string(),
        "AA" => if time.hour < 12 { "AM" } else { "PM" }.to_string(),
        "aa" => if time.hour < 12 { "am" } else { "pm" }.to_string(),
        "mm" => format!("{:02}", time.minute),
        "m" => time.minute.to_string(),
        "ss" => format!("{:02}", time.second),
        "s" => time.second.to_string(),
        "ZZZZZ" => zone(time.offset, ":"),
        "ZZZZ" => zone(time.offset, ""),
        "ZZZ" if time.offset == 0 => "UTC".to_string(),
        "ZZZ" => zone(time.offset, ""),
        "Z" if time.offset == 0 => "Z".to_string(),
        "Z" => zone(time.offset, ":"),
        _ => {
            return match verb.chars().next() {
                Some('Y') => wrong("year must either be \"YY\" or \"YYYY\""),
                Some('M') => wrong("month must be \"M\", \"MM\", \"MMM\", or \"MMMM\""),
                Some('D') => wrong("day of month must either be \"D\" or \"DD\""),
                Some('E') => wrong("day of week must either be \"EEE\" or \"EEEE\""),
                Some('h') => wrong("24-hour must either be \"h\" or \"hh\""),
                Some('H') => wrong("12-hour must either be \"H\" or \"HH\""),
                Some('A') => wrong("must be \"AA\""),
                Some('a') => wrong("must be \"aa\""),
                Some('m') => wrong("minute must either be \"m\" or \"mm\""),
                Some('s') => wrong("second must either be \"s\" or \"ss\""),
                Some('Z') => wrong("timezone must be Z, ZZZZ, or ZZZZZ"),
                _ => Err(format!("invalid date format verb {verb:?}")),
            };
        }
    })
}
