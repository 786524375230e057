//! Schemas of a service and its checks, mesh proxies and gateways.

use super::task::{LOGS, RESOURCES};
use super::*;

pub(super) const SERVICE: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        text("name", "Name"),
        texts("tags", "Tags"),
        texts("canary_tags", "CanaryTags"),
        flag("enable_tag_override", "EnableTagOverride"),
        text("port", "PortLabel"),
        text("address_mode", "AddressMode"),
        text("address", "Address"),
        blocks("check", "Checks", &CHECK),
        block("check_restart", "CheckRestart", &CHECK_RESTART),
        block("connect", "Connect", &CONNECT),
        strings("meta", "Meta"),
        strings("canary_meta", "CanaryMeta"),
        strings("tagged_addresses", "TaggedAddresses"),
        text("task", "TaskName"),
        text("on_update", "OnUpdate"),
        text("provider", "Provider"),
    ],
};

const CHECK: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        text("name", "Name"),
        text("type", "Type"),
        text("command", "Command"),
        texts("args", "Args"),
        text("path", "Path"),
        text("protocol", "Protocol"),
        text("port", "PortLabel"),
        flag("expose", "Expose"),
        text("address_mode", "AddressMode"),
        text("advertise", "Advertise"),
        attribute("interval", "Interval", Kind::Duration, Absent::Number(0)),
        attribute("timeout", "Timeout", Kind::Duration, Absent::Number(0)),
        text("initial_status", "InitialStatus"),
        text("tls_server_name", "TLSServerName"),
        flag("tls_skip_verify", "TLSSkipVerify"),
        Field::StringLists { name: "header", key: "Header" },
        text("method", "Method"),
        block("check_restart", "CheckRestart", &CHECK_RESTART),
        text("grpc_service", "GRPCService"),
        flag("grpc_use_tls", "GRPCUseTLS"),
        text("task", "TaskName"),
        int("success_before_passing", "SuccessBeforePassing"),
        int("failures_before_critical", "FailuresBeforeCritical"),
        text("body", "Body"),
        text("on_update", "OnUpdate"),
    ],
};

const CHECK_RESTART: Schema = Schema {
    labels: NO_LABEL,
    fields: &[int("limit", "Limit"), opt("grace", "Grace", Kind::Duration), flag("ignore_warnings", "IgnoreWarnings")],
};

const CONNECT: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        flag("native", "Native"),
        block("gateway", "Gateway", &GATEWAY),
        block("sidecar_service", "SidecarService", &SIDECAR_SERVICE),
        block("sidecar_task", "SidecarTask", &SIDECAR_TASK),
    ],
};

const SIDECAR_SERVICE: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        texts("tags", "Tags"),
        text("port", "Port"),
        block("proxy", "Proxy", &PROXY),
        flag("disable_default_tcp_check", "DisableDefaultTCPCheck"),
        strings("meta", "Meta"),
    ],
};

const SIDECAR_TASK: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        text("name", "Name"),
        text("driver", "Driver"),
        text("user", "User"),
        Field::Free { name: "config", key: "Config" },
        strings("env", "Env"),
        block("resources", "Resources", &RESOURCES),
        strings("meta", "Meta"),
        opt("kill_timeout", "KillTimeout", Kind::Duration),
        block("logs", "LogConfig", &LOGS),
        opt("shutdown_delay", "ShutdownDelay", Kind::Duration),
        text("kill_signal", "KillSignal"),
    ],
};

const PROXY: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        text("local_service_address", "LocalServiceAddress"),
        int("local_service_port", "LocalServicePort"),
        block("expose", "Expose", &EXPOSE),
        fixed("ExposeConfig", Absent::Null),
        blocks("upstreams", "Upstreams", &UPSTREAM),
        Field::Free { name: "config", key: "Config" },
    ],
};

const EXPOSE: Schema =
    Schema { labels: NO_LABEL, fields: &[fixed("Path", Absent::Null), blocks("path", "Paths", &EXPOSE_PATH)] };

const EXPOSE_PATH: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        text("path", "Path"),
        text("protocol", "Protocol"),
        int("local_path_port", "LocalPathPort"),
        text("listener_port", "ListenerPort"),
    ],
};

const UPSTREAM: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        text("destination_name", "DestinationName"),
        text("destination_namespace", "DestinationNamespace"),
        text("destination_peer", "DestinationPeer"),
        text("destination_type", "DestinationType"),
        int("local_bind_port", "LocalBindPort"),
        text("datacenter", "Datacenter"),
        text("local_bind_address", "LocalBindAddress"),
        text("local_bind_socket_path", "LocalBindSocketPath"),
        text("local_bind_socket_mode", "LocalBindSocketMode"),
        block("mesh_gateway", "MeshGateway", &MESH_GATEWAY),
        Field::Free { name: "config", key: "Config" },
    ],
};

const MESH_GATEWAY: Schema = Schema { labels: NO_LABEL, fields: &[text("mode", "Mode")] };

const GATEWAY: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        block("proxy", "Proxy", &GATEWAY_PROXY),
        block("ingress", "Ingress", &INGRESS),
        block("terminating", "Terminating", &TERMINATING),
        block("mesh", "Mesh", &MESH),
    ],
};

const GATEWAY_PROXY: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        opt("connect_timeout", "ConnectTimeout", Kind::Duration),
        flag("envoy_gateway_bind_tagged_addresses", "EnvoyGatewayBindTaggedAddresses"),
        Field::Keyed { name: "envoy_gateway_bind_addresses", key: "EnvoyGatewayBindAddresses", schema: &BIND_ADDRESS },
        flag("envoy_gateway_no_default_bind", "EnvoyGatewayNoDefaultBind"),
        text("envoy_dns_discovery_type", "EnvoyDNSDiscoveryType"),
        Field::Free { name: "config", key: "Config" },
    ],
};

const BIND_ADDRESS: Schema = Schema {
    labels: ONE_LABEL,
    fields: &[Field::Label { key: "Name" }, text("address", "Address"), int("port", "Port")],
};

const INGRESS: Schema = Schema {
    labels: NO_LABEL,
    fields: &[block("tls", "TLS", &GATEWAY_TLS), blocks("listener", "Listeners", &LISTENER)],
};

const GATEWAY_TLS: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        flag("enabled", "Enabled"),
        text("tls_min_version", "TLSMinVersion"),
        text("tls_max_version", "TLSMaxVersion"),
        texts("cipher_suites", "CipherSuites"),
    ],
};

const LISTENER: Schema = Schema {
    labels: NO_LABEL,
    fields: &[int("port", "Port"), text("protocol", "Protocol"), blocks("service", "Services", &INGRESS_SERVICE)],
};

const INGRESS_SERVICE: Schema = Schema { labels: NO_LABEL, fields: &[text("name", "Name"), texts("hosts", "Hosts")] };

const TERMINATING: Schema = Schema { labels: NO_LABEL, fields: &[blocks("service", "Services", &LINKED_SERVICE)] };

const LINKED_SERVICE: Schema = Schema {
    labels: NO_LABEL,
    fields: &[
        text("name", "Name"),
        text("ca_file", "CAFile"),
        text("cert_file", "CertFile"),
        text("key_file", "KeyFile"),
        text("sni", "SNI"),
    ],
};

const MESH: Schema = Schema { labels: NO_LABEL, fields: &[] };
