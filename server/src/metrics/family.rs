//! Families of series, as a scrape gathers them. `prometheus` and `json` encode them.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use super::series::Measurement;

/// All series of one name.
pub(crate) struct Family {
    /// The reference's name, with dots.
    pub name: Cow<'static, str>,
    /// Help in one sentence.
    pub help: Cow<'static, str>,
    pub rows: Rows,
}

/// The series of a family, each with its labels. No two have the same labels.
pub(crate) enum Rows {
    /// Current values.
    Gauges(Vec<(Arc<Labels>, f64)>),
    /// Totals.
    Counters(Vec<(Arc<Labels>, Measurement)>),
    /// Distributions of values.
    Summaries(Vec<(Arc<Labels>, Measurement)>),
}

/// The labels of a series, encoded once for both forms and written at every scrape.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Labels {
    /// `a="x",b="y"`
    pub text: Box<str>,
    /// `{"a":"x","b":"y"}`
    pub json: Box<str>,
}

static NONE: LazyLock<Arc<Labels>> = LazyLock::new(|| Arc::new(Labels { text: "".into(), json: "{}".into() }));

impl Labels {
    /// No label.
    pub(super) fn none() -> Arc<Self> {
        Arc::clone(&NONE)
    }

    /// Encodes labels. Names are ours and need no escapes; values may have any characters.
    pub(super) fn new(pairs: &[(&str, &str)]) -> Arc<Self> {
        let (mut text, mut json) = (String::new(), String::from("{"));
        for (nth, (name, value)) in pairs.iter().enumerate() {
            let comma = if nth > 0 { "," } else { "" };
            // Writing to a String does not fail.
            let _ = write!(text, "{comma}{name}=\"");
            escape_label(value, &mut text);
            text.push('"');
            let _ = write!(json, "{comma}\"{name}\":{}", serde_json::Value::from(*value));
        }
        json.push('}');
        Arc::new(Self { text: text.into(), json: json.into() })
    }
}

/// Writes a label value with the three escapes of Prometheus' form.
fn escape_label(value: &str, out: &mut String) {
    for character in value.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

impl Family {
    /// A counter without labels.
    pub(super) fn counter(
        name: impl Into<Cow<'static, str>>,
        help: impl Into<Cow<'static, str>>,
        told: Measurement,
    ) -> Self {
        Self { name: name.into(), help: help.into(), rows: Rows::Counters(vec![(Labels::none(), told)]) }
    }

    /// A summary without labels.
    pub(super) fn summary(
        name: impl Into<Cow<'static, str>>,
        help: impl Into<Cow<'static, str>>,
        told: Measurement,
    ) -> Self {
        Self { name: name.into(), help: help.into(), rows: Rows::Summaries(vec![(Labels::none(), told)]) }
    }

    /// A family of gauges.
    pub(super) fn gauges(name: &'static str, help: &'static str, rows: Vec<(Arc<Labels>, f64)>) -> Self {
        Self { name: name.into(), help: help.into(), rows: Rows::Gauges(rows) }
    }

    /// A gauge without labels.
    pub(super) fn gauge(name: &'static str, help: &'static str, value: f64) -> Self {
        Self::gauges(name, help, vec![(Labels::none(), value)])
    }

    /// Gauges that are distinguished by one label.
    pub(super) fn by<'a>(
        name: &'static str,
        help: &'static str,
        label: &str,
        rows: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> Self {
        let rows = rows.into_iter().map(|(value, count)| (Labels::new(&[(label, value)]), count as f64)).collect();
        Self::gauges(name, help, rows)
    }
}
