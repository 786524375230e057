//! A text that most rows leave empty.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Str;

/// A text that is mostly empty: 8 bytes then, where a [`Str`] takes 24. Every allocation keeps several task events with
/// a dozen such texts each.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct RareText(Option<Box<Str>>);

impl RareText {
    /// The text as an independent value.
    pub fn to_str(&self) -> Str {
        self.0.as_deref().cloned().unwrap_or_default()
    }
}

impl Deref for RareText {
    type Target = str;

    fn deref(&self) -> &str {
        self.0.as_deref().map_or("", Str::as_str)
    }
}

impl From<Str> for RareText {
    fn from(text: Str) -> Self {
        Self((!text.is_empty()).then(|| Box::new(text)))
    }
}

impl From<&str> for RareText {
    fn from(text: &str) -> Self {
        Self::from(Str::new(text))
    }
}

impl From<String> for RareText {
    fn from(text: String) -> Self {
        Self::from(Str::from(text))
    }
}

impl fmt::Debug for RareText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for RareText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl Serialize for RareText {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for RareText {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Str::deserialize(d).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_written_and_read_as_any_other() {
        for text in ["", "short", "a text that is too long to be kept inline"] {
            let rare = RareText::from(text);
            assert_eq!((&*rare, rare.to_str()), (text, Str::new(text)));
            let json = serde_json::to_string(&rare).expect("is a text");
            assert_eq!(json, serde_json::to_string(text).expect("is a text"));
            assert_eq!(serde_json::from_str::<RareText>(&json).expect("is a text"), rare);
        }
        assert_eq!((size_of::<RareText>(), size_of::<crate::TaskEvent>()), (8, 248));
    }
}
