//! The configuration as `agent/self` shows it: every block in the reference's shape, with the settings of this agent
//! where they exist here, and the reference's defaults where they do not. It holds no secrets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use songline_api::{SCHEDULERS, UiSettings};
use songline_client::{ClientConfig, ConsulSettings, DrainOnShutdown, Retry};
use songline_model::{Dur, Secret, Str};
use songline_server::config::{JoinConfig, ServerConfig};

use super::REFERENCE_VERSION;
use crate::config::network::{Addresses, TlsConfig};
use crate::config::{AgentConfig, VaultConfig};

/// The whole configuration.
pub(super) fn config(config: &AgentConfig, data_dir: &Path) -> Value {
    let addresses = |of: &Addresses| json!({ "HTTP": of.http, "RPC": of.rpc, "Serf": of.serf });
    let shown = json!({
        "ACL": acl(config),
        "Addresses": addresses(&config.addresses),
        "AdvertiseAddrs": addresses(&config.advertise),
        "Audit": { "Enabled": null, "Filters": null, "Sinks": null },
        "Autopilot": autopilot(),
        "BindAddr": config.bind_addr,
        "Client": client(config),
        "Consul": consul(&config.consul),
        "DataDir": data_dir.display().to_string(),
        "Datacenter": config.datacenter,
        "DevMode": config.dev,
        "DisableAnonymousSignature": true,
        "DisableUpdateCheck": true,
        "EnableDebug": config.enable_debug,
        "EnableSyslog": false,
        "Files": null,
        "HTTPAPIResponseHeaders": config.response_headers,
        "LeaveOnInt": config.leave_on_interrupt,
        "LeaveOnTerm": config.leave_on_terminate,
        "Limits": limits(config),
        "LogFile": "",
        "LogIncludeLocation": false,
        "LogJson": config.log_json,
        "LogLevel": config.log_level,
        "LogRotateBytes": 0,
        "LogRotateDuration": "",
        "LogRotateMaxFiles": 0,
    });
    let rest = json!({
        "NodeName": config.name,
        "PluginDir": "",
        "Plugins": plugins(config.client.as_ref()),
        "Ports": { "HTTP": config.http_port, "RPC": config.rpc_port, "Serf": config.serf_port },
        "Region": config.region,
        "Sentinel": { "Imports": null },
        "Server": server(config.server.as_ref(), data_dir),
        "SyslogFacility": "LOCAL0",
        "TLSConfig": tls(&config.tls),
        "Telemetry": telemetry(config),
        "UI": ui(&config.ui),
        "Vault": vault(&config.vault),
        "Version": {
            "BuildDate": "0001-01-01T00:00:00Z",
            "Revision": "",
            "Version": REFERENCE_VERSION,
            "VersionMetadata": "",
            "VersionPrerelease": "",
        },
    });
    both(shown, rest)
}

/// The members of two objects.
fn both(mut first: Value, second: Value) -> Value {
    if let (Value::Object(first), Value::Object(second)) = (&mut first, second) {
        first.extend(second);
    }
    first
}

fn hidden(secret: &Secret) -> &'static str {
    if secret.is_empty() { "" } else { "<redacted>" }
}

fn acl(config: &AgentConfig) -> Value {
    json!({
        "Enabled": config.acl.enabled,
        "PolicyTTL": 30_000_000_000_i64,
        "ReplicationToken": hidden(&config.replication_token),
        "RoleTTL": 30_000_000_000_i64,
        "TokenMaxExpirationTTL": config.acl.token_ttl.max.0,
        "TokenMinExpirationTTL": config.acl.token_ttl.min.0,
        "TokenTTL": 30_000_000_000_i64,
    })
}

fn autopilot() -> Value {
    json!({
        "CleanupDeadServers": null,
        "DisableUpgradeMigration": null,
        "EnableCustomUpgrades": null,
        "EnableRedundancyZones": null,
        "LastContactThreshold": 200_000_000,
        "MaxTrailingLogs": 250,
        "MinQuorum": 0,
        "ServerStabilizationTime": 10_000_000_000_i64,
    })
}

fn limits(config: &AgentConfig) -> Value {
    json!({
        "HTTPMaxConnsPerClient": config.http_max_conns_per_client,
        "HTTPSHandshakeTimeout": config.https_handshake_timeout.to_string(),
        "RPCHandshakeTimeout": config.rpc_handshake_timeout.to_string(),
        "RPCMaxConnsPerClient": config.rpc_max_conns_per_client,
    })
}

fn join(join: &JoinConfig) -> Value {
    let listed = |addresses: &[String]| (!addresses.is_empty()).then(|| addresses.to_vec());
    json!({
        "RetryInterval": 30_000_000_000_i64,
        "RetryJoin": join.retry_join,
        "RetryMaxAttempts": 0,
        "StartJoin": listed(&join.start_join),
    })
}

/// Settings of plugins may hold passwords, so that only the names are shown.
fn plugins(client: Option<&ClientConfig>) -> Value {
    let entry = |name: &Str| json!({ "Name": name, "Args": null, "Config": null });
    let all: Vec<Value> = client.into_iter().flat_map(|client| client.plugins.keys()).map(entry).collect();
    if all.is_empty() { Value::Null } else { Value::Array(all) }
}

// ---- the node

fn client(config: &AgentConfig) -> Value {
    let none = ClientConfig::default();
    let client = config.client.as_ref().unwrap_or(&none);
    let shown = json!({
        "AllocDir": client.own_alloc_dir.as_deref().unwrap_or(Path::new("")),
        "Artifact": artifact(client),
        "BindWildcardDefaultHostNetwork": true,
        "BridgeNetworkHairpinMode": false,
        "BridgeNetworkName": "",
        "BridgeNetworkSubnet": "",
        "CNIConfigDir": "/opt/cni/config",
        "CNIPath": "/opt/cni/bin",
        "CgroupParent": client.cgroup_parent,
        "ChrootEnv": client.chroot_env,
        "ClientMaxPort": 14512,
        "ClientMinPort": 14000,
        "CpuCompute": client.cpu_total_compute.unwrap_or_default(),
        "DisableRemoteExec": client.disable_remote_exec,
        "DiskFreeMB": client.disk_free_mb.unwrap_or_default(),
        "DiskTotalMB": client.disk_total_mb.unwrap_or_default(),
        "Drain": client.drain_on_shutdown.as_ref().map(drain),
        "Enabled": config.client.is_some(),
        "GCDiskUsageThreshold": client.gc_disk_usage_percent,
        "GCInodeUsageThreshold": client.gc_inode_usage_percent,
        "GCInterval": client.gc_interval.0,
        "GCMaxAllocs": client.gc_allocs_max,
        "GCParallelDestroys": client.gc_parallel_destroys,
    });
    let rest = json!({
        "HostNetworks": null,
        "HostVolumes": host_volumes(client),
        "MaxDynamicPort": client.max_dynamic_port,
        "MaxKillTimeout": client.kill_timeout_max.to_string(),
        "MemoryMB": client.memory_total_mb.unwrap_or_default(),
        "Meta": client.meta,
        "MinDynamicPort": client.min_dynamic_port,
        "NetworkInterface": client.network_interface,
        "NetworkSpeed": client.network_speed_mbits.unwrap_or_default(),
        "NoHostUUID": client.no_host_uuid,
        "NodeClass": client.node_class,
        "NodePool": client.node_pool,
        "NomadServiceDiscovery": client.service_discovery,
        "Options": options(config.dev, client),
        "ReserveableCores": cores(client.reservable_cores.as_deref()),
        "Reserved": reserved(client),
        "ServerJoin": join(&config.client_join),
        "Servers": config.server_addresses(),
        "StateDir": client.own_state_dir.as_deref().unwrap_or(Path::new("")),
        "TemplateConfig": template(client),
    });
    both(shown, rest)
}

fn artifact(client: &ClientConfig) -> Value {
    let bounds = &client.artifact;
    json!({
        "DecompressionFileCountLimit": bounds.unpacked_files_max,
        "DecompressionSizeLimit": bytes(bounds.unpacked_bytes_max),
        "DisableFilesystemIsolation": bounds.disable_filesystem_isolation,
        "GCSTimeout": whole(bounds.gcs_timeout),
        "GitTimeout": whole(bounds.git_timeout),
        "HTTPMaxSize": bytes(bounds.http_bytes_max),
        "HTTPReadTimeout": whole(bounds.http_read_timeout),
        "HgTimeout": whole(bounds.hg_timeout),
        "S3Timeout": whole(bounds.s3_timeout),
        "SetEnvironmentVariables": bounds.environment_variables.join(","),
    })
}

/// A size as it is written in a configuration, in the largest unit that needs no fraction.
fn bytes(count: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "KB")];
    let fits = units.into_iter().find(|(unit, _)| count >= *unit && count.is_multiple_of(*unit));
    fits.map_or_else(|| format!("{count}B"), |(unit, name)| format!("{}{name}", count / unit))
}

/// A duration as it is written in a configuration: `30m` rather than `30m0s`.
fn whole(span: Dur) -> String {
    let text = span.to_string();
    let text = text.strip_suffix("m0s").map(|minutes| format!("{minutes}m")).unwrap_or(text);
    text.strip_suffix("h0m").map(|hours| format!("{hours}h")).unwrap_or(text)
}

fn drain(drain: &DrainOnShutdown) -> Value {
    json!({
        "Deadline": drain.deadline.to_string(),
        "Force": drain.force,
        "IgnoreSystemJobs": drain.ignore_system_jobs,
    })
}

fn cores(cores: Option<&[u64]>) -> String {
    let cores: Vec<String> = cores.unwrap_or_default().iter().map(u64::to_string).collect();
    cores.join(",")
}

fn host_volumes(client: &ClientConfig) -> Value {
    let entry = |(name, volume): (&Str, &songline_model::ClientHostVolumeConfig)| json!({ "Name": name, "Path": volume.path, "ReadOnly": volume.read_only });
    let all: Vec<Value> = client.host_volumes.iter().map(entry).collect();
    if all.is_empty() { Value::Null } else { Value::Array(all) }
}

/// Options of the node. In dev mode also those that the reference sets there.
fn options(dev: bool, client: &ClientConfig) -> BTreeMap<String, String> {
    const OF_DEV: [(&str, &str); 4] = [
        ("driver.allowlist", ""),
        ("driver.docker.volumes", "true"),
        ("driver.raw_exec.enable", "true"),
        ("test.tighten_network_timeouts", "true"),
    ];
    let of_dev = OF_DEV.iter().filter(|_| dev).map(|(name, value)| ((*name).to_string(), (*value).to_string()));
    let given = client.options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    of_dev.chain(given).collect()
}

fn reserved(client: &ClientConfig) -> Value {
    let reserved = &client.reserved;
    json!({
        "CPU": reserved.cpu.cpu_shares,
        "Cores": cores(reserved.cpu.reserved_cpu_cores.as_deref()),
        "DiskMB": reserved.disk.disk_mb,
        "MemoryMB": reserved.memory.memory_mb,
        "ReservedPorts": reserved.networks.reserved_host_ports,
    })
}

fn template(client: &ClientConfig) -> Value {
    let settings = &client.template;
    json!({
        "BlockQueryWaitTime": settings.block_query_wait.0,
        "BlockQueryWaitTimeHCL": "",
        "ConsulRetry": null,
        "DisableSandbox": false,
        "FunctionBlacklist": null,
        "FunctionDenylist": settings.denied,
        "MaxStale": null,
        "MaxStaleHCL": "",
        "NomadRetry": retry(settings.nomad_retry),
        "VaultRetry": retry(settings.vault_retry),
    })
}

fn retry(retry: Retry) -> Value {
    json!({ "Attempts": retry.attempts, "Backoff": retry.backoff.0, "MaxBackoff": retry.backoff_max.0 })
}

// ---- the server

fn server(server: Option<&ServerConfig>, data_dir: &Path) -> Value {
    let none = ServerConfig::default();
    let expected = server.map_or(0, |server| if server.starts_alone() { 1 } else { server.expected() });
    let (enabled, server) = (server.is_some(), server.unwrap_or(&none));
    let text = |span: Dur| span.to_string();
    let shown = json!({
        "ACLTokenGCThreshold": text(server.gc.acl_token),
        "AuthoritativeRegion": server.authoritative_region.as_deref().unwrap_or_default(),
        "BatchEvalGCThreshold": text(server.gc.batch_eval),
        "BootstrapExpect": expected,
        "CSIPluginGCThreshold": text(server.gc.csi_plugin),
        "CSIVolumeClaimGCInterval": text(server.csi_volume_gc_interval),
        "CSIVolumeClaimGCThreshold": text(server.gc.csi_volume),
        "DataDir": if enabled { data_dir.join("server").display().to_string() } else { String::new() },
        "DefaultSchedulerConfig": server.default_scheduler_config,
        "DeploymentGCThreshold": text(server.gc.deployment),
        "DeploymentQueryRateLimit": 0,
        "EnableEventBroker": server.enable_event_broker,
        "Enabled": enabled,
        "EnabledSchedulers": (server.enabled_schedulers != SCHEDULERS).then_some(&server.enabled_schedulers),
        "EvalGCThreshold": text(server.gc.eval),
        "EventBufferSize": server.event_buffer_size,
        "FailoverHeartbeatTTL": server.heartbeats.failover_ttl.0,
        "HeartbeatGrace": server.heartbeats.grace.0,
        "JobDefaultPriority": 50,
        "JobGCInterval": text(server.gc_interval),
        "JobGCThreshold": text(server.gc.job),
        "JobMaxPriority": server.job_max_priority,
        "JobMaxSourceSize": server.job_max_source_bytes.to_string(),
        "JobTrackedVersions": server.job_tracked_versions,
        "LicenseEnv": "",
        "LicensePath": "",
    });
    let rest = json!({
        "MaxHeartbeatsPerSecond": server.heartbeats.per_second_max,
        "MinHeartbeatTTL": server.heartbeats.min_ttl.0,
        "NodeGCThreshold": text(server.gc.node),
        "NonVotingServer": server.non_voting_server,
        "NumSchedulers": server.num_schedulers,
        "PlanRejectionTracker": {
            "Enabled": server.plan_rejections.enabled,
            "NodeThreshold": server.plan_rejections.node_threshold,
            "NodeWindow": server.plan_rejections.node_window.0,
        },
        "RaftBoltConfig": null,
        "RaftMultiplier": null,
        "RaftProtocol": 3,
        "RaftSnapshotInterval": null,
        "RaftSnapshotThreshold": null,
        "RaftTrailingLogs": null,
        "RedundancyZone": "",
        "RejoinAfterLeave": server.rejoin_after_leave,
        "RetryInterval": 0,
        "RetryJoin": [],
        "RetryMaxAttempts": 0,
        "RootKeyGCInterval": text(server.root_key_gc_interval),
        "RootKeyGCThreshold": text(server.root_keys.gc),
        "RootKeyRotationThreshold": text(server.root_keys.rotation),
        "Search": { "FuzzyEnabled": true, "LimitQuery": 20, "LimitResults": 100, "MinTermLength": 2 },
        "ServerJoin": join(&server.join),
        "StartJoin": [],
        "UpgradeVersion": "",
    });
    both(shown, rest)
}

// ---- the other blocks

fn tls(tls: &TlsConfig) -> Value {
    let file = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
    json!({
        "CAFile": file(&tls.ca_file).unwrap_or_default(),
        "CertFile": file(&tls.cert_file).unwrap_or_default(),
        "Checksum": "",
        "EnableHTTP": tls.http,
        "EnableRPC": tls.rpc,
        "KeyFile": file(&tls.key_file).unwrap_or_default(),
        "KeyLoader": {},
        "RPCUpgradeMode": tls.rpc_upgrade_mode,
        "TLSCipherSuites": "",
        "TLSMinVersion": "",
        "TLSPreferServerCipherSuites": false,
        "VerifyHTTPSClient": tls.verify_https_client,
        "VerifyServerHostname": tls.verify_server_hostname,
    })
}

fn telemetry(config: &AgentConfig) -> Value {
    const OF_CIRCONUS: [&str; 13] = [
        "CirconusAPIApp",
        "CirconusAPIToken",
        "CirconusAPIURL",
        "CirconusBrokerID",
        "CirconusBrokerSelectTag",
        "CirconusCheckDisplayName",
        "CirconusCheckForceMetricActivation",
        "CirconusCheckID",
        "CirconusCheckInstanceID",
        "CirconusCheckSearchTag",
        "CirconusCheckSubmissionURL",
        "CirconusCheckTags",
        "CirconusSubmissionInterval",
    ];
    let shown = json!({
        "CollectionInterval": config.publish.interval.to_string(),
        "DataDogAddr": "",
        "DataDogTags": null,
        "DisableDispatchedJobSummaryMetrics": !config.dispatched_metrics,
        "DisableHostname": false,
        "DisableRPCRateMetricsLabels": !config.rpc_rate_labels,
        "FilterDefault": null,
        "PrefixFilter": null,
        "PrometheusMetrics": config.prometheus_metrics,
        "PublishAllocationMetrics": config.publish.allocs,
        "PublishNodeMetrics": config.publish.node,
        "StatsdAddr": "",
        "StatsiteAddr": "",
        "UseNodeName": false,
    });
    both(shown, OF_CIRCONUS.iter().map(|name| ((*name).to_string(), json!(""))).collect())
}

fn ui(ui: &UiSettings) -> Value {
    let sources = |directive: &str, reference: &[&str]| match ui.policy.get(directive) {
        Some(sources) => json!(sources),
        None => json!(reference),
    };
    let policy = json!({
        "ConnectSrc": sources("connect-src", &["*"]),
        "DefaultSrc": sources("default-src", &["'none'"]),
        "FormAction": sources("form-action", &["'none'"]),
        "FrameAncestors": sources("frame-ancestors", &["'none'"]),
        "ImgSrc": sources("img-src", &["'self'", "data:"]),
        "ScriptSrc": sources("script-src", &["'self'"]),
        "StyleSrc": sources("style-src", &["'self'", "'unsafe-inline'"]),
    });
    both(ui.shown(), json!({ "ContentSecurityPolicy": policy, "Enabled": ui.enabled }))
}

fn consul(config: &ConsulSettings) -> Value {
    let path = |path: Option<&PathBuf>| path.map(|path| path.display().to_string()).unwrap_or_default();
    let own = config.trust.own_files.as_ref();
    json!({
        "Addr": config.address,
        "AllowUnauthenticated": true,
        "Auth": hidden(&config.auth),
        "AutoAdvertise": false,
        "CAFile": path(config.trust.ca_file.as_ref()),
        "CertFile": path(own.map(|(certificate, _)| certificate)),
        "ChecksUseAdvertise": false,
        "ClientAutoJoin": false,
        "ClientHTTPCheckName": "Nomad Client HTTP Check",
        "ClientServiceName": "nomad-client",
        "EnableSSL": config.ssl,
        "GRPCAddr": "",
        "GRPCCAFile": "",
        "KeyFile": path(own.map(|(_, key)| key)),
        "Namespace": "",
        "ServerAutoJoin": false,
        "ServerHTTPCheckName": "Nomad Server HTTP Check",
        "ServerRPCCheckName": "Nomad Server RPC Check",
        "ServerSerfCheckName": "Nomad Server Serf Check",
        "ServerServiceName": "nomad",
        "ShareSSL": null,
        "Tags": null,
        "Timeout": config.timeout.nanos(),
        "Token": hidden(&config.token),
        "VerifySSL": config.trust.verify,
    })
}

fn vault(config: &VaultConfig) -> Value {
    let path = |path: Option<&PathBuf>| path.map(|path| path.display().to_string()).unwrap_or_default();
    let own = config.trust.own_files.as_ref();
    json!({
        "Addr": config.address,
        "AllowUnauthenticated": true,
        "ConnectionRetryIntv": 30_000_000_000_i64,
        "Enabled": config.enabled.then_some(true),
        "Namespace": config.namespace,
        "Role": config.create_from_role,
        "TLSCaFile": path(config.trust.ca_file.as_ref()),
        "TLSCaPath": "",
        "TLSCertFile": path(own.map(|(certificate, _)| certificate)),
        "TLSKeyFile": path(own.map(|(_, key)| key)),
        "TLSServerName": "",
        "TLSSkipVerify": (!config.trust.verify).then_some(true),
        "TaskTokenTTL": if config.enabled { config.task_token_ttl.as_str() } else { "" },
        "Token": if config.token.is_empty() { "" } else { "<redacted>" },
    })
}
