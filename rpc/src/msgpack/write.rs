//! Encodes single values and the heads of containers, in the forms that are written.

pub(super) fn nil(out: &mut Vec<u8>) {
    out.push(0xc0);
}

pub(super) fn bool(out: &mut Vec<u8>, yes: bool) {
    out.push(if yes { 0xc3 } else { 0xc2 });
}

/// Writes an unsigned number in the shortest unsigned form.
pub(super) fn uint(out: &mut Vec<u8>, n: u64) {
    match n {
        0..=0x7f => out.push(n as u8),
        0x80..=0xff => out.extend_from_slice(&[0xcc, n as u8]),
        0x100..=0xffff => tagged(out, 0xcd, &(n as u16).to_be_bytes()),
        0x1_0000..=0xffff_ffff => tagged(out, 0xce, &(n as u32).to_be_bytes()),
        _ => tagged(out, 0xcf, &n.to_be_bytes()),
    }
}

/// Writes a signed number in the shortest signed form. The 8-bit form is used only for negative numbers: small positive
/// ones fit into the head byte, and those above 127 do not fit into 8 signed bits.
pub(super) fn int(out: &mut Vec<u8>, n: i64) {
    match n {
        -32..=0x7f => out.push(n as u8),
        -0x80..=-33 => out.extend_from_slice(&[0xd0, n as u8]),
        -0x8000..=0x7fff => tagged(out, 0xd1, &(n as i16).to_be_bytes()),
        -0x8000_0000..=0x7fff_ffff => tagged(out, 0xd2, &(n as i32).to_be_bytes()),
        _ => tagged(out, 0xd3, &n.to_be_bytes()),
    }
}

pub(super) fn float(out: &mut Vec<u8>, n: f64) {
    tagged(out, 0xcb, &n.to_bits().to_be_bytes());
}

/// Writes text or bytes.
pub(super) fn raw(out: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.len() {
        len @ 0..=31 => out.push(0xa0 | len as u8),
        len @ 32..=0xffff => tagged(out, 0xda, &(len as u16).to_be_bytes()),
        len => tagged(out, 0xdb, &(len as u32).to_be_bytes()),
    }
    out.extend_from_slice(bytes);
}

/// Writes the head of a list.
pub(super) fn array(out: &mut Vec<u8>, len: usize) {
    container(out, len, 0x90, 0xdc, 0xdd);
}

/// Writes the head of a map.
pub(super) fn map(out: &mut Vec<u8>, len: usize) {
    container(out, len, 0x80, 0xde, 0xdf);
}

fn container(out: &mut Vec<u8>, len: usize, short: u8, medium: u8, long: u8) {
    match len {
        0..=15 => out.push(short | len as u8),
        16..=0xffff => tagged(out, medium, &(len as u16).to_be_bytes()),
        _ => tagged(out, long, &(len as u32).to_be_bytes()),
    }
}

fn tagged(out: &mut Vec<u8>, tag: u8, digits: &[u8]) {
    out.push(tag);
    out.extend_from_slice(digits);
}
