//! Results of an allocation's checks, from its node.

use std::collections::BTreeMap;

use axum::response::Response;
use serde::Serialize;
use songline_lang::acl::NamespaceCapability;
use songline_model::Str;
use songline_rpc::NodeAgent;
use songline_rpc::message::CheckResult;

use super::agent_of;
use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::fs::is_zero;
use crate::server::{Nodes, Reads};

/// Newest results of the allocation's checks; null without any.
pub(super) async fn read<S: Reads + Nodes>(call: Call<S>) -> Result<Response, ApiError> {
    let (id, agent) = agent_of(&call, call.id(), &[NamespaceCapability::ReadJob])?;
    let results = agent.alloc_checks(id).await?;
    let shown: BTreeMap<&Str, CheckView<'_>> = results.iter().map(|(id, row)| (id, CheckView::new(row))).collect();
    call.plain(&Some(shown).filter(|shown| !shown.is_empty()))
}

/// JSON view of a check's result.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct CheckView<'r> {
    #[serde(rename = "ID")]
    id: &'r Str,
    mode: &'r Str,
    status: &'r Str,
    #[serde(skip_serializing_if = "is_zero")]
    status_code: i64,
    output: &'r Str,
    timestamp: i64,
    group: &'r Str,
    #[serde(skip_serializing_if = "Str::is_empty")]
    task: &'r Str,
    service: &'r Str,
    check: &'r Str,
}

impl<'r> CheckView<'r> {
    fn new(row: &'r CheckResult) -> Self {
        let CheckResult { id, mode, status, status_code, output, timestamp, group, task, service, check } = row;
        let (status_code, timestamp) = (*status_code, *timestamp);
        Self { id, mode, status, status_code, output, timestamp, group, task, service, check }
    }
}
