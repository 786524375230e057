//! The first bytes of a value: what it is and how long. Every form of msgpack is read; which are written is the business of `ser`.

/// What a value is. Lengths are those announced, not those that are there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Marker {
    Nil,
    Bool(bool),
    /// In a form of signed integers, or negative.
    Int(i64),
    /// In a form of unsigned ones, or small.
    UInt(u64),
    Float(f64),
    /// Text or bytes, in any form of strings.
    Raw(u32),
    /// Bytes in a form of their own, which nobody writes here.
    Bin(u32),
    /// An extension; one byte more says which.
    Ext(u32),
    Array(u32),
    Map(u32),
}

/// A marker and how many bytes it takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Head {
    pub(super) marker: Marker,
    pub(super) size: usize,
}

/// The byte 0xc1, which is nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reserved;

impl Head {
    /// The head of the value that `bytes` begin with; `None` when they end too early.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Self>, Reserved> {
        let Some((first, rest)) = bytes.split_first() else { return Ok(None) };
        let number = |size: usize| rest.get(..size).map(|digits| digits.iter().fold(0u64, |sum, digit| sum << 8 | u64::from(*digit)));
        let length = |size: usize, as_marker: fn(u32) -> Marker| number(size).map(|n| (as_marker(n as u32), size));
        let unsigned = |size: usize| number(size).map(|n| (Marker::UInt(n), size));
        // The sign is the first bit of so many bytes.
        let signed = |size: usize| number(size).map(|n| (Marker::Int((n << (64 - 8 * size)) as i64 >> (64 - 8 * size)), size));
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
