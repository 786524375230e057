//! Times in request bodies; errors have Go's texts. Times in answers are encoded by the model.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use songline_lang::go_time;
use songline_model::Time;

/// Beginning of Go's zero time.
const ZERO: &str = "0001-01-01T00:00:00";

/// A time in a request body. `None` for Go's zero time, in the year 1.
#[derive(Debug, Default, Clone, Copy)]
pub struct GoTime(pub Option<Time>);

impl<'de> Deserialize<'de> for GoTime {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match Value::deserialize(d)? {
            Value::Null => Ok(GoTime(None)),
            Value::String(text) => match go_time::refusal(&text) {
                None => Ok(GoTime(time_of(&text))),
                Some(refusal) => Err(D::Error::custom(refusal)),
            },
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                Err(D::Error::custom(go_time::NOT_A_TEXT))
            }
        }
    }
}

/// The time of a valid text. A time without a form here (before 1677, after 2262) is the nearest one that has one: a
/// token that is to expire then must not last for ever.
fn time_of(text: &str) -> Option<Time> {
    if text.strip_prefix(ZERO).is_some_and(|zone| ["Z", "+00:00", "-00:00"].contains(&zone)) {
        return None;
    }
    let bound = if text < "1970" { i64::MIN } else { i64::MAX };
    Some(Time::parse(text).unwrap_or(Time::from_nanos(bound)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_zero_time_of_go_is_no_time() {
        let read = |text: &str| serde_json::from_value::<GoTime>(text.into()).expect("a time").0.map(Time::nanos);
        for (text, expected) in [
            ("0001-01-01T00:00:00Z", None),
            ("0001-01-01T00:00:00+00:00", None),
            ("0001-01-01T00:00:01Z", Some(i64::MIN)),
            ("1500-01-01T00:00:00Z", Some(i64::MIN)),
            ("1970-01-01T00:00:01Z", Some(1_000_000_000)),
            ("3000-01-01T00:00:00Z", Some(i64::MAX)),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
