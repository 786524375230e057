//! A sweep is one piece in memory and on disk, and one event per row in the streams that show it.

use songline_model::{DeploymentId, EvalId, Evaluation};
use songline_projections::Work;

use super::*;
use crate::event;

/// A slice of a deletion: fifty evaluations of three jobs are dropped, and the long work's cursor moves.
fn slice(first: u8) -> Vec<Change> {
    let eval = |n: u8| Evaluation {
        id: EvalId::from_bytes([first + n; 16]),
        namespace: if n < 20 { "default" } else { "dev" }.into(),
        job_id: format!("job-{}", n % 3).into(),
        deployment_id: Some(DeploymentId::from_bytes([n + 1; 16])).filter(|_| n.is_multiple_of(7)),
        priority: 50,
        ..Evaluation::default()
    };
    let dropped = (0..50).map(|n| Change::Eval { before: Some(Arc::new(eval(n))), after: None });
    dropped.chain([Change::PendingWork { before: None, after: Some(Arc::new(Work::default())) }]).collect()
}

/// Lines with events of a stream, up to the entry at `last`.
async fn lines(
    hub: &Arc<EventHub>,
    interest: Interest,
    format: Format,
    dialect: Dialect,
    last: u64,
) -> Vec<serde_json::Value> {
    let subscription = hub.subscribe(interest, format, dialect, Start::After(1));
    let mut stream = std::pin::pin!(subscription.into_stream(CancellationToken::new()));
    let mut out = Vec::new();
    while let Some(piece) = stream.next().await {
        let piece = piece.expect("a piece");
        let frames: Vec<serde_json::Value> = match format {
            Format::Json => {
                serde_json::Deserializer::from_slice(&piece).into_iter().map(|frame| frame.expect("JSON")).collect()
            }
            Format::Msgpack => {
                let mut rest = &piece[..];
                std::iter::from_fn(|| (!rest.is_empty()).then(|| rmp_serde::from_read(&mut rest).expect("msgpack")))
                    .collect()
            }
        };
        for frame in frames {
            let is_last = frame["Index"] == last;
            out.extend(Some(frame).filter(|frame| frame.get("Events").is_some()));
            if is_last {
                return out;
            }
        }
    }
    out
}

/// The frame that a stream would show if each dropped row had been encoded by itself.
fn one_by_one(index: u64, changes: &[Change]) -> serde_json::Value {
    let kind = Kind::WorkContinue;
    let batch = Batch::of(index, kind.number(), event::events(kind, changes));
    serde_json::from_slice(&batch.frames(Format::Json, Dialect::Full)[0]).expect("JSON")
}

#[tokio::test]
async fn full_streams_show_each_row_of_a_sweep_from_memory_and_from_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let hub = EventHub::start(HubConfig::default(), Some(open(&folder)), 2).expect("starts");
    hub.publish(2, Kind::WorkContinue, Arc::new(slice(1)));
    hub.publish(3, Kind::WorkContinue, Arc::new(slice(101)));
    hub.publish(4, Kind::NodePoolUpsert, pool("a"));
    settled(&hub, 4).await;
    let expected = [one_by_one(2, &slice(1)), one_by_one(3, &slice(101))];
    assert_eq!(expected[0]["Events"].as_array().map(Vec::len), Some(51));
    let mut hub = hub;
    for place in ["memory", "disk"] {
        for format in [Format::Json, Format::Msgpack] {
            let told = lines(&hub, everything(), format, Dialect::Full, 4).await;
            assert_eq!(told[..2], expected, "{place}");
            assert_eq!(told.len(), 3, "{place}");
        }
        let of_job = Interest::parse("dev", ["Evaluation:job-1".into()].into_iter()).expect("is valid");
        let told = lines(&hub, of_job, Format::Json, Dialect::Full, 3).await;
        let wanted = (20..50).filter(|n| n % 3 == 1).count();
        assert_eq!(
            told.iter().map(|frame| frame["Events"].as_array().map_or(0, Vec::len)).collect::<Vec<_>>(),
            [wanted, wanted],
            "{place}"
        );
        for dialect in [Dialect::Plain, Dialect::Ours] {
            let told = lines(&hub, everything(), Format::Json, dialect, 4).await;
            assert_eq!(told.iter().map(|frame| frame["Index"].as_u64()).collect::<Vec<_>>(), [Some(4)], "{place}");
        }
        drop(hub);
        hub = EventHub::start(HubConfig::default(), Some(open(&folder)), 5).expect("starts");
    }
}

#[test]
fn encoded_sweep_is_less_than_a_fifth_of_its_events() {
    let kind = Kind::WorkContinue;
    let whole = Batch::of(2, kind.number(), event::events(kind, &slice(1)));
    let swept = Batch::encode(2, kind, &slice(1));
    assert!(swept.bytes() * 5 < whole.bytes(), "{} of {} bytes", swept.bytes(), whole.bytes());
}
