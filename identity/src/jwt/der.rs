//! Subset of DER that public keys in files need: definite lengths, read in sequence. Certificates are read for their
//! key and never trusted.

/// Unread bytes.
#[derive(Clone, Copy)]
pub(super) struct Der<'a>(pub(super) &'a [u8]);

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OBJECT_ID: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
/// Tag of a certificate's version, which is optional.
pub(super) const VERSION: u8 = 0xa0;

impl<'a> Der<'a> {
    /// Whether no bytes are left.
    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The tag of the next element.
    pub(super) fn peek(self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The content of the next element; `None` if its tag differs.
    pub(super) fn take(&mut self, tag: u8) -> Option<Der<'a>> {
        let (&found, rest) = self.0.split_first()?;
        if found != tag {
            return None;
        }
        let (&first, mut rest) = rest.split_first()?;
        let mut length = usize::from(first);
        if first >= 0x80 {
            let bytes = usize::from(first & 0x7f);
            if !(1..=4).contains(&bytes) || rest.len() < bytes {
                return None;
            }
            let (size, after) = rest.split_at(bytes);
            length = size.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            rest = after;
        }
        if rest.len() < length {
            return None;
        }
        let (content, after) = rest.split_at(length);
        self.0 = after;
        Some(Der(content))
    }

    /// The bytes of a positive integer, without leading zeros.
    pub(super) fn unsigned(&mut self) -> Option<&'a [u8]> {
        let bytes = self.take(INTEGER)?.0;
        let negative = bytes.first().is_none_or(|first| first & 0x80 != 0);
        let start = bytes.iter().position(|byte| *byte != 0)?;
        (!negative).then(|| &bytes[start..])
    }

    /// The bytes of a bit string; `None` if it has unused bits.
    pub(super) fn bits(&mut self) -> Option<&'a [u8]> {
        match self.take(BIT_STRING)?.0.split_first()? {
            (0, bytes) => Some(bytes),
            (_, _) => None,
        }
    }
}
