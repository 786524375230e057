//! Frames as bytes: twelve of header, and data behind some. What they mean is `state`'s.

/// Bytes of a header.
pub const HEADER_BYTES: usize = 12;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `length` bytes of a stream follow.
    Data,
    /// `length` bytes more may be sent.
    Window,
    /// Are you there; `length` is its number.
    Ping,
    /// No new streams; `length` says why.
    GoAway,
}

/// What else a frame says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Opens a stream, or asks.
    pub const SYN: Self = Self(1);
    /// Acknowledges a stream, or answers.
    pub const ACK: Self = Self(2);
    /// Nothing more will be sent.
    pub const FIN: Self = Self(4);
    /// The stream is gone.
    pub const RST: Self = Self(8);

    /// Whether all of `other` is in it.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The first twelve bytes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What it is.
    pub kind: Kind,
    /// What else it says.
    pub flags: Flags,
    /// Of which stream; 0 is the session.
    pub stream: u32,
    /// Bytes, credit, a ping's number, or a reason.
    pub length: u32,
}

/// What cannot be a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Another version of the protocol.
    #[error("invalid protocol version {0}")]
    Version(u8),
    /// A kind that there is not.
    #[error("invalid message type {0}")]
    Kind(u8),
}

impl Header {
    /// As bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let kind = match self.kind {
            Kind::Data => 0,
            Kind::Window => 1,
            Kind::Ping => 2,
            Kind::GoAway => 3,
        };
        let mut bytes = [0; HEADER_BYTES];
        bytes[1] = kind;
        bytes[2..4].copy_from_slice(&self.flags.0.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.stream.to_be_bytes());
        bytes[8..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// From bytes.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, FrameError> {
        let [version, kind, flags @ .., s0, s1, s2, s3, l0, l1, l2, l3] = *bytes;
        if version != 0 {
            return Err(FrameError::Version(version));
        }
        let kind = match kind {
            0 => Kind::Data,
            1 => Kind::Window,
            2 => Kind::Ping,
            3 => Kind::GoAway,
            other => return Err(FrameError::Kind(other)),
        };
        let (stream, length) = (u32::from_be_bytes([s0, s1, s2, s3]), u32::from_be_bytes([l0, l1, l2, l3]));
        Ok(Self { kind, flags: Flags(u16::from_be_bytes(flags)), stream, length })
    }
}

/// What a decoder has cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A header; of data, its bytes come next.
    Header(Header),
    /// Some bytes of the last header's data.
    Data(&'a [u8]),
}

/// Cuts a stream of bytes into headers and pieces of data. It keeps at most a header.
#[derive(Debug, Default)]
pub struct Decoder {
    header: [u8; HEADER_BYTES],
    have: usize,
    data_left: u32,
}

impl Decoder {
    /// Takes the next piece off the front of `input`; `None` when all of it is used up.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Piece<'a>>, FrameError> {
        if self.data_left > 0 {
            if input.is_empty() {
                return Ok(None);
            }
            let take = input.len().min(usize::try_from(self.data_left).unwrap_or(usize::MAX));
            let (data, rest) = input.split_at(take);
            *input = rest;
            self.data_left -= u32::try_from(take).expect("it is at most `data_left`");
            return Ok(Some(Piece::Data(data)));
        }
        let take = input.len().min(HEADER_BYTES - self.have);
        let (some, rest) = input.split_at(take);
        *input = rest;
        self.header[self.have..self.have + take].copy_from_slice(some);
        self.have += take;
        if self.have < HEADER_BYTES {
            return Ok(None);
        }
        self.have = 0;
        let header = Header::decode(&self.header)?;
        if header.kind == Kind::Data {
            self.data_left = header.length;
        }
        Ok(Some(Piece::Header(header)))
    }
}
