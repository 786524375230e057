//! Services that tasks announce, and their checks. Registrations are separate rows in `service_registration.rs`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{ConsulConnect, Dur, Str};

/// A service in a job: name, provider, port, tags and checks.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Service {
    pub name: Str,
    pub task_name: Str,
    pub port_label: Str,
    pub address_mode: Str,
    pub address: Str,
    pub enable_tag_override: bool,
    pub tags: Option<Vec<Str>>,
    pub canary_tags: Option<Vec<Str>>,
    pub checks: Option<Vec<ServiceCheck>>,
    pub connect: Option<ConsulConnect>,
    pub meta: Option<BTreeMap<Str, Str>>,
    pub canary_meta: Option<BTreeMap<Str, Str>>,
    pub tagged_addresses: Option<BTreeMap<Str, Str>>,
    pub namespace: Str,
    pub on_update: Str,
    pub provider: Str,
}

/// A health check of a service.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ServiceCheck {
    pub name: Str,
    #[serde(rename = "Type")]
    pub kind: Str,
    pub command: Str,
    pub args: Option<Vec<Str>>,
    pub path: Str,
    pub protocol: Str,
    pub port_label: Str,
    pub expose: bool,
    pub address_mode: Str,
    pub interval: Dur,
    pub timeout: Dur,
    pub initial_status: Str,
    #[serde(rename = "TLSServerName")]
    pub tls_server_name: Str,
    #[serde(rename = "TLSSkipVerify")]
    pub tls_skip_verify: bool,
    pub method: Str,
    pub header: Option<BTreeMap<Str, Option<Vec<Str>>>>,
    pub check_restart: Option<CheckRestart>,
    #[serde(rename = "GRPCService")]
    pub grpc_service: Str,
    #[serde(rename = "GRPCUseTLS")]
    pub grpc_use_tls: bool,
    pub task_name: Str,
    /// Number of successes in a row before the check passes.
    pub success_before_passing: i64,
    /// Number of failures in a row before the check is critical.
    pub failures_before_critical: i64,
    pub body: Str,
    pub on_update: Str,
}

/// Restart of a task whose check fails.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CheckRestart {
    /// Number of failures in a row that restart the task; 0: never.
    pub limit: i64,
    /// Time after a start in which failures do not count.
    pub grace: Dur,
    pub ignore_warnings: bool,
}
