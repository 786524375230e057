//! `yamldecode` and `yamlencode`: YAML to values and back. A crate scans the YAML; plain words and numbers are
//! interpreted here.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, StrInput, Tag};

use super::{Called, Failure, Function, Takes, date, plain, text_of};
use crate::hcl::value::{Number, Value};

mod emit;

/// Deepest nesting of collections.
const DEPTH_MAX: usize = 100;
/// Largest number of values, including those repeated by aliases: a few lines of aliases can expand to more than fits
/// in memory.
const VALUES_MAX: usize = 1 << 18;

pub(super) const FUNCTIONS: &[Function] = &[
    plain("yamldecode", &[("src", Takes::Text)], decode),
    plain("yamlencode", &[("value", Takes::Nullable)], |given| {
        Ok(Value::Text(emit::document(given.first().unwrap_or(&Value::Null))))
    }),
];

fn decode(given: &[Value]) -> Called {
    // As in the reference, an empty text is one empty line.
    let text = match text_of(given, 0) {
        "" => "\n",
        text => text,
    };
    let mut reader = Reader { parser: Parser::new_from_str(text), text, anchors: BTreeMap::new(), values: 0 };
    reader.stream()
}

/// Reads a YAML document; the error is the reason.
pub(super) fn document(text: &str) -> Result<Value, String> {
    decode(&[Value::text(text)]).map_err(|failure| match failure {
        Failure::Argument(_, reason) | Failure::Call(reason) => reason,
    })
}

struct Reader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    text: &'t str,
    /// Values of anchors with their sizes; `None` while an anchor is being read.
    anchors: BTreeMap<usize, Option<(Value, usize)>>,
    values: usize,
}

/// An error at a position. The reference counts lines from 0 and columns from 1.
fn at(mark: Marker, reason: &str) -> Failure {
    Failure::Call(format!("on line {}, column {}: {reason}", mark.line().saturating_sub(1), mark.col() + 1))
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Marker), Failure> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, span.start)),
            Some(Err(error)) => Err(self.syntax(&error)),
            None => Err(Failure::Call("expecting value but found end of stream".to_owned())),
        }
    }

    /// A syntax error: the last part of the scanner's message. An error on the first line has no position.
    fn syntax(&self, error: &ScanError) -> Failure {
        let mark = *error.marker();
        if error.info().ends_with("unknown anchor") {
            let line = self.text.lines().nth(mark.line().saturating_sub(1)).unwrap_or_default();
            let name: String = line
                .chars()
                .skip(mark.col() + 1)
                .take_while(|letter| !letter.is_whitespace() && !",[]{}".contains(*letter))
                .collect();
            return at(mark, &format!("reference to undefined anchor {name:?}"));
        }
        let reason = error.info().rsplit(", ").next().unwrap_or_default();
        if self.text.chars().nth(mark.index()).is_none() {
            // An error at the end of the text is reported at the start of the following line.
            return Failure::Call(format!(
                "on line {}, column 1: {reason}",
                self.text.trim_end_matches('\n').lines().count()
            ));
        }
        if mark.line() <= 1 { Failure::Call(reason.to_owned()) } else { at(mark, reason) }
    }

    fn stream(&mut self) -> Called {
        self.next()?;
        let (event, mark) = self.next()?;
        let Event::DocumentStart(_) = event else {
            let end = Marker::new(0, self.text.matches('\n').count() + 1, 0);
            return Err(at(if event == Event::StreamEnd { end } else { mark }, "missing start of document"));
        };
        let (event, mark) = self.next()?;
        let value = self.value(event, mark, 0)?;
        self.next()?;
        match self.next()? {
            (Event::StreamEnd, _) => Ok(value),
            (_, mark) => Err(at(mark, "unexpected extra content after value")),
        }
    }

    fn value(&mut self, event: Event<'t>, mark: Marker, depth: usize) -> Called {
        if depth > DEPTH_MAX {
            return Err(at(mark, "nested too deeply"));
        }
        self.count(1, mark)?;
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value =
                    scalar(&text, style, long_tag(tag.as_deref()).as_deref()).map_err(|reason| at(mark, &reason))?;
                self.name(anchor, &value, self.values);
                Ok(value)
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                Some(Some((value, values))) => {
                    self.count(values, mark)?;
                    Ok(value)
                }
                Some(None) | None => Err(at(mark, "cannot refer to an anchor from inside its own definition")),
            },
            Event::SequenceStart(anchor, tag) => self.sequence(anchor, tag.as_deref(), mark, depth),
            Event::MappingStart(anchor, tag) => self.mapping(anchor, tag.as_deref(), mark, depth),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => Err(at(mark, "expecting value but found end of stream")),
        }
    }

    fn sequence(&mut self, anchor: usize, tag: Option<&Tag>, mark: Marker, depth: usize) -> Called {
        expect_tag(tag, "tag:yaml.org,2002:seq", "sequence").map_err(|reason| at(mark, &reason))?;
        let before = self.begin(anchor);
        let mut items = Vec::new();
        loop {
            let (event, mark) = self.next()?;
            if event == Event::SequenceEnd {
                let value = Value::tuple(items);
                self.name(anchor, &value, before);
                return Ok(value);
            }
            items.push(self.value(event, mark, depth + 1)?);
        }
    }

    fn mapping(&mut self, anchor: usize, tag: Option<&Tag>, mark: Marker, depth: usize) -> Called {
        expect_tag(tag, "tag:yaml.org,2002:map", "mapping").map_err(|reason| at(mark, &reason))?;
        let before = self.begin(anchor);
        let mut members = BTreeMap::new();
        loop {
            let (event, key_mark) = self.next()?;
            let (text, style, tag) = match event {
                Event::MappingEnd => {
                    let value = Value::object(members);
                    self.name(anchor, &value, before);
                    return Ok(value);
                }
                Event::Scalar(text, style, _, tag) => (text, style, tag),
                _ => return Err(at(key_mark, "only strings are allowed as mapping keys")),
            };
            if text == "<<" && style == ScalarStyle::Plain {
                let (event, mark) = self.next()?;
                match self.value(event, mark, depth + 1)? {
                    Value::Mapping(_, merged) => members.extend(merged),
                    other => return Err(at(key_mark, &format!("cannot merge {} into mapping", other.type_name()))),
                }
                continue;
            }
            let key = scalar(&text, style, long_tag(tag.as_deref()).as_deref()).map_err(Failure::Call)?;
            let key = match key {
                Value::Null => return Err(at(key_mark, "mapping key cannot be null")),
                Value::Text(text) => text,
                Value::Bool(truth) => truth.to_string(),
                Value::Number(number) => number.to_string(),
                Value::Unknown | Value::Sequence(..) | Value::Mapping(..) => {
                    return Err(at(key_mark, "only strings are allowed as mapping keys"));
                }
            };
            let (event, mark) = self.next()?;
            let value = self.value(event, mark, depth + 1)?;
            members.insert(key, value);
        }
    }

    fn count(&mut self, values: usize, mark: Marker) -> Result<(), Failure> {
        self.values += values;
        if self.values > VALUES_MAX { Err(at(mark, "too many values")) } else { Ok(()) }
    }

    /// Starts the value of an anchor. Returns the number of values read so far.
    fn begin(&mut self, anchor: usize) -> usize {
        if anchor != 0 {
            self.anchors.insert(anchor, None);
        }
        self.values
    }

    /// Ends the value of an anchor. `before` is the number of values at its start, which gives the number that an
    /// alias repeats.
    fn name(&mut self, anchor: usize, value: &Value, before: usize) {
        if anchor != 0 {
            self.anchors.insert(anchor, Some((value.clone(), self.values - before + 1)));
        }
    }
}

fn expect_tag(tag: Option<&Tag>, own: &str, what: &str) -> Result<(), String> {
    match long_tag(tag) {
        Some(tag) if tag != own && tag != "!" => Err(format!("can't interpret {what} as {tag}")),
        Some(_) | None => Ok(()),
    }
}

fn long_tag(tag: Option<&Tag>) -> Option<String> {
    tag.map(|tag| format!("{}{}", tag.handle, tag.suffix))
}

/// The value of a scalar: a text if quoted, otherwise by its form.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&str>) -> Result<Value, String> {
    let kind = match tag {
        None if style == ScalarStyle::Plain => "",
        None | Some("!") => "str",
        Some(tag) => match tag.strip_prefix("tag:yaml.org,2002:") {
            Some(kind @ ("str" | "bool" | "int" | "float" | "null" | "timestamp" | "binary")) => kind,
            _ => return Err(format!("unsupported tag {tag:?}")),
        },
    };
    let cannot = || Err(format!("cannot parse {text:?} as tag:yaml.org,2002:{kind}"));
    match kind {
        "str" => return Ok(Value::text(text)),
        "binary" => {
            use base64::Engine as _;
            return match base64::engine::general_purpose::STANDARD.decode(text.replace(['\n', '\r'], "")) {
                Ok(_) => Ok(Value::text(text)),
                Err(_) => Err(format!("cannot parse {text:?} as tag:yaml.org,2002:binary: not valid base64")),
            };
        }
        _ => {}
    }
    if let Some(known) = word(text) {
        return Ok(known);
    }
    if matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Err("floating point NaN is not supported".to_owned());
    }
    let begins = text.as_bytes().first().copied().unwrap_or(b' ');
    if begins.is_ascii_digit() || matches!(begins, b'+' | b'-' | b'.') {
        if matches!(kind, "" | "timestamp")
            && let Some(time) = timestamp(text)
        {
            return Ok(Value::Text(time));
        }
        if let Some(number) = number(&text.replace('_', "")) {
            return Ok(Value::Number(number));
        }
    }
    match kind {
        "" => Ok(Value::text(text)),
        "null" => Ok(Value::Null),
        _ => cannot(),
    }
}

/// The words for booleans, null and infinity.
fn word(text: &str) -> Option<Value> {
    Some(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Value::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Value::Bool(false),
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Value::Number(Number::Float(f64::INFINITY)),
        "-.inf" | "-.Inf" | "-.INF" => Value::Number(Number::Float(f64::NEG_INFINITY)),
        _ => return None,
    })
}

/// A decimal number, or an integer with a base prefix: `0x1f`, `0o17`, `0b11`. A leading zero alone is decimal.
fn number(text: &str) -> Option<Number> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    for (prefix, base) in [("0x", 16), ("0X", 16), ("0o", 8), ("0O", 8), ("0b", 2), ("0B", 2)] {
        if let Some(digits) = digits.strip_prefix(prefix) {
            let whole = u64::from_str_radix(digits, base)
                .ok()
                .filter(|_| digits.starts_with(|first: char| first.is_ascii_hexdigit()));
            return whole.map(|whole| Number::Integer(sign * i128::from(whole)));
        }
    }
    let is_decimal =
        digits.chars().all(|letter| letter.is_ascii_digit() || matches!(letter, '.' | 'e' | 'E' | '+' | '-'));
    match Number::parse(digits).filter(|_| is_decimal)? {
        number if sign < 0 => Some(number.negate()),
        number => Some(number),
    }
}

/// A date, with or without a time, in RFC 3339.
fn timestamp(text: &str) -> Option<String> {
    let (year, rest) = text.split_at_checked(4)?;
    let rest = rest.strip_prefix('-').filter(|_| year.bytes().all(|digit| digit.is_ascii_digit()))?;
    let end = rest.find(['T', 't', ' ']).unwrap_or(rest.len());
    let (month, day) = rest[..end].split_once('-')?;
    let date = format!("{year}-{}-{}", two(month)?, two(day)?);
    let Some(mark) = rest[end..].chars().next() else { return rfc3339(format!("{date}T00:00:00Z")) };
    let time = &rest[end + 1..];
    let (clock, zone) = match (mark, time.find(['Z', '+', '-'])) {
        (' ', None) => (time, "Z"),
        (' ', Some(_)) | (_, None) => return None,
        (_, Some(zone)) => time.split_at(zone),
    };
    let clock = clock.split_once('.').map_or(clock, |(clock, _)| clock);
    let mut parts = clock.split(':');
    let (hour, minute, second) = (two(parts.next()?)?, two(parts.next()?)?, two(parts.next()?)?);
    if parts.next().is_some() {
        return None;
    }
    rfc3339(format!("{date}T{hour}:{minute}:{second}{}", if zone == "+00:00" { "Z" } else { zone }))
}

fn rfc3339(text: String) -> Option<String> {
    date::is_time(&text).then_some(text)
}

fn two(digits: &str) -> Option<String> {
    let fits = (1..=2).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit());
    fits.then(|| format!("{digits:0>2}"))
}
