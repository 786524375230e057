//! Typed values of device attributes: numbers with units, texts and truth values, and constraints between them.

use std::cmp::Ordering;

use songline_model::{DeviceAttribute, Str};

use crate::feasible::satisfied;

/// A value of a device property or of a constraint's text.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A number in the base unit of its dimension.
    Number(f64, Dimension),
    /// A truth value.
    Bool(bool),
    /// Any other text.
    Text(Str),
}

/// Dimension of a number. Numbers of different dimensions cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    /// No unit.
    Count,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    ByteRate,
    /// Hertz.
    Frequency,
    /// Watts.
    Power,
}

const KILO: f64 = 1e3;
const KIBI: f64 = 1024.0;

/// Units with their size in the base unit. A unit stands after those that it is the end of.
const UNITS: &[(&str, f64, Dimension)] = &[
    ("KiB/s", KIBI, Dimension::ByteRate),
    ("MiB/s", KIBI * KIBI, Dimension::ByteRate),
    ("GiB/s", KIBI * KIBI * KIBI, Dimension::ByteRate),
    ("TiB/s", KIBI * KIBI * KIBI * KIBI, Dimension::ByteRate),
    ("PiB/s", KIBI * KIBI * KIBI * KIBI * KIBI, Dimension::ByteRate),
    ("EiB/s", KIBI * KIBI * KIBI * KIBI * KIBI * KIBI, Dimension::ByteRate),
    ("kB/s", KILO, Dimension::ByteRate),
    ("KB/s", KILO, Dimension::ByteRate),
    ("MB/s", 1e6, Dimension::ByteRate),
    ("GB/s", 1e9, Dimension::ByteRate),
    ("TB/s", 1e12, Dimension::ByteRate),
    ("PB/s", 1e15, Dimension::ByteRate),
    ("EB/s", 1e18, Dimension::ByteRate),
    ("KiB", KIBI, Dimension::Bytes),
    ("MiB", KIBI * KIBI, Dimension::Bytes),
    ("GiB", KIBI * KIBI * KIBI, Dimension::Bytes),
    ("TiB", KIBI * KIBI * KIBI * KIBI, Dimension::Bytes),
    ("PiB", KIBI * KIBI * KIBI * KIBI * KIBI, Dimension::Bytes),
    ("EiB", KIBI * KIBI * KIBI * KIBI * KIBI * KIBI, Dimension::Bytes),
    ("kB", KILO, Dimension::Bytes),
    ("KB", KILO, Dimension::Bytes),
    ("MB", 1e6, Dimension::Bytes),
    ("GB", 1e9, Dimension::Bytes),
    ("TB", 1e12, Dimension::Bytes),
    ("PB", 1e15, Dimension::Bytes),
    ("EB", 1e18, Dimension::Bytes),
    ("MHz", 1e6, Dimension::Frequency),
    ("GHz", 1e9, Dimension::Frequency),
    ("mW", 1e-3, Dimension::Power),
    ("kW", KILO, Dimension::Power),
    ("MW", 1e6, Dimension::Power),
    ("GW", 1e9, Dimension::Power),
    ("W", 1.0, Dimension::Power),
];

impl Value {
    /// The value of a device's attribute; `None` for an empty one or an unknown unit.
    pub fn of(attribute: &DeviceAttribute) -> Option<Self> {
        let number = attribute.int.map(|int| int as f64).or(attribute.float);
        if let Some(number) = number {
            let (size, dimension) = unit(&attribute.unit)?;
            return Some(Self::Number(number * size, dimension));
        }
        attribute.bool.map(Self::Bool).or_else(|| attribute.string.clone().map(Self::Text))
    }

    /// The value that a text stands for: `11 GiB` is a number of bytes, `true` a truth value.
    pub fn parse(text: &str) -> Self {
        let with_unit = UNITS.iter().find_map(|(name, size, dimension)| {
            let number: f64 = text.strip_suffix(name)?.trim_end().parse().ok()?;
            Some(Self::Number(number * size, *dimension))
        });
        if let Some(number) = with_unit {
            return number;
        }
        // Words such as `inf` are texts.
        let numeric = text.ends_with(|last: char| last.is_ascii_digit() || last == '.');
        if let Some(number) = text.parse().ok().filter(|_| numeric) {
            return Self::Number(number, Dimension::Count);
        }
        match text {
            "t" | "T" | "true" | "TRUE" | "True" => Self::Bool(true),
            "f" | "F" | "false" | "FALSE" | "False" => Self::Bool(false),
            _ => Self::Text(text.into()),
        }
    }

    /// Order of two values; `None` when they cannot be compared.
    fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Number(one, measured), Self::Number(two, as_well)) if measured == as_well => one.partial_cmp(two),
            (Self::Text(one), Self::Text(two)) => Some(one.cmp(two)),
            (Self::Bool(_) | Self::Number(..) | Self::Text(_), _) => None,
        }
    }

    fn equals(&self, other: &Self) -> Option<bool> {
        match (self, other) {
            (Self::Bool(one), Self::Bool(two)) => Some(one == two),
            _ => self.order(other).map(Ordering::is_eq),
        }
    }

    /// The value as operators on texts see it. Only texts and plain numbers have one.
    fn text(&self) -> Option<Str> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Number(number, Dimension::Count) => Some(number.to_string().into()),
            Self::Number(..) | Self::Bool(_) => None,
        }
    }
}

/// Whether an operand holds between two values, either of which may be missing.
pub fn holds(operand: &str, left: Option<&Value>, right: Option<&Value>) -> bool {
    let both = left.zip(right);
    let ordered = |is: fn(Ordering) -> bool| both.and_then(|(left, right)| left.order(right)).is_some_and(is);
    match operand {
        "=" | "==" | "is" => both.and_then(|(left, right)| left.equals(right)).unwrap_or(false),
        "!=" | "not" => match both {
            Some((left, right)) => left.equals(right) == Some(false),
            None => left.is_some() || right.is_some(),
        },
        "<" => ordered(Ordering::is_lt),
        "<=" => ordered(Ordering::is_le),
        ">" => ordered(Ordering::is_gt),
        ">=" => ordered(Ordering::is_ge),
        "is_set" => left.is_some(),
        "is_not_set" => left.is_none(),
        _ => {
            let (left, right) = (left.and_then(Value::text), right.and_then(Value::text));
            satisfied(operand, left.as_deref(), right.as_deref())
        }
    }
}

fn unit(name: &str) -> Option<(f64, Dimension)> {
    if name.is_empty() {
        return Some((1.0, Dimension::Count));
    }
    UNITS.iter().find(|(unit, ..)| *unit == name).map(|(_, size, dimension)| (*size, *dimension))
}
