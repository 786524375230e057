//! The event streams of a simulated cluster: subscribers that follow any running server.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use songline_commands::Kind;
use songline_events::hub::{Dialect, Format, Interest, Start, full_frame};
use songline_projections::Change;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::record::Record;
use super::server::Host;
use crate::check::Frame;

/// Number of servers without the next entry after which a subscriber accepts the gap.
const GAPS_MAX: u32 = 8;

/// An entry's events in an unfiltered stream; `None` without events.
pub fn frame_of(index: u64, kind: Kind, changes: &[Change]) -> Option<String> {
    full_frame(index, kind, changes).map(|frame| digest(&frame))
}

fn digest(frame: &[u8]) -> String {
    blake3::hash(frame.trim_ascii_end()).to_hex()[..16].to_owned()
}

/// A line of a stream.
enum Line {
    Frame(Frame),
    /// Events below this index are not available here.
    Gap(u64),
    Closed,
}

fn read(line: &[u8]) -> Option<Line> {
    let value: serde_json::Value = serde_json::from_slice(line).ok()?;
    if value.get("Events").is_some() {
        return Some(Line::Frame(Frame { index: value["Index"].as_u64()?, content: digest(line) }));
    }
    if let Some(oldest) = value["Gap"]["Oldest"].as_u64() {
        return Some(Line::Gap(oldest));
    }
    value.get("Closed").map(|_| Line::Closed)
}

/// Follows the stream of any running server from its cursor, and skips entries only when they are gone on all
/// servers.
pub async fn follow(number: u64, seed: u64, hosts: Vec<Arc<Host>>, record: Arc<Record>) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let (mut cursor, mut gaps) = (0, 0);
    record.streamed(number, cursor, None);
    loop {
        tokio::time::sleep(Duration::from_millis(rng.random_range(50..800))).await;
        let host = &hosts[rng.random_range(0..hosts.len())];
        let Some(life) = host.life() else { continue };
        let until = Instant::now() + Duration::from_millis(rng.random_range(100..20_000));
        let everything = Interest::parse("*", std::iter::empty()).expect("is valid");
        let subscription = life.core.events().subscribe(everything, Format::Json, Dialect::Full, Start::After(cursor));
        let mut stream = std::pin::pin!(subscription.into_stream(CancellationToken::new()));
        let mut gap = None;
        'reading: while let Ok(Some(Ok(piece))) = tokio::time::timeout_at(until, stream.next()).await {
            for line in piece.split(|byte| *byte == b'\n').filter_map(read) {
                match line {
                    // Output of a machine that has died does not arrive.
                    _ if !life.lives() => break 'reading,
                    Line::Frame(frame) => {
                        (cursor, gaps) = (frame.index, 0);
                        record.streamed(number, cursor, Some(frame));
                    }
                    Line::Gap(oldest) => {
                        gap = Some(oldest);
                        break 'reading;
                    }
                    Line::Closed => break 'reading,
                }
            }
        }
        if let Some(oldest) = gap {
            gaps += 1;
            // Another server may have the entries, or this one once its history is rebuilt.
            if gaps > GAPS_MAX {
                (cursor, gaps) = (oldest - 1, 0);
                record.streamed(number, cursor, None);
            }
        }
    }
}
