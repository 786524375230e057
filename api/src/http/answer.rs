//! The layers around every handler: routing, redirects, forwarding, CORS, headers, errors, compression.

use std::time::Instant;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

use crate::error::ApiError;
use crate::http::answered_by::AnsweredBy;
use crate::http::api::{Api, Target};
use crate::http::call::error_response;
use crate::http::forward::Answered;
use crate::http::mux::Found;
use crate::http::params::Query;
use crate::http::passed::{self, PassedOn};
use crate::http::path::unescape;
use crate::http::region::{Region, Routed};
use crate::http::{compress, cors};
use crate::server::Server;

/// The only route that a fenced server still answers. A server is fenced when it has found its own state wrong.
const HEALTH: &str = "/v1/agent/health";

impl<S: Server> Api<S> {
    /// Handles one request. Infallible: an error is a response, too.
    pub async fn answer(&self, request: Request) -> Response {
        let asked = tracing::enabled!(tracing::Level::DEBUG)
            .then(|| (request.method().clone(), request.uri().path().to_owned(), Instant::now()));
        // On the heap: the states of all layers together are too large for the stacks of unoptimized builds.
        let response = Box::pin(self.answered(request)).await;
        if let Some((method, path, started)) = asked {
            // The query may hold secrets.
            let status = response.status().as_u16();
            tracing::debug!(%method, path, status, duration = ?started.elapsed(), "request complete");
        }
        response
    }

    async fn answered(&self, request: Request) -> Response {
        let (mut parts, mut body) = request.into_parts();
        let encoding = compress::wanted(&parts.headers);
        let origin = parts.headers.contains_key(header::ORIGIN);
        let Some(path) = unescape(parts.uri.path()) else {
            return error_response(&*self.server, ApiError::bad_request("400 Bad Request"));
        };
        let path = path.into_owned();
        let cors = cors::methods(&path);
        if let Some(response) = cors.and_then(|methods| cors::preflight(methods, &parts.method, &parts.headers)) {
            return compress::apply(response, encoding);
        }
        let uri = parts.uri.clone();
        let query = uri.query().unwrap_or_default();
        let mut response = match self.shared.mux.find(&parts.method, &path, query) {
            Found::Handler { handler, id, capability, answered_by, std_params, route } => {
                if let Some(why) = self.server.fenced().filter(|_| path != HEALTH) {
                    let error = ApiError::internal(format!("this server serves nothing any more: {why}"));
                    return compress::apply(error_response(&*self.server, error), encoding);
                }
                let region = self.region_of(&parts.method, &path, query);
                if region != Region::Own {
                    (parts, body) = match Box::pin(self.route(region, &path, parts, body)).await {
                        Ok(Routed::Own(parts, body)) => (parts, body),
                        Ok(Routed::Answered(response)) => return response,
                        Err(error) => return compress::apply(error_response(&*self.server, error), encoding),
                    };
                }
                let query = parts.uri.query().unwrap_or_default();
                let by = answered_by.this_time(&*self.server, &parts.method, &path, Query(query));
                let passed = parts.extensions.get::<PassedOn>().is_some_and(|passed| passed.by_server);
                let target = Target { handler, id, capability, std_params, path, route };
                let answered = match by {
                    Err(error) => Answered::Own(Err(error)),
                    Ok(AnsweredBy::Asked) => Answered::Own(self.here(&target, parts, body).await),
                    Ok(AnsweredBy::Leader) => self.of_leader(&target, parts, body).await,
                };
                match answered {
                    Answered::Passed(response) => return response,
                    Answered::Own(Ok(response)) => response,
                    Answered::Own(Err(error)) => {
                        let leaderless = error.leaderless.filter(|_| passed);
                        let mut response = error_response(&*self.server, error);
                        if let Some(fate) = leaderless {
                            passed::tell(response.headers_mut(), fate);
                        }
                        response
                    }
                }
            }
            Found::WrongMethod => error_response(&*self.server, ApiError::method()),
            Found::Redirect(to) => redirect(StatusCode::MOVED_PERMANENTLY, "Moved Permanently", &to, &parts.method),
            Found::Nothing if path == "/" => {
                let to = if query.is_empty() { "/ui/".to_owned() } else { format!("/ui/?{query}") };
                redirect(StatusCode::TEMPORARY_REDIRECT, "Temporary Redirect", &to, &parts.method)
            }
            Found::Nothing => status(StatusCode::NOT_FOUND),
        };
        for (name, value) in &*self.shared.headers {
            response.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
        let mut response = compress::apply(response, encoding);
        if cors.is_some() {
            cors::decorate(origin, &mut response);
        }
        response
    }
}

fn status(code: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code;
    response
}

fn redirect(code: StatusCode, word: &str, to: &str, method: &axum::http::Method) -> Response {
    let body = if method == axum::http::Method::GET {
        let escaped = to.replace('&', "&amp;").replace('"', "&#34;").replace('<', "&lt;").replace('>', "&gt;");
        Body::from(format!("<a href=\"{escaped}\">{word}</a>.\n\n"))
    } else {
        Body::empty()
    };
    let mut response = Response::new(body);
    *response.status_mut() = code;
    if let Ok(location) = HeaderValue::from_str(to) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    if method == axum::http::Method::GET || method == axum::http::Method::HEAD {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    }
    response
}
