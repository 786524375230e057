//! Messages of a frame: what each is keyed by, and the partition that a key belongs to.

use bytes::Bytes;
use serde_json::{Value, json};
use songline_model::PartitionKey;
use songline_server::event_sinks::Frame;

/// A message to Kafka.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// Position of its frame.
    pub position: u64,
    /// The key. `None`: a gap, which every partition is told.
    pub key: Option<String>,
    /// The events: a JSON object.
    pub payload: Bytes,
}

/// Splits a frame into messages: the events of one key are one of them. Without a kind of key the frame is one message,
/// keyed by `whole`.
pub(super) fn messages(frame: &Frame, by: PartitionKey, whole: &str) -> Result<Vec<Message>, serde_json::Error> {
    let position = frame.position;
    let line = frame.line.slice(..frame.line.strip_suffix(b"\n").map_or(frame.line.len(), <[u8]>::len));
    if frame.events == 0 {
        return Ok(vec![Message { position, key: None, payload: line }]);
    }
    if by == PartitionKey::None {
        return Ok(vec![Message { position, key: Some(whole.to_owned()), payload: line }]);
    }
    let mut told: Value = serde_json::from_slice(&line)?;
    let events = told["Events"].as_array_mut().map(std::mem::take).unwrap_or_default();
    let mut groups: Vec<(String, Vec<Value>)> = Vec::new();
    for event in events {
        let key = key(&event, by);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(event),
            None => groups.push((key, vec![event])),
        }
    }
    let message = |(key, events)| {
        let frame = json!({"Events": Value::Array(events), "Index": told["Index"]});
        Message { position, key: Some(key), payload: frame.to_string().into() }
    };
    Ok(groups.into_iter().map(message).collect())
}

/// Key of an event.
fn key(event: &Value, by: PartitionKey) -> String {
    let field = |name: &str| event[name].as_str().unwrap_or_default();
    let (topic, namespace, key) = (field("Topic"), field("Namespace"), field("Key"));
    let object = || match namespace {
        "" => format!("{topic}/{key}"),
        namespace => format!("{topic}/{namespace}/{key}"),
    };
    match by {
        PartitionKey::None | PartitionKey::Object => object(),
        PartitionKey::Namespace => namespace.to_owned(),
        PartitionKey::Job if topic == "Job" => format!("{namespace}/{key}"),
        PartitionKey::Job => {
            // The payload is an object with the row as its only field.
            let mut rows = event["Payload"].as_object().into_iter().flatten().map(|(_, row)| row);
            match rows.find_map(|row| row["JobID"].as_str().filter(|job| !job.is_empty())) {
                Some(job) => format!("{namespace}/{job}"),
                None => object(),
            }
        }
    }
}

/// The partition of a key, as Kafka's own producers choose it. `count` is the number of partitions: at least 1.
pub(super) fn partition(key: &str, count: usize) -> usize {
    (murmur2(key.as_bytes()) & 0x7fff_ffff) as usize % count
}

/// The hash of Kafka's default partitioner.
fn murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    // The length is part of the hash, cut to 32 bits; keys are far shorter.
    let mut hash = SEED ^ bytes.len() as u32;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u32::from_le_bytes(last)).wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with `Utils.murmur2` of Kafka's own library, 3.9.1.
    #[test]
    fn keys_have_the_partitions_of_kafkas_own_producers() {
        for (key, hash, of_twelve) in [
            ("", 275_646_681_i32, 9),
            ("a", -1_563_381_124, 4),
            ("ab", 316_155_434, 2),
            ("abc", 479_470_107, 3),
            ("default/web", 1_931_789_568, 0),
            ("a-little-bit-long-string", -985_981_536, 8),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
            assert_eq!(partition(key, 12), of_twelve, "{key}");
        }
    }

    fn told(by: PartitionKey) -> Vec<String> {
        let event = |topic: &str, namespace: &str, key: &str, row: Value| {
            json!({
                "FilterKeys": null, "Index": 7, "Key": key, "Namespace": namespace, "Payload": {topic: row},
                "Topic": topic, "Type": "T",
            })
        };
        let frame = json!({"Events": [
            event("Job", "default", "web", json!({"ID": "web"})),
            event("Allocation", "default", "a1", json!({"ID": "a1", "JobID": "web"})),
            event("Evaluation", "ops", "e1", json!({"ID": "e1", "JobID": "db"})),
            event("Node", "", "n1", json!({"ID": "n1"})),
        ], "Index": 7});
        let frame = Frame { position: 7, line: format!("{frame}\n").into(), events: 4 };
        let shown = |message: Message| {
            let told: Value = serde_json::from_slice(&message.payload).expect("is JSON");
            let keys: Vec<&str> =
                told["Events"].as_array().into_iter().flatten().filter_map(|e| e["Key"].as_str()).collect();
            assert_eq!((message.position, &told["Index"]), (7, &json!(7)));
            format!("{}: {}", message.key.expect("a key"), keys.join(" "))
        };
        messages(&frame, by, "sink").expect("a frame").into_iter().map(shown).collect()
    }

    #[test]
    fn events_of_one_key_are_one_message() {
        assert_eq!(told(PartitionKey::None), ["sink: web a1 e1 n1"]);
        assert_eq!(told(PartitionKey::Namespace), ["default: web a1", "ops: e1", ": n1"]);
        assert_eq!(told(PartitionKey::Job), ["default/web: web a1", "ops/db: e1", "Node/n1: n1"]);
        assert_eq!(
            told(PartitionKey::Object),
            ["Job/default/web: web", "Allocation/default/a1: a1", "Evaluation/ops/e1: e1", "Node/n1: n1"]
        );
    }

    #[test]
    fn a_gap_has_no_key_and_a_whole_frame_keeps_its_bytes() {
        let gap = Frame { position: 8, line: Bytes::from("{\"Index\":0,\"Gap\":{\"Oldest\":9}}\n"), events: 0 };
        let payload = Bytes::from("{\"Index\":0,\"Gap\":{\"Oldest\":9}}");
        let expected = Message { position: 8, key: None, payload };
        assert_eq!(messages(&gap, PartitionKey::Job, "sink").expect("a frame"), [expected]);
        let whole = Frame { position: 9, line: Bytes::from("{ \"Events\": [{}],\"Index\":9}\n"), events: 1 };
        let payload = Bytes::from("{ \"Events\": [{}],\"Index\":9}");
        let expected = Message { position: 9, key: Some("sink".to_owned()), payload };
        assert_eq!(messages(&whole, PartitionKey::None, "sink").expect("a frame"), [expected]);
    }
}
