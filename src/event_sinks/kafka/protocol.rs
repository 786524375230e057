//! Requests and answers of Kafka's protocol, as far as a producer needs them: each in one version that brokers from
//! 0.11 on take.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use songline_model::Broker;

/// A kind of request, and the version of it that is spoken here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Api {
    /// Name in Kafka's documentation.
    pub name: &'static str,
    key: i16,
    version: i16,
}

pub(super) const PRODUCE: Api = Api { name: "Produce", key: 0, version: 3 };
pub(super) const METADATA: Api = Api { name: "Metadata", key: 3, version: 4 };
pub(super) const SASL_HANDSHAKE: Api = Api { name: "SaslHandshake", key: 17, version: 1 };
pub(super) const API_VERSIONS: Api = Api { name: "ApiVersions", key: 18, version: 0 };
pub(super) const SASL_AUTHENTICATE: Api = Api { name: "SaslAuthenticate", key: 36, version: 0 };

/// Acknowledgement by all replicas in sync.
const ALL: i16 = -1;

/// A request with its length and header.
pub(super) fn request(api: Api, id: i32, client: &str, body: &[u8]) -> BytesMut {
    let mut out = BytesMut::with_capacity(14 + client.len() + body.len());
    out.put_i32(0);
    out.put_i16(api.key);
    out.put_i16(api.version);
    out.put_i32(id);
    put_text(&mut out, client);
    out.extend_from_slice(body);
    let length = i32::try_from(out.len() - 4).expect("a request is far below 2 GiB");
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

/// Body of a `Metadata` request for one topic. A topic that does not exist is not created.
pub(super) fn metadata(topic: &str) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_i32(1);
    put_text(&mut out, topic);
    out.put_u8(0);
    out
}

/// Body of a `Produce` request: batches by partition, which all replicas in sync must store within a time.
pub(super) fn produce<'a>(
    topic: &str,
    wait_ms: i32,
    batches: impl ExactSizeIterator<Item = (i32, &'a [u8])>,
) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_i16(-1); // no transaction
    out.put_i16(ALL);
    out.put_i32(wait_ms);
    out.put_i32(1);
    put_text(&mut out, topic);
    out.put_i32(i32::try_from(batches.len()).expect("partitions are counted in 32 bits"));
    for (partition, batch) in batches {
        out.put_i32(partition);
        put_bytes(&mut out, batch);
    }
    out
}

/// Body of a `SaslHandshake` request.
pub(super) fn mechanism(name: &str) -> BytesMut {
    let mut out = BytesMut::new();
    put_text(&mut out, name);
    out
}

/// Body of a `SaslAuthenticate` request.
pub(super) fn authentication(bytes: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    put_bytes(&mut out, bytes);
    out
}

fn put_text(out: &mut BytesMut, text: &str) {
    out.put_i16(i16::try_from(text.len()).expect("topics and names have at most hundreds of bytes"));
    out.extend_from_slice(text.as_bytes());
}

fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    out.put_i32(i32::try_from(bytes.len()).expect("a batch is far below 2 GiB"));
    out.extend_from_slice(bytes);
}

/// An answer that ends early or has impossible lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer of the broker is not valid")]
pub(super) struct Invalid;

impl From<bytes::TryGetError> for Invalid {
    fn from(_: bytes::TryGetError) -> Self {
        Self
    }
}

/// A cluster, and the leaders of one topic's partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Metadata {
    /// The brokers, by their ids.
    pub brokers: BTreeMap<i32, Broker>,
    /// Code of an error of the topic; 0 is none.
    pub error: i16,
    /// Id of the leader of each partition. `None`: it has no leader.
    pub leaders: Vec<Option<i32>>,
}

/// Reads the answer to `ApiVersions`: whether the broker takes the version of a request that is spoken here, with the
/// versions that it takes.
pub(super) fn takes(mut answer: Bytes, api: Api) -> Result<(bool, String), Invalid> {
    let _code = answer.try_get_i16()?;
    for _ in 0..count(&mut answer)? {
        let (key, lowest, highest) = (answer.try_get_i16()?, answer.try_get_i16()?, answer.try_get_i16()?);
        if key == api.key {
            return Ok(((lowest..=highest).contains(&api.version), format!("{lowest} to {highest}")));
        }
    }
    Ok((false, "none".to_owned()))
}

/// Reads the answer to `Metadata`.
pub(super) fn read_metadata(mut answer: Bytes) -> Result<Metadata, Invalid> {
    let _throttle_ms = answer.try_get_i32()?;
    let mut brokers = BTreeMap::new();
    for _ in 0..count(&mut answer)? {
        let id = answer.try_get_i32()?;
        let host = text(&mut answer)?.ok_or(Invalid)?;
        let port = u16::try_from(answer.try_get_i32()?).map_err(|_| Invalid)?;
        let _rack = text(&mut answer)?;
        brokers.insert(id, Broker { host, port });
    }
    let _cluster = text(&mut answer)?;
    let _controller = answer.try_get_i32()?;
    if count(&mut answer)? != 1 {
        return Err(Invalid);
    }
    let error = answer.try_get_i16()?;
    let _name = text(&mut answer)?;
    let _is_internal = answer.try_get_u8()?;
    let partitions = count(&mut answer)?;
    let mut leaders = vec![None; partitions];
    for _ in 0..partitions {
        let _code = answer.try_get_i16()?;
        let partition = usize::try_from(answer.try_get_i32()?).map_err(|_| Invalid)?;
        let leader = answer.try_get_i32()?;
        *leaders.get_mut(partition).ok_or(Invalid)? = Some(leader).filter(|id| *id >= 0);
        for _replicas in 0..2 {
            let ids = count(&mut answer)?;
            answer.advance(ids * 4);
        }
    }
    Ok(Metadata { brokers, error, leaders })
}

/// Reads the answer to `Produce`: the code of each partition; 0 is success.
pub(super) fn read_produced(mut answer: Bytes) -> Result<BTreeMap<i32, i16>, Invalid> {
    let mut codes = BTreeMap::new();
    for _ in 0..count(&mut answer)? {
        let _topic = text(&mut answer)?;
        for _ in 0..count(&mut answer)? {
            let (partition, code) = (answer.try_get_i32()?, answer.try_get_i16()?);
            let (_offset, _time) = (answer.try_get_i64()?, answer.try_get_i64()?);
            codes.insert(partition, code);
        }
    }
    Ok(codes)
}

/// Reads the answer to `SaslHandshake`: the code, and the mechanisms that the broker takes.
pub(super) fn read_mechanisms(mut answer: Bytes) -> Result<(i16, Vec<String>), Invalid> {
    let code = answer.try_get_i16()?;
    let names = (0..count(&mut answer)?).map(|_| text(&mut answer)?.ok_or(Invalid)).collect::<Result<_, _>>()?;
    Ok((code, names))
}

/// Reads the answer to `SaslAuthenticate`: the code, and the broker's words for it.
pub(super) fn read_authenticated(mut answer: Bytes) -> Result<(i16, Option<String>), Invalid> {
    Ok((answer.try_get_i16()?, text(&mut answer)?))
}

/// Length of a list. Each element has four bytes at least, so the rest of the answer is its bound.
fn count(answer: &mut Bytes) -> Result<usize, Invalid> {
    let count = usize::try_from(answer.try_get_i32()?).map_err(|_| Invalid)?;
    if count > answer.len() / 4 { Err(Invalid) } else { Ok(count) }
}

fn text(answer: &mut Bytes) -> Result<Option<String>, Invalid> {
    match answer.try_get_i16()? {
        -1 => Ok(None),
        length => {
            let length = usize::try_from(length).map_err(|_| Invalid)?;
            if length > answer.len() {
                return Err(Invalid);
            }
            Ok(Some(String::from_utf8_lossy(&answer.split_to(length)).into_owned()))
        }
    }
}

/// Meaning of an error code, and whether another broker may be the leader by now.
pub(super) fn meaning(code: i16) -> (String, bool) {
    let (text, is_stale) = match code {
        1 => ("the offset is out of range", false),
        2 => ("the message is damaged", false),
        3 => ("the topic or partition does not exist", true),
        5 => ("the partition has no leader", true),
        6 => ("the broker does not lead the partition", true),
        7 => ("the replicas did not answer in time", false),
        10 => ("the message is too large for the topic", false),
        17 => ("the topic is invalid", false),
        18 => ("the message is longer than a segment of the topic", false),
        19 => ("too few replicas are in sync", false),
        20 => ("too few replicas were in sync after the write", false),
        29 => ("the user may not write to the topic", false),
        33 => ("the broker does not take this mechanism", false),
        34 => ("authentication is not allowed in this state", false),
        35 => ("the broker does not take this version of the request", false),
        44 => ("the topic's policy forbids the message", false),
        56 => ("the broker's disk failed", true),
        58 => ("authentication failed", false),
        87 => ("the broker refuses the record", false),
        other => return (format!("error {other} of Kafka's protocol"), false),
    };
    (text.to_owned(), is_stale)
}

/// Whether a code says that a batch is longer than the topic takes.
pub(super) const fn is_too_large(code: i16) -> bool {
    matches!(code, 10 | 18)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer that any cut makes invalid, and nothing makes panic.
    fn is_refused_when_cut<T>(answer: &[u8], read: impl Fn(Bytes) -> Result<T, Invalid>) {
        assert!(read(Bytes::copy_from_slice(answer)).is_ok());
        for length in 0..answer.len() {
            assert!(read(Bytes::copy_from_slice(&answer[..length])).is_err(), "{length} of {}", answer.len());
        }
    }

    #[test]
    fn a_cluster_is_read_from_its_answer() {
        let mut answer = BytesMut::new();
        answer.put_i32(0);
        answer.put_i32(1);
        answer.put_i32(7);
        put_text(&mut answer, "bus.test");
        answer.put_i32(9093);
        answer.put_i16(-1);
        put_text(&mut answer, "cluster");
        answer.put_i32(7);
        answer.put_i32(1);
        answer.put_i16(0);
        put_text(&mut answer, "events");
        answer.put_u8(0);
        answer.put_i32(2);
        for (partition, leader) in [(1, 7), (0, -1)] {
            answer.put_i16(0);
            answer.put_i32(partition);
            answer.put_i32(leader);
            answer.put_i32(1);
            answer.put_i32(7);
            answer.put_i32(1);
            answer.put_i32(7);
        }
        let read = read_metadata(answer.clone().freeze()).expect("valid");
        let brokers = [(7, Broker { host: "bus.test".to_owned(), port: 9093 })].into();
        assert_eq!(read, Metadata { brokers, error: 0, leaders: vec![None, Some(7)] });
        is_refused_when_cut(&answer, read_metadata);
    }

    #[test]
    fn answers_with_impossible_lengths_are_refused() {
        let huge = [0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0];
        assert_eq!(read_metadata(Bytes::copy_from_slice(&huge)), Err(Invalid));
        assert_eq!(read_produced(Bytes::copy_from_slice(&huge[4..])), Err(Invalid));
        let mut negative = BytesMut::new();
        negative.put_i32(-5);
        assert_eq!(read_produced(negative.freeze()), Err(Invalid));
        is_refused_when_cut(&[0, 33, 0, 0, 0, 1, 0, 2, b'h', b'i'], |answer| match read_mechanisms(answer) {
            Ok((33, names)) if names == ["hi"] => Ok(()),
            _ => Err(Invalid),
        });
    }
}
