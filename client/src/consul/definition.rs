//! Definitions of services and checks as a Consul agent takes them, from the services of an allocation.

use std::collections::BTreeMap;

use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use songline_model::{Dur, Service, ServiceCheck, Str};

use super::PROVIDER;
use crate::artifact::hex;
use crate::core::{CheckMode, CheckPlan, CheckRequest, Workload};
use crate::env::TaskEnv;
use crate::services::address::{self, Located};
use crate::services::service_id;

/// Prefix of the ids of checks that a node agent registers.
pub(super) const CHECK_PREFIX: &str = "_nomad-check-";
/// Time beyond a script's interval and timeout after which Consul takes a script that is not heard of for critical.
const TTL_SPARE: Dur = Dur::from_secs(30);
/// Key of a service's meta data that names what registered it, as Consul's own integrations do.
const EXTERNAL_SOURCE: &str = "external-source";

/// A service with its checks, for `/v1/agent/service/register`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ServiceDefinition {
    #[serde(rename = "ID")]
    pub id: Str,
    pub name: Str,
    pub tags: Vec<Str>,
    pub address: Str,
    pub port: i64,
    pub meta: BTreeMap<Str, Str>,
    pub enable_tag_override: bool,
    pub tagged_addresses: BTreeMap<Str, TaggedAddress>,
    pub checks: Vec<CheckDefinition>,
}

/// An address of a service for a special use.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct TaggedAddress {
    pub address: Str,
    pub port: i64,
}

/// A check as part of a service's registration. Consul refuses fields that it does not know.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct CheckDefinition {
    #[serde(rename = "CheckID")]
    pub id: Str,
    #[serde(skip)]
    pub service_id: Str,
    pub name: Str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub status: Str,
    #[serde(flatten)]
    pub kind: CheckKind,
    #[serde(skip_serializing_if = "is_zero")]
    pub success_before_passing: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub failures_before_critical: i64,
    /// The script of a check whose status the agent reports.
    #[serde(skip)]
    pub script: Option<Script>,
}

impl CheckDefinition {
    /// The check alone, for `/v1/agent/check/register`, which has another name for the id.
    pub fn alone(&self) -> Value {
        let mut check = json!(self);
        if let Some(fields) = check.as_object_mut() {
            fields.remove("CheckID");
            fields.insert("ID".to_owned(), json!(self.id));
            fields.insert("ServiceID".to_owned(), json!(self.service_id));
        }
        check
    }
}

/// Means by which Consul learns the status of a check.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum CheckKind {
    /// Waits for reports.
    Reported {
        #[serde(rename = "TTL")]
        ttl: String,
    },
    #[serde(rename_all = "PascalCase")]
    Http {
        #[serde(rename = "HTTP")]
        url: String,
        method: Str,
        header: BTreeMap<Str, Vec<Str>>,
        body: Str,
        #[serde(rename = "TLSServerName")]
        tls_server_name: Str,
        #[serde(rename = "TLSSkipVerify")]
        tls_skip_verify: bool,
        interval: String,
        timeout: String,
    },
    #[serde(rename_all = "PascalCase")]
    Tcp {
        #[serde(rename = "TCP")]
        address: String,
        interval: String,
        timeout: String,
    },
    #[serde(rename_all = "PascalCase")]
    Grpc {
        #[serde(rename = "GRPC")]
        address: String,
        #[serde(rename = "GRPCUseTLS")]
        with_tls: bool,
        #[serde(rename = "TLSServerName")]
        tls_server_name: Str,
        #[serde(rename = "TLSSkipVerify")]
        tls_skip_verify: bool,
        interval: String,
        timeout: String,
    },
}

/// A command that runs in a task: exit code 0 is passing, 1 a warning, everything else critical.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Script {
    pub task: Str,
    pub argv: Vec<String>,
    pub interval: Dur,
    pub timeout: Dur,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// A workload of an allocation with its surroundings.
#[derive(Clone, Copy)]
pub(crate) struct Of<'a> {
    pub located: Located<'a>,
    pub env: &'a TaskEnv,
    pub workload: &'a Workload,
    /// Mark of this node in the services' meta data.
    pub mark: (&'a str, &'a str),
}

/// Definitions of a workload's services. If one address cannot be determined, the result is an error for all of them.
pub(crate) fn definitions(of: Of<'_>) -> Result<Vec<ServiceDefinition>, String> {
    of.workload.services_of(of.located.alloc, PROVIDER).map(|service| of.definition(service)).collect()
}

/// Checks of a workload's services, as the state machine follows them. A check without a definition never passes.
pub(crate) fn check_plans(of: Of<'_>) -> Vec<CheckPlan> {
    let alloc = of.located.alloc;
    let planned = |service: &Service| {
        let name = Str::from(of.env.replace(&service.name));
        let defined = of.definition(service).unwrap_or_default().checks;
        let checks = service.checks.iter().flatten().enumerate();
        let plan = |(at, check): (usize, &ServiceCheck)| CheckPlan {
            id: defined.get(at).map(|defined| defined.id.clone()).unwrap_or_else(|| format!("{name}/{at}").into()),
            of: of.workload.clone(),
            group: alloc.name.clone(),
            service: name.clone(),
            name: of.check_name(check, &name),
            mode: match check.on_update.as_str() {
                "ignore" => CheckMode::Readiness,
                "ignore_warnings" => CheckMode::WithoutWarnings,
                _ => CheckMode::Healthiness,
            },
            interval: check.interval,
            timeout: check.timeout,
            restart: check.check_restart.clone(),
            request: CheckRequest::AtConsul,
        };
        checks.map(plan).collect::<Vec<_>>()
    };
    of.workload.services_of(alloc, PROVIDER).flat_map(planned).collect()
}

impl Of<'_> {
    fn definition(&self, service: &Service) -> Result<ServiceDefinition, String> {
        let (alloc, env) = (self.located.alloc, self.env);
        let (name, label) = (env.replace(&service.name), env.replace(&service.port_label));
        let (address, port) = address::of(self.located, &env.replace(&service.address), &service.address_mode, &label)
            .map_err(|error| format!("unable to get address for service {name:?}: {error}"))?;
        let id: Str = service_id(alloc, self.workload, &name, &label).into();
        let canary = alloc.is_canary();
        let tags = service.canary_tags.as_ref().filter(|tags| canary && !tags.is_empty()).or(service.tags.as_ref());
        let meta = service.canary_meta.as_ref().filter(|meta| canary && !meta.is_empty()).or(service.meta.as_ref());
        let meta = meta.into_iter().flatten().map(|(key, value)| (self.text(key), self.text(value)));
        let marks = [(EXTERNAL_SOURCE.into(), "nomad".into()), (self.mark.0.into(), self.mark.1.into())];
        let tagged = service.tagged_addresses.iter().flatten();
        let checks = service.checks.iter().flatten();
        Ok(ServiceDefinition {
            tags: tags.into_iter().flatten().map(|tag| self.text(tag)).collect(),
            address: address.into(),
            port,
            meta: meta.chain(marks).collect(),
            enable_tag_override: service.enable_tag_override,
            tagged_addresses: tagged
                .map(|(key, value)| (self.text(key), tagged_address(&self.text(value), port)))
                .collect(),
            checks: checks.map(|check| self.check(service, check, &id, &name)).collect::<Result<_, _>>()?,
            name: name.into(),
            id,
        })
    }

    fn check(&self, service: &Service, check: &ServiceCheck, id: &Str, name: &str) -> Result<CheckDefinition, String> {
        let named = self.check_name(check, name);
        let kind =
            self.kind(service, check).map_err(|error| format!("unable to get address for check {named:?}: {error}"))?;
        let script = self.script(service, check);
        let content = format!(
            "{:?}",
            (
                id,
                &named,
                &kind,
                &script,
                check.success_before_passing,
                check.failures_before_critical,
                &check.initial_status
            )
        );
        let id_of_check: Str = format!("{CHECK_PREFIX}{}", hex(&Md5::digest(content.as_bytes()))).into();
        Ok(CheckDefinition {
            id: id_of_check,
            service_id: id.clone(),
            name: named,
            status: check.initial_status.clone(),
            kind,
            success_before_passing: check.success_before_passing,
            failures_before_critical: check.failures_before_critical,
            script,
        })
    }

    fn kind(&self, service: &Service, check: &ServiceCheck) -> Result<CheckKind, String> {
        let (interval, timeout) = (check.interval.to_string(), check.timeout.to_string());
        if check.kind == "script" {
            let ttl =
                Dur(check.interval.nanos().saturating_add(check.timeout.nanos()).saturating_add(TTL_SPARE.nanos()));
            return Ok(CheckKind::Reported { ttl: ttl.to_string() });
        }
        let label = if check.port_label.is_empty() { &service.port_label } else { &check.port_label };
        let custom = self.env.replace(&service.address);
        let mode = match check.address_mode.as_str() {
            "" if custom.is_empty() => "host",
            "" => "auto",
            other => other,
        };
        let custom = if mode == "auto" { custom } else { String::new() };
        let (host, port) = address::of(self.located, &custom, mode, &self.env.replace(label))?;
        let place = match host.as_str() {
            "" => format!("127.0.0.1:{port}"),
            host if host.contains(':') => format!("[{host}]:{port}"),
            host => format!("{host}:{port}"),
        };
        let (tls_server_name, tls_skip_verify) = (self.text(&check.tls_server_name), check.tls_skip_verify);
        match check.kind.as_str() {
            "http" => {
                let scheme = if check.protocol.is_empty() { "http".into() } else { self.text(&check.protocol) };
                let path = self.text(&check.path);
                let path = path.strip_prefix('/').unwrap_or(&path);
                let header = check.header.iter().flatten();
                let texts = |values: &Option<Vec<Str>>| values.iter().flatten().map(|value| self.text(value)).collect();
                Ok(CheckKind::Http {
                    url: format!("{scheme}://{place}/{path}"),
                    method: if check.method.is_empty() { "GET".into() } else { self.text(&check.method) },
                    header: header.map(|(name, values)| (self.text(name), texts(values))).collect(),
                    body: self.text(&check.body),
                    tls_server_name,
                    tls_skip_verify,
                    interval,
                    timeout,
                })
            }
            "tcp" => Ok(CheckKind::Tcp { address: place, interval, timeout }),
            "grpc" => {
                let service = self.text(&check.grpc_service);
                let address = if service.is_empty() { place } else { format!("{place}/{service}") };
                let with_tls = check.grpc_use_tls;
                Ok(CheckKind::Grpc { address, with_tls, tls_server_name, tls_skip_verify, interval, timeout })
            }
            other => Err(format!("checks of type {other:?} are not supported")),
        }
    }

    /// The script of a check: in the task that the check names, else in that of its service.
    fn script(&self, service: &Service, check: &ServiceCheck) -> Option<Script> {
        let task = match self.workload {
            Workload::Task(task) => task.clone(),
            Workload::Group if check.task_name.is_empty() => service.task_name.clone(),
            Workload::Group => check.task_name.clone(),
        };
        let argv = [&check.command].into_iter().chain(check.args.iter().flatten());
        (check.kind == "script").then(|| Script {
            task,
            argv: argv.map(|text| self.env.replace(text)).collect(),
            interval: check.interval,
            timeout: check.timeout,
        })
    }

    fn check_name(&self, check: &ServiceCheck, service: &str) -> Str {
        let name = self.text(&check.name);
        if name.is_empty() { format!("service: {service:?} check").into() } else { name }
    }

    fn text(&self, text: &Str) -> Str {
        self.env.replace(text).into()
    }
}

/// An address with a port, or without one: then it is the service's port.
fn tagged_address(text: &str, port: i64) -> TaggedAddress {
    let split = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let (address, port) =
        split.filter(|(host, _)| !host.contains(':') || host.starts_with('[')).unwrap_or((text, port));
    TaggedAddress { address: address.trim_start_matches('[').trim_end_matches(']').into(), port }
}
