//! Noise over a connection between servers: `NNpsk0`. Both ends prove the same key, and all bytes after the handshake
//! are encrypted and authenticated ("sealed"). `trust` decides which connections use it, and with which key.
//!
//! After the handshake each frame is `length u16 (big-endian), sealed bytes`. Each side ends its stream with an empty
//! frame; a stream that ends without one was cut.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use snow::resolvers::{DefaultResolver, FallbackResolver, RingResolver};
use snow::{Builder, HandshakeState, TransportState};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::{poll_read_buf, poll_write_buf};

use super::trust::ServerKey;

const PATTERN: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";
/// Length of a handshake message, in bytes: an ephemeral key and the tag of an empty content.
pub(super) const HANDSHAKE_BYTES: usize = 32 + TAG_BYTES;
const TAG_BYTES: usize = 16;
const LENGTH_BYTES: usize = 2;
/// Most bytes of a write that go into one frame. Received frames may have up to 65,535 bytes.
const SPLIT_BYTES: usize = 32 << 10;
/// Most sealed bytes that wait for a flush. With more, a write first sends them.
const WAITING_BYTES_MAX: usize = 128 << 10;
/// Least number of bytes that a read requests from the connection.
const READ_BYTES_MIN: usize = 4 << 10;

/// Handshake of one side. Both sides need the same `prologue`.
pub(super) struct Handshake(Box<HandshakeState>);

impl Handshake {
    pub(super) fn dialling(key: &ServerKey, prologue: &[u8]) -> io::Result<Self> {
        Self::begin(key, prologue, |builder| builder.build_initiator())
    }

    pub(super) fn accepting(key: &ServerKey, prologue: &[u8]) -> io::Result<Self> {
        Self::begin(key, prologue, |builder| builder.build_responder())
    }

    fn begin(
        key: &ServerKey,
        prologue: &[u8],
        build: impl FnOnce(Builder<'_>) -> Result<HandshakeState, snow::Error>,
    ) -> io::Result<Self> {
        // ring lacks a Diffie-Hellman that Noise can use, so that comes from the default resolver; all else comes from
        // ring.
        let resolver = FallbackResolver::new(Box::new(RingResolver), Box::new(DefaultResolver));
        let pattern = PATTERN.parse().map_err(io::Error::other)?;
        let builder = Builder::with_resolver(pattern, Box::new(resolver));
        let builder =
            builder.psk(0, key.reveal()).and_then(|builder| builder.prologue(prologue)).map_err(io::Error::other)?;
        Ok(Self(Box::new(build(builder).map_err(io::Error::other)?)))
    }

    /// Writes this side's message.
    pub(super) fn say(&mut self) -> io::Result<[u8; HANDSHAKE_BYTES]> {
        let mut message = [0; HANDSHAKE_BYTES];
        let len = self.0.write_message(&[], &mut message).map_err(io::Error::other)?;
        debug_assert_eq!(len, HANDSHAKE_BYTES);
        Ok(message)
    }

    /// Reads the other side's message. False: the other side has another key.
    pub(super) fn hear(&mut self, message: &[u8; HANDSHAKE_BYTES]) -> bool {
        self.0.read_message(message, &mut [0; HANDSHAKE_BYTES]).is_ok()
    }

    /// Finishes the handshake and returns the sealed connection.
    pub(super) fn seal<S>(self, stream: S) -> io::Result<Sealed<S>> {
        let keys = self.0.into_transport_mode().map_err(io::Error::other)?;
        Ok(Sealed { stream, keys, incoming: Incoming::default(), waiting: BytesMut::new(), has_ended: false })
    }
}

/// A sealed connection. Writes wait for a flush, or until more than `WAITING_BYTES_MAX` bytes wait.
pub(super) struct Sealed<S> {
    stream: S,
    keys: TransportState,
    incoming: Incoming,
    /// Sealed frames to be sent.
    waiting: BytesMut,
    /// Whether the closing empty frame was written.
    has_ended: bool,
}

#[derive(Default)]
struct Incoming {
    /// Received bytes still to be opened.
    raw: BytesMut,
    /// The content of the last frame is `plain[..end]`, read up to `at`. The buffer is reused for the next frame.
    plain: Vec<u8>,
    at: usize,
    end: usize,
    has_ended: bool,
}

impl Incoming {
    /// Length of the first received frame including its length field, once that is known.
    fn frame_bytes(&self) -> Option<usize> {
        let length = self.raw.get(..LENGTH_BYTES)?;
        Some(LENGTH_BYTES + usize::from(u16::from_be_bytes([length[0], length[1]])))
    }

    /// Opens the first received frame, if it is complete.
    fn open(&mut self, keys: &mut TransportState) -> io::Result<bool> {
        let Some(bytes) = self.frame_bytes().filter(|bytes| self.raw.len() >= *bytes) else { return Ok(false) };
        // snow needs room for the tag as well.
        if self.plain.len() < bytes {
            self.plain.resize(bytes, 0);
        }
        let sealed = &self.raw[LENGTH_BYTES..bytes];
        let opened = keys.read_message(sealed, &mut self.plain);
        self.end = opened
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a frame of a server that was not sealed by it"))?;
        self.at = 0;
        self.has_ended = self.end == 0;
        self.raw.advance(bytes);
        Ok(true)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Sealed<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let incoming = &mut this.incoming;
        loop {
            if incoming.at < incoming.end {
                let taken = buf.remaining().min(incoming.end - incoming.at);
                buf.put_slice(&incoming.plain[incoming.at..incoming.at + taken]);
                incoming.at += taken;
                return Poll::Ready(Ok(()));
            }
            if incoming.has_ended {
                return Poll::Ready(Ok(()));
            }
            if incoming.open(&mut this.keys)? {
                continue;
            }
            let rest = incoming.frame_bytes().map_or(LENGTH_BYTES, |bytes| bytes - incoming.raw.len());
            incoming.raw.reserve(rest.max(READ_BYTES_MIN));
            if ready!(poll_read_buf(Pin::new(&mut this.stream), cx, &mut incoming.raw))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> Sealed<S> {
    fn put(&mut self, content: &[u8]) -> io::Result<()> {
        let at = self.waiting.len();
        self.waiting.resize(at + LENGTH_BYTES + content.len() + TAG_BYTES, 0);
        let sealed =
            self.keys.write_message(content, &mut self.waiting[at + LENGTH_BYTES..]).map_err(io::Error::other)?;
        let length = u16::try_from(sealed).map_err(io::Error::other)?;
        self.waiting[at..at + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.waiting.is_empty() {
            if ready!(poll_write_buf(Pin::new(&mut self.stream), cx, &mut self.waiting))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Sealed<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if this.waiting.len() >= WAITING_BYTES_MAX {
            ready!(this.poll_send(cx))?;
        }
        let taken = buf.len().min(SPLIT_BYTES);
        this.put(&buf[..taken])?;
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.has_ended {
            this.has_ended = true;
            this.put(&[])?;
        }
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
