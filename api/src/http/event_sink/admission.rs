//! Admission of event sinks: what is valid, what an update keeps, and who may have the events.

use axum::http::{HeaderName, HeaderValue, Uri};
use songline_events::hub::Interest;
use songline_lang::acl::Acl;
use songline_model::{
    Brokers, DEFAULT_NAMESPACE, EventSink, EventSinkName, EventSinkType, InvalidBrokers, PartitionKey, Secret, Str,
};
use songline_wire::acl::REDACTED;
use songline_wire::event_sink::EventSinkRequest;

use crate::caller::denied;
use crate::error::ApiError;
use crate::http::namespace::multi_error;

/// Number of entries in one delivery, unless the sink says it.
const BATCH_SIZE: u64 = 100;
/// Largest number of entries in one delivery.
const BATCH_SIZE_MAX: u64 = 10_000;
/// Longest name of a sink or of its file, in bytes.
const NAME_BYTES_MAX: usize = 128;
/// Longest name of a topic of Kafka, in bytes.
const TOPIC_BYTES_MAX: usize = 249;
/// Most additional headers of a webhook.
const HEADERS_MAX: usize = 32;
/// Largest text of a sink, in bytes.
const TEXT_BYTES_MAX: usize = 4096;
/// Headers that deliveries set themselves. Those with the prefix `x-songline-` are ours, too.
const OWN_HEADERS: [&str; 6] =
    ["content-type", "content-length", "host", "connection", "transfer-encoding", "idempotency-key"];

/// The sink as it is written. An update that has the placeholder of a secret keeps the stored secret.
pub(super) fn admitted(
    request: EventSinkRequest,
    name: &EventSinkName,
    stored: Option<&EventSink>,
) -> Result<EventSink, ApiError> {
    let mut errors = Vec::new();
    if !request.id.is_empty() && request.id != *name {
        errors.push("ID does not match request path".to_owned());
    }
    if !is_name(name) {
        errors.push(format!("invalid name {:?}. Must match regex ^[a-zA-Z0-9-_]{{1,128}}$", name.as_str()));
    }
    let kind = EventSinkType::from_word(&request.kind).unwrap_or_else(|| {
        errors.push(format!("invalid Type {:?}, must be webhook, file, nats or kafka", request.kind.as_str()));
        EventSinkType::default()
    });
    let partition_key = PartitionKey::from_word(&request.partition_key).unwrap_or_else(|| {
        let told = request.partition_key.as_str();
        errors.push(format!("invalid PartitionKey {told:?}, must be namespace, job, object or empty"));
        PartitionKey::default()
    });
    let mut sink = EventSink {
        id: name.clone(),
        kind,
        address: request.address,
        subject: request.subject,
        partition_key,
        namespace: if request.namespace.is_empty() { DEFAULT_NAMESPACE.into() } else { request.namespace },
        topics: request.topics,
        filter: request.filter,
        full: request.full,
        secret: request.secret,
        headers: request.headers,
        batch_size: if request.batch_size == 0 { BATCH_SIZE } else { request.batch_size },
        create_index: 0,
        modify_index: 0,
    };
    errors.extend(keep_secrets(&mut sink, stored));
    errors.extend(Interest::of_sink(&sink).err().map(|error| error.to_string()));
    errors.extend(unusable_address(&sink));
    errors.extend(needless(&sink));
    errors.extend(unusable_headers(&sink));
    if sink.batch_size > BATCH_SIZE_MAX {
        errors.push(format!("BatchSize {} is more than {BATCH_SIZE_MAX}", sink.batch_size));
    }
    let texts = [&sink.address, &sink.subject, &sink.namespace, &sink.filter];
    if texts.iter().any(|text| text.len() > TEXT_BYTES_MAX) || sink.secret.reveal().len() > TEXT_BYTES_MAX {
        errors.push(format!("a text is longer than {TEXT_BYTES_MAX} bytes"));
    }
    if errors.is_empty() { Ok(sink) } else { Err(refused(name, &multi_error(&errors))) }
}

/// The answer to a sink that is not valid.
pub(super) fn refused(name: &EventSinkName, why: &str) -> ApiError {
    ApiError::bad_request(format!("invalid event sink {:?}: {why}", name.as_str()))
}

/// Refuses a caller that could not read all events of the sink as a stream. A stream of all namespaces hides those
/// that its token may not read; a sink has no token, so all namespaces need a management token.
pub(super) fn permitted(sink: &EventSink, acl: &Acl) -> Result<(), ApiError> {
    let interest = Interest::of_sink(sink).map_err(|error| refused(&sink.id, &error.to_string()))?;
    let may = acl.is_management() || sink.namespace != "*" && interest.is_permitted(acl);
    if may { Ok(()) } else { Err(denied()) }
}

fn is_name(name: &str) -> bool {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(valid)
}

/// Takes secrets over whose placeholder the request has. Another address gets none of them: a caller could name its own
/// to learn them.
fn keep_secrets(sink: &mut EventSink, stored: Option<&EventSink>) -> Vec<String> {
    let known = stored.filter(|stored| stored.kind == sink.kind && stored.address == sink.address);
    let mut errors = Vec::new();
    let mut keep = |what: &str, told: &mut Secret, kept: Option<&Secret>| {
        if told.reveal() != REDACTED {
            return;
        }
        match kept.filter(|kept| !kept.is_empty()) {
            Some(kept) => *told = kept.clone(),
            None => {
                errors.push(format!("{what} is the placeholder of a secret, which this sink or address does not have"))
            }
        }
    };
    keep("Secret", &mut sink.secret, known.map(|known| &known.secret));
    for (name, value) in &mut sink.headers {
        keep(&format!("header {name:?}"), value, known.and_then(|known| known.headers.get(name)));
    }
    errors
}

fn unusable_address(sink: &EventSink) -> Option<String> {
    let address = sink.address.as_str();
    match sink.kind {
        EventSinkType::Webhook => unusable_url(address, &["http", "https"]),
        EventSinkType::Nats => unusable_url(address, &["nats", "tls"]),
        EventSinkType::Kafka => match Brokers::parse(address) {
            Ok(_) => None,
            // The address is shown to everyone who may read sinks.
            Err(why @ InvalidBrokers::Credentials) => Some(format!("invalid Address: {why}")),
            Err(why @ (InvalidBrokers::Scheme | InvalidBrokers::Broker(_))) => {
                Some(format!("invalid Address {address:?}: {why}"))
            }
        },
        EventSinkType::File => {
            let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            let is_file = (1..=NAME_BYTES_MAX).contains(&address.len())
                && !address.starts_with('.')
                && address.bytes().all(valid);
            (!is_file).then(|| {
                format!("invalid Address {address:?}: must be the name of a file, of letters, digits, -, _ and .")
            })
        }
    }
}

fn unusable_url(address: &str, schemes: &[&str]) -> Option<String> {
    let wrong = |why: String| Some(format!("invalid Address {address:?}: {why}"));
    let uri = match address.parse::<Uri>() {
        Ok(uri) => uri,
        Err(error) => return wrong(error.to_string()),
    };
    if !uri.scheme_str().is_some_and(|scheme| schemes.contains(&scheme)) {
        return wrong(format!("must begin with {}://", schemes.join(":// or ")));
    }
    match uri.authority() {
        None => wrong("it has no host".to_owned()),
        Some(authority) if authority.as_str().contains('@') => {
            // The address is shown to everyone who may read sinks.
            Some("invalid Address: it has a user or password, which belong into Headers or Secret".to_owned())
        }
        Some(_) => None,
    }
}

/// Fields that would have no effect.
fn needless(sink: &EventSink) -> Vec<String> {
    let mut errors = Vec::new();
    let kind = sink.kind;
    if kind != EventSinkType::Webhook && !sink.headers.is_empty() {
        errors.push(format!("Headers are for webhooks, not for {kind}"));
    }
    if kind == EventSinkType::File && !sink.secret.is_empty() {
        errors.push(format!("Secret has no use for {kind}"));
    }
    if kind != EventSinkType::Kafka && sink.partition_key != PartitionKey::None {
        errors.push(format!("PartitionKey is for kafka, not for {kind}"));
    }
    if kind == EventSinkType::Kafka && !sink.secret.is_empty() && !sink.secret.reveal().contains(':') {
        errors.push("Secret must be user:password for kafka".to_owned());
    }
    let is_subject = |text: &str| {
        !text.is_empty() && text.split('.').all(|part| !part.is_empty()) && !text.contains(['*', '>', ' '])
    };
    let subject = sink.subject.as_str();
    match kind {
        EventSinkType::Nats if !is_subject(subject) || subject.contains(char::is_control) => {
            errors.push(format!("invalid Subject {subject:?}: must be words with dots between them"));
        }
        EventSinkType::Kafka if !is_topic(subject) => {
            errors.push(format!("invalid Subject {subject:?}: must be a topic of letters, digits, -, _ and ."));
        }
        EventSinkType::Webhook | EventSinkType::File if !subject.is_empty() => {
            errors.push(format!("Subject is for nats and kafka, not for {kind}"));
        }
        EventSinkType::Webhook | EventSinkType::File | EventSinkType::Nats | EventSinkType::Kafka => {}
    }
    errors
}

/// Whether Kafka takes a name for a topic.
fn is_topic(name: &str) -> bool {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=TOPIC_BYTES_MAX).contains(&name.len()) && name.bytes().all(valid) && name != "." && name != ".."
}

fn unusable_headers(sink: &EventSink) -> Vec<String> {
    let mut errors = Vec::new();
    if sink.headers.len() > HEADERS_MAX {
        errors.push(format!("more than {HEADERS_MAX} headers"));
    }
    for (name, value) in &sink.headers {
        match HeaderName::from_bytes(name.as_bytes()) {
            Err(_) => errors.push(format!("invalid header name {:?}", name.as_str())),
            Ok(header) if OWN_HEADERS.contains(&header.as_str()) || header.as_str().starts_with("x-songline-") => {
                errors.push(format!("header {:?} is set by deliveries", name.as_str()));
            }
            Ok(_) if HeaderValue::from_str(value.reveal()).is_err() => {
                errors.push(format!("invalid value of header {:?}", name.as_str()));
            }
            Ok(_) => {}
        }
    }
    let mut names: Vec<String> = sink.headers.keys().map(|name: &Str| name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        errors.push("a header is there twice".to_owned());
    }
    errors
}
