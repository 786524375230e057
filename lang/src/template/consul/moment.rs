//! Times as text, by Go's layouts.

use chrono::{DateTime, Datelike, Timelike, Utc};

use super::{Moment, arg};
use crate::template::Value;

/// `timestamp`: the time in RFC 3339, by a layout, or as seconds since 1970.
pub(super) fn timestamp(now: Moment, args: &[Value]) -> Result<Value, String> {
    match args.len() {
        0 => Ok(Value::text(format(now, "2006-01-02T15:04:05Z07:00"))),
        1 if arg(args, 0) == "unix" => Ok(Value::text(now.seconds.to_string())),
        1 => Ok(Value::text(format(now, arg(args, 0)))),
        count => Err(format!("timestamp: wrong number of arguments, expected 0 or 1, but got {count}")),
    }
}

/// Parts of layouts. A longer one that begins with another stands before it.
const PARTS: &[&str] = &[
    "January",
    "Jan",
    "Monday",
    "Mon",
    "MST",
    "2006",
    "-07:00:00",
    "-070000",
    "-07:00",
    "-0700",
    "-07",
    "Z07:00:00",
    "Z070000",
    "Z07:00",
    "Z0700",
    "Z07",
    "002",
    "01",
    "02",
    "03",
    "04",
    "05",
    "06",
    "15",
    "PM",
    "pm",
    "__2",
    "_2006",
    "_2",
    "1",
    "2",
    "3",
    "4",
    "5",
];

/// A time in UTC by a layout.
pub(super) fn format(moment: Moment, layout: &str) -> String {
    format_at(moment, 0, "UTC", layout)
}

/// A time by a layout, in a zone that is so many seconds ahead of UTC. An empty name of the zone is its offset.
pub(super) fn format_at(moment: Moment, ahead: i64, zone: &str, layout: &str) -> String {
    let seconds = moment.seconds.saturating_add(ahead);
    let Some(time) = DateTime::<Utc>::from_timestamp(seconds, moment.nanos) else { return String::new() };
    let mut out = String::new();
    let mut rest = layout;
    while let Some((piece, after)) = next_piece(rest) {
        match piece {
            Piece::Fraction(part) => out.push_str(&fraction_text(part, time.nanosecond())),
            Piece::Part("MST") if !zone.is_empty() => out.push_str(zone),
            Piece::Part("MST") => out.push_str(&offset("-0700", ahead)),
            Piece::Part(part) if part.starts_with(['-', 'Z']) => out.push_str(&offset(part, ahead)),
            Piece::Part(part) => out.push_str(&shown(part, &time)),
            Piece::Letter(letter) => out.push(letter),
        }
        rest = after;
    }
    out
}

/// Piece of a layout.
pub(super) enum Piece<'l> {
    /// `.000` or `,999`.
    Fraction(&'l str),
    /// One of [`PARTS`].
    Part(&'static str),
    /// A character that stands for itself.
    Letter(char),
}

/// The first piece of a layout, and the rest.
pub(super) fn next_piece(layout: &str) -> Option<(Piece<'_>, &str)> {
    let letter = layout.chars().next()?;
    if let Some(length) = fraction(layout) {
        return Some((Piece::Fraction(&layout[..length]), &layout[length..]));
    }
    // `Jan` does not begin a word like `January`; a word such as `Janet` is none of the parts.
    let found = PARTS.iter().find(|part| {
        layout.starts_with(**part)
            && !(**part == "Jan" && layout[3..].starts_with(|next: char| next.is_ascii_lowercase()))
    });
    Some(match found {
        Some(part) => (Piece::Part(part), &layout[part.len()..]),
        None => (Piece::Letter(letter), &layout[letter.len_utf8()..]),
    })
}

/// Length of `.000` or `,999` at the start of a layout.
fn fraction(layout: &str) -> Option<usize> {
    let digits = layout.strip_prefix(['.', ','])?;
    let digit = digits.chars().next().filter(|digit| matches!(digit, '0' | '9'))?;
    let count = digits.len() - digits.trim_start_matches(digit).len();
    (!digits[count..].starts_with(|next: char| next.is_ascii_digit())).then_some(count + 1)
}

fn fraction_text(part: &str, nanos: u32) -> String {
    let digits: String = format!("{nanos:09}").chars().take(part.len() - 1).collect();
    if part.ends_with('0') {
        return format!("{}{digits}", &part[..1]);
    }
    let digits = digits.trim_end_matches('0');
    if digits.is_empty() { String::new() } else { format!("{}{digits}", &part[..1]) }
}

fn shown(part: &str, time: &DateTime<Utc>) -> String {
    let hour = match time.hour() % 12 {
        0 => 12,
        hour => hour,
    };
    match part {
        "January" => time.format("%B").to_string(),
        "Jan" => time.format("%b").to_string(),
        "Monday" => time.format("%A").to_string(),
        "Mon" => time.format("%a").to_string(),
        "2006" => format!("{:04}", time.year()),
        "_2006" => format!("_{:04}", time.year()),
        "06" => format!("{:02}", time.year().rem_euclid(100)),
        "01" => format!("{:02}", time.month()),
        "1" => time.month().to_string(),
        "02" => format!("{:02}", time.day()),
        "_2" => format!("{:2}", time.day()),
        "2" => time.day().to_string(),
        "002" => format!("{:03}", time.ordinal()),
        "__2" => format!("{:3}", time.ordinal()),
        "15" => format!("{:02}", time.hour()),
        "03" => format!("{hour:02}"),
        "3" => hour.to_string(),
        "04" => format!("{:02}", time.minute()),
        "4" => time.minute().to_string(),
        "05" => format!("{:02}", time.second()),
        "5" => time.second().to_string(),
        "PM" => if time.hour() < 12 { "AM" } else { "PM" }.to_owned(),
        "pm" => if time.hour() < 12 { "am" } else { "pm" }.to_owned(),
        _ => String::new(),
    }
}

/// The offset of a zone. A part that begins with `Z` is that letter for UTC.
fn offset(part: &str, ahead: i64) -> String {
    if part.starts_with('Z') && ahead == 0 {
        return "Z".to_owned();
    }
    let sign = if ahead < 0 { '-' } else { '+' };
    let (hours, minutes, seconds) = (ahead.abs() / 3600, ahead.abs() / 60 % 60, ahead.abs() % 60);
    match &part[1..] {
        "07:00:00" => format!("{sign}{hours:02}:{minutes:02}:{seconds:02}"),
        "070000" => format!("{sign}{hours:02}{minutes:02}{seconds:02}"),
        "07:00" => format!("{sign}{hours:02}:{minutes:02}"),
        "0700" => format!("{sign}{hours:02}{minutes:02}"),
        _ => format!("{sign}{hours:02}"),
    }
}
