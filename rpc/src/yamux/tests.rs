//! Stories of sessions: captured frames, windows under slow readers, many streams, and the end of a session.

use std::fmt::Write as _;
use std::time::Duration;

use expect_test::expect;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;

const GOLDEN: &str = include_str!("../../tests/golden/yamux.txt");

fn pair() -> (Session, Session) {
    pair_with(SessionLimits::default())
}

fn pair_with(limits: SessionLimits) -> (Session, Session) {
    let (here, there) = tokio::io::duplex(8 * 1024);
    (Session::dialled(here, limits.clone()), Session::accepted(there, limits))
}

/// A session on one side, raw bytes on the other.
fn raw() -> (Session, DuplexStream) {
    let (here, there) = tokio::io::duplex(1 << 20);
    (Session::accepted(here, SessionLimits::default()), there)
}

fn header(kind: Kind, flags: Flags, stream: u32, length: u32) -> Vec<u8> {
    Header { kind, flags, stream, length }.encode().to_vec()
}

async fn next_header(raw: &mut DuplexStream) -> Option<Header> {
    let mut bytes = [0; HEADER_BYTES];
    raw.read_exact(&mut bytes).await.ok()?;
    Some(Header::decode(&bytes).unwrap())
}

#[test]
fn captured_yamux_headers_are_decoded_and_encoded_unchanged() {
    let mut seen = 0;
    for line in GOLDEN.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, flags, stream, length, hex] = words[..] else { panic!("{line}") };
        let kind = match kind {
            "data" => Kind::Data,
            "window" => Kind::Window,
            "ping" => Kind::Ping,
            "goaway" => Kind::GoAway,
            other => panic!("{other}"),
        };
        let flags = match flags {
            "-" => Flags::NONE,
            "SYN" => Flags::SYN,
            "ACK" => Flags::ACK,
            "FIN" => Flags::FIN,
            "RST" => Flags::RST,
            other => panic!("{other}"),
        };
        let header = Header { kind, flags, stream: stream.parse().unwrap(), length: length.parse().unwrap() };
        let bytes: [u8; HEADER_BYTES] = std::array::from_fn(|at| {
            u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("the file has hex digits")
        });
        assert_eq!(header.encode(), bytes, "{line}");
        assert_eq!(Header::decode(&bytes).unwrap(), header, "{line}");
        seen += 1;
    }
    assert!(seen > 20, "{seen} headers");
}

fn any_frames() -> impl Strategy<Value = Vec<(u8, u16, u32, Vec<u8>)>> {
    prop::collection::vec((0u8..4, 0u16..16, any::<u32>(), prop::collection::vec(any::<u8>(), 0..40)), 0..20)
}

proptest! {
    #[test]
    fn yamux_frames_decode_the_same_for_any_split_of_their_bytes(frames in any_frames(), cuts in prop::collection::vec(1usize..30, 1..40)) {
        let mut bytes = Vec::new();
        let mut told = String::new();
        for (kind, flags, stream, data) in &frames {
            let kind = [Kind::Data, Kind::Window, Kind::Ping, Kind::GoAway][usize::from(*kind)];
            let header = Header { kind, flags: Flags(*flags), stream: *stream, length: u32::try_from(data.len()).unwrap() };
            bytes.extend_from_slice(&header.encode());
            write!(told, "{header:?}").unwrap();
            if kind == Kind::Data {
                bytes.extend_from_slice(data);
                data.iter().for_each(|byte| write!(told, "{byte:02x}").unwrap());
            }
        }
        let mut decoder = Decoder::default();
        let mut heard = String::new();
        let mut rest = bytes.as_slice();
        let mut cuts = cuts.iter().cycle();
        while !rest.is_empty() {
            let (mut now, later) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
            rest = later;
            while let Some(piece) = decoder.next(&mut now).unwrap() {
                match piece {
                    Piece::Header(header) => write!(heard, "{header:?}").unwrap(),
                    Piece::Data(data) => data.iter().for_each(|byte| write!(heard, "{byte:02x}").unwrap()),
                }
            }
        }
        prop_assert_eq!(heard, told);
    }

    #[test]
    fn random_bytes_never_panic_a_yamux_session(bytes in prop::collection::vec(any::<u8>(), 0..400), known in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (session, mut raw) = raw();
            if known {
                raw.write_all(&header(Kind::Window, Flags::SYN, 1, 0)).await.unwrap();
            }
            for chunk in bytes.chunks(7) {
                // A version of 0 passes the first check, so random bytes get further.
                let mut frame = chunk.to_vec();
                frame[0] = 0;
                frame.resize(HEADER_BYTES, 0);
                raw.write_all(&frame).await.unwrap();
            }
            drop(raw);
            session.closed().await;
        });
    }
}

#[tokio::test]
async fn yamux_stream_opens_carries_and_ends_like_the_reference() {
    let (session, mut raw) = raw();
    raw.write_all(&header(Kind::Window, Flags::SYN, 1, 0)).await.unwrap();
    raw.write_all(&header(Kind::Data, Flags::NONE, 1, 3)).await.unwrap();
    raw.write_all(b"abc").await.unwrap();
    raw.write_all(&header(Kind::Window, Flags::FIN, 1, 0)).await.unwrap();
    let mut stream = session.accept().await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    stream.write_all(b"answer").await.unwrap();
    drop(stream);
    let mut own = session.open().await.unwrap();
    own.write_all(&[1]).await.unwrap();
    session.close();
    let mut written = Vec::new();
    raw.read_to_end(&mut written).await.unwrap();
    let mut shown = format!("read {said}\n");
    let mut rest = written.as_slice();
    let mut decoder = Decoder::default();
    while let Some(piece) = decoder.next(&mut rest).unwrap() {
        match piece {
            Piece::Header(Header { kind, flags, stream, length }) => {
                writeln!(shown, "{kind:?} {} of {stream}: {length}", flags.0).unwrap()
            }
            Piece::Data(data) => writeln!(shown, "  {}", data.escape_ascii()).unwrap(),
        }
    }
    // Stream 1 is not acknowledged: its opener had ended it before it was accepted.
    expect![[r#"
        read abc
        Window 1 of 2: 0
        Data 0 of 1: 6
          answer
        Window 4 of 1: 0
        Data 0 of 2: 1
          \x01
    "#]]
    .assert_eq(&shown);
}

#[tokio::test]
async fn a_slow_reader_stops_its_writer_and_no_other() {
    let (here, there) = pair();
    let mut slow = here.open().await.unwrap();
    let slow_there = tokio::spawn({
        let there = there.clone();
        async move { there.accept().await.unwrap() }
    });
    let mut slow_there = slow_there.await.unwrap();
    // A full window of bytes, and not one more, is sent without being read.
    let window = usize::try_from(WINDOW_BYTES).unwrap();
    slow.write_all(&vec![7; window]).await.unwrap();
    let more = std::future::poll_fn(|cx| {
        std::task::Poll::Ready(tokio::io::AsyncWrite::poll_write(std::pin::Pin::new(&mut slow), cx, b"x").is_pending())
    });
    assert!(more.await, "the window is used up");
    let mut quick = here.open().await.unwrap();
    quick.write_all(b"quick").await.unwrap();
    let mut quick_there = there.accept().await.unwrap();
    let mut said = [0; 5];
    quick_there.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"quick");
    let writer = tokio::spawn(async move {
        slow.write_all(&vec![8; 3 * window]).await.unwrap();
    });
    let mut all = Vec::new();
    slow_there.read_to_end(&mut all).await.unwrap();
    writer.await.unwrap();
    assert_eq!((all.len(), all.iter().filter(|byte| **byte == 8).count()), (4 * window, 3 * window));
}

#[tokio::test]
async fn peer_that_exceeds_the_stream_window_loses_the_session() {
    let (session, mut raw) = raw();
    raw.write_all(&header(Kind::Window, Flags::SYN, 1, 0)).await.unwrap();
    raw.write_all(&header(Kind::Data, Flags::NONE, 1, WINDOW_BYTES + 1)).await.unwrap();
    assert_eq!(session.closed().await, Ended::WindowExceeded);
}

#[tokio::test]
async fn streams_beyond_the_backlog_are_reset() {
    let (_session, mut raw) = raw();
    for id in 0..257 {
        raw.write_all(&header(Kind::Window, Flags::SYN, 2 * id + 1, 0)).await.unwrap();
    }
    let refused = next_header(&mut raw).await.unwrap();
    assert_eq!(refused, Header { kind: Kind::Window, flags: Flags::RST, stream: 513, length: 0 });
}

#[tokio::test]
async fn hundreds_of_streams_of_both_sides_carry_their_own_bytes() {
    let (here, there) = pair();
    let echo = |session: Session| async move {
        while let Ok(mut stream) = session.accept().await {
            tokio::spawn(async move {
                let mut said = Vec::new();
                stream.read_to_end(&mut said).await.unwrap();
                stream.write_all(&said).await.unwrap();
            });
        }
    };
    let echoes = [tokio::spawn(echo(here.clone())), tokio::spawn(echo(there.clone()))];
    let mut calls = Vec::new();
    for at in 0..600_usize {
        let session = if at % 2 == 0 { here.clone() } else { there.clone() };
        calls.push(tokio::spawn(async move {
            let mut stream = session.open().await.unwrap();
            let said = vec![u8::try_from(at % 251).unwrap(); 1 + 37 * at];
            stream.write_all(&said).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard).await.unwrap();
            assert_eq!(heard, said);
        }));
    }
    for call in calls {
        call.await.unwrap();
    }
    here.close();
    there.close();
    for echo in echoes {
        echo.await.unwrap();
    }
    assert_eq!((here.streams(), there.streams()), (0, 0));
}

#[tokio::test]
async fn session_end_wakes_its_readers_writers_and_acceptors() {
    let (here, there) = pair();
    let mut read = here.open().await.unwrap();
    let mut written = here.open().await.unwrap();
    let window = usize::try_from(WINDOW_BYTES).unwrap();
    written.write_all(&vec![0; window]).await.unwrap();
    let reader = tokio::spawn(async move { read.read_u8().await.unwrap_err().kind() });
    let writer = tokio::spawn(async move { written.write_all(b"x").await.unwrap_err().kind() });
    let acceptor = tokio::spawn({
        let here = here.clone();
        async move { here.accept().await.unwrap_err().kind() }
    });
    drop(there);
    // Whether the reader or the writer notices first, all waiters get the same error.
    let kind = here.closed().await.io().kind();
    assert_eq!([reader.await.unwrap(), writer.await.unwrap(), acceptor.await.unwrap()], [kind; 3]);
    assert!(here.open().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn session_ends_when_pings_are_not_answered_in_time() {
    let (session, mut raw) = raw();
    let begun = tokio::time::Instant::now();
    let asked = next_header(&mut raw).await.unwrap();
    assert_eq!(asked, Header { kind: Kind::Ping, flags: Flags::SYN, stream: 0, length: 0 });
    raw.write_all(&header(Kind::Ping, Flags::ACK, 0, 0)).await.unwrap();
    let asked = next_header(&mut raw).await.unwrap();
    assert_eq!(asked, Header { kind: Kind::Ping, flags: Flags::SYN, stream: 0, length: 1 });
    assert_eq!(session.closed().await, Ended::Silent);
    let lasted = begun.elapsed();
    assert!(lasted >= Duration::from_secs(70) && lasted <= Duration::from_secs(80), "{lasted:?}");
}

#[tokio::test(start_paused = true)]
async fn idle_session_with_answered_pings_stays_open() {
    let (here, there) = pair();
    let stayed = tokio::time::timeout(Duration::from_secs(3600), here.closed()).await;
    assert!(stayed.is_err());
    assert_eq!(there.ended(), None);
}

#[tokio::test(start_paused = true)]
async fn unacknowledged_stream_ends_the_session() {
    let (here, _there) = pair();
    let _stream = here.open().await.unwrap();
    assert_eq!(here.closed().await, Ended::NeverAcknowledged);
}

#[tokio::test(start_paused = true)]
async fn half_closed_stream_is_reset_after_a_timeout() {
    let (here, there) = pair();
    let mut kept = here.open().await.unwrap();
    drop(there.accept().await.unwrap());
    assert_eq!(there.streams(), 1);
    let mut ended = Vec::new();
    kept.read_to_end(&mut ended).await.unwrap();
    tokio::time::sleep(Duration::from_secs(400)).await;
    assert_eq!(there.streams(), 0);
    assert_eq!(kept.write_all(b"x").await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn unread_ping_answers_are_bounded() {
    let (session, raw) = {
        let (here, there) = tokio::io::duplex(1024);
        (Session::accepted(here, SessionLimits::default()), there)
    };
    let (_unread, mut asking) = tokio::io::split(raw);
    let ping = header(Kind::Ping, Flags::SYN, 0, 1);
    // The answers cannot be written, so at some point requests are not read any more: this side has to stop too.
    let asked = async {
        let mut asked = 0_u32;
        loop {
            match tokio::time::timeout(Duration::from_millis(200), asking.write_all(&ping)).await {
                Ok(Ok(())) => asked += 1,
                Ok(Err(error)) => panic!("{error}"),
                Err(_) => return asked,
            }
        }
    };
    let asked = asked.await;
    assert!(asked < 8000, "{asked} pings were taken in");
    assert_eq!(session.ended(), None);
}
