//! Heads of values: type and length. All forms of msgpack are read; `ser` chooses the forms to write.

/// Type of a value. Lengths are announced ones; the bytes may be missing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Marker {
    Nil,
    Bool(bool),
    /// An integer in a signed form, or negative.
    Int(i64),
    /// An integer in an unsigned form, or a small one.
    UInt(u64),
    Float(f64),
    /// Text or bytes, in any form of strings.
    Raw(u32),
    /// Bytes in the `bin` forms, which are never written here.
    Bin(u32),
    /// An extension; its type byte follows.
    Ext(u32),
    Array(u32),
    Map(u32),
}

/// A marker and its length in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Head {
    pub(super) marker: Marker,
    pub(super) size: usize,
}

/// The byte 0xc1, which begins no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reserved;

impl Head {
    /// Reads the head of the value at the start of `bytes`; `None` if the bytes end too early.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Self>, Reserved> {
        let Some((first, rest)) = bytes.split_first() else { return Ok(None) };
        let number = |size: usize| {
            rest.get(..size).map(|digits| digits.iter().fold(0u64, |sum, digit| sum << 8 | u64::from(*digit)))
        };
        let length = |size: usize, as_marker: fn(u32) -> Marker| number(size).map(|n| (as_marker(n as u32), size));
        let unsigned = |size: usize| number(size).map(|n| (Marker::UInt(n), size));
        // The sign is the highest bit of the `size` bytes.
        let signed =
            |size: usize| number(size).map(|n| (Marker::Int((n << (64 - 8 * size)) as i64 >> (64 - 8 * size)), size));
        let read = match *first {
            n @ 0x00..=0x7f => Some((Marker::UInt(n.into()), 0)),
            n @ 0x80..=0x8f => Some((Marker::Map((n & 0x0f).into()), 0)),
            n @ 0x90..=0x9f => Some((Marker::Array((n & 0x0f).into()), 0)),
            n @ 0xa0..=0xbf => Some((Marker::Raw((n & 0x1f).into()), 0)),
            0xc0 => Some((Marker::Nil, 0)),
            0xc1 => return Err(Reserved),
            0xc2 => Some((Marker::Bool(false), 0)),
            0xc3 => Some((Marker::Bool(true), 0)),
            0xc4 => length(1, Marker::Bin),
            0xc5 => length(2, Marker::Bin),
            0xc6 => length(4, Marker::Bin),
            0xc7 => length(1, Marker::Ext),
            0xc8 => length(2, Marker::Ext),
            0xc9 => length(4, Marker::Ext),
            0xca => number(4).map(|n| (Marker::Float(f32::from_bits(n as u32).into()), 4)),
            0xcb => number(8).map(|n| (Marker::Float(f64::from_bits(n)), 8)),
            0xcc => unsigned(1),
            0xcd => unsigned(2),
            0xce => unsigned(4),
            0xcf => unsigned(8),
            0xd0 => signed(1),
            0xd1 => signed(2),
            0xd2 => signed(4),
            0xd3 => signed(8),
            n @ 0xd4..=0xd8 => Some((Marker::Ext(1 << (n - 0xd4)), 0)),
            0xd9 => length(1, Marker::Raw),
            0xda => length(2, Marker::Raw),
            0xdb => length(4, Marker::Raw),
            0xdc => length(2, Marker::Array),
            0xdd => length(4, Marker::Array),
            0xde => length(2, Marker::Map),
            0xdf => length(4, Marker::Map),
            n @ 0xe0.. => Some((Marker::Int((n as i8).into()), 0)),
        };
        Ok(read.map(|(marker, size)| Head { marker, size: 1 + size }))
    }
}
