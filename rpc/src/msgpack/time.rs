//! Times as Go writes them in binary: 15 bytes in a raw value. Zones are read and not written.

/// Seconds from the beginning of year 1, from which Go counts, to 1970.
const YEAR_ONE_TO_1970: i64 = 62_135_596_800;

/// Go's zero time, which stands for no time at all.
pub const ZERO_TIME: [u8; 15] = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// The earliest time there is, in 1677: the number before it stands for no time.
const EARLIEST: i64 = i64::MIN + 1;

/// A time in UTC. The smallest number stands for the zero time.
pub(super) fn to_go(nanos: i64) -> [u8; 15] {
    if nanos == i64::MIN {
        return ZERO_TIME;
    }
    let mut bytes = ZERO_TIME;
    bytes[1..9].copy_from_slice(&(nanos.div_euclid(1_000_000_000) + YEAR_ONE_TO_1970).to_be_bytes());
    bytes[9..13].copy_from_slice(&(nanos.rem_euclid(1_000_000_000) as u32).to_be_bytes());
    bytes
}

/// Whether the bytes are no time at all, in whatever zone.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    bytes.len() == ZERO_TIME.len() && bytes[..13] == ZERO_TIME[..13]
}

/// Nanoseconds since 1970, the nearest ones there are; `None`: these bytes are not a time. The zone does not matter, because the seconds are
/// those of UTC.
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
