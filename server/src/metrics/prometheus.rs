//! Prometheus' text form, version 0.0.4: <https://prometheus.io/docs/instrumenting/exposition_formats/>.

use std::fmt::Write as _;

use super::family::{Family, Labels, Rows};
use super::series::{Measurement, QUANTILES};

/// Approximate size of a family without its series, in bytes.
const FAMILY_BYTES: usize = 200;
/// Approximate size of a series, in bytes.
const ROW_BYTES: usize = 128;

/// Encodes all families, each with its help and type before its series.
pub(super) fn text(families: &[Family]) -> String {
    let rows: usize = families.iter().map(|family| family.rows.len()).sum();
    let mut out = String::with_capacity(families.len() * FAMILY_BYTES + rows * ROW_BYTES);
    for family in families.iter().filter(|family| family.rows.len() > 0) {
        let name = legal(&family.name);
        let kind = match &family.rows {
            Rows::Gauges(_) => "gauge",
            Rows::Counters(_) => "counter",
            Rows::Summaries(_) => "summary",
        };
        // Writing to a String does not fail, here and below.
        let _ = writeln!(
            out,
            "# HELP {name} {}\n# TYPE {name} {kind}",
            family.help.replace('\\', "\\\\").replace('\n', "\\n")
        );
        match &family.rows {
            Rows::Gauges(rows) => rows.iter().for_each(|(labels, value)| line(&mut out, &name, "", labels, "", *value)),
            Rows::Counters(rows) => {
                rows.iter().for_each(|(labels, told)| line(&mut out, &name, "", labels, "", told.sum))
            }
            Rows::Summaries(rows) => rows.iter().for_each(|(labels, told)| summary(&mut out, &name, labels, told)),
        }
    }
    out
}

fn summary(out: &mut String, name: &str, labels: &Labels, told: &Measurement) {
    for ((_, quantile), value) in QUANTILES.iter().zip(told.quantiles) {
        line(out, name, "", labels, quantile, value);
    }
    line(out, name, "_sum", labels, "", told.sum);
    line(out, name, "_count", labels, "", told.count as f64);
}

fn line(out: &mut String, name: &str, suffix: &str, labels: &Labels, quantile: &str, value: f64) {
    out.push_str(name);
    out.push_str(suffix);
    if !labels.text.is_empty() || !quantile.is_empty() {
        out.push('{');
        out.push_str(&labels.text);
        if !quantile.is_empty() {
            let comma = if labels.text.is_empty() { "" } else { "," };
            let _ = write!(out, "{comma}quantile=\"{quantile}\"");
        }
        out.push('}');
    }
    out.push(' ');
    number(out, value);
    out.push('\n');
}

fn number(out: &mut String, value: f64) {
    // Most values are small whole numbers, which are written faster as such.
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    let _ = if value.is_infinite() {
        out.write_str(if value > 0.0 { "+Inf" } else { "-Inf" })
    } else if value.fract() == 0.0 && value.abs() < WHOLE_MAX {
        write!(out, "{}", value as i64)
    } else {
        write!(out, "{value}")
    };
}

/// The name with `_` for each character that Prometheus does not allow.
fn legal(name: &str) -> String {
    let allowed = |(nth, character): (usize, char)| {
        let ok = character.is_ascii_alphabetic()
            || character == '_'
            || character == ':'
            || (nth > 0 && character.is_ascii_digit());
        if ok { character } else { '_' }
    };
    name.chars().enumerate().map(allowed).collect()
}

impl Rows {
    /// Number of series.
    pub(super) fn len(&self) -> usize {
        match self {
            Rows::Gauges(rows) => rows.len(),
            Rows::Counters(rows) | Rows::Summaries(rows) => rows.len(),
        }
    }
}
