//! One verb of a pattern: its flags, and values written by it.

use std::fmt::Write as _;

use super::{BYTES_MAX, WIDTH_MAX, float, write_plain};
use crate::template::literal;
use crate::template::value::{Value, bytes_of_text};

/// A verb with its flags, width and precision.
#[derive(Debug, Default)]
pub(super) struct Verb {
    pub plus: bool,
    minus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
    pub letter: Option<char>,
    /// An explicit argument number is not that of an argument.
    pub bad_index: bool,
}

impl Verb {
    /// Reads a verb after its `%`. Returns it with its length in bytes. `next` is the next argument.
    pub fn parse(text: &str, values: &[Value], next: &mut usize, reordered: &mut bool) -> (Self, usize) {
        let mut verb = Self::default();
        let mut at = 0;
        for letter in text.chars() {
            match letter {
                '+' => verb.plus = true,
                '-' => verb.minus = true,
                '#' => verb.sharp = true,
                ' ' => verb.space = true,
                '0' => verb.zero = true,
                _ => break,
            }
            at += 1;
        }
        at += verb.index(&text[at..], values, next, reordered);
        let (width, length) = number(&text[at..], values, next);
        at += length;
        verb.width = width.map(|width| {
            verb.minus |= width < 0;
            usize::try_from(width.unsigned_abs()).unwrap_or(WIDTH_MAX).min(WIDTH_MAX)
        });
        if text[at..].starts_with('.') {
            at += 1;
            at += verb.index(&text[at..], values, next, reordered);
            let (precision, length) = number(&text[at..], values, next);
            at += length;
            verb.precision = Some(usize::try_from(precision.unwrap_or(0)).unwrap_or(0).min(WIDTH_MAX));
        }
        at += verb.index(&text[at..], values, next, reordered);
        verb.zero &= !verb.minus;
        verb.letter = text[at..].chars().next();
        (verb, at + text[at..].chars().next().map_or(0, char::len_utf8))
    }

    /// Reads `[n]`.
    fn index(&mut self, text: &str, values: &[Value], next: &mut usize, reordered: &mut bool) -> usize {
        let Some(inner) = text.strip_prefix('[') else { return 0 };
        *reordered = true;
        let Some(end) = inner.find(']') else {
            self.bad_index = true;
            return 1;
        };
        match inner[..end].parse::<usize>() {
            Ok(place) if (1..=values.len()).contains(&place) => *next = place - 1,
            _ => self.bad_index = true,
        }
        end + 2
    }

    /// Writes a value.
    pub fn write(&self, out: &mut String, value: &Value) {
        let Some(letter) = self.letter else { return };
        match letter {
            'T' => self.pad(out, &shown_type(value), false),
            'v' => self.plain(out, value),
            _ => self.element(out, value, letter),
        }
    }

    /// `%v`: flags apply to the elements of lists and maps.
    fn plain(&self, out: &mut String, value: &Value) {
        match value {
            Value::Int(_) | Value::Uint(_) => self.element(out, value, 'd'),
            Value::Float(_) => self.element(out, value, 'g'),
            Value::Text(_) if self.sharp => self.element(out, value, 'q'),
            Value::Text(_) => self.element(out, value, 's'),
            Value::Bool(_) => self.element(out, value, 't'),
            value => {
                let mut text = String::new();
                write_plain(&mut text, value, self, true);
                if matches!(value, Value::Missing | Value::Nil) {
                    self.pad(out, &text, false)
                } else {
                    out.push_str(&text)
                }
            }
        }
    }

    /// A value, or each element of it, by a verb other than `v`.
    fn element(&self, out: &mut String, value: &Value, letter: char) {
        match (value, letter) {
            (Value::Text(text), 's') => self.pad(out, &self.cut(text), false),
            (Value::Text(text), 'q') => self.pad(out, &literal::quoted(&self.cut(text)), false),
            (Value::Text(text), 'x' | 'X') => self.pad(out, &hex(&bytes_of_text(text), letter), false),
            (Value::Bool(truth), 't') => self.pad(out, &truth.to_string(), false),
            (Value::Int(number), _) if is_integer_verb(letter) => {
                self.integer(out, number.unsigned_abs(), *number < 0, letter);
            }
            (Value::Uint(number), _) if is_integer_verb(letter) => self.integer(out, *number, false, letter),
            (Value::Float(number), 'e' | 'E' | 'f' | 'F' | 'g' | 'G') => self.float(out, *number, letter),
            (Value::List(list), _) => {
                out.push('[');
                for (at, item) in list.items.iter().enumerate() {
                    if out.len() > BYTES_MAX {
                        break;
                    }
                    if at > 0 {
                        out.push(' ');
                    }
                    self.element(out, item, letter);
                }
                out.push(']');
            }
            (Value::Map(map), _) => {
                out.push_str("map[");
                for (at, (key, item)) in map.items.iter().enumerate() {
                    if at > 0 {
                        out.push(' ');
                    }
                    self.element(out, &Value::Text(key.clone()), letter);
                    out.push(':');
                    self.element(out, item, letter);
                }
                out.push(']');
            }
            (Value::Record(record), _) => {
                out.push_str(if record.of.starts_with('*') { "&{" } else { "{" });
                for (at, (_, field)) in record.fields.iter().enumerate() {
                    if at > 0 {
                        out.push(' ');
                    }
                    self.element(out, field, letter);
                }
                out.push('}');
            }
            (Value::Object(object), _) => match object.printed() {
                Some(text) if matches!(letter, 's' | 'q' | 'x' | 'X') => {
                    self.element(out, &Value::text(text), letter);
                }
                _ => self.element(out, &object.plain(), letter),
            },
            // Writing to a text cannot fail.
            (Value::Missing | Value::Nil, _) => drop(write!(out, "%!{letter}(<nil>)")),
            (other, _) => drop(write!(out, "%!{letter}({}={})", other.type_name(), super::plain(other))),
        }
    }

    /// A text's first characters, by the precision.
    fn cut(&self, text: &str) -> String {
        text.chars().take(self.precision.unwrap_or(usize::MAX)).collect()
    }

    fn integer(&self, out: &mut String, magnitude: u64, negative: bool, letter: char) {
        let letter_of = |code: u64| u32::try_from(code).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
        let mut digits = match letter {
            'b' => format!("{magnitude:b}"),
            'o' | 'O' => format!("{magnitude:o}"),
            'x' => format!("{magnitude:x}"),
            'X' => format!("{magnitude:X}"),
            'c' => return self.pad(out, &letter_of(magnitude).to_string(), false),
            'q' => return self.pad(out, &format!("'{}'", letter_of(magnitude)), false),
            'U' => return self.pad(out, &format!("U+{magnitude:04X}"), false),
            _ => magnitude.to_string(),
        };
        if let Some(precision) = self.precision {
            digits = format!("{digits:0>precision$}");
        }
        let mark = match letter {
            'x' if self.sharp => "0x",
            'X' if self.sharp => "0X",
            'o' if self.sharp => "0",
            'b' if self.sharp => "0b",
            'O' => "0o",
            _ => "",
        };
        let sign = self.sign(negative);
        if self.zero && self.precision.is_none() {
            let width = self.width.unwrap_or(0).saturating_sub(sign.len());
            digits = format!("{digits:0>width$}");
        }
        self.pad(out, &format!("{sign}{mark}{digits}"), false);
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, _, _) => "-",
            (false, true, _) => "+",
            (false, false, true) => " ",
            (false, false, false) => "",
        }
    }

    fn float(&self, out: &mut String, number: f64, letter: char) {
        let text = float::formatted(number, letter, self.precision);
        let text = match text.strip_prefix(['-', '+']) {
            Some(digits) => format!("{}{digits}", self.sign(text.starts_with('-'))),
            None => format!("{}{text}", self.sign(false)),
        };
        self.pad(out, &text, self.zero && number.is_finite());
    }

    /// Writes a text in the width.
    fn pad(&self, out: &mut String, text: &str, zeros: bool) {
        let missing = self.width.unwrap_or(0).saturating_sub(text.chars().count());
        let (sign, digits) = match text.strip_prefix(['-', '+', ' ']).filter(|_| zeros) {
            Some(digits) => text.split_at(text.len() - digits.len()),
            None => ("", text),
        };
        if self.minus {
            out.push_str(text);
            out.extend(std::iter::repeat_n(' ', missing));
        } else if zeros {
            out.push_str(sign);
            out.extend(std::iter::repeat_n('0', missing));
            out.push_str(digits);
        } else {
            out.extend(std::iter::repeat_n(
                if self.zero && self.width.is_some() && is_text_padded(self.letter) { '0' } else { ' ' },
                missing,
            ));
            out.push_str(text);
        }
    }
}

/// Whether texts of this verb are padded with zeros by the flag `0`.
fn is_text_padded(letter: Option<char>) -> bool {
    matches!(letter, Some('s' | 'q' | 'v' | 't'))
}

fn is_integer_verb(letter: char) -> bool {
    matches!(letter, 'd' | 'b' | 'o' | 'O' | 'x' | 'X' | 'c' | 'q' | 'U')
}

fn shown_type(value: &Value) -> String {
    match value {
        Value::Missing | Value::Nil => "<nil>".to_owned(),
        other => other.type_name(),
    }
}

fn hex(bytes: &[u8], letter: char) -> String {
    let lower: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    if letter == 'X' { lower.to_ascii_uppercase() } else { lower }
}

/// Reads digits, or `*` for the value of an argument. Returns the number and its length in bytes.
fn number(text: &str, values: &[Value], next: &mut usize) -> (Option<i64>, usize) {
    if text.starts_with('*') {
        let given = match values.get(*next) {
            Some(Value::Int(number)) => Some(*number),
            _ => None,
        };
        *next += 1;
        return (given, 1);
    }
    let length = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let most = i64::try_from(WIDTH_MAX).unwrap_or(i64::MAX);
    if length == 0 { (None, 0) } else { (Some(text[..length].parse().unwrap_or(most)), length) }
}
