//! Compressed responses. Small whole bodies keep a known length. Every piece of a stream is flushed, so that it
//! arrives when it is written.

mod tiny;

use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use hyper::body::Frame;

/// Largest body in bytes that is compressed at once. Larger ones are compressed while they are sent.
const WHOLE_BYTES_MAX: u64 = 64 << 10;

/// Encoding of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Uncompressed.
    Identity,
    /// gzip.
    Gzip,
    /// Raw deflate.
    Deflate,
}

/// The first of the two encodings that the client lists in exactly these words.
pub fn wanted(headers: &HeaderMap) -> Encoding {
    if headers.contains_key(header::UPGRADE) {
        return Encoding::Identity;
    }
    let Some(listed) = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()) else {
        return Encoding::Identity;
    };
    for word in listed.split(',') {
        match word.trim() {
            "gzip" => return Encoding::Gzip,
            "deflate" => return Encoding::Deflate,
            _ => {}
        }
    }
    Encoding::Identity
}

/// Encodes the response.
pub fn apply(mut response: Response, encoding: Encoding) -> Response {
    vary_by_encoding(response.headers_mut());
    let word = match encoding {
        Encoding::Identity => return response,
        Encoding::Gzip => "gzip",
        Encoding::Deflate => "deflate",
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(word));
    headers.remove(header::CONTENT_LENGTH);
    let is_error_text = response.status().is_client_error() || response.status().is_server_error();
    if is_error_text {
        response.headers_mut().remove(header::CONTENT_TYPE);
    }
    response.map(|body| compressed(body, encoding))
}

/// Says that the response varies by the encodings that the client takes, before all else that it varies by: clients
/// that keep one value of a repeated header keep the last one.
fn vary_by_encoding(headers: &mut HeaderMap) {
    let others: Vec<HeaderValue> = headers.get_all(header::VARY).iter().cloned().collect();
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    others.into_iter().for_each(|other| {
        headers.append(header::VARY, other);
    });
}

fn compressed(mut body: Body, encoding: Encoding) -> Body {
    let mut encoder = Encoder::new(encoding);
    let Some(bytes) = body.size_hint().exact().filter(|bytes| *bytes <= WHOLE_BYTES_MAX) else {
        return Body::new(Compressed { inner: body, encoder: Some(encoder) });
    };
    let mut whole = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0));
    // Only takes frames that are ready; never waits.
    let mut now = Context::from_waker(Waker::noop());
    loop {
        match Pin::new(&mut body).poll_frame(&mut now) {
            Poll::Ready(Some(Ok(frame))) => whole.extend(frame.into_data().unwrap_or_default()),
            Poll::Ready(None) => break,
            Poll::Ready(Some(Err(_))) | Poll::Pending => {
                // The rest comes later, or never.
                return match encoder.put(&whole) {
                    Ok(()) => Body::new(Compressed { inner: body, encoder: Some(encoder) }),
                    Err(error) => broken(error),
                };
            }
        }
    }
    if whole.len() <= tiny::BYTES_MAX {
        return match encoding {
            Encoding::Deflate => Body::from(tiny::deflate(&whole)),
            Encoding::Gzip | Encoding::Identity => Body::from(tiny::gzip(&whole)),
        };
    }
    match encoder.put(&whole).and_then(|()| encoder.finish()) {
        Ok(bytes) => Body::from(bytes),
        Err(error) => broken(error),
    }
}

fn broken(error: std::io::Error) -> Body {
    Body::from_stream(futures_util::stream::once(std::future::ready(Err::<Bytes, _>(error))))
}

enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    Deflate(DeflateEncoder<Vec<u8>>),
}

impl Encoder {
    fn new(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Deflate => Encoder::Deflate(DeflateEncoder::new(Vec::new(), Compression::fast())),
            Encoding::Gzip | Encoding::Identity => Encoder::Gzip(GzEncoder::new(Vec::new(), Compression::fast())),
        }
    }

    /// Compresses data of a piece without flushing.
    fn put(&mut self, data: &[u8]) -> std::io::Result<()> {
        match self {
            Encoder::Gzip(encoder) => encoder.write_all(data),
            Encoder::Deflate(encoder) => encoder.write_all(data),
        }
    }

    fn write(&mut self, data: &[u8], flush: bool) -> std::io::Result<Bytes> {
        let out = match self {
            Encoder::Gzip(encoder) => {
                encoder.write_all(data)?;
                if flush {
                    encoder.flush()?;
                }
                encoder.get_mut()
            }
            Encoder::Deflate(encoder) => {
                encoder.write_all(data)?;
                if flush {
                    encoder.flush()?;
                }
                encoder.get_mut()
            }
        };
        Ok(Bytes::from(std::mem::take(out)))
    }

    fn finish(self) -> std::io::Result<Bytes> {
        let out = match self {
            Encoder::Gzip(encoder) => encoder.finish()?,
            Encoder::Deflate(encoder) => encoder.finish()?,
        };
        Ok(Bytes::from(out))
    }
}

/// A body whose pieces are compressed as they arrive.
struct Compressed {
    inner: Body,
    /// `None` once the last piece has been written.
    encoder: Option<Encoder>,
}

impl HttpBody for Compressed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        loop {
            if self.encoder.is_none() {
                return Poll::Ready(None);
            }
            // A body of unknown length is a stream: its readers wait for each piece, so each is flushed.
            let flush = self.inner.size_hint().exact().is_none();
            let piece = match Pin::new(&mut self.inner).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => {
                        let Some(encoder) = self.encoder.as_mut() else { return Poll::Ready(None) };
                        encoder.write(&data, flush)
                    }
                    // Trailers are dropped: the wire has none.
                    Err(_) => continue,
                },
                Poll::Ready(None) => match self.encoder.take() {
                    Some(encoder) => encoder.finish(),
                    None => return Poll::Ready(None),
                },
            };
            return match piece {
                Ok(data) if data.is_empty() && self.encoder.is_some() => continue,
                Ok(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
                Err(error) => Poll::Ready(Some(Err(axum::Error::new(error)))),
            };
        }
    }
}
