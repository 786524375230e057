//! Times in Go's binary form: 15 bytes in a raw value. Time zones are accepted but never written.

/// Seconds from the beginning of year 1, where Go starts counting, to 1970.
const YEAR_ONE_TO_1970: i64 = 62_135_596_800;

/// Go's zero time, which means no time.
pub const ZERO_TIME: [u8; 15] = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// The earliest time that can be represented, in 1677. The number before it means no time.
const EARLIEST: i64 = i64::MIN + 1;

/// Encodes a time in UTC. `i64::MIN` is written as the zero time.
pub(super) fn to_go(nanos: i64) -> [u8; 15] {
    if nanos == i64::MIN {
        return ZERO_TIME;
    }
    let mut bytes = ZERO_TIME;
    bytes[1..9].copy_from_slice(&(nanos.div_euclid(1_000_000_000) + YEAR_ONE_TO_1970).to_be_bytes());
    bytes[9..13].copy_from_slice(&(nanos.rem_euclid(1_000_000_000) as u32).to_be_bytes());
    bytes
}

/// Whether the bytes are the zero time, in any zone.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    bytes.len() == ZERO_TIME.len() && bytes[..13] == ZERO_TIME[..13]
}

/// Decodes to nanoseconds since 1970, clamped to the range that can be represented; `None` if the bytes are not a time.
/// The zone does not matter, because the seconds are UTC.
pub(super) fn from_go(bytes: &[u8]) -> Option<i64> {
    let known = matches!((bytes.first(), bytes.len()), (Some(1), 15) | (Some(2), 16));
    if !known {
        return None;
    }
    let seconds = i64::from_be_bytes(bytes[1..9].try_into().ok()?);
    let nanos = i64::from(u32::from_be_bytes(bytes[9..13].try_into().ok()?));
    if nanos >= 1_000_000_000 {
        return None;
    }
    if (seconds, nanos) == (0, 0) {
        return Some(i64::MIN);
    }
    let since_1970 = (i128::from(seconds) - i128::from(YEAR_ONE_TO_1970)) * 1_000_000_000 + i128::from(nanos);
    Some(i64::try_from(since_1970).unwrap_or(if since_1970 < 0 { i64::MIN } else { i64::MAX }).max(EARLIEST))
}
