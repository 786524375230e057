//! The reference's JSON form: the measurements of one interval. As in the reference, a series without values in it is
//! left out.

use std::fmt::Write as _;

use super::family::{Family, Labels, Rows};
use super::series::Measurement;

/// Approximate size of a series, in bytes.
const ROW_BYTES: usize = 160;

/// Encodes all families as one object. `began` is the start of the interval, `seconds` its length.
pub(super) fn object(families: &[Family], began: &str, seconds: f64) -> String {
    let rows: usize = families.iter().map(|family| family.rows.len()).sum();
    let mut out = String::with_capacity(rows * ROW_BYTES);
    // Writing to a String does not fail, here and below.
    let _ = write!(out, "{{\"Timestamp\":\"{began}\",\"Gauges\":");
    let mut list = List::new(&mut out);
    for family in families {
        if let Rows::Gauges(rows) = &family.rows {
            rows.iter().for_each(|(labels, value)| gauge(list.next(), &family.name, labels, *value));
        }
    }
    list.end();
    out.push_str(",\"Points\":[],\"Counters\":");
    measured(&mut out, families, seconds, |rows| if let Rows::Counters(rows) = rows { rows } else { &[] });
    out.push_str(",\"Samples\":");
    measured(&mut out, families, seconds, |rows| if let Rows::Summaries(rows) = rows { rows } else { &[] });
    out.push('}');
    out
}

type Row = (std::sync::Arc<Labels>, Measurement);

fn measured(out: &mut String, families: &[Family], seconds: f64, of: impl Fn(&Rows) -> &[Row]) {
    let mut list = List::new(out);
    for family in families {
        for (labels, told) in of(&family.rows).iter().filter(|(_, told)| told.window.count > 0) {
            let window = &told.window;
            let numbers = [
                ("Rate", window.sum / seconds),
                ("Sum", window.sum),
                ("Min", window.min),
                ("Max", window.max),
                ("Mean", window.mean()),
                ("Stddev", window.stddev()),
            ];
            let out = list.next();
            let _ = write!(out, "{{\"Name\":\"{}\",\"Count\":{}", family.name, window.count);
            for (name, value) in numbers {
                let _ = write!(out, ",\"{name}\":");
                number(out, value);
            }
            let _ = write!(out, ",\"Labels\":{}}}", labels.json);
        }
    }
    list.end();
}

fn gauge(out: &mut String, name: &str, labels: &Labels, value: f64) {
    out.push_str("{\"Name\":\"");
    out.push_str(name);
    out.push_str("\",\"Value\":");
    number(out, value);
    out.push_str(",\"Labels\":");
    out.push_str(&labels.json);
    out.push('}');
}

/// Writes a number. JSON has no infinities and no NaN: they become 0.
fn number(out: &mut String, value: f64) {
    let value = if value.is_finite() { value } else { 0.0 };
    let _ = write!(out, "{value}");
}

struct List<'a> {
    out: &'a mut String,
    first: bool,
}

impl<'a> List<'a> {
    fn new(out: &'a mut String) -> Self {
        out.push('[');
        Self { out, first: true }
    }

    fn next(&mut self) -> &mut String {
        if !std::mem::take(&mut self.first) {
            self.out.push(',');
        }
        self.out
    }

    fn end(self) {
        self.out.push(']');
    }
}
