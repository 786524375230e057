//! Times: from texts and to texts, by Go's layouts. The local zone is UTC: tasks do not see the machine's.

use std::any::Any;
use std::sync::Arc;

use chrono::{DateTime, Datelike, NaiveDate, Timelike};

use super::{Called, Worldly, arg, math};
use crate::duration;
use crate::template::consul::moment::{Piece, format_at, next_piece};
use crate::template::consul::{Functions, Moment};
use crate::template::{Object, Type, Value, literal};
use crate::zone::Zone;

/// Layout of a date alone.
const DATE: &str = "2006-01-02";
/// Seconds from 1970 to the first of January in the year 1, when Go's times begin.
const GO_ZERO: i64 = -62_135_596_800;
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
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

pub(super) const WORLDLY: &[Worldly] = &[
    ("ago", &[Type::Any], None, |functions, args| {
        let since = functions.world.now().seconds.saturating_sub(time_of(functions, &args[0]).at.seconds);
        Ok(Value::text(duration::format(since.saturating_mul(1_000_000_000))))
    }),
    ("date", &[Type::Text, Type::Any], None, |functions, args| Ok(in_zone(functions, arg(args, 0), &args[1], "UTC"))),
    ("dateInZone", &[Type::Text, Type::Any, Type::Text], None, date_in_zone),
    ("dateModify", &[Type::Text, Type::Any], None, |_, args| moved_or_same(args)),
    ("date_in_zone", &[Type::Text, Type::Any, Type::Text], None, date_in_zone),
    ("date_modify", &[Type::Text, Type::Any], None, |_, args| moved_or_same(args)),
    ("duration", &[Type::Any], None, |_, args| {
        let seconds = match &args[0] {
            Value::Text(text) => text.parse().unwrap_or_default(),
            other => math::whole(other),
        };
        Ok(Value::text(duration::format(seconds.saturating_mul(1_000_000_000))))
    }),
    ("durationRound", &[Type::Any], None, |functions, args| {
        let nanos = match &args[0] {
            Value::Text(text) => duration::parse(text).unwrap_or_default(),
            Value::Object(_) => {
                let since = functions.world.now().seconds.saturating_sub(time_of(functions, &args[0]).at.seconds);
                since.saturating_mul(1_000_000_000)
            }
            other => math::whole(other),
        };
        Ok(Value::text(rounded(nanos.unsigned_abs() / 1_000_000_000, nanos.unsigned_abs() % 1_000_000_000 != 0)))
    }),
    ("htmlDate", &[Type::Any], None, |functions, args| Ok(in_zone(functions, DATE, &args[0], "UTC"))),
    ("htmlDateInZone", &[Type::Any, Type::Text], None, |functions, args| {
        Ok(in_zone(functions, DATE, &args[0], arg(args, 1)))
    }),
    ("mustDateModify", &[Type::Text, Type::Any], None, |_, args| moved(args)),
    ("mustToDate", &[Type::Text, Type::Text], None, |_, args| {
        Reading::read(arg(args, 0), arg(args, 1)).map(Time::value)
    }),
    ("must_date_modify", &[Type::Text, Type::Any], None, |_, args| moved(args)),
    ("now", &[], None, |functions, _| Ok(Time::utc(functions.world.now()).value())),
    ("toDate", &[Type::Text, Type::Text], None, |_, args| {
        let zero = Time::utc(Moment { seconds: GO_ZERO, nanos: 0 });
        Ok(Reading::read(arg(args, 0), arg(args, 1)).unwrap_or(zero).value())
    }),
    ("unixEpoch", &[Type::Any], None, |_, args| Ok(Value::text(given(&args[0])?.at.seconds.to_string()))),
];

/// A time in a zone.
#[derive(Debug, Clone)]
struct Time {
    at: Moment,
    /// Seconds that the zone is ahead of UTC.
    ahead: i64,
    /// Abbreviation of the zone; empty where only its offset is known.
    zone: String,
}

impl Time {
    fn utc(at: Moment) -> Self {
        Self { at, ahead: 0, zone: "UTC".to_owned() }
    }

    fn value(self) -> Value {
        Value::Object(Arc::new(self) as Arc<dyn Object>)
    }

    fn format(&self, layout: &str) -> String {
        format_at(self.at, self.ahead, &self.zone, layout)
    }
}

impl Object for Time {
    fn of(&self) -> &'static str {
        "time.Time"
    }

    fn plain(&self) -> Value {
        Value::record("time.Time", Vec::new())
    }

    fn method(&self, name: &str) -> Option<&'static [Type]> {
        match name {
            "Format" => Some(&[Type::Text]),
            "Day" | "Hour" | "IsZero" | "Minute" | "Month" | "Nanosecond" | "Second" | "String" | "UTC" | "Unix"
            | "UnixNano" | "Weekday" | "Year" | "YearDay" => Some(&[]),
            _ => None,
        }
    }

    fn call(&self, name: &str, args: &[Value]) -> Result<Value, String> {
        let Some(local) = DateTime::from_timestamp(self.at.seconds.saturating_add(self.ahead), self.at.nanos) else {
            return Err("the time is out of range".to_owned());
        };
        Ok(match name {
            "Format" => Value::text(self.format(arg(args, 0))),
            "Day" => Value::Int(local.day().into()),
            "Hour" => Value::Int(local.hour().into()),
            "IsZero" => Value::Bool(self.at == Moment { seconds: GO_ZERO, nanos: 0 }),
            "Minute" => Value::Int(local.minute().into()),
            "Month" => Value::text(self.format("January")),
            "Nanosecond" => Value::Int(self.at.nanos.into()),
            "Second" => Value::Int(local.second().into()),
            "UTC" => Self::utc(self.at).value(),
            "Unix" => Value::Int(self.at.seconds),
            "UnixNano" => Value::Int(self.at.seconds.wrapping_mul(1_000_000_000).wrapping_add(self.at.nanos.into())),
            "Weekday" => Value::text(self.format("Monday")),
            "Year" => Value::Int(local.year().into()),
            "YearDay" => Value::Int(local.ordinal().into()),
            _ => Value::text(self.printed().unwrap_or_default()),
        })
    }

    fn printed(&self) -> Option<String> {
        Some(self.format("2006-01-02 15:04:05.999999999 -0700 MST"))
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

/// The time that a value is, if it is one.
fn given(value: &Value) -> Result<&Time, String> {
    let found = match value {
        Value::Object(object) => object.as_any().and_then(|any| any.downcast_ref::<Time>()),
        _ => None,
    };
    found.ok_or_else(|| format!("wrong type for value; expected time.Time; got {}", value.type_name()))
}

/// A time, or seconds since 1970; now for any other value.
fn time_of(functions: &Functions<'_>, value: &Value) -> Time {
    match (value, given(value)) {
        (_, Ok(time)) => time.clone(),
        (Value::Int(seconds), _) => Time::utc(Moment { seconds: *seconds, nanos: 0 }),
        _ => Time::utc(functions.world.now()),
    }
}

fn date_in_zone(functions: &Functions<'_>, args: &[Value]) -> Called {
    Ok(in_zone(functions, arg(args, 0), &args[1], arg(args, 2)))
}

/// A time by a layout in a zone. An unknown zone is UTC.
fn in_zone(functions: &Functions<'_>, layout: &str, value: &Value, zone: &str) -> Value {
    let at = time_of(functions, value).at;
    let zone = Zone::named(zone).unwrap_or_default();
    Value::text(format_at(at, zone.ahead(at.seconds), &zone.abbreviation(at.seconds), layout))
}

/// A time moved by a duration.
fn moved(args: &[Value]) -> Called {
    let time = given(&args[1])?;
    let nanos = duration::parse(arg(args, 0)).map_err(|error| error.to_string())?;
    let all = i128::from(time.at.seconds) * 1_000_000_000 + i128::from(time.at.nanos) + i128::from(nanos);
    let seconds = i64::try_from(all.div_euclid(1_000_000_000)).unwrap_or(i64::MAX);
    let nanos = u32::try_from(all.rem_euclid(1_000_000_000)).unwrap_or_default();
    Ok(Time { at: Moment { seconds, nanos }, ..time.clone() }.value())
}

/// A time moved by a duration; the same time for a text that is none.
fn moved_or_same(args: &[Value]) -> Called {
    let time = given(&args[1])?.clone();
    Ok(moved(args).unwrap_or_else(|_| time.value()))
}

/// A duration in its largest unit of which it has more than one.
fn rounded(seconds: u64, and_more: bool) -> String {
    const UNITS: [(u64, &str); 6] =
        [(365 * 86_400, "y"), (30 * 86_400, "mo"), (86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let unit = UNITS.iter().find(|(unit, _)| seconds > *unit || seconds == *unit && and_more);
    unit.map_or_else(|| "0s".to_owned(), |(unit, name)| format!("{}{name}", seconds / unit))
}

/// Text of a time while it is read by a layout.
struct Reading<'t> {
    layout: &'t str,
    text: &'t str,
    left: &'t str,
}

impl Reading<'_> {
    /// Reads a time. The error has Go's words.
    fn read(layout: &str, text: &str) -> Result<Time, String> {
        Reading { layout, text, left: text }.whole()
    }

    fn whole(mut self) -> Result<Time, String> {
        let (mut year, mut month, mut day, mut hour, mut minute, mut second, mut nanos) = (0, 1, 1, 0, 0, 0, 0);
        let (mut afternoon, mut ahead, mut zone) = (None, 0, "UTC".to_owned());
        let mut layout = self.layout;
        while let Some((piece, after)) = next_piece(layout) {
            let element = &layout[..layout.len() - after.len()];
            match piece {
                Piece::Letter(' ') => {
                    if !self.left.starts_with(' ') && !self.left.is_empty() {
                        return self.mismatch(element);
                    }
                    self.left = self.left.trim_start_matches(' ');
                }
                Piece::Letter(letter) => match self.left.strip_prefix(letter) {
                    Some(left) => self.left = left,
                    None => return self.mismatch(element),
                },
                Piece::Fraction(part) => nanos = self.fraction(part)?,
                Piece::Part("2006") => year = self.number(element, 4, 4)?,
                Piece::Part("06") => {
                    let short = self.number(element, 2, 2)?;
                    year = if short >= 69 { 1900 + short } else { 2000 + short };
                }
                Piece::Part("January") => month = self.name(element, &MONTHS, usize::MAX)?,
                Piece::Part("Jan") => month = self.name(element, &MONTHS, 3)?,
                Piece::Part("Monday") => {
                    self.name(element, &DAYS, usize::MAX)?;
                }
                Piece::Part("Mon") => {
                    self.name(element, &DAYS, 3)?;
                }
                Piece::Part("01") => month = self.within(element, 2, 1..=12, "month")?,
                Piece::Part("1") => month = self.within(element, 1, 1..=12, "month")?,
                Piece::Part("02") => day = self.number(element, 2, 2)?,
                Piece::Part("2") => day = self.number(element, 1, 2)?,
                Piece::Part("_2") => {
                    self.left = self.left.strip_prefix(' ').unwrap_or(self.left);
                    day = self.number(element, 1, 2)?;
                }
                Piece::Part("15") => hour = self.within(element, 1, 0..=23, "hour")?,
                Piece::Part("03") => hour = self.within(element, 2, 0..=12, "hour")?,
                Piece::Part("3") => hour = self.within(element, 1, 0..=12, "hour")?,
                Piece::Part("04") => minute = self.within(element, 2, 0..=59, "minute")?,
                Piece::Part("4") => minute = self.within(element, 1, 0..=59, "minute")?,
                Piece::Part("05" | "5") => {
                    second = self.within(element, element.len(), 0..=59, "second")?;
                    // A fraction that the layout does not have.
                    let follows = self.left.strip_prefix(['.', ',']).is_some_and(|left| left.starts_with(is_digit));
                    if follows && !matches!(next_piece(after), Some((Piece::Fraction(_), _))) {
                        nanos = self.fraction(".9")?;
                    }
                }
                Piece::Part("PM" | "pm") => {
                    let word = self.left.get(..2).unwrap_or_default();
                    let cased = if element == "PM" { ["AM", "PM"] } else { ["am", "pm"] };
                    let Some(found) = cased.iter().position(|known| *known == word) else {
                        return self.mismatch(element);
                    };
                    self.left = &self.left[2..];
                    afternoon = Some(found == 1);
                }
                Piece::Part("MST") => {
                    let length = self.left.find(|letter: char| !letter.is_ascii_uppercase()).unwrap_or(self.left.len());
                    if !(3..=5).contains(&length) {
                        return self.mismatch(element);
                    }
                    zone = self.left[..length].to_owned();
                    self.left = &self.left[length..];
                }
                Piece::Part(part) if part.starts_with(['-', 'Z']) => {
                    ahead = self.offset(part)?;
                    zone = if ahead == 0 { "UTC".to_owned() } else { String::new() };
                }
                Piece::Part(_) => return self.mismatch(element),
            }
            layout = after;
        }
        if !self.left.is_empty() {
            return Err(self.said(&format!("extra text: {}", literal::quoted(self.left))));
        }
        match afternoon {
            Some(true) if hour < 12 => hour += 12,
            Some(false) if hour == 12 => hour = 0,
            Some(_) | None => {}
        }
        let date = i32::try_from(year).ok().and_then(|year| NaiveDate::from_ymd_opt(year, month, day));
        let local = date.and_then(|date| date.and_hms_opt(hour, minute, second));
        let local = local.ok_or_else(|| self.said("day out of range"))?;
        Ok(Time { at: Moment { seconds: local.and_utc().timestamp() - ahead, nanos }, ahead, zone })
    }

    fn said(&self, what: &str) -> String {
        format!("parsing time {}: {what}", literal::quoted(self.text))
    }

    fn mismatch<T>(&self, element: &str) -> Result<T, String> {
        let [text, layout, left, element] = [self.text, self.layout, self.left, element].map(literal::quoted);
        Err(format!("parsing time {text} as {layout}: cannot parse {left} as {element}"))
    }

    /// A number of so many digits.
    fn number(&mut self, element: &str, least: usize, most: usize) -> Result<u32, String> {
        let count = self.left.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if count < least {
            return self.mismatch(element);
        }
        let (digits, left) = self.left.split_at(count);
        self.left = left;
        Ok(digits.parse().unwrap_or_default())
    }

    fn within(
        &mut self,
        element: &str,
        least: usize,
        range: std::ops::RangeInclusive<u32>,
        name: &str,
    ) -> Result<u32, String> {
        let number = self.number(element, least, 2)?;
        if range.contains(&number) { Ok(number) } else { Err(self.said(&format!("{name} out of range"))) }
    }

    /// Place of a name from 1, of which at most so many letters count. Case does not matter.
    fn name(&mut self, element: &str, names: &[&str], letters: usize) -> Result<u32, String> {
        for (number, name) in (1..).zip(names) {
            let name = &name[..letters.min(name.len())];
            if self.left.get(..name.len()).is_some_and(|word| word.eq_ignore_ascii_case(name)) {
                self.left = &self.left[name.len()..];
                return Ok(number);
            }
        }
        self.mismatch(element)
    }

    /// Nanoseconds after a point. A part of zeros has to be matched in length.
    fn fraction(&mut self, part: &str) -> Result<u32, String> {
        let Some(digits) = self.left.strip_prefix(['.', ',']) else {
            return if part.ends_with('9') { Ok(0) } else { self.mismatch(part) };
        };
        let count = digits.find(|letter: char| !is_digit(letter)).unwrap_or(digits.len());
        if part.ends_with('0') && count != part.len() - 1 {
            return self.mismatch(part);
        }
        self.left = &digits[count..];
        let nanos: String = digits[..count].chars().chain("000000000".chars()).take(9).collect();
        Ok(nanos.parse().unwrap_or_default())
    }

    /// Seconds ahead of UTC, by a part such as `-07:00`.
    fn offset(&mut self, part: &str) -> Result<i64, String> {
        if part.starts_with('Z')
            && let Some(left) = self.left.strip_prefix('Z')
        {
            self.left = left;
            return Ok(0);
        }
        let Some(offset) = self.left.get(..part.len()) else { return self.mismatch(part) };
        let Some(digits) = offset.strip_prefix(['+', '-']) else { return self.mismatch(part) };
        let mut numbers = [0_i64; 3];
        let digits: String = digits.split(':').collect();
        let fits =
            offset.match_indices(':').eq(part.match_indices(':')) && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !fits {
            return self.mismatch(part);
        }
        for (number, two) in numbers.iter_mut().zip(digits.as_bytes().chunks(2)) {
            *number = std::str::from_utf8(two).ok().and_then(|two| two.parse().ok()).unwrap_or_default();
        }
        self.left = &self.left[part.len()..];
        let ahead = numbers[0] * 3600 + numbers[1] * 60 + numbers[2];
        Ok(if offset.starts_with('-') { -ahead } else { ahead })
    }
}

fn is_digit(letter: char) -> bool {
    letter.is_ascii_digit()
}
