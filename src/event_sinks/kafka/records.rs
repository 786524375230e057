//! Batches of records in version 2 of Kafka's message format.

use bytes::{BufMut, BytesMut};
use songline_model::Time;

use super::messages::Message;

/// Bytes of a batch before its records.
const HEAD_BYTES: usize = 61;
/// Offset of the field after the checksum, where the checked bytes begin.
const CHECKED_FROM: usize = 21;
/// Name of the header with the index.
const INDEX: &[u8] = b"X-Songline-Index";

/// Upper bound of the bytes that a message adds to a batch.
pub(super) fn size(message: &Message) -> usize {
    // Six numbers of at most 10 bytes, the attributes, and the header with up to 20 digits.
    message.key.as_ref().map_or(0, String::len) + message.payload.len() + INDEX.len() + 81
}

/// A batch of messages. Its offsets and producer are the broker's to fill in.
pub(super) fn batch(messages: &[Message], at: Time) -> BytesMut {
    let mut out = BytesMut::with_capacity(HEAD_BYTES + messages.iter().map(size).sum::<usize>());
    let count = i32::try_from(messages.len()).expect("a parcel has at most thousands of messages");
    let at_ms = at.nanos() / 1_000_000;
    out.put_i64(0); // base offset
    out.put_i32(0); // length, see below
    out.put_i32(-1); // epoch of the leader
    out.put_i8(2); // version of the format
    out.put_u32(0); // checksum, see below
    out.put_i16(0); // attributes: not compressed
    out.put_i32(count - 1); // offset of the last record
    out.put_i64(at_ms); // time of the first record
    out.put_i64(at_ms); // time of the last record
    out.put_i64(-1); // producer
    out.put_i16(-1); // epoch of the producer
    out.put_i32(-1); // sequence of the producer
    out.put_i32(count);
    for (offset, message) in messages.iter().enumerate() {
        let mut record = BytesMut::with_capacity(size(message));
        record.put_i8(0); // attributes
        number(&mut record, 0); // time after that of the batch
        number(&mut record, offset as i64);
        match &message.key {
            Some(key) => text(&mut record, key.as_bytes()),
            None => number(&mut record, -1),
        }
        text(&mut record, &message.payload);
        number(&mut record, 1); // headers
        text(&mut record, INDEX);
        text(&mut record, message.position.to_string().as_bytes());
        text(&mut out, &record);
    }
    // The length counts what follows it.
    let length = i32::try_from(out.len() - 12).expect("a batch is far below 2 GiB");
    out[8..12].copy_from_slice(&length.to_be_bytes());
    let checksum = crc32c::crc32c(&out[CHECKED_FROM..]);
    out[CHECKED_FROM - 4..CHECKED_FROM].copy_from_slice(&checksum.to_be_bytes());
    out
}

fn text(out: &mut BytesMut, bytes: &[u8]) {
    number(out, i64::try_from(bytes.len()).expect("a text is far below 2^63 bytes"));
    out.extend_from_slice(bytes);
}

/// A signed number of one to ten bytes, seven bits in each, small magnitudes first.
fn number(out: &mut BytesMut, value: i64) {
    let mut rest = (value << 1 ^ value >> 63).cast_unsigned();
    while rest >= 0x80 {
        out.put_u8(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.put_u8(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by `MemoryRecordsBuilder` of Kafka's own library, 3.9.1.
    const OF_KAFKA: &str = "000000000000000000000080ffffffff02245192750000000000010000018bcfe5687b0000018bcfe5687b\
        ffffffffffffffffffffffffffff000000025e0000001664656661756c742f776562167b22496e646578223a377d0220582d536f6e676c69\
        6e652d496e64657802373c00000201066761700220582d536f6e676c696e652d496e64657806333030";

    #[test]
    fn a_batch_has_the_bytes_of_kafkas_own_library() {
        let messages = [
            Message { position: 7, key: Some("default/web".to_owned()), payload: "{\"Index\":7}".into() },
            Message { position: 300, key: None, payload: "gap".into() },
        ];
        let batch = batch(&messages, Time::from_nanos(1_700_000_000_123_000_000));
        let digits: String = batch.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digits, OF_KAFKA);
        assert!(batch.len() <= HEAD_BYTES + messages.iter().map(size).sum::<usize>());
    }
}
