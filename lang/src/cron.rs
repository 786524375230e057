//! Cron expressions of periodic jobs: five fields from minute to day of the week, an optional sixth for the year, an
//! optional seventh in front for the second. This module reads no clock; the caller provides the offset of the time
//! zone.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Timelike};

/// Last year of the search for a matching time.
const YEAR_MAX: u32 = 2099;
const DAY_SECS: i64 = 86_400;

/// A parsed expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    seconds: BTreeSet<u32>,
    minutes: BTreeSet<u32>,
    hours: BTreeSet<u32>,
    days: Days31,
    months: BTreeSet<u32>,
    weekdays: Weekdays,
    /// Years; `None`: every year.
    years: Option<BTreeSet<u32>>,
}

/// The field for days of the month.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Days31 {
    restricted: bool,
    days: BTreeSet<u32>,
    /// Days whose nearest working day matches.
    workdays: BTreeSet<u32>,
    last: bool,
    last_workday: bool,
}

/// The field for days of the week; Sunday is 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Weekdays {
    restricted: bool,
    days: BTreeSet<u32>,
    /// Weekdays whose last occurrence in the month matches.
    last: BTreeSet<u32>,
    /// The n-th occurrence of a weekday in the month: n, from 1, and weekday.
    numbered: BTreeSet<(u32, u32)>,
}

/// Name of a field, its range, and the words for its numbers.
struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    words: &'static [(&'static str, u32)],
}

const SECOND: Field = Field { name: "second", min: 0, max: 59, words: &[] };
const MINUTE: Field = Field { name: "minute", min: 0, max: 59, words: &[] };
const HOUR: Field = Field { name: "hour", min: 0, max: 23, words: &[] };
const DAY: Field = Field { name: "day-of-month", min: 1, max: 31, words: &[] };
const YEAR: Field = Field { name: "year", min: 1970, max: YEAR_MAX, words: &[] };
const MONTH: Field = Field {
    name: "month",
    min: 1,
    max: 12,
    words: &[
        ("jan", 1),
        ("january", 1),
        ("feb", 2),
        ("february", 2),
        ("mar", 3),
        ("march", 3),
        ("apr", 4),
        ("april", 4),
        ("may", 5),
        ("jun", 6),
        ("june", 6),
        ("jul", 7),
        ("july", 7),
        ("aug", 8),
        ("august", 8),
        ("sep", 9),
        ("september", 9),
        ("oct", 10),
        ("october", 10),
        ("nov", 11),
        ("november", 11),
        ("dec", 12),
        ("december", 12),
    ],
};
const WEEKDAY: Field = Field {
    name: "day-of-week",
    min: 0,
    max: 6,
    words: &[
        // Sunday as the last day of the week.
        ("7", 7),
        ("07", 7),
        ("sun", 0),
        ("sunday", 0),
        ("mon", 1),
        ("monday", 1),
        ("tue", 2),
        ("tuesday", 2),
        ("wed", 3),
        ("wednesday", 3),
        ("thu", 4),
        ("thursday", 4),
        ("fri", 5),
        ("friday", 5),
        ("sat", 6),
        ("saturday", 6),
    ],
};

const SHORTHANDS: [(&str, &str); 6] = [
    ("@yearly", "0 0 0 1 1 * *"),
    ("@annually", "0 0 0 1 1 * *"),
    ("@monthly", "0 0 0 1 * * *"),
    ("@weekly", "0 0 0 * * 0 *"),
    ("@daily", "0 0 0 * * * *"),
    ("@hourly", "0 0 * * * * *"),
];

/// One entry of a field.
enum Entry<'s> {
    All,
    Some(BTreeSet<u32>),
    /// An entry with a meaning only for days: lower-cased, and as written.
    Other(String, &'s str),
}

impl Field {
    fn entries<'s>(&self, text: &'s str) -> Result<Vec<Entry<'s>>, String> {
        let entries: Vec<&str> = text.split(',').filter(|entry| !entry.is_empty()).collect();
        if entries.is_empty() {
            return Err(format!("{} field: missing directive", self.name));
        }
        entries.into_iter().map(|entry| self.entry(entry)).collect()
    }

    fn entry<'s>(&self, written: &'s str) -> Result<Entry<'s>, String> {
        let entry = written.to_lowercase();
        if matches!(entry.as_str(), "*" | "?") {
            return Ok(Entry::All);
        }
        let (values, step) = match entry.split_once('/') {
            Some((values, step)) if !step.is_empty() && step.bytes().all(|digit| digit.is_ascii_digit()) => {
                (values, Some(step))
            }
            Some(_) => return Ok(Entry::Other(entry, written)),
            None => (entry.as_str(), None),
        };
        let (first, last) = match (values, values.split_once('-')) {
            ("*", _) if step.is_some() => (self.min, self.max),
            (_, Some((first, last))) => match (self.value(first), self.value(last)) {
                (Some(first), Some(0)) if self.max == 6 && first > 0 => (first, 7),
                (Some(first), Some(last)) => (first, last),
                _ => return Ok(Entry::Other(entry, written)),
            },
            (value, None) => match self.value(value) {
                Some(value) => (value, if step.is_some() { self.max } else { value }),
                None => return Ok(Entry::Other(entry, written)),
            },
        };
        let step = match step.map(|step| step.parse::<u32>().unwrap_or(u32::MAX)) {
            None => 1,
            Some(step) if step < 1 || step > self.max => return Err(format!("invalid interval {entry}")),
            Some(step) => step,
        };
        let fold = |value: u32| if self.max == 6 { value % 7 } else { value };
        Ok(Entry::Some((first..=last).step_by(step as usize).map(fold).collect()))
    }

    fn value(&self, text: &str) -> Option<u32> {
        if let Some((_, value)) = self.words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let is_number = (1..=4).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_digit());
        let width = if self.max > 99 { 4 } else { 2 };
        let value: u32 = text.parse().ok().filter(|_| is_number && text.len() <= width)?;
        (self.min..=self.max).contains(&value).then_some(value)
    }

    /// The values of a field that has no special entries.
    fn values(&self, text: &str) -> Result<BTreeSet<u32>, String> {
        let mut values = BTreeSet::new();
        for entry in self.entries(text)? {
            match entry {
                Entry::All => return Ok((self.min..=self.max).collect()),
                Entry::Some(more) => values.extend(more),
                Entry::Other(_, written) => return Err(self.wrong(written)),
            }
        }
        Ok(values)
    }

    fn wrong(&self, written: &str) -> String {
        format!("syntax error in {} field: '{written}'", self.name)
    }
}

impl Days31 {
    fn parse(text: &str) -> Result<Self, String> {
        let mut days = Days31 { restricted: true, ..Days31::default() };
        for entry in DAY.entries(text)? {
            match entry {
                Entry::All => days.restricted = false,
                Entry::Some(more) => days.days.extend(more),
                Entry::Other(entry, _) if entry == "l" => days.last = true,
                Entry::Other(entry, _) if entry == "lw" => days.last_workday = true,
                Entry::Other(entry, written) => match entry.strip_suffix('w').and_then(|day| DAY.value(day)) {
                    Some(day) => days.workdays.extend([day]),
                    None => return Err(DAY.wrong(written)),
                },
            }
        }
        Ok(days)
    }

    fn has(&self, date: NaiveDate) -> bool {
        let last = last_of_month(date);
        self.days.contains(&date.day())
            || self.last && date.day() == last
            || self.last_workday && date.day() == workday_near(date, last, last)
            || self.workdays.iter().any(|day| *day <= last && date.day() == workday_near(date, *day, last))
    }
}

impl Weekdays {
    fn parse(text: &str) -> Result<Self, String> {
        let mut days = Weekdays { restricted: true, ..Weekdays::default() };
        let day_of = |text: &str| WEEKDAY.value(text).map(|day| day % 7);
        for entry in WEEKDAY.entries(text)? {
            match entry {
                Entry::All => days.restricted = false,
                Entry::Some(more) => days.days.extend(more),
                Entry::Other(entry, written) => {
                    let numbered = entry.split_once('#').and_then(|(day, number)| Some((day_of(day)?, number)));
                    match (entry.strip_suffix('l').and_then(day_of), numbered) {
                        (Some(day), _) => days.last.extend([day]),
                        (None, Some((day, number @ ("1" | "2" | "3" | "4" | "5")))) => {
                            days.numbered.extend([(number.parse().unwrap_or(1), day)]);
                        }
                        (None, _) => return Err(WEEKDAY.wrong(written)),
                    }
                }
            }
        }
        Ok(days)
    }

    fn has(&self, date: NaiveDate) -> bool {
        let day = date.weekday().num_days_from_sunday();
        self.days.contains(&day)
            || self.last.contains(&day) && date.day() + 7 > last_of_month(date)
            || self.numbered.contains(&((date.day() - 1) / 7 + 1, day))
    }
}

fn last_of_month(date: NaiveDate) -> u32 {
    u32::from(date.num_days_in_month())
}

/// The working day nearest to `day`, in the month of `date`.
fn workday_near(date: NaiveDate, day: u32, last: u32) -> u32 {
    let weekday = date.with_day(day).map_or(1, |date| date.weekday().num_days_from_sunday());
    match weekday {
        6 if day > 1 => day - 1,
        6 => day + 2,
        0 if day < last => day + 1,
        0 => day - 2,
        _ => day,
    }
}

impl Cron {
    /// Parses an expression; the error is the reference's reason. Fields after the seventh are ignored.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = SHORTHANDS.iter().fold(text.to_string(), |text, (word, fields)| text.replace(word, fields));
        let fields: Vec<&str> = text.split_whitespace().take(7).collect();
        let (second, rest) = match fields.as_slice() {
            [second, rest @ ..] if rest.len() == 6 => (Some(*second), rest),
            rest => (None, rest),
        };
        let [minute, hour, day, month, weekday, year @ ..] = rest else { return Err("missing field(s)".to_string()) };
        Ok(Self {
            seconds: second.map_or_else(|| Ok(BTreeSet::from([0])), |second| SECOND.values(second))?,
            minutes: MINUTE.values(minute)?,
            hours: HOUR.values(hour)?,
            days: Days31::parse(day)?,
            months: MONTH.values(month)?,
            weekdays: Weekdays::parse(weekday)?,
            years: year.first().map(|year| YEAR.values(year)).transpose()?,
        })
    }

    /// The first matching time after `after`, both in Unix seconds. `offset` gives the time zone's offset from UTC in
    /// seconds at a time. `None`: there is none up to `YEAR_MAX`. Local times that are skipped when clocks are set
    /// forward do not match.
    pub fn next(&self, after: i64, offset: &dyn Fn(i64) -> i64) -> Option<i64> {
        // When clocks are set back, local times repeat, so the search begins at the earliest local time that may follow.
        let ahead = [after - DAY_SECS, after, after + DAY_SECS].map(offset).into_iter().min()?;
        let from = DateTime::from_timestamp(after + ahead, 0)?.naive_utc();
        let mut date = from.date();
        while u32::try_from(date.year()).is_ok_and(|year| year <= YEAR_MAX) {
            if self.has(date)
                && let Some(found) =
                    self.times_of(date, from).filter_map(|local| instant(local, offset)).find(|time| *time > after)
            {
                return Some(found);
            }
            date = match self.month_may_have(date) {
                true => date.succ_opt()?,
                false => date.with_day(last_of_month(date))?.succ_opt()?,
            };
        }
        None
    }

    fn month_may_have(&self, date: NaiveDate) -> bool {
        let year = u32::try_from(date.year()).unwrap_or_default();
        self.months.contains(&date.month()) && self.years.as_ref().is_none_or(|years| years.contains(&year))
    }

    /// Whether the date matches. If both day fields are restricted, one of them has to match.
    fn has(&self, date: NaiveDate) -> bool {
        self.month_may_have(date)
            && match (self.days.restricted, self.weekdays.restricted) {
                (false, false) => true,
                (true, false) => self.days.has(date),
                (false, true) => self.weekdays.has(date),
                (true, true) => self.days.has(date) || self.weekdays.has(date),
            }
    }

    /// The matching local times of a date from `from` on.
    fn times_of(&self, date: NaiveDate, from: NaiveDateTime) -> impl Iterator<Item = NaiveDateTime> {
        let ends = move |hour, minute| date.and_hms_opt(hour, minute, 59).is_some_and(|end| end >= from);
        let of_minute = move |hour: u32, minute: u32| {
            self.seconds.iter().filter_map(move |second| date.and_hms_opt(hour, minute, *second))
        };
        let of_hour = move |hour: u32| {
            let minutes = self.minutes.iter().filter(move |minute| ends(hour, **minute));
            minutes.flat_map(move |minute| of_minute(hour, *minute))
        };
        self.hours.iter().filter(move |hour| ends(**hour, 59)).flat_map(move |hour| of_hour(*hour))
    }
}

/// The instant with the local time `local`: the earlier one if there are two, `None` if the local time is skipped.
fn instant(local: NaiveDateTime, offset: &dyn Fn(i64) -> i64) -> Option<i64> {
    let shown = local.and_utc().timestamp();
    let candidates = [offset(shown - DAY_SECS), offset(shown + DAY_SECS)].map(|ahead| shown - ahead);
    let shows = |time: &i64| time + offset(*time) == shown && local.nanosecond() == 0;
    candidates.into_iter().filter(shows).min()
}
