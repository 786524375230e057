//! Deliveries to brokers in this process, which speak the protocol by code of their own: order, changes of leaders,
//! connections that end, and refusals. `tests/clients/sinks` has a server of Kafka.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use songline_model::Secret;
use songline_server::event_sinks::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// State of a cluster, and the behaviour of its brokers.
#[derive(Debug)]
struct State {
    ports: Vec<u16>,
    /// Broker that leads each partition.
    leaders: Vec<i32>,
    /// Messages that each partition has: key and payload.
    stored: BTreeMap<i32, Vec<(Option<String>, String)>>,
    topic: &'static str,
    password: Option<&'static str>,
    batch_bytes_max: usize,
    produce_versions: (i16, i16),
    /// Numbers of the requests to produce after which a connection is closed instead of answered.
    hangs_up_at: Vec<usize>,
    produced: usize,
    /// Requests to produce that the leader of another partition got.
    misled: usize,
}

/// A cluster of brokers.
#[derive(Debug, Clone)]
struct Bus(Arc<Mutex<State>>);

impl Bus {
    /// Starts brokers, with a topic of which each leads partitions in turn.
    async fn start(brokers: usize, partitions: usize) -> Result<Self> {
        let leaders = (0..partitions).map(|partition| (partition % brokers) as i32).collect();
        let bus = Bus(Arc::new(Mutex::new(State {
            ports: Vec::new(),
            leaders,
            stored: BTreeMap::new(),
            topic: "events",
            password: None,
            batch_bytes_max: usize::MAX,
            produce_versions: (0, 9),
            hangs_up_at: Vec::new(),
            produced: 0,
            misled: 0,
        })));
        for id in 0..brokers {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            bus.0.lock().ports.push(listener.local_addr()?.port());
            let own = bus.clone();
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(own.clone().serve(id as i32, stream));
                }
            });
        }
        Ok(bus)
    }

    async fn serve(self, id: i32, mut stream: TcpStream) -> Result<()> {
        loop {
            let length = stream.read_i32().await?;
            let mut request = BytesMut::zeroed(usize::try_from(length)?);
            stream.read_exact(&mut request).await?;
            let mut request = request.freeze();
            let (key, version, asked) = (request.get_i16(), request.get_i16(), request.get_i32());
            ensure!(text(&mut request) == "songline-bus");
            let mut answer = BytesMut::new();
            answer.put_i32(asked);
            if !self.answer(id, (key, version), request, &mut answer)? {
                return Ok(());
            }
            stream.write_i32(i32::try_from(answer.len())?).await?;
            stream.write_all(&answer).await?;
        }
    }

    /// Answers one request. Returns whether the connection stays open.
    fn answer(&self, id: i32, kind: (i16, i16), mut request: Bytes, answer: &mut BytesMut) -> Result<bool> {
        let mut state = self.0.lock();
        match kind {
            (18, 0) => {
                let (lowest, highest) = state.produce_versions;
                [0, 0, 2, 0, lowest, highest, 3, 0, 12].iter().for_each(|number| answer.put_i16(*number));
            }
            (17, 1) => {
                let takes = state.password.is_some() && text(&mut request) == "PLAIN";
                answer.put_i16(if takes { 0 } else { 33 });
                answer.put_i32(1);
                put_text(answer, "SCRAM-SHA-256");
            }
            (36, 0) => {
                let told = data(&mut request);
                let is_right = state.password.is_some_and(|it| told == format!("\0songline\0{it}").as_bytes());
                answer.put_i16(if is_right { 0 } else { 58 });
                put_text(answer, "wrong user or password");
                answer.put_i32(0);
            }
            (3, 4) => {
                ensure!(request.get_i32() == 1);
                let exists = text(&mut request) == state.topic;
                ensure!(request.get_u8() == 0, "topics are not created by asking for them");
                state.describe(exists, answer);
            }
            (0, 3) => return state.produce(id, request, answer),
            other => anyhow::bail!("request {other:?}"),
        }
        Ok(true)
    }

    fn stored(&self, partition: i32) -> Vec<String> {
        let state = self.0.lock();
        let stored = state.stored.get(&partition).into_iter().flatten();
        stored.map(|(key, payload)| format!("{}: {payload}", key.as_deref().unwrap_or("-"))).collect()
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.lock());
    }

    fn sink(&self, key: PartitionKey, secret: &str) -> Result<Kafka> {
        let state = self.0.lock();
        let brokers: Vec<String> = state.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        Ok(Kafka::new(&EventSink {
            id: "bus".into(),
            address: format!("kafka://{}", brokers.join(",")).into(),
            subject: "events".into(),
            partition_key: key,
            secret: Secret::new(secret),
            ..EventSink::default()
        })?)
    }
}

impl State {
    fn describe(&self, exists: bool, answer: &mut BytesMut) {
        answer.put_i32(0);
        answer.put_i32(self.ports.len() as i32);
        for (id, port) in self.ports.iter().enumerate() {
            answer.put_i32(id as i32);
            put_text(answer, "127.0.0.1");
            answer.put_i32(i32::from(*port));
            answer.put_i16(-1);
        }
        answer.put_i16(-1);
        answer.put_i32(0);
        answer.put_i32(1);
        answer.put_i16(if exists { 0 } else { 3 });
        put_text(answer, "events");
        answer.put_u8(0);
        let leaders: &[i32] = if exists { &self.leaders } else { &[] };
        answer.put_i32(leaders.len() as i32);
        for (partition, leader) in leaders.iter().enumerate() {
            answer.put_i16(0);
            answer.put_i32(partition as i32);
            answer.put_i32(*leader);
            answer.put_i32(0);
            answer.put_i32(0);
        }
    }

    fn produce(&mut self, id: i32, mut request: Bytes, answer: &mut BytesMut) -> Result<bool> {
        ensure!(request.get_i16() == -1, "no transaction");
        ensure!(request.get_i16() == -1, "all replicas");
        ensure!(request.get_i32() == 20_000 && request.get_i32() == 1);
        ensure!(text(&mut request) == "events");
        let partitions = request.get_i32();
        answer.put_i32(1);
        put_text(answer, "events");
        answer.put_i32(partitions);
        for _ in 0..partitions {
            let partition = request.get_i32();
            let batch = data(&mut request);
            let code = if self.leaders[usize::try_from(partition)?] != id {
                self.misled += 1;
                6
            } else if batch.len() > self.batch_bytes_max {
                10
            } else {
                self.stored.entry(partition).or_default().extend(records(batch)?);
                0
            };
            answer.put_i32(partition);
            answer.put_i16(code);
            answer.put_i64(0);
            answer.put_i64(-1);
        }
        answer.put_i32(0);
        self.produced += 1;
        Ok(!self.hangs_up_at.contains(&self.produced))
    }
}

/// Reads the messages of a batch, whose checksum and counts must be right.
fn records(mut batch: Bytes) -> Result<Vec<(Option<String>, String)>> {
    let _offset = batch.get_i64();
    ensure!(batch.get_i32() == i32::try_from(batch.len())?);
    let (_epoch, format, sum) = (batch.get_i32(), batch.get_i8(), batch.get_u32());
    ensure!(format == 2 && sum == crc32c::crc32c(&batch));
    let (_attributes, last) = (batch.get_i16(), batch.get_i32());
    batch.advance(8 + 8 + 8 + 2 + 4);
    let count = batch.get_i32();
    ensure!(count == last + 1);
    let mut messages = Vec::new();
    for _ in 0..count {
        let length = number(&mut batch);
        let mut record = batch.split_to(usize::try_from(length)?);
        record.advance(1);
        ensure!((number(&mut record), number(&mut record)) == (0, messages.len() as i64));
        let mut part = || -> Result<Option<String>> {
            let length = number(&mut record);
            let bytes = usize::try_from(length).ok().map(|length| record.split_to(length));
            Ok(bytes.map(|bytes| String::from_utf8(bytes.into())).transpose()?)
        };
        messages.push((part()?, part()?.context("a payload")?));
    }
    ensure!(batch.is_empty());
    Ok(messages)
}

fn number(bytes: &mut Bytes) -> i64 {
    let (mut value, mut shift) = (0_u64, 0);
    loop {
        let byte = bytes.get_u8();
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return (value >> 1).cast_signed() ^ -(value & 1).cast_signed();
        }
    }
}

fn text(bytes: &mut Bytes) -> String {
    let length = bytes.get_u16();
    String::from_utf8_lossy(&bytes.split_to(length.into())).into_owned()
}

fn data(bytes: &mut Bytes) -> Bytes {
    let length = bytes.get_u32();
    bytes.split_to(length as usize)
}

fn put_text(out: &mut BytesMut, text: &str) {
    out.put_u16(text.len() as u16);
    out.extend_from_slice(text.as_bytes());
}

/// Frames with one event each, of these jobs, at the indexes from `first` on.
fn parcel(first: u64, jobs: &[&str]) -> Parcel {
    let frame = |(offset, job): (usize, &&str)| {
        let position = first + offset as u64;
        let line = format!(
            "{{\"Events\":[{{\"Topic\":\"Job\",\"Namespace\":\"n\",\"Key\":\"{job}\"}}],\"Index\":{position}}}\n"
        );
        Frame { position, line: line.into(), events: 1 }
    };
    Parcel { frames: jobs.iter().enumerate().map(frame).collect(), at: Time::from_secs(1) }
}

/// The message of a frame of `parcel`.
fn message(key: &str, job: &str, index: u64) -> String {
    format!("{key}: {{\"Events\":[{{\"Topic\":\"Job\",\"Namespace\":\"n\",\"Key\":\"{job}\"}}],\"Index\":{index}}}")
}

/// Partition of `n/JOB`, of two.
fn of_two(job: &str) -> i32 {
    partition(&format!("n/{job}"), 2) as i32
}

/// Two jobs with different partitions of two.
fn jobs() -> (&'static str, &'static str) {
    let named = |partition| ["a", "b", "c", "d", "e", "f"].into_iter().find(|job| of_two(job) == partition);
    (named(0).expect("one of six"), named(1).expect("one of six"))
}

#[tokio::test]
async fn messages_of_one_key_stay_in_order_in_one_partition() -> Result<()> {
    let bus = Bus::start(2, 2).await?;
    let (a, b) = jobs();
    let mut sink = bus.sink(PartitionKey::Job, "")?;
    sink.deliver(&parcel(1, &[a, b, a])).await?;
    sink.deliver(&parcel(4, &[b, a])).await?;
    let (key_a, key_b) = (format!("n/{a}"), format!("n/{b}"));
    ensure!(bus.stored(0) == [1, 3, 5].map(|index| message(&key_a, a, index)), "{:?}", bus.stored(0));
    ensure!(bus.stored(1) == [2, 4].map(|index| message(&key_b, b, index)), "{:?}", bus.stored(1));
    Ok(())
}

#[tokio::test]
async fn without_a_partition_key_one_partition_has_all_and_every_partition_has_gaps() -> Result<()> {
    let bus = Bus::start(1, 3).await?;
    let mut sink = bus.sink(PartitionKey::None, "")?;
    let mut parcel = parcel(1, &["a", "b"]);
    let line = Bytes::from("{\"Index\":0,\"Gap\":{\"Oldest\":4}}\n");
    parcel.frames.push(Frame { position: 3, line, events: 0 });
    sink.deliver(&parcel).await?;
    let gap = "-: {\"Index\":0,\"Gap\":{\"Oldest\":4}}".to_owned();
    let whole = partition("bus", 3) as i32;
    for one in 0..3 {
        let mut expected = vec![gap.clone()];
        if one == whole {
            expected.splice(0..0, [message("bus", "a", 1), message("bus", "b", 2)]);
        }
        ensure!(bus.stored(one) == expected, "{one}: {:?}", bus.stored(one));
    }
    Ok(())
}

#[tokio::test]
async fn the_next_leader_of_a_partition_gets_what_the_last_one_refuses() -> Result<()> {
    let bus = Bus::start(2, 2).await?;
    let (a, b) = jobs();
    let mut sink = bus.sink(PartitionKey::Job, "")?;
    sink.deliver(&parcel(1, &[a, b])).await?;
    bus.set(|state| state.leaders = vec![1, 1]);
    sink.deliver(&parcel(3, &[a, b])).await?;
    let (key_a, key_b) = (format!("n/{a}"), format!("n/{b}"));
    ensure!(bus.stored(0) == [1, 3].map(|index| message(&key_a, a, index)), "{:?}", bus.stored(0));
    ensure!(bus.stored(1) == [2, 4].map(|index| message(&key_b, b, index)), "{:?}", bus.stored(1));
    ensure!(bus.0.lock().misled == 1);
    Ok(())
}

#[tokio::test]
async fn what_a_lost_connection_left_open_is_sent_again() -> Result<()> {
    let bus = Bus::start(1, 1).await?;
    let mut sink = bus.sink(PartitionKey::None, "")?;
    sink.deliver(&parcel(1, &["a"])).await?;
    // The broker stores the second message and does not say so.
    bus.set(|state| state.hangs_up_at = vec![2]);
    sink.deliver(&parcel(2, &["a"])).await?;
    ensure!(bus.stored(0) == [1, 2, 2].map(|index| message("bus", "a", index)), "{:?}", bus.stored(0));
    // A fresh connection that breaks is a failure.
    bus.set(|state| state.hangs_up_at = vec![4, 5]);
    let failed = sink.deliver(&parcel(3, &["a"])).await.err().context("both were closed")?;
    ensure!(failed.to_string().starts_with("Kafka: 127.0.0.1:"), "{failed}");
    sink.deliver(&parcel(3, &["a"])).await?;
    ensure!(bus.stored(0).last() == Some(&message("bus", "a", 3)), "{:?}", bus.stored(0));
    Ok(())
}

#[tokio::test]
async fn batches_shrink_to_what_the_topic_takes() -> Result<()> {
    let bus = Bus::start(1, 1).await?;
    bus.set(|state| state.batch_bytes_max = 250);
    let mut sink = bus.sink(PartitionKey::None, "")?;
    sink.deliver(&parcel(1, &["a"; 9])).await?;
    let expected: Vec<String> = (1..10).map(|index| message("bus", "a", index)).collect();
    ensure!(bus.stored(0) == expected, "{:?}", bus.stored(0));
    let long = "a".repeat(200);
    let failed = sink.deliver(&parcel(10, &["a", &long])).await.err().context("the second is too large")?;
    let text = "Kafka: the message at index 11 has 264 bytes: the message is too large for the topic";
    ensure!(failed.to_string() == text, "{failed}");
    Ok(())
}

#[tokio::test]
async fn a_broker_that_is_away_is_passed_over() -> Result<()> {
    let bus = Bus::start(1, 1).await?;
    let closed = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    let port = bus.0.lock().ports[0];
    let sink = |brokers: String| {
        let (address, subject) = (format!("kafka://{brokers}").into(), "events".into());
        Kafka::new(&EventSink { id: "bus".into(), address, subject, ..EventSink::default() })
    };
    sink(format!("{closed},127.0.0.1:{port}"))?.deliver(&parcel(1, &["a"])).await?;
    ensure!(bus.stored(0).len() == 1);
    let failed = sink(closed.to_string())?.deliver(&parcel(1, &["a"])).await.err().context("nobody is there")?;
    ensure!(failed.to_string().starts_with(&format!("Kafka: {closed}: Connection refused")), "{failed}");
    Ok(())
}

#[tokio::test]
async fn a_user_authenticates_and_refusals_say_why() -> Result<()> {
    let bus = Bus::start(1, 1).await?;
    let port = bus.0.lock().ports[0];
    let mut said = Vec::new();
    let mut ask = async |secret: &str| -> Result<()> {
        said.push(match bus.sink(PartitionKey::None, secret)?.deliver(&parcel(1, &["a"])).await {
            Ok(()) => "stored".to_owned(),
            Err(why) => why.to_string().replace(&port.to_string(), "PORT"),
        });
        Ok(())
    };
    ask("songline:s3cret").await?;
    bus.set(|state| state.password = Some("s3cret"));
    ask("songline:wrong").await?;
    ask("songline:s3cret").await?;
    bus.set(|state| state.topic = "others");
    ask("songline:s3cret").await?;
    bus.set(|state| (state.topic, state.leaders) = ("events", vec![-1]));
    ask("songline:s3cret").await?;
    bus.set(|state| state.produce_versions = (4, 14));
    ask("").await?;
    let expected = [
        "Kafka: 127.0.0.1:PORT: SASL/PLAIN: the broker does not take this mechanism; it takes SCRAM-SHA-256",
        "Kafka: 127.0.0.1:PORT: wrong user or password",
        "stored",
        "Kafka: topic \"events\": the topic or partition does not exist",
        "Kafka: partition 0 has no leader",
        "Kafka: 127.0.0.1:PORT: the broker takes 4 to 14 of request Produce",
    ];
    ensure!(said == expected, "{said:#?}");
    Ok(())
}
