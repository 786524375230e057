//! Splits an event stream into frames, and parses as little of them as possible: the tool must not be slower than the
//! agent. Supports JSON lines and the part of msgpack that event streams use.

use anyhow::{Context, bail};

/// How the frames are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// One msgpack map after the other.
    Msgpack,
}

impl Format {
    /// Value of the query parameter.
    pub fn word(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Msgpack => "msgpack",
        }
    }
}

/// Content of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// Events of the entry at this index.
    Events {
        index: u64,
        events: u64,
    },
    /// A gap: the oldest available index.
    Gap(u64),
    CaughtUp(u64),
    Other,
}

/// Bytes that are not complete frames yet.
pub struct Frames {
    format: Format,
    rest: Vec<u8>,
}

impl Frames {
    pub fn new(format: Format) -> Self {
        Self { format, rest: Vec::new() }
    }

    /// Passes every frame that `chunk` completes to `each`.
    pub fn push(&mut self, chunk: &[u8], mut each: impl FnMut(Frame)) -> anyhow::Result<()> {
        // Most chunks begin and end with a frame: then nothing is copied.
        if self.rest.is_empty() {
            let used = self.cut(chunk, &mut each)?;
            self.rest.extend_from_slice(&chunk[used..]);
            return Ok(());
        }
        self.rest.extend_from_slice(chunk);
        let rest = std::mem::take(&mut self.rest);
        let used = self.cut(&rest, &mut each)?;
        self.rest = rest;
        self.rest.drain(..used);
        Ok(())
    }

    fn cut(&self, bytes: &[u8], each: &mut impl FnMut(Frame)) -> anyhow::Result<usize> {
        let mut used = 0;
        loop {
            let found = match self.format {
                Format::Json => json(&bytes[used..])?,
                Format::Msgpack => msgpack(&bytes[used..])?,
            };
            let Some((frame, length)) = found else { return Ok(used) };
            each(frame);
            used += length;
        }
    }
}

fn json(bytes: &[u8]) -> anyhow::Result<Option<(Frame, usize)>> {
    let Some(end) = memchr(bytes) else { return Ok(None) };
    let line = &bytes[..end];
    let frame = if line.starts_with(b"{\"Events\"") {
        // `..],"Index":N}`
        let digits = line.iter().rev().skip(1).take_while(|byte| byte.is_ascii_digit()).count();
        let index = std::str::from_utf8(&line[line.len() - 1 - digits..line.len() - 1])?.parse()?;
        let events = line.windows(10).filter(|window| window == b"\"Payload\":").count();
        Frame::Events { index, events: events as u64 }
    } else {
        let mark: serde_json::Value =
            serde_json::from_slice(line).with_context(|| String::from_utf8_lossy(line).into_owned())?;
        of_mark(&mark)
    };
    Ok(Some((frame, end + 1)))
}

fn memchr(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}

fn of_mark(mark: &serde_json::Value) -> Frame {
    if let Some(oldest) = mark["Gap"]["Oldest"].as_u64() {
        return Frame::Gap(oldest);
    }
    match (mark["CaughtUp"] == true, mark["Index"].as_u64()) {
        (true, Some(index)) => Frame::CaughtUp(index),
        _ => Frame::Other,
    }
}

fn msgpack(bytes: &[u8]) -> anyhow::Result<Option<(Frame, usize)>> {
    const EVENTS: &[u8] = b"\x82\xa6Events\xdd";
    let mut at = 0;
    if !bytes.starts_with(EVENTS) {
        if !skip(bytes, &mut at)? {
            return Ok(None);
        }
        let mark: serde_json::Value = rmp_serde::from_slice(&bytes[..at])?;
        return Ok(Some((of_mark(&mark), at)));
    }
    let Some(count) = bytes.get(EVENTS.len()..).and_then(|rest| rest.first_chunk::<4>()) else { return Ok(None) };
    let events = u32::from_be_bytes(*count);
    at = EVENTS.len() + 4;
    for _ in 0..events {
        if !skip(bytes, &mut at)? {
            return Ok(None);
        }
    }
    let Some(end) = bytes.get(at..at + 15) else { return Ok(None) };
    let Some(index) = end.strip_prefix(b"\xa5Index\xcf").and_then(|rest| rest.first_chunk::<8>()) else {
        bail!("a frame ends without its index")
    };
    Ok(Some((Frame::Events { index: u64::from_be_bytes(*index), events: u64::from(events) }, at + 15)))
}

/// Skips one value; false when it is incomplete.
fn skip(bytes: &[u8], at: &mut usize) -> anyhow::Result<bool> {
    let mut values = 1_usize;
    while values > 0 {
        values -= 1;
        let Some(&marker) = bytes.get(*at) else { return Ok(false) };
        *at += 1;
        let number = |width: usize| -> Option<usize> {
            let digits = bytes.get(*at..*at + width)?;
            Some(digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)))
        };
        let (payload, inner) = match marker {
            0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => (Some(0), 0),
            0x80..=0x8f => (Some(0), 2 * usize::from(marker & 0x0f)),
            0x90..=0x9f => (Some(0), usize::from(marker & 0x0f)),
            0xa0..=0xbf => (Some(usize::from(marker & 0x1f)), 0),
            0xcc | 0xd0 => (Some(1), 0),
            0xcd | 0xd1 => (Some(2), 0),
            0xca | 0xce | 0xd2 => (Some(4), 0),
            0xcb | 0xcf | 0xd3 => (Some(8), 0),
            0xd9 => (number(1).map(|length| length + 1), 0),
            0xda => (number(2).map(|length| length + 2), 0),
            0xdb => (number(4).map(|length| length + 4), 0),
            0xdc => (Some(2), number(2).unwrap_or(0)),
            0xdd => (Some(4), number(4).unwrap_or(0)),
            0xde => (Some(2), 2 * number(2).unwrap_or(0)),
            0xdf => (Some(4), 2 * number(4).unwrap_or(0)),
            other => bail!("marker {other:#x} in an event"),
        };
        let Some(payload) = payload else { return Ok(false) };
        *at += payload;
        values += inner;
        if *at > bytes.len() {
            return Ok(false);
        }
    }
    Ok(true)
}
