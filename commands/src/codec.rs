//! Encoding of envelopes: a msgpack map with named fields, in which the body is a msgpack document of its own.

use serde::{Deserialize, Serialize};
use songline_model::Time;

use crate::{Actor, Cause, Command, Envelope, Idempotency, Kind};

/// Bytes that an envelope usually takes beside its body.
const FRAME_BYTES: usize = 256;

/// An envelope could not be encoded.
#[derive(Debug, thiserror::Error)]
#[error("encoding command {kind}")]
pub struct EncodeError {
    /// Name of the command.
    pub kind: &'static str,
    #[source]
    source: rmp_serde::encode::Error,
}

/// Reason why an entry could not be decoded. Every decode error ends the server: skipping the entry would make its
/// state diverge.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The entry is not an envelope.
    #[error("the entry is not a command envelope")]
    Envelope(#[source] rmp_serde::decode::Error),
    /// The number names no known command: a newer version wrote the entry.
    #[error("unknown command {0}: a newer version wrote it, upgrade this server")]
    UnknownKind(u16),
    /// The body has an unknown schema: a newer version wrote the entry.
    #[error("command {kind} has schema {schema}, this version knows up to {newest}")]
    UnknownSchema {
        /// Name of the command.
        kind: &'static str,
        /// Schema of the entry.
        schema: u16,
        /// Newest schema that this version knows.
        newest: u16,
    },
    /// The body has an older schema and could not be migrated.
    #[error("migrating the body of command {kind}")]
    Migration {
        /// Name of the command.
        kind: &'static str,
        #[source]
        source: songline_migrations::MigrationError,
    },
    /// The body does not decode as this command.
    #[error("the body of command {kind} cannot be read; if a newer version has written it, upgrade this server")]
    Body {
        /// Name of the command.
        kind: &'static str,
        #[source]
        source: rmp_serde::decode::Error,
    },
}

#[derive(Serialize)]
struct Frame<'a> {
    schema: u16,
    kind: u16,
    at: Time,
    actor: &'a Actor,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<Cause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency: Option<&'a Idempotency>,
    #[serde(with = "serde_bytes")]
    body: &'a [u8],
}

#[derive(Deserialize)]
struct ReadKind {
    kind: u16,
}

#[derive(Deserialize)]
struct ReadFrame<'a> {
    schema: u16,
    kind: u16,
    at: Time,
    actor: Actor,
    #[serde(default)]
    cause: Option<Cause>,
    #[serde(default)]
    idempotency: Option<Idempotency>,
    #[serde(borrow, with = "serde_bytes")]
    body: &'a [u8],
}

impl Envelope {
    /// Encodes the entry.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let kind = self.command.kind();
        let fail = |source| EncodeError { kind: kind.name(), source };
        let body = self.command.encode_body().map_err(fail)?;
        let frame = Frame {
            schema: kind.schema(),
            kind: kind.number(),
            at: self.at,
            actor: &self.actor,
            cause: self.cause,
            idempotency: self.idempotency.as_ref(),
            body: &body,
        };
        // The body takes nearly all of the entry, so that its buffer need not grow.
        let mut out = Vec::with_capacity(body.len() + FRAME_BYTES);
        rmp_serde::encode::write_named(&mut out, &frame).map_err(fail)?;
        Ok(out)
    }

    /// The kind of an entry's command. Decodes nothing else.
    pub fn kind_of(bytes: &[u8]) -> Result<Kind, DecodeError> {
        let ReadKind { kind } = rmp_serde::from_slice(bytes).map_err(DecodeError::Envelope)?;
        Kind::from_number(kind).ok_or(DecodeError::UnknownKind(kind))
    }

    /// Decodes an entry, migrating an older body.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let frame: ReadFrame<'_> = rmp_serde::from_slice(bytes).map_err(DecodeError::Envelope)?;
        let kind = Kind::from_number(frame.kind).ok_or(DecodeError::UnknownKind(frame.kind))?;
        if frame.schema > kind.schema() {
            return Err(DecodeError::UnknownSchema { kind: kind.name(), schema: frame.schema, newest: kind.schema() });
        }
        let body = songline_migrations::command(frame.kind, frame.schema, frame.body)
            .map_err(|source| DecodeError::Migration { kind: kind.name(), source })?;
        let command =
            Command::decode_body(kind, &body).map_err(|source| DecodeError::Body { kind: kind.name(), source })?;
        Ok(Envelope {
            schema: frame.schema,
            at: frame.at,
            actor: frame.actor,
            cause: frame.cause,
            idempotency: frame.idempotency,
            command,
        })
    }
}
