//! Headers that servers add to requests which they forward. They are trusted only on connections whose other end has
//! proved to be a server.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use songline_model::Str;

use crate::error::Leaderless;

/// Request header: a server forwarded the request to the server that it takes for the leader.
const HOP: HeaderName = HeaderName::from_static("x-songline-hop");
/// Request header: idempotency key of the forwarding server.
const KEY: HeaderName = HeaderName::from_static("x-songline-key");
/// Request header: address of the caller.
const FROM: HeaderName = HeaderName::from_static("x-songline-from");
/// Response header: the request failed for want of a leader; the value says whether it may have been written.
const LEADERLESS: HeaderName = HeaderName::from_static("x-songline-leaderless");

/// Address of the original caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Facts about request forwarding.
#[derive(Debug, Clone, Default)]
pub(crate) struct PassedOn {
    /// Whether a server forwarded the request. Then it is not forwarded again: otherwise two servers that take each
    /// other for the leader would loop.
    pub(crate) by_server: bool,
    /// Idempotency key of a write, for retries by the forwarding server.
    pub(crate) key: Option<Str>,
}

/// Removes the headers of another server from a request and parses them. `from` is that server's own address.
pub(crate) fn take(headers: &mut HeaderMap, from: IpAddr) -> (PassedOn, Peer) {
    let text = |value: Option<HeaderValue>| value.and_then(|value| value.to_str().ok().map(str::to_owned));
    let by_server = headers.remove(HOP).is_some();
    let key = text(headers.remove(KEY)).filter(|key| !key.is_empty()).map(Str::from);
    let from = text(headers.remove(FROM)).and_then(|text| text.parse().ok()).unwrap_or(from);
    (PassedOn { by_server, key }, Peer(from))
}

/// Sets the headers for the leader, and removes those that the caller made up.
pub(crate) fn put(headers: &mut HeaderMap, from: Option<Peer>, key: Option<&Str>) {
    let set = |headers: &mut HeaderMap, name: HeaderName, value: Option<HeaderValue>| match value {
        Some(value) => drop(headers.insert(name, value)),
        None => drop(headers.remove(name)),
    };
    set(headers, HOP, Some(HeaderValue::from_static("server")));
    set(headers, KEY, key.and_then(|key| HeaderValue::from_str(key).ok()));
    set(headers, FROM, from.and_then(|Peer(from)| HeaderValue::from_str(&from.to_string()).ok()));
}

/// Tells the forwarding server that another leader may be tried.
pub(crate) fn tell(headers: &mut HeaderMap, leaderless: Leaderless) {
    let word = match leaderless {
        Leaderless::Nothing => "nothing",
        Leaderless::Unknown => "unknown",
    };
    headers.insert(LEADERLESS, HeaderValue::from_static(word));
}

/// Removes the header from the response. `Some`: another leader may be tried.
pub(crate) fn told(headers: &mut HeaderMap) -> Option<Leaderless> {
    let word = headers.remove(LEADERLESS)?;
    Some(if word == "nothing" { Leaderless::Nothing } else { Leaderless::Unknown })
}
