//! Error texts of Go's `time.Parse` for a text that is not an RFC 3339 time. The model crate parses times.

#[cfg(test)]
mod tests;

/// Error text for a JSON value that is not a string in place of a time.
pub const NOT_A_TEXT: &str = "Time.UnmarshalJSON: input is not a JSON string";

const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";

/// The error text for an invalid time; `None` for a valid one.
pub fn refusal(text: &str) -> Option<String> {
    let mut rest = Rest { text, left: text };
    let read = rest.date_and_time();
    read.err().map(|why| match why {
        Why::Mismatch { left, wanted } => {
            format!("parsing time {text:?} as {LAYOUT:?}: cannot parse {left:?} as {wanted:?}")
        }
        Why::Said(said) => format!("parsing time {text:?}: {said}"),
    })
}

enum Why {
    /// The rest of the text does not match this part of the layout.
    Mismatch {
        left: String,
        wanted: &'static str,
    },
    Said(String),
}

/// Unread rest of the text.
struct Rest<'a> {
    text: &'a str,
    left: &'a str,
}

impl Rest<'_> {
    fn date_and_time(&mut self) -> Result<(), Why> {
        let year = self.number("2006", 4)?;
        self.literal("-")?;
        let month = self.in_range("01", 1..=12, "month")?;
        self.literal("-")?;
        // The day's range is checked after all other parts.
        let day = self.number("02", 2)?;
        self.literal("T")?;
        self.in_range("15", 0..=23, "hour")?;
        self.literal(":")?;
        self.in_range("04", 0..=59, "minute")?;
        self.literal(":")?;
        self.in_range("05", 0..=59, "second")?;
        self.fraction();
        self.zone()?;
        if !self.left.is_empty() {
            return Err(Why::Said(format!("extra text: {:?}", self.left)));
        }
        if !(1..=days_in(year, month)).contains(&day) {
            return Err(Why::Said("day out of range".to_string()));
        }
        Ok(())
    }

    fn mismatch(&self, wanted: &'static str) -> Why {
        Why::Mismatch { left: self.left.to_string(), wanted }
    }

    fn skip(&mut self, bytes: usize) {
        self.left = &self.left[bytes..];
    }

    fn literal(&mut self, wanted: &'static str) -> Result<(), Why> {
        self.left = self.left.strip_prefix(wanted).ok_or_else(|| self.mismatch(wanted))?;
        Ok(())
    }

    /// Parses a number of this many digits.
    fn number(&mut self, wanted: &'static str, digits: usize) -> Result<u32, Why> {
        let found = self.left.get(..digits).filter(|found| found.bytes().all(|byte| byte.is_ascii_digit()));
        let number = found.and_then(|found| found.parse().ok()).ok_or_else(|| self.mismatch(wanted))?;
        self.skip(digits);
        Ok(number)
    }

    fn in_range(&mut self, wanted: &'static str, range: std::ops::RangeInclusive<u32>, name: &str) -> Result<u32, Why> {
        let number = self.number(wanted, 2)?;
        if range.contains(&number) { Ok(number) } else { Err(Why::Said(format!("{name} out of range"))) }
    }

    /// Skips any number of digits after a point or a comma.
    fn fraction(&mut self) {
        let Some(digits) = self.left.strip_prefix(['.', ',']) else { return };
        let after = digits.trim_start_matches(|letter: char| letter.is_ascii_digit());
        if after.len() < digits.len() {
            self.left = &self.text[self.text.len() - after.len()..];
        }
    }

    fn zone(&mut self) -> Result<(), Why> {
        const WANTED: &str = "Z07:00";
        if let Some(after) = self.left.strip_prefix('Z') {
            self.left = &self.text[self.text.len() - after.len()..];
            return Ok(());
        }
        let zone = self.left.get(..6).ok_or_else(|| self.mismatch(WANTED))?;
        let digits = |at: usize| zone.get(at..at + 2).filter(|two| two.bytes().all(|byte| byte.is_ascii_digit()));
        let numbers = digits(1)
            .zip(digits(4))
            .and_then(|(hours, minutes)| Some((hours.parse::<u32>().ok()?, minutes.parse::<u32>().ok()?)));
        let (hours, minutes) = numbers
            .filter(|_| zone.starts_with(['+', '-']) && &zone[3..4] == ":")
            .ok_or_else(|| self.mismatch(WANTED))?;
        if hours > 24 {
            return Err(Why::Said("time zone offset hour out of range".to_string()));
        }
        if minutes > 60 {
            return Err(Why::Said("time zone offset minute out of range".to_string()));
        }
        self.skip(6);
        Ok(())
    }
}

fn days_in(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
