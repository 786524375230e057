//! The profile format of `go tool pprof`: a gzipped protocol buffer (`profile.proto`). Each stack is one name.

use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

/// Name and unit of a sample's value: `cpu` in `nanoseconds`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unit {
    pub(super) kind: &'static str,
    pub(super) unit: &'static str,
}

/// A profile under construction.
#[derive(Debug)]
pub(super) struct Profile {
    units: Vec<Unit>,
    samples: Vec<(u64, Vec<u64>)>,
    /// All texts; others name them by their place. The first one is empty.
    texts: Vec<String>,
    /// Length of the measurement, and what is sampled how often.
    measured: Option<(Duration, Unit, Duration)>,
}

impl Profile {
    /// A profile whose samples have one value for each unit.
    pub(super) fn new(units: Vec<Unit>) -> Self {
        Self { units, samples: Vec::new(), texts: vec![String::new()], measured: None }
    }

    /// Says how long was measured, and what was sampled at which interval.
    pub(super) fn measured(&mut self, span: Duration, of: Unit, interval: Duration) {
        self.measured = Some((span, of, interval));
    }

    /// Adds a stack that is one name, with its values.
    pub(super) fn add(&mut self, name: &str, values: Vec<u64>) {
        let name = self.text(name);
        self.samples.push((name, values));
    }

    fn text(&mut self, text: &str) -> u64 {
        let known = self.texts.iter().position(|known| known == text);
        let place = known.unwrap_or_else(|| {
            self.texts.push(text.to_owned());
            self.texts.len() - 1
        });
        place as u64
    }

    fn unit(&mut self, unit: Unit) -> Message {
        let mut message = Message::default();
        message.number(1, self.text(unit.kind));
        message.number(2, self.text(unit.unit));
        message
    }

    /// The file.
    pub(super) fn encoded(mut self) -> Vec<u8> {
        let mut profile = Message::default();
        for unit in std::mem::take(&mut self.units) {
            let unit = self.unit(unit);
            profile.bytes(1, &unit.0);
        }
        let samples = std::mem::take(&mut self.samples);
        for (place, (_, values)) in samples.iter().enumerate() {
            let mut sample = Message::default();
            sample.number(1, place as u64 + 1);
            values.iter().for_each(|value| sample.number(2, *value));
            profile.bytes(2, &sample.0);
        }
        // Each stack has its own location and function, of the same number.
        for (place, (name, _)) in samples.iter().enumerate() {
            let id = place as u64 + 1;
            let (mut line, mut location, mut function) = (Message::default(), Message::default(), Message::default());
            line.number(1, id);
            location.number(1, id);
            location.bytes(4, &line.0);
            function.number(1, id);
            function.number(2, *name);
            profile.bytes(4, &location.0);
            profile.bytes(5, &function.0);
        }
        let measured = self.measured.map(|(span, of, interval)| (span, self.unit(of), interval));
        self.texts.iter().for_each(|text| profile.bytes(6, text.as_bytes()));
        if let Some((span, of, interval)) = measured {
            profile.number(10, nanos(span));
            profile.bytes(11, &of.0);
            profile.number(12, nanos(interval));
        }
        gzipped(&profile.0)
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("a write to memory does not fail")
}

/// A message of a protocol buffer.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn number(&mut self, field: u64, number: u64) {
        self.varint(field << 3);
        self.varint(number);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}
