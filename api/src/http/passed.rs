//! Headers that servers add to requests which they pass on. They are believed only on connections whose other end has proved to be a
//! server.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use songline_model::Str;

use crate::error::Leaderless;

/// On a request: a server passed it on, to whom it takes for the leader.
const HOP: HeaderName = HeaderName::from_static("x-songline-hop");
/// On a request: the key of the one who passed it on.
const KEY: HeaderName = HeaderName::from_static("x-songline-key");
/// On a request: the address that it came from.
const FROM: HeaderName = HeaderName::from_static("x-songline-from");
/// On an answer: it was for want of a leader, and whether something may have been written.
const LEADERLESS: HeaderName = HeaderName::from_static("x-songline-leaderless");

/// Where a request came from, at first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// A request that another server passed on.
#[derive(Debug, Clone, Default)]
pub(crate) struct PassedOn {
    /// Whether it was a server that knew who leads. Then it is not passed on again: two servers may think of each other that they lead.
    pub(crate) by_server: bool,
    /// Key of a write, for retries by the server that passed it on.
    pub(crate) key: Option<Str>,
}

/// Takes the headers of another server out of a request; `from` is that server's own address.
pub(crate) fn take(headers: &mut HeaderMap, from: IpAddr) -> (PassedOn, Peer) {
    let text = |value: Option<HeaderValue>| value.and_then(|value| value.to_str().ok().map(str::to_owned));
    let by_server = headers.remove(HOP).is_some();
    let key = text(headers.remove(KEY)).filter(|key| !key.is_empty()).map(Str::from);
    let from = text(headers.remove(FROM)).and_then(|text| text.parse().ok()).unwrap_or(from);
    (PassedOn { by_server, key }, Peer(from))
}

/// Tells the leader what it should know, and nothing that a caller has made up.
pub(crate) fn put(headers: &mut HeaderMap, from: Option<Peer>, key: Option<&Str>) {
    let set = |headers: &mut HeaderMap, name: HeaderName, value: Option<HeaderValue>| match value {
        Some(value) => drop(headers.insert(name, value)),
        None => drop(headers.remove(name)),
    };
    set(headers, HOP, Some(HeaderValue::from_static("server")));
    set(headers, KEY, key.and_then(|key| HeaderValue::from_str(key).ok()));
    set(headers, FROM, from.and_then(|Peer(from)| HeaderValue::from_str(&from.to_string()).ok()));
}

/// Tells the one who passed a request on that another leader may be asked.
pub(crate) fn tell(headers: &mut HeaderMap, leaderless: Leaderless) {
    let word = match leaderless {
        Leaderless::Nothing => "nothing",
        Leaderless::Unknown => "unknown",
    };
    headers.insert(LEADERLESS, HeaderValue::from_static(word));
}

/// Whether another leader may be asked; the header goes.
pub(crate) fn told(headers: &mut HeaderMap) -> Option<Leaderless> {
    let word = headers.remove(LEADERLESS)?;
    Some(if word == "nothing" { Leaderless::Nothing } else { Leaderless::Unknown })
}
