//! Encoding of frames: a header of twelve bytes, followed by data in some. `state` handles them.

/// Length of a header, in bytes.
pub const HEADER_BYTES: usize = 12;

/// Type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Data of a stream; `length` bytes follow.
    Data,
    /// Window update: `length` more bytes may be sent.
    Window,
    /// Ping; `length` is its number.
    Ping,
    /// No new streams; `length` is the reason.
    GoAway,
}

/// Flags of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// Opens a stream, or marks a ping as a request.
    pub const SYN: Self = Self(1);
    /// Acknowledges a stream, or marks a ping as an answer.
    pub const ACK: Self = Self(2);
    /// The sender sends nothing more on the stream.
    pub const FIN: Self = Self(4);
    /// Resets the stream.
    pub const RST: Self = Self(8);

    /// Whether all flags of `other` are set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The first twelve bytes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Type of the frame.
    pub kind: Kind,
    /// Flags.
    pub flags: Flags,
    /// Id of the stream; 0 is the session.
    pub stream: u32,
    /// Number of bytes, window credit, ping number, or reason, by `kind`.
    pub length: u32,
}

/// Reason why bytes are not a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Another version of the protocol.
    #[error("invalid protocol version {0}")]
    Version(u8),
    /// An unknown type of frame.
    #[error("invalid message type {0}")]
    Kind(u8),
}

impl Header {
    /// Encodes the header.
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

    /// Decodes a header.
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

/// Piece of input that a decoder has separated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A header. That of a data frame is followed by its bytes.
    Header(Header),
    /// Some bytes of the last header's data.
    Data(&'a [u8]),
}

/// Splits a stream of bytes into headers and pieces of data. Buffers at most a header.
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
