//! The last lines of a file or of a task's output. The agent counts bytes from the end: reading shows how many of them
//! hold the lines.

use std::time::Duration;

use tokio::time::Instant;

use crate::client::because;
use crate::exit::Failure;
use crate::out;

/// Number of lines of `-tail` without a number.
pub(super) const LINES: i64 = 10;
/// Estimated length of a line, for the first read.
const LINE_BYTES: i64 = 120;
/// Factor by which a read that holds too few lines grows.
const GROWTH: i64 = 4;
/// Most bytes that are read to find the lines. A longer tail begins inside a line.
const BYTES_MAX: i64 = 64 << 20;
/// Longest wait for the next of the bytes that were there before, when a stream is followed. A file that was truncated
/// or rotated since it was read has fewer of them.
const HEAD_WITHIN: Duration = Duration::from_secs(1);

/// The end of a file that holds the wanted lines.
pub(super) struct Tail {
    /// Number of bytes from the end that were asked for.
    pub asked: i64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Reads more and more of the end until it holds the lines. `read` gets the number of bytes from the end.
///
/// # Errors
/// Those of `read`.
pub(super) async fn read(lines: i64, read: impl AsyncFn(i64) -> Result<Vec<u8>, Failure>) -> Result<Tail, Failure> {
    let mut asked = lines.saturating_mul(LINE_BYTES);
    loop {
        let bytes = read(asked).await?;
        let begins_at_the_start = i64::try_from(bytes.len()).unwrap_or(i64::MAX) < asked;
        if begins_at_the_start || begin_of(&bytes, lines).is_some() || asked >= BYTES_MAX {
            return Ok(Tail { asked, bytes });
        }
        asked = asked.saturating_mul(GROWTH);
    }
}

/// The last lines of a text.
pub(super) fn last_lines(text: &[u8], lines: i64) -> &[u8] {
    &text[begin_of(text, lines).unwrap_or(0)..]
}

/// Place of the first of the last lines, if the text has a line break before it.
fn begin_of(text: &[u8], lines: i64) -> Option<usize> {
    let Some(before) = usize::try_from(lines).ok().and_then(|lines| lines.checked_sub(1)) else {
        return Some(text.len());
    };
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    let mut breaks = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    breaks.nth(before).map(|(at, _)| at + 1)
}

/// Shortens the beginning of a followed stream to its last lines.
pub(super) struct Cut {
    lines: i64,
    /// Number of bytes that were there before.
    expected: usize,
    head: Vec<u8>,
    is_over: bool,
}

impl Cut {
    /// Keeps the last lines of the first `expected` bytes, and everything after them.
    pub(super) fn new(lines: i64, expected: usize) -> Self {
        Self { lines, expected, head: Vec::new(), is_over: expected == 0 }
    }

    /// Keeps everything.
    pub(super) fn nothing() -> Self {
        Self::new(0, 0)
    }

    /// The part that can be printed once these bytes have come.
    fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.is_over {
            return bytes.to_vec();
        }
        self.head.extend_from_slice(bytes);
        if self.head.len() < self.expected { Vec::new() } else { self.rest() }
    }

    /// The last lines of the head, of which no more bytes will come.
    fn rest(&mut self) -> Vec<u8> {
        self.is_over = true;
        let head = std::mem::take(&mut self.head);
        last_lines(&head, self.lines).to_vec()
    }
}

/// Prints a stream that is followed, until it ends or the user interrupts. `data` decodes the pieces.
///
/// # Errors
/// The connection broke; the text has the causes.
pub(super) async fn follow(
    response: &mut reqwest::Response,
    mut cut: Cut,
    mut data: impl FnMut(&[u8]) -> Vec<u8>,
) -> Result<(), String> {
    let timeout = tokio::time::sleep(HEAD_WITHIN);
    tokio::pin!(timeout);
    loop {
        tokio::select! {
            piece = response.chunk() => match piece.map_err(|error| because(&error))? {
                Some(piece) => {
                    let bytes = data(&piece);
                    // A heartbeat has no bytes: the head of a truncated file is over, though heartbeats come.
                    if !bytes.is_empty() {
                        timeout.as_mut().reset(Instant::now() + HEAD_WITHIN);
                    }
                    out::bytes(&cut.take(&bytes));
                }
                None => {
                    out::bytes(&cut.rest());
                    return Ok(());
                }
            },
            () = &mut timeout, if !cut.is_over => out::bytes(&cut.rest()),
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
    }
}

/// Prints an answer from its beginning: as a stream that is followed, or to its end. `data` decodes the pieces.
///
/// An answer that has an end is read without a handler of Ctrl-C: the signal ends the process, so that a part of a file
/// is not mistaken for the whole.
///
/// # Errors
/// The connection broke; the text has the causes.
pub(super) async fn print(
    response: &mut reqwest::Response,
    follows: bool,
    mut data: impl FnMut(&[u8]) -> Vec<u8>,
) -> Result<(), String> {
    if follows {
        return follow(response, Cut::nothing(), data).await;
    }
    while let Some(piece) = response.chunk().await.map_err(|error| because(&error))? {
        out::bytes(&data(&piece));
    }
    Ok(())
}

/// The whole of an answer. `data` decodes the pieces. Ctrl-C ends the process, as in [`print`].
///
/// # Errors
/// The connection broke; the text has the causes.
pub(super) async fn whole(
    response: &mut reqwest::Response,
    mut data: impl FnMut(&[u8]) -> Vec<u8>,
) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| because(&error))? {
        bytes.extend(data(&piece));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn last_lines_are_cut_at_line_breaks() {
        assert_eq!(last_lines(b"one\ntwo\nthree\n", 2), b"two\nthree\n");
        assert_eq!(last_lines(b"one\ntwo", 1), b"two");
        assert_eq!(last_lines(b"one\n", 5), b"one\n");
        assert_eq!(last_lines(b"one\n", 0), b"");
    }

    /// The tail of a file, with the numbers of bytes that were asked for.
    fn tail(file: &[u8], lines: i64) -> (Vec<u8>, Vec<i64>) {
        let asked = RefCell::new(Vec::new());
        let from_end = async |bytes: i64| {
            asked.borrow_mut().push(bytes);
            let skipped = file.len().saturating_sub(usize::try_from(bytes).unwrap_or(0));
            Ok::<_, Failure>(file[skipped..].to_vec())
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime starts");
        let tail = runtime.block_on(read(lines, from_end)).expect("reads do not fail");
        (last_lines(&tail.bytes, lines).to_vec(), asked.into_inner())
    }

    #[test]
    fn lines_longer_than_estimated_are_whole() {
        let line = |letter: &str| format!("{}\n", letter.repeat(400));
        let file = format!("{}{}{}{}", line("a"), line("b"), line("c"), line("d"));
        let (text, asked) = tail(file.as_bytes(), 3);
        assert_eq!(String::from_utf8_lossy(&text), format!("{}{}{}", line("b"), line("c"), line("d")));
        assert_eq!(asked, [360, 1440]);
    }

    #[test]
    fn file_with_fewer_lines_is_read_once() {
        assert_eq!(tail(b"one\ntwo\n", 3), (b"one\ntwo\n".to_vec(), vec![360]));
        assert_eq!(tail(b"", 3), (Vec::new(), vec![360]));
    }

    #[test]
    fn followed_stream_begins_with_its_last_lines() {
        let mut cut = Cut::new(2, 9);
        assert_eq!(cut.take(b"l1\nl2"), b"");
        assert_eq!(cut.take(b"\nl3\n"), b"l2\nl3\n");
        assert_eq!(cut.take(b"l4\n"), b"l4\n");
        let mut short = Cut::new(1, 100);
        assert_eq!(short.take(b"l1\nl2\n"), b"");
        assert_eq!(short.rest(), b"l2\n");
        assert_eq!(Cut::nothing().take(b"l1\n"), b"l1\n");
    }
}
