//! Requests that this server makes or passes on to a server of another region. `region` decides which requests those
//! are.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::Response;
use serde_json::Value;

use crate::error::ApiError;
use crate::http::ask_region::pass_to;
use crate::http::call::{BODY_BYTES_MAX, Call, read_body};
use crate::http::path::escape;
use crate::server::Regions;

/// Has a server of another region answer. A request that may have arrived is not sent again. A region without known
/// servers is refused as an unknown one.
pub(super) async fn ask<S: Regions>(server: &S, region: &str, request: Request) -> Result<Response, ApiError> {
    Ok(pass_to(server, server.servers_of_region(region), request).await?)
}

/// The address of a request with another region in its query.
pub(super) fn in_region(path: &str, query: &str, region: &str) -> Result<Uri, ApiError> {
    let is_other = |pair: &&str| !pair.is_empty() && pair.split('=').next() != Some("region");
    // The first value of a parameter counts, so the region comes first.
    let own = format!("region={}", escape(region).replace('&', "%26").replace('+', "%2B"));
    let query: Vec<&str> = std::iter::once(own.as_str()).chain(query.split('&').filter(is_other)).collect();
    let target = format!("{path}?{}", query.join("&"));
    target.parse().map_err(|error| ApiError::bad_request(format!("the request has no address in {region:?}: {error}")))
}

impl<S: Regions> Call<S> {
    /// Rows of a list in another region, asked for with the caller's token. Empty, too, if the object that the list is of
    /// does not exist there.
    pub(super) async fn rows_in(&self, region: &str, path: &str, query: &str) -> Result<Vec<Value>, ApiError> {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = in_region(&escape(path), query, region)?;
        if let Some(token) = HeaderValue::from_str(self.token()).ok().filter(|token| !token.is_empty()) {
            request.headers_mut().insert("x-nomad-token", token);
        }
        let (head, body) = ask(&*self.server, region, request).await?.into_parts();
        let body = read_body(body, BODY_BYTES_MAX).await?;
        match head.status {
            StatusCode::OK => serde_json::from_slice(&body)
                .map_err(|error| ApiError::internal(format!("the answer of region {region:?}: {error}"))),
            StatusCode::NOT_FOUND => Ok(Vec::new()),
            code => Err(ApiError::new(code, format!("region {region:?}: {}", String::from_utf8_lossy(&body)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn region_of_a_query_is_replaced() {
        for (query, expected) in [
            ("", "/v1/namespace?region=a%26b"),
            ("region=east&pretty", "/v1/namespace?region=a%26b&pretty"),
            ("x=%20y&region=east&region=west", "/v1/namespace?region=a%26b&x=%20y"),
            // A name in another spelling stays, and comes too late.
            ("%72egion=east", "/v1/namespace?region=a%26b&%72egion=east"),
        ] {
            assert_eq!(in_region("/v1/namespace", query, "a&b").expect("an address").to_string(), expected);
        }
    }
}
