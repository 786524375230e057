//! The web page: the files of `api/ui/`, embedded in the program. The page itself asks the API like any other client.
//!
//! A path below `/ui/` that names no file answers with `index.html`, whose script reads the path, so that a link to a
//! job or an allocation works when it is opened.

use std::future::ready;
use std::sync::LazyLock;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;

use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::server::Agent;
use crate::ui::UiSettings;

const ROOT: &str = "/ui/";
const INDEX: &str = "index.html";

/// Settings of the page, for callers without a token, too.
const SETTINGS: &str = "settings.json";
/// The reference's answer where the page is switched off.
const DISABLED: &str = "<html><p>Nomad UI is disabled</p></html>";

/// One file of the page.
struct Asset {
    /// Path below `/ui/`.
    path: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($($path:literal,)*) => {
        [$(Asset { path: $path, bytes: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/ui/", $path)) },)*]
    };
}

/// All files of the page, ordered by path.
static ASSETS: &[Asset] = &assets![
    "icon.svg",
    "index.html",
    "js/api.js",
    "js/app.js",
    "js/lib.js",
    "js/pages/access.js",
    "js/pages/access/json.js",
    "js/pages/access/policy.js",
    "js/pages/access/role.js",
    "js/pages/access/token.js",
    "js/pages/alloc.js",
    "js/pages/audit.js",
    "js/pages/compare.js",
    "js/pages/deployments.js",
    "js/pages/evaluations.js",
    "js/pages/events.js",
    "js/pages/groups.js",
    "js/pages/job.js",
    "js/pages/login.js",
    "js/pages/node-actions.js",
    "js/pages/node.js",
    "js/pages/overview.js",
    "js/pages/places.js",
    "js/pages/places/namespace.js",
    "js/pages/places/pool.js",
    "js/pages/places/quota.js",
    "js/pages/run.js",
    "js/pages/servers.js",
    "js/pages/servers/metrics.js",
    "js/pages/servers/settings.js",
    "js/pages/servers/snapshot.js",
    "js/pages/services.js",
    "js/pages/sinks.js",
    "js/pages/sinks/editor.js",
    "js/pages/storage.js",
    "js/pages/storage/new.js",
    "js/pages/variables.js",
    "js/pages/versions.js",
    "js/parts/basics.js",
    "js/parts/chart.js",
    "js/parts/checks.js",
    "js/parts/columns.js",
    "js/parts/diff.js",
    "js/parts/entry.js",
    "js/parts/explain.js",
    "js/parts/feed.js",
    "js/parts/files.js",
    "js/parts/filter.js",
    "js/parts/finder.js",
    "js/parts/form.js",
    "js/parts/history.js",
    "js/parts/keys.js",
    "js/parts/loaded.js",
    "js/parts/logs.js",
    "js/parts/machine.js",
    "js/parts/map.js",
    "js/parts/settings.js",
    "js/parts/table.js",
    "js/parts/terminal.js",
    "js/parts/use.js",
    "js/router.js",
    "js/store.js",
    "js/stream.js",
    "js/words.js",
    "parts.css",
    "style.css",
    "vendor/htm-preact-3.1.1.js",
    "vendor/signals-core-1.14.5.js",
    "vendor/uplot-1.6.32.css",
    "vendor/uplot-1.6.32.js",
    "vendor/xterm-5.5.0.css",
    "vendor/xterm-5.5.0.js",
    "vendor/xterm-addon-fit-0.10.0.js",
];

/// Entity tags of `ASSETS`, in their order.
static TAGS: LazyLock<Vec<HeaderValue>> = LazyLock::new(|| {
    let tag = |asset: &Asset| format!("W/\"{}\"", &blake3::hash(asset.bytes).to_hex()[..24]);
    let value = |asset| HeaderValue::from_str(&tag(asset)).expect("hexadecimal digits are header text");
    ASSETS.iter().map(value).collect()
});

pub(super) fn routes<S: Agent>(mux: &mut Mux<S>) {
    mux.add(Methods::Any, ROOT, "{}", Capability::Anyone, |call: Call<S>| {
        Box::pin(ready(show(call.id(), &call.headers, &call.server.info().ui)))
    });
}

/// Answers with a file of the page, or with 304 if the browser has it.
fn show(path: &str, asked: &HeaderMap, settings: &UiSettings) -> Result<Response, ApiError> {
    if !settings.enabled {
        return answer("text/html; charset=utf-8", Body::from(DISABLED), settings);
    }
    if path == SETTINGS {
        return answer("application/json", Body::from(settings.shown().to_string()), settings);
    }
    let at = position(path).or_else(|| position(INDEX)).ok_or_else(|| ApiError::internal("the page has no index"))?;
    let (asset, tag) = (&ASSETS[at], &TAGS[at]);
    let known = asked.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_known = known.split(',').any(|one| one.trim().as_bytes() == tag.as_bytes());
    let body = if is_known { Body::empty() } else { Body::from(asset.bytes) };
    let mut response = answer(media_type(asset.path), body, settings)?;
    response.headers_mut().insert(header::ETAG, tag.clone());
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    Ok(response)
}

/// An answer with the headers that all of them have.
fn answer(media_type: &'static str, body: Body, settings: &UiSettings) -> Result<Response, ApiError> {
    let policy = HeaderValue::from_str(&settings.content_security_policy());
    let policy = policy.map_err(|_| ApiError::internal("the content policy is no header text"))?;
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    let fixed = [
        (header::CONTENT_TYPE, media_type),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        // The browser asks each time, and gets 304: a new program never meets an old script.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

fn position(path: &str) -> Option<usize> {
    ASSETS.binary_search_by(|asset| asset.path.cmp(path)).ok()
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, suffix)| suffix) {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/html; charset=utf-8",
    }
}

#[cfg(test)]
mod tests;
