//! Payloads of dispatched jobs: Nomad stores them in the block form of Snappy, ours are stored as they came.

/// Largest payload that is decompressed, in bytes. A dispatch accepts 16 KiB.
const PAYLOAD_BYTES_MAX: usize = 16 << 20;

/// Decompresses a block. `None` if it is damaged or larger than the bound.
pub(super) fn decompress(block: &[u8]) -> Option<Vec<u8>> {
    let (length, mut rest) = length(block)?;
    if length > PAYLOAD_BYTES_MAX {
        return None;
    }
    let mut out = Vec::new();
    while let Some((&tag, after)) = rest.split_first() {
        rest = match tag & 3 {
            0 => literal(tag, after, &mut out)?,
            _ => copy(tag, after, &mut out)?,
        };
        if out.len() > length {
            return None;
        }
    }
    (out.len() == length).then_some(out)
}

/// The uncompressed length, in groups of seven bits, and the bytes after it.
fn length(block: &[u8]) -> Option<(usize, &[u8])> {
    let mut length = 0_usize;
    for (at, &byte) in block.iter().enumerate().take(5) {
        length |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((length, &block[at + 1..]));
        }
    }
    None
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
}

fn literal<'a>(tag: u8, after: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    let short = usize::from(tag >> 2);
    let (length, after) = match short {
        0..60 => (short, after),
        _ => {
            let (digits, after) = after.split_at_checked(short - 59)?;
            (number(digits), after)
        }
    };
    let (bytes, rest) = after.split_at_checked(length + 1)?;
    out.extend_from_slice(bytes);
    Some(rest)
}

fn copy<'a>(tag: u8, after: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    let (length, offset, rest) = if tag & 3 == 1 {
        let (&low, rest) = after.split_first()?;
        (4 + usize::from(tag >> 2 & 7), usize::from(tag >> 5) << 8 | usize::from(low), rest)
    } else {
        let (digits, rest) = after.split_at_checked(if tag & 3 == 2 { 2 } else { 4 })?;
        (1 + usize::from(tag >> 2), number(digits), rest)
    };
    if offset == 0 || offset > out.len() || out.len() + length > PAYLOAD_BYTES_MAX {
        return None;
    }
    // The copied bytes may overlap with what is written: a run repeats its beginning.
    for _ in 0..length {
        out.push(out[out.len() - offset]);
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::decompress;

    #[test]
    fn blocks_of_literals_and_copies_are_decompressed() {
        assert_eq!(decompress(&[0]), Some(Vec::new()));
        assert_eq!(decompress(b"\x02\x04hi"), Some(b"hi".to_vec()));
        // `ab`, then a copy of 6 bytes from 2 back, in each of the three forms.
        for copy in [&[0x09, 2][..], &[0x16, 2, 0], &[0x17, 2, 0, 0, 0]] {
            assert_eq!(decompress(&[b"\x08\x04ab", copy].concat()), Some(b"abababab".to_vec()));
        }
        let long = [&[0xc8, 1, 60 << 2, 199][..], &[b'x'; 200]].concat();
        assert_eq!(decompress(&long), Some(vec![b'x'; 200]));
    }

    #[test]
    fn damaged_blocks_are_refused() {
        for block in [&b""[..], b"\x05\x04hi", b"\x01\x04hi", b"\x80", b"\x08\x04ab\x09\x03", b"\x08\x04ab\x09\x00"] {
            assert_eq!(decompress(block), None, "{block:?}");
        }
        assert_eq!(decompress(b"\xff\xff\xff\xff\x7f\x00a"), None, "a length of 32 GiB");
    }
}
