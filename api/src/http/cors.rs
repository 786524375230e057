//! Cross-origin requests: a few routes permit all origins, the others send no CORS headers.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;

/// Methods that other origins may use on this path; `None` for a path without CORS.
pub fn methods(path: &str) -> Option<&'static [Method]> {
    const READ: &[Method] = &[Method::HEAD, Method::GET];
    const VARIABLE: &[Method] = &[Method::HEAD, Method::GET, Method::PUT, Method::DELETE];
    let read = path.starts_with("/v1/client/fs/")
        || path.starts_with("/v1/client/allocation/")
        || matches!(path, "/v1/client/stats" | "/v1/client/metadata" | "/v1/vars");
    if read {
        Some(READ)
    } else if path.starts_with("/v1/var/") {
        Some(VARIABLE)
    } else {
        None
    }
}

/// Response to a preflight request; `None` when the request is not one.
pub fn preflight(methods: &[Method], method: &Method, headers: &HeaderMap) -> Option<Response> {
    let asked = headers.get(header::ACCESS_CONTROL_REQUEST_METHOD)?;
    if method != Method::OPTIONS || !headers.contains_key(header::ORIGIN) {
        return None;
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let out = response.headers_mut();
    for name in ["Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers"] {
        out.append(header::VARY, HeaderValue::from_static(name));
    }
    if methods.iter().any(|method| asked.as_bytes() == method.as_str().as_bytes()) {
        out.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        out.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        out.insert(header::ACCESS_CONTROL_ALLOW_METHODS, asked.clone());
        if let Some(names) = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
            out.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
        }
    }
    Some(response)
}

/// Adds the CORS headers to a response.
pub fn decorate(has_origin: bool, response: &mut Response) {
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    if has_origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
}
