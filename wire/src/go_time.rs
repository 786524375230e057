//! Times in request bodies; errors have Go's texts. Times in answers are encoded by the model.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use songline_lang::go_time;
use songline_model::Time;

/// A time in a request body. `None` for Go's zero time, in the year 1.
#[derive(Debug, Default, Clone, Copy)]
pub struct GoTime(pub Option<Time>);

impl<'de> Deserialize<'de> for GoTime {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match Value::deserialize(d)? {
            Value::Null => Ok(GoTime(None)),
            Value::String(text) => match go_time::refusal(&text) {
                None => Ok(GoTime(Time::parse(&text).filter(|_| !text.starts_with("0001-01-01T00:00:00")))),
                Some(refusal) => Err(D::Error::custom(refusal)),
            },
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                Err(D::Error::custom(go_time::NOT_A_TEXT))
            }
        }
    }
}
