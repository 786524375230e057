//! Deflate for bodies of a few bytes, byte for byte as the reference sends them: each byte in the fixed Huffman code,
//! and an empty block at the end. No matches are searched in so few bytes.

/// Largest body that is written this way, in bytes.
pub(super) const BYTES_MAX: usize = 32;

/// Raw deflate of `body`.
pub(super) fn deflate(body: &[u8]) -> Vec<u8> {
    let mut out = Bits::default();
    if !body.is_empty() {
        // Header of a block: not the last one, fixed Huffman codes.
        out.push(0, 1);
        out.push(1, 2);
        for &byte in body {
            let byte = u16::from(byte);
            // Huffman codes are written from their highest bit, all other fields from their lowest.
            if byte < 144 { out.push_reversed(0x30 + byte, 8) } else { out.push_reversed(0x190 + byte - 144, 9) }
        }
        out.push_reversed(0, 7);
    }
    // The last block: stored, and empty.
    out.push(1, 1);
    out.push(0, 2);
    out.align();
    out.bytes.extend([0, 0, 0xff, 0xff]);
    out.bytes
}

/// gzip of `body`.
pub(super) fn gzip(body: &[u8]) -> Vec<u8> {
    let mut crc = flate2::Crc::new();
    crc.update(body);
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    out.extend(deflate(body));
    out.extend(crc.sum().to_le_bytes());
    out.extend(crc.amount().to_le_bytes());
    out
}

/// Bit writer that fills each byte from its lowest bit.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    /// Number of used bits in the last byte; 0 when it is full.
    taken: u32,
}

impl Bits {
    fn push(&mut self, value: u16, count: u32) {
        for at in 0..count {
            self.bit(value >> at & 1);
        }
    }

    fn push_reversed(&mut self, value: u16, count: u32) {
        for at in (0..count).rev() {
            self.bit(value >> at & 1);
        }
    }

    fn bit(&mut self, bit: u16) {
        if self.taken == 0 {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut().filter(|_| bit == 1) {
            *last |= 1 << self.taken;
        }
        self.taken = (self.taken + 1) % 8;
    }

    fn align(&mut self) {
        self.taken = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::{BYTES_MAX, deflate, gzip};

    #[test]
    fn tiny_gzip_and_deflate_bodies_decompress_to_their_input() {
        let all: Vec<u8> = (0..=255).collect();
        for body in all.chunks(BYTES_MAX).chain([&b""[..], b"[]", b"job not found"]) {
            let (mut zipped, mut deflated) = (Vec::new(), Vec::new());
            flate2::read::GzDecoder::new(&*gzip(body)).read_to_end(&mut zipped).expect("gzip");
            flate2::read::DeflateDecoder::new(&*deflate(body)).read_to_end(&mut deflated).expect("deflate");
            assert_eq!((&*zipped, &*deflated), (body, body));
        }
    }

    #[test]
    fn tiny_gzip_lengths_match_the_reference() {
        assert_eq!([&b""[..], b"[]", b"job not found"].map(|body| gzip(body).len()), [23, 26, 37]);
    }
}
