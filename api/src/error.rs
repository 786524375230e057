//! Maps refusals and failures to status codes and exact texts. No other module chooses the status code of an apply
//! refusal.

use std::borrow::Cow;

use axum::http::StatusCode;
use songline_events::past::PastError;
use songline_projections::{Refusal, Rejected};
use songline_rpc::RpcError;

use crate::keyring::KeyringError;
use crate::server::{ProposeError, RestoreError, WhatIfFailure};

/// An error response: a status code and a plain text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// HTTP status.
    pub code: StatusCode,
    /// Body of the response.
    pub text: Cow<'static, str>,
    /// Index of a query that found nothing; such responses carry the headers of a read.
    pub index: Option<u64>,
    /// Set when the request failed for want of a leader: it may be retried with another leader.
    pub leaderless: Option<Leaderless>,
}

/// Fate of a request that had no leader, or lost it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaderless {
    /// Nothing was written.
    Nothing,
    /// The write may or may not be in the log.
    Unknown,
}

impl ApiError {
    /// An error with this code.
    pub fn new(code: StatusCode, text: impl Into<Cow<'static, str>>) -> Self {
        Self { code, text: text.into(), index: None, leaderless: None }
    }

    /// 400: the request is wrong.
    pub fn bad_request(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// 404 without the headers of a read.
    pub fn not_found(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }

    /// 404 of a single read: the query ran, at this index, and found nothing.
    pub fn missing(text: impl Into<Cow<'static, str>>, index: u64) -> Self {
        Self { index: Some(index), ..Self::not_found(text) }
    }

    /// 500: everything without a better code in the reference, mostly refused writes.
    pub fn internal(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    }

    /// 501: the reference has the feature, this server does not yet.
    pub fn not_built(what: &str) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, format!("{what}: not built yet"))
    }

    /// 405: the route does not have this method.
    pub fn method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "Invalid method")
    }
}

/// Refusals of apply. Nearly all have status 500 in the reference, and clients rely on that.
impl From<Rejected> for ApiError {
    fn from(rejected: Rejected) -> Self {
        let code = match rejected.kind() {
            Refusal::Invalid => StatusCode::BAD_REQUEST,
            Refusal::Forbidden => StatusCode::FORBIDDEN,
            Refusal::NotFound => StatusCode::NOT_FOUND,
            Refusal::Conflict => StatusCode::CONFLICT,
            Refusal::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(code, rejected.to_string())
    }
}

impl From<ProposeError> for ApiError {
    fn from(error: ProposeError) -> Self {
        match error {
            ProposeError::Rejected(rejected) => rejected.into(),
            ProposeError::NoLeader => {
                Self { leaderless: Some(Leaderless::Nothing), ..Self::internal(error.to_string()) }
            }
            ProposeError::OutcomeUnknown(_) => {
                Self { leaderless: Some(Leaderless::Unknown), ..Self::internal(error.to_string()) }
            }
            ProposeError::Unavailable(_) => Self::internal(error.to_string()),
        }
    }
}

impl From<WhatIfFailure> for ApiError {
    fn from(error: WhatIfFailure) -> Self {
        match error {
            WhatIfFailure::Refused(text) => Self::bad_request(text),
            WhatIfFailure::Busy => Self::new(StatusCode::TOO_MANY_REQUESTS, error.to_string()),
            WhatIfFailure::Unavailable(text) => Self::internal(text),
        }
    }
}

impl From<RestoreError> for ApiError {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::Archive(_) => Self::internal(error.to_string()),
            RestoreError::Propose(error) => error.into(),
        }
    }
}

impl From<KeyringError> for ApiError {
    fn from(error: KeyringError) -> Self {
        Self::internal(error.to_string())
    }
}

impl From<PastError> for ApiError {
    fn from(error: PastError) -> Self {
        let code = match &error {
            PastError::BelowOldest { .. } => StatusCode::GONE,
            PastError::AboveNewest { .. } => StatusCode::NOT_FOUND,
            PastError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(code, error.to_string())
    }
}

impl From<RpcError> for ApiError {
    fn from(error: RpcError) -> Self {
        match error {
            RpcError::Coded { code, text } => {
                Self::new(StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), text)
            }
            RpcError::Remote(_) | RpcError::NoLeader | RpcError::Lost(_) => Self::internal(error.to_string()),
        }
    }
}
