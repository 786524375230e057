//! Messages of NATS' text protocol, as far as a publisher needs them.

use bytes::{Buf, Bytes, BytesMut};

/// A message of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    /// Description of the server, in JSON.
    Info(Bytes),
    /// The server wants a `PONG`.
    Ping,
    /// Answer to a `PING`.
    Pong,
    /// A command succeeded.
    Ok,
    /// The server refuses a command or the connection.
    Refused(String),
    /// A message to a subscription.
    Delivery {
        /// Subject of the message.
        subject: Bytes,
        /// Status code of the header, if it has one.
        status: Option<String>,
        /// Body of the message.
        payload: Bytes,
    },
}

/// Takes one message from the beginning of `read`. `None`: more bytes are needed.
pub(super) fn message(read: &mut BytesMut) -> Result<Option<Message>, String> {
    let Some(end) = read.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let line = Bytes::copy_from_slice(&read[..end]);
    let text = std::str::from_utf8(&line).map_err(|_| "a message is no text".to_owned())?;
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let simple = match word {
        "INFO" => Message::Info(Bytes::copy_from_slice(rest.as_bytes())),
        "PING" => Message::Ping,
        "PONG" => Message::Pong,
        "+OK" => Message::Ok,
        "-ERR" => Message::Refused(rest.trim_matches('\'').to_owned()),
        "MSG" | "HMSG" => return delivery(read, end + 2, word == "HMSG", rest),
        other => return Err(format!("unknown message {other:?}")),
    };
    read.advance(end + 2);
    Ok(Some(simple))
}

/// Reads `subject sid [reply] [header-bytes] bytes` and what follows the line.
fn delivery(read: &mut BytesMut, body: usize, has_header: bool, rest: &str) -> Result<Option<Message>, String> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    let number = |back: usize| {
        let word = words.len().checked_sub(back).and_then(|at| words.get(at));
        word.and_then(|word| word.parse::<usize>().ok()).ok_or_else(|| format!("bad message {rest:?}"))
    };
    let total = number(1)?;
    let header = if has_header { number(2)? } else { 0 };
    if header > total || words.len() < 3 {
        return Err(format!("bad message {rest:?}"));
    }
    if read.len() < body + total + 2 {
        return Ok(None);
    }
    let subject = Bytes::copy_from_slice(words[0].as_bytes());
    read.advance(body);
    let mut payload = read.split_to(total).freeze();
    read.advance(2);
    // The header begins with `NATS/1.0 503`.
    let header = payload.split_to(header);
    let first = header.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let status = String::from_utf8_lossy(first).split_whitespace().nth(1).map(str::to_owned);
    Ok(Some(Message::Delivery { subject, status, payload }))
}

/// The command that publishes a frame with an id, and asks for an answer at `reply`.
pub(super) fn publication(subject: &str, reply: &str, id: &str, index: u64, payload: &[u8]) -> Vec<u8> {
    let header = format!("NATS/1.0\r\nNats-Msg-Id: {id}\r\nX-Songline-Index: {index}\r\n\r\n");
    let total = header.len() + payload.len();
    let mut bytes = format!("HPUB {subject} {reply} {} {total}\r\n{header}", header.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes.extend_from_slice(b"\r\n");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<Message>, String> {
        let (mut read, mut messages) = (BytesMut::new(), Vec::new());
        // Byte by byte, as a slow network would.
        for byte in bytes {
            read.extend_from_slice(&[*byte]);
            messages.extend(message(&mut read)?);
        }
        assert!(read.is_empty(), "{read:?}");
        Ok(messages)
    }

    #[test]
    fn messages_are_read_from_any_pieces() -> Result<(), String> {
        let delivery = |status: Option<&str>, payload: &'static str| Message::Delivery {
            subject: "_INBOX.a.1".into(),
            status: status.map(str::to_owned),
            payload: payload.into(),
        };
        assert_eq!(
            all(b"INFO {\"a\":1}\r\nPING\r\n+OK\r\nPONG\r\n-ERR 'Authorization Violation'\r\nMSG _INBOX.a.1 1 4\r\nab\r\n\r\nHMSG _INBOX.a.1 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n")?,
            [
                Message::Info("{\"a\":1}".into()),
                Message::Ping,
                Message::Ok,
                Message::Pong,
                Message::Refused("Authorization Violation".into()),
                delivery(None, "ab\r\n"),
                delivery(Some("503"), ""),
            ]
        );
        Ok(())
    }

    #[test]
    fn a_bad_message_is_an_error() {
        for bad in ["HELLO\r\n", "MSG a\r\n", "MSG a 1 x\r\n", "HMSG a 1 9 4\r\n"] {
            assert!(message(&mut BytesMut::from(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_publication_says_the_sizes_of_its_header_and_of_all() {
        let bytes = publication("s", "r", "hook-2-7", 7, b"{}");
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(text, "HPUB s r 56 58\r\nNATS/1.0\r\nNats-Msg-Id: hook-2-7\r\nX-Songline-Index: 7\r\n\r\n{}\r\n");
    }
}
