//! Answers methods of the table in `routes` by the handlers of HTTP, which authorize the caller. The answers are
//! encoded by the node RPC's own encoder, so that times, durations and bytes have its forms.

use std::collections::BTreeMap;

use axum::body::{Body as HttpBody, to_bytes};
use axum::extract::Request;
use axum::http::request::Builder;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use serde::Serialize;
use serde::de::Error as _;
use serde_json::{Map, Value, json};
use songline_api::{Encoding, NODE_RPC_TYPE};
use songline_model::{Blob, Job, Str, Time, UpdateStrategy};
use songline_rpc::RpcError;
use songline_rpc::message::RequestMeta;
use songline_rpc::msgpack::{DecodeError, RawValue, Tree, from_slice, merged};
use songline_rpc::net::{Caller, Refusal};

use super::dispatch::NodeRpc;
use super::more::namespace;
use super::reads::{encode, escape};
use super::routes::{Answer, Body, RESOLVE_TOKEN, Route};

/// Longest HTTP answer that is returned, in bytes.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Parameters of lists, and the fields of requests with their values.
const OF_LISTS: [(&str, &str); 5] = [
    ("prefix", "Prefix"),
    ("filter", "Filter"),
    ("per_page", "PerPage"),
    ("next_token", "NextToken"),
    ("reverse", "Reverse"),
];

/// Field of a dispatch that holds bytes, whatever bytes they are.
const BYTES: &str = "Payload";

/// Server's metadata in the answer to a read.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ReadMeta {
    index: u64,
    known_leader: bool,
    last_contact: i64,
    next_token: Str,
}

/// Server's metadata in the answer to a write.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct WriteMeta {
    index: u64,
}

/// HTTP's answer.
struct Found {
    index: u64,
    next_token: Str,
    /// `None`: the object does not exist, or the answer is empty.
    value: Option<RawValue>,
}

impl NodeRpc {
    /// Answers a method of the table. A write continues if its caller disconnects.
    pub(super) async fn forwarded(
        &self,
        route: &Route,
        body: &[u8],
        meta: &RequestMeta,
        caller: &Caller,
    ) -> Result<Bytes, Refusal> {
        let answer = self.by_http(route, Tree::read(body)?, meta);
        if !route.is_read() {
            return answer.await;
        }
        tokio::select! {
            answer = answer => answer,
            () = caller.gone() => Err(RpcError::Lost("the caller has gone".into()).into()),
        }
    }

    async fn by_http(&self, route: &Route, asked: Tree, meta: &RequestMeta) -> Result<Bytes, Refusal> {
        let request = request(route, &asked, meta)?;
        let body = body_of(route.body, &asked)?.map_or_else(HttpBody::empty, |body| HttpBody::from(body.to_string()));
        let request = request.extension(Encoding::NodeRpc).body(body).map_err(|error| failed(&error))?;
        let response = self.api.answer(request).await;
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, ANSWER_BYTES_MAX).await.map_err(|error| failed(&error))?;
        let found = found(route, parts.status, &parts.headers, body)?;
        answer_of(route, found)
    }
}

fn failed(error: &dyn std::fmt::Display) -> RpcError {
    RpcError::remote(error.to_string())
}

/// The HTTP request without its body.
fn request(route: &Route, asked: &Tree, meta: &RequestMeta) -> Result<Builder, Refusal> {
    let (verb, path, pairs) = route.parts();
    let mut uri = format!("{}?namespace={}", filled(path, asked)?, escape(namespace(meta)));
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            uri.push_str(&format!("&{name}={}", escape(&value)));
        }
    };
    for (name, value) in pairs {
        put(name, value_of(value, asked)?);
    }
    if route.is_get() {
        for (name, field) in OF_LISTS {
            put(name, text(field, asked)?);
        }
        put("stale", meta.allow_stale.then(|| "true".to_owned()));
        if meta.min_query_index > 0 {
            put("index", Some(meta.min_query_index.to_string()));
            let wait = meta.max_query_time.nanos() / 1_000_000;
            put("wait", (wait > 0).then(|| format!("{wait}ms")));
        }
    }
    let token = match route.method {
        RESOLVE_TOKEN => text("SecretID", asked)?.unwrap_or_default(),
        _ => meta.auth_token.reveal().to_owned(),
    };
    Ok(Request::builder().method(verb).uri(uri).header("x-nomad-token", token))
}

/// A path with the values of its fields.
fn filled(path: &str, asked: &Tree) -> Result<String, Refusal> {
    let (mut filled, mut rest) = (String::new(), path);
    while let Some((before, after)) = rest.split_once('{') {
        let (field, after) = after.split_once('}').unwrap_or((after, ""));
        filled.push_str(before);
        filled.push_str(&escape(&text(field, asked)?.unwrap_or_default()));
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

/// Value of a parameter: a constant, or a field in braces.
fn value_of(value: &str, asked: &Tree) -> Result<Option<String>, Refusal> {
    let Some(field) = value.strip_prefix('{').and_then(|value| value.strip_suffix('}')) else {
        return Ok(Some(value.to_owned()));
    };
    match field.split_once('?') {
        Some((condition, _)) if part(condition, asked)? != Some(&Tree::Bool(true)) => Ok(None),
        Some((_, field)) => text(field, asked),
        None => text(field, asked),
    }
}

/// A part of the request: names of fields, and `0` for the only element of a list. `None` for an absent part.
fn part<'t>(path: &str, asked: &'t Tree) -> Result<Option<&'t Tree>, Refusal> {
    let mut at = asked;
    for name in path.split('.') {
        let next = match at {
            Tree::Array(elements) if name == "0" => match elements.as_slice() {
                [] => None,
                [only] => Some(only),
                [_, _, ..] => {
                    let text = format!("{path}: more than one object in a request is not supported");
                    return Err(RpcError::Coded { code: 400, text }.into());
                }
            },
            _ => at.get(name),
        };
        match next {
            None | Some(Tree::Nil) => return Ok(None),
            Some(next) => at = next,
        }
    }
    Ok(Some(at))
}

/// The text of a plain field. `None` for an absent one.
fn text(path: &str, asked: &Tree) -> Result<Option<String>, Refusal> {
    Ok(match part(path, asked)? {
        None | Some(Tree::Nil) => None,
        Some(Tree::Bool(yes)) => Some(yes.to_string()),
        Some(Tree::Int(number)) => Some(number.to_string()),
        Some(Tree::UInt(number)) => Some(number.to_string()),
        Some(Tree::Raw(bytes)) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Some(Tree::Float(_) | Tree::Array(_) | Tree::Map(_)) => {
            return Err(DecodeError::custom(format!("field {path} is not plain")).into());
        }
    })
}

/// Body of the HTTP request.
fn body_of(body: Body, asked: &Tree) -> Result<Option<Value>, Refusal> {
    Ok(match body {
        Body::Empty => None,
        Body::Part(path) => Some(part(path, asked)?.map_or(Value::Null, json_of)),
        Body::Fields(fields) => Some(Value::Object(object(fields, asked)?)),
        Body::Job(fields) => {
            let mut object = object(fields, asked)?;
            if let Some(job) = part("Job", asked)? {
                let job: Job = from_slice(&job.to_bytes())?;
                object.insert("Job".into(), job_body(&job)?);
            }
            Some(Value::Object(object))
        }
    })
}

/// Fields of the request that are present.
fn object(fields: &[&str], asked: &Tree) -> Result<Map<String, Value>, Refusal> {
    let mut object = Map::new();
    for field in fields {
        let value = match part(field, asked)? {
            Some(Tree::Raw(bytes)) if *field == BYTES => json!(Blob(bytes.clone())),
            Some(value) => json_of(value),
            None => continue,
        };
        object.insert((*field).to_owned(), value);
    }
    Ok(object)
}

/// A job as the body of a request. Nodes always send an update strategy, which HTTP would take as the default of all
/// groups.
pub(super) fn job_body(job: &Job) -> Result<Value, RpcError> {
    let mut shown = serde_json::to_value(job).map_err(|error| failed(&error))?;
    if job.update == UpdateStrategy::default() {
        shown["Update"] = Value::Null;
    }
    Ok(shown)
}

/// A value as JSON: times as RFC 3339, the zero time as null, and bytes that are no text as base64.
fn json_of(value: &Tree) -> Value {
    match value {
        Tree::Nil => Value::Null,
        Tree::Bool(yes) => json!(yes),
        Tree::Int(number) => json!(number),
        Tree::UInt(number) => json!(number),
        Tree::Float(number) => json!(number),
        Tree::Raw(bytes) => match (time_in(value, bytes), std::str::from_utf8(bytes)) {
            (Some(time), _) => json!(time),
            (None, Ok(text)) => json!(text),
            (None, Err(_)) => json!(Blob(bytes.clone())),
        },
        Tree::Array(values) => values.iter().map(json_of).collect(),
        Tree::Map(entries) => {
            let pairs =
                entries.iter().map(|(key, value)| (key.as_text().unwrap_or_default().to_owned(), json_of(value)));
            Value::Object(pairs.collect())
        }
    }
}

/// The time that the bytes are, the inner `None` for the zero time. A text does not begin with the version of the
/// binary form.
fn time_in(value: &Tree, bytes: &[u8]) -> Option<Option<Time>> {
    let has_its_form = matches!((bytes.first(), bytes.len()), (Some(1), 15) | (Some(2), 16));
    if has_its_form { from_slice(&value.to_bytes()).ok() } else { None }
}

/// Parses HTTP's answer.
fn found(route: &Route, status: StatusCode, headers: &HeaderMap, body: Bytes) -> Result<Found, RpcError> {
    let named = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (index, next_token) = (named("x-nomad-index").parse().unwrap_or_default(), named("x-nomad-nexttoken").into());
    let text = || String::from_utf8_lossy(&body).into_owned();
    let is_json = named(header::CONTENT_TYPE.as_str()) != NODE_RPC_TYPE;
    match status {
        StatusCode::OK | StatusCode::NO_CONTENT if body.is_empty() => Ok(Found { index, next_token, value: None }),
        // Another server has answered, because leadership moved meanwhile, or for another region. Its times are texts.
        StatusCode::OK if is_json && route.is_get() => Err(RpcError::NoLeader),
        StatusCode::OK if is_json => {
            let value: Value = serde_json::from_slice(&body).map_err(|error| failed(&error))?;
            let value = RawValue::of(&value).map_err(|error| failed(&error))?;
            Ok(Found { index, next_token, value: Some(value) })
        }
        StatusCode::OK => Ok(Found { index, next_token, value: Some(RawValue(body)) }),
        StatusCode::NOT_FOUND if route.is_get() => Ok(Found { index, next_token, value: None }),
        StatusCode::FORBIDDEN | StatusCode::INTERNAL_SERVER_ERROR => Err(RpcError::remote(text())),
        other => Err(RpcError::Coded { code: other.as_u16(), text: text() }),
    }
}

/// The answer of the method.
fn answer_of(route: &Route, found: Found) -> Result<Bytes, Refusal> {
    let put_in = |name, value| BTreeMap::from([(name, value)]);
    let answer = match (route.answer, found.value) {
        (Answer::Whole, Some(value)) => {
            // A list has no place for metadata.
            let lacks_index =
                Tree::read(&value.0).is_ok_and(|tree| matches!(tree, Tree::Map(_)) && tree.get("Index").is_none());
            if !lacks_index {
                return Ok(value.0);
            }
            value
        }
        (Answer::Whole, None) => RawValue::empty(),
        (Answer::Field(name) | Answer::One(name) | Answer::Volume(name), None) => {
            raw(&put_in(name, RawValue::default()))?
        }
        (Answer::Field(name), Some(value)) => raw(&put_in(name, value))?,
        (Answer::One(name), Some(value)) => raw(&put_in(name, raw(&[value])?))?,
        (Answer::Volume(name), Some(value)) => raw(&put_in(name, with_allocs(&value)?))?,
    };
    let (index, next_token) = (found.index, found.next_token);
    let whole = if route.is_read() {
        merged(&answer, &ReadMeta { index, known_leader: true, last_contact: 0, next_token })
    } else {
        merged(&answer, &WriteMeta { index })
    };
    encode(&whole.map_err(|error| failed(&error))?)
}

fn raw<T: Serialize + ?Sized>(value: &T) -> Result<RawValue, RpcError> {
    RawValue::of(value).map_err(|error| failed(&error))
}

/// A volume whose claims hold the stubs of their allocations. HTTP lists these apart, and nodes list them from the
/// claims.
fn with_allocs(volume: &RawValue) -> Result<RawValue, Refusal> {
    let mut volume = Tree::read(&volume.0)?;
    let stubs = match volume.get("Allocations") {
        Some(Tree::Array(stubs)) => stubs.clone(),
        _ => Vec::new(),
    };
    if let Tree::Map(fields) = &mut volume {
        let claims = fields.iter_mut().filter(|(name, _)| matches!(name.as_text(), Some("ReadAllocs" | "WriteAllocs")));
        for (_, allocs) in claims {
            let Tree::Map(allocs) = allocs else { continue };
            for (id, alloc) in allocs {
                if let Some(stub) = stubs.iter().find(|stub| stub.get("ID") == Some(&*id)) {
                    *alloc = stub.clone();
                }
            }
        }
    }
    Ok(RawValue(volume.to_bytes().into()))
}

#[cfg(test)]
mod tests;
