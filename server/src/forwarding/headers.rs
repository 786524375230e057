//! Hop-by-hop headers, which are not forwarded.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Uri, Version, header};
use hyper::upgrade::OnUpgrade;

/// Hop-by-hop headers. `upgrade` and `connection` are forwarded with a request that upgrades.
const OF_A_CONNECTION: [HeaderName; 6] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Turns a received request into one that can be sent, and takes the caller's pending upgrade out of it.
pub(super) fn for_sending(request: &mut Request<Body>) -> Option<OnUpgrade> {
    let upgrade =
        request.extensions_mut().remove::<OnUpgrade>().filter(|_| request.headers().contains_key(header::UPGRADE));
    *request.version_mut() = Version::HTTP_11;
    if request.uri().scheme().is_some() {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse::<Uri>().expect("the path of an address is an address");
    }
    let headers = request.headers_mut();
    // The agent that received the request has answered this header.
    headers.remove(header::EXPECT);
    if upgrade.is_none() {
        OF_A_CONNECTION.iter().for_each(|name| drop(headers.remove(name)));
    }
    headers.entry(header::HOST).or_insert(HeaderValue::from_static("songline"));
    upgrade
}

/// Turns the headers of a received answer into those of one that is sent.
pub(super) fn of_answer(headers: &mut HeaderMap) {
    OF_A_CONNECTION.iter().for_each(|name| drop(headers.remove(name)));
}
