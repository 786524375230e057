//! Prefixes of ids, as people type them.

/// The first digits of an id: any number of them, even or odd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdPrefix {
    low: [u8; 16],
    high: [u8; 16],
    digits: usize,
}

/// A text that is not the prefix of an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid id prefix {0:?}")]
pub struct InvalidPrefix(pub String);

impl IdPrefix {
    /// Parses hexadecimal digits, with dashes at the places where ids have them.
    pub fn parse(text: &str) -> Result<Self, InvalidPrefix> {
        let invalid = || InvalidPrefix(text.to_owned());
        let mut prefix = Self { low: [0; 16], high: [0xff; 16], digits: 0 };
        for (at, character) in text.chars().enumerate() {
            if character == '-' && matches!(at, 8 | 13 | 18 | 23) {
                continue;
            }
            let digit = character.to_digit(16).ok_or_else(invalid)? as u8;
            let (low, high) = match (prefix.low.get_mut(prefix.digits / 2), prefix.high.get_mut(prefix.digits / 2)) {
                (Some(low), Some(high)) => (low, high),
                _ => return Err(invalid()),
            };
            if prefix.digits.is_multiple_of(2) {
                (*low, *high) = (digit << 4, digit << 4 | 0x0f);
            } else {
                (*low, *high) = (*low | digit, (*high & 0xf0) | digit);
            }
            prefix.digits += 1;
        }
        Ok(prefix)
    }

    /// Number of digits; 32 is a whole id.
    pub fn digits(&self) -> usize {
        self.digits
    }

    /// The first and the last id with this prefix.
    pub fn bounds(&self) -> ([u8; 16], [u8; 16]) {
        (self.low, self.high)
    }

    /// Whether an id has this prefix.
    pub fn matches(&self, id: &[u8; 16]) -> bool {
        (self.low..=self.high).contains(id)
    }
}

#[cfg(test)]
mod tests {
    use super::IdPrefix;

    #[test]
    fn id_prefix_with_odd_or_even_digits_bounds_the_matching_ids() {
        let bounds = |text: &str| {
            IdPrefix::parse(text)
                .map(|prefix| prefix.bounds())
                .map(|(low, high)| (low[..5].to_vec(), high[..5].to_vec()))
        };
        assert_eq!(bounds(""), Ok((vec![0; 5], vec![0xff; 5])));
        assert_eq!(bounds("A"), Ok((vec![0xa0, 0, 0, 0, 0], vec![0xaf, 0xff, 0xff, 0xff, 0xff])));
        assert_eq!(bounds("a1"), Ok((vec![0xa1, 0, 0, 0, 0], vec![0xa1, 0xff, 0xff, 0xff, 0xff])));
        assert_eq!(bounds("01234567-8"), Ok((vec![1, 0x23, 0x45, 0x67, 0x80], vec![1, 0x23, 0x45, 0x67, 0x8f])));
    }

    #[test]
    fn invalid_text_is_no_id_prefix() {
        for text in ["x", "0-1", "0123456789abcdef0123456789abcdef0"] {
            assert!(IdPrefix::parse(text).is_err(), "{text}");
        }
    }
}
