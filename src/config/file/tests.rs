//! Tests of configuration files: forms of blocks, sizes, durations, errors.

use serde_json::json;
use songline_model::{Dur, Str};

use super::*;

fn agent(document: Value) -> anyhow::Result<(AgentConfig, Vec<String>)> {
    let mut config = AgentConfig::dev();
    let warnings = apply(&document, &mut config)?;
    Ok((config, warnings))
}

#[test]
fn config_blocks_may_be_objects_or_lists_and_are_merged() {
    let (config, warnings) = agent(json!({
        "ports": { "http": 0 },
        "Client": [{ "meta": { "rack": "r1" } }, { "host_volume": { "scratch": { "path": "/srv" } } }],
        "plugin": [{ "raw_exec": [{ "config": [{ "enabled": true }] }] }],
    }))
    .expect("is a configuration");
    let client = config.client.expect("a dev agent has a node");
    assert_eq!((config.http_port, client.meta["rack"].as_str()), (0, "r1"));
    assert_eq!(client.host_volumes["scratch"].path, "/srv");
    assert_eq!(client.plugins["raw_exec"]["enabled"], true);
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn settings_before_the_block_that_enables_them_take_effect() {
    let mut config = AgentConfig::default();
    let first = json!({
        "plugin": { "raw_exec": { "config": { "enabled": true } } },
        "client": { "meta": { "rack": "r1" } },
        "server": { "num_schedulers": 3 },
    });
    apply(&first, &mut config).expect("is a configuration");
    assert!(config.client.is_none() && config.server.is_none());
    let second = json!({ "client": { "enabled": true }, "server": { "enabled": true } });
    apply(&second, &mut config).expect("is a configuration");
    let client = config.client.expect("a node");
    assert_eq!((client.plugins["raw_exec"]["enabled"].as_bool(), client.meta["rack"].as_str()), (Some(true), "r1"));
    assert_eq!(config.server.expect("a server").num_schedulers, 3);
}

#[test]
fn networks_of_allocations_are_read_without_a_warning() {
    let (config, warnings) = agent(json!({ "client": {
        "cni_path": "/usr/lib/cni", "cni_config_dir": "/etc/cni", "bridge_network_name": "lab",
        "bridge_network_subnet": "10.9.0.0/24", "bridge_network_hairpin_mode": true,
        "bind_wildcard_default_host_network": false,
        "host_network": [{ "dmz": { "interface": "eth1", "reserved_ports": "22" } }, { "lan": { "cidr": "10.0.0.0/8" } }],
    }}))
    .expect("is a configuration");
    assert!(warnings.is_empty(), "{warnings:?}");
    let network = config.client.expect("a dev agent has a node").network;
    assert_eq!((network.cni_path.as_str(), network.cni_config_dir.to_str()), ("/usr/lib/cni", Some("/etc/cni")));
    assert_eq!((network.bridge_name.as_str(), network.bridge_subnet.as_str()), ("lab", "10.9.0.0/24"));
    assert!(network.bridge_hairpin && !network.wildcard_ports);
    let (dmz, lan) = (&network.host_networks["dmz"], &network.host_networks["lan"]);
    assert_eq!((dmz.interface.as_str(), dmz.reserved_ports.as_str(), lan.cidr.as_str()), ("eth1", "22", "10.0.0.0/8"));
    let error = agent(json!({ "client": { "host_network": { "dmz": { "nope": 1 } } } })).expect_err("is refused");
    assert_eq!(error.to_string(), "host_network unexpected keys nope");
}

#[test]
fn names_of_host_volumes_keep_their_capitals_and_unknown_keys_are_warned_about() {
    let (config, warnings) = agent(json!({ "client": {
        "host_volume": { "Data": { "path": "/srv", "writable": true } },
        "host_network": { "LAN": { "cidr": "10.0.0.0/8" } },
    }}))
    .expect("is a configuration");
    let client = config.client.expect("a dev agent has a node");
    assert_eq!(
        (client.host_volumes["Data"].path.as_str(), client.network.host_networks["LAN"].cidr.as_str()),
        ("/srv", "10.0.0.0/8")
    );
    assert_eq!(warnings, ["client.host_volume.Data.writable is accepted and has no effect yet"]);
}

#[test]
fn settings_of_a_node_are_read_and_wrong_ones_named() {
    let document = json!({ "client": {
        "state_dir": "/var/state",
        "chroot_env": { "/opt/tools": "/tools" },
        "reservable_cores": "0-2, 7",
        "reserved": { "cores": "1" },
        "gc_inode_usage_threshold": "55.5",
        "gc_parallel_destroys": 0,
        "no_host_uuid": false,
        "drain_on_shutdown": { "deadline": "10m", "force": true },
        "artifact": {
            "http_max_size": "5MB",
            "git_timeout": "90s",
            "decompression_file_count_limit": 0,
            "set_environment_variables": "HTTP_PROXY, AWS_REGION",
        },
    } });
    let (config, warnings) = agent(document).expect("is a configuration");
    assert!(warnings.is_empty(), "{warnings:?}");
    let client = config.client.expect("a dev agent has a node");
    assert_eq!(client.state_dir().display().to_string(), "/var/state");
    assert_eq!(client.chroot_env.get("/opt/tools").map(Str::as_str), Some("/tools"));
    assert_eq!(client.reservable_cores, Some(vec![0, 1, 2, 7]));
    assert_eq!(client.reserved.cpu.reserved_cpu_cores, Some(vec![1]));
    assert_eq!((client.gc_inode_usage_percent, client.gc_parallel_destroys), (55.5, 2));
    let drain = client.drain_on_shutdown.expect("a drain");
    assert_eq!((drain.deadline, drain.force, drain.ignore_system_jobs), (Dur::from_mins(10), true, false));
    let artifact = client.artifact;
    assert_eq!((artifact.http_bytes_max, artifact.git_timeout), (5_000_000, Dur::from_secs(90)));
    assert_eq!(artifact.environment_variables, ["HTTP_PROXY", "AWS_REGION"]);
    let refused = |client| agent(json!({ "client": client })).expect_err("is refused").to_string();
    let errors = [
        refused(json!({ "alloc_dir": "here" })),
        refused(json!({ "reservable_cores": "3-1" })),
        refused(json!({ "artifact": { "nope": 1 } })),
        refused(json!({ "drain_on_shutdown": { "deadline": "soon" } })),
    ];
    assert_eq!(
        errors,
        [
            "client.alloc_dir must be given as an absolute path: got here",
            "client.reservable_cores: \"3-1\" is no set of cores such as 0-3,7",
            "artifact unexpected keys nope",
            "client.drain_on_shutdown.deadline can't parse time duration soon",
        ]
    );
}

#[test]
fn unknown_config_key_is_refused_and_a_key_without_effect_warns() {
    assert_eq!(agent(json!({ "nope": 1 })).expect_err("is refused").to_string(), "unexpected keys nope");
    assert_eq!(
        agent(json!({ "server": { "nope": 1 } })).expect_err("is refused").to_string(),
        "server unexpected keys nope"
    );
    let (_, warnings) = agent(json!({ "server": { "raft_multiplier": 2 } })).expect("is a configuration");
    assert_eq!(warnings, ["server.raft_multiplier is accepted and has no effect yet"]);
}

#[test]
fn authoritative_region_and_its_token_are_read_and_empty_texts_keep_them() {
    let mut config = AgentConfig::dev();
    for (region, token) in [("east", "hush"), ("", "")] {
        let document = json!({ "acl": { "replication_token": token }, "server": { "authoritative_region": region } });
        assert!(apply(&document, &mut config).expect("is a configuration").is_empty(), "both have an effect");
        assert_eq!(config.replication_token.reveal(), "hush");
        let server = config.server.as_ref().expect("a dev agent has a server");
        assert_eq!(server.authoritative_region.as_deref(), Some("east"));
    }
    assert!(!format!("{config:?}").contains("hush"), "the token is printed");
}

#[test]
fn empty_value_replaces_no_earlier_one_unless_absent_and_given_differ() {
    let mut config = AgentConfig::default();
    let told = json!({
        "acl": { "enabled": true },
        "client": {
            "enabled": true, "cpu_total_compute": 4000, "gc_max_allocs": 7, "max_kill_timeout": "9s", "node_pool": "gpu",
            "no_host_uuid": true, "disable_remote_exec": true, "meta": { "rack": "r1" },
            "artifact": { "decompression_file_count_limit": 5 },
        },
        "server": { "enabled": true, "node_gc_threshold": "1h", "num_schedulers": 3 },
        "telemetry": { "collection_interval": "3s" },
    });
    let empty = json!({
        "acl": { "enabled": false },
        "Client": [{
            "CPU_total_compute": 0, "memory_total_mb": 0, "gc_max_allocs": 0, "max_kill_timeout": "", "node_pool": "",
            "min_dynamic_port": 0, "no_host_uuid": false, "disable_remote_exec": false, "meta": { "rack": "" },
            "artifact": { "decompression_file_count_limit": 0 },
        }],
        "server": {
            "enabled": false, "node_gc_threshold": "", "num_schedulers": 0,
            "default_scheduler_config": { "scheduler_algorithm": "" },
        },
        "telemetry": { "collection_interval": "" },
    });
    for document in [told, empty] {
        assert!(apply(&document, &mut config).expect("is a configuration").is_empty());
    }
    let (client, server) = (config.client.expect("a node"), config.server.expect("a server"));
    assert!(config.acl.enabled && client.disable_remote_exec);
    assert_eq!((client.cpu_total_compute, client.memory_total_mb, client.gc_allocs_max), (Some(4000), None, 7));
    assert_eq!((client.kill_timeout_max, client.node_pool.as_str()), (Dur::from_secs(9), "gpu"));
    assert_eq!((client.min_dynamic_port, server.gc.node), (20_000, Dur::from_hours(1)));
    assert_eq!(config.publish.interval, Dur::from_secs(3));
    // Replaced.
    assert!(!client.no_host_uuid);
    assert_eq!((client.meta["rack"].as_str(), client.artifact.unpacked_files_max, server.num_schedulers), ("", 0, 0));
}

#[test]
fn quoted_zero_replaces_no_earlier_number_and_is_a_text_elsewhere() {
    let mut config = AgentConfig::default();
    let told = json!({
        "client": {
            "enabled": true, "cpu_total_compute": 4000, "gc_max_allocs": 7, "disable_remote_exec": true,
            "node_class": "big", "gc_disk_usage_threshold": 70, "reserved": { "memory": 512 }, "no_host_uuid": true,
        },
        "telemetry": { "publish_node_metrics": "true" },
    });
    let quoted = json!({
        "client": [{
            "cpu_total_compute": "0", "gc_max_allocs": "00", "disable_remote_exec": "false", "node_class": "0",
            "gc_disk_usage_threshold": "0.0", "reserved": { "memory": "0" }, "no_host_uuid": "false",
            "reservable_cores": "0", "meta": { "rack": "0" },
        }],
        "telemetry": { "publish_node_metrics": "0" },
    });
    for document in [told, quoted] {
        assert!(apply(&document, &mut config).expect("is a configuration").is_empty());
    }
    let client = config.client.expect("a node");
    assert_eq!((client.cpu_total_compute, client.gc_allocs_max, client.disable_remote_exec), (Some(4000), 7, true));
    assert_eq!((client.gc_disk_usage_percent, client.reserved.memory.memory_mb), (70.0, 512));
    assert!(config.publish.node);
    // Absent and given are distinct, or the setting is a text.
    assert!(!client.no_host_uuid);
    assert_eq!((client.node_class.as_str(), client.meta["rack"].as_str()), ("0", "0"));
    assert_eq!(client.reservable_cores, Some(vec![0]));
}

#[test]
fn refused_document_changes_nothing() {
    let mut config = AgentConfig::default();
    let empty = json!({ "region": "eu", "client": { "node_class": "", "nope": "" } });
    for document in [json!({ "region": "eu", "nope": 1 }), empty] {
        apply(&document, &mut config).expect_err("is refused");
        assert_eq!(config.region, AgentConfig::default().region);
    }
}

#[test]
fn empty_value_of_an_unknown_key_is_refused() {
    let error = agent(json!({ "client": { "nope": 0 } })).expect_err("is refused");
    assert_eq!(error.to_string(), "client unexpected keys nope");
}

#[test]
fn enabled_schedulers_are_read_and_always_include_the_servers_chores() {
    let document = json!({ "server": { "enabled_schedulers": ["batch", "system"] } });
    let (config, warnings) = agent(document).expect("is a configuration");
    assert_eq!(config.server.expect("it has a server").enabled_schedulers, ["batch", "system", "_core"]);
    assert!(warnings.is_empty(), "{warnings:?}");
    let error = agent(json!({ "server": { "enabled_schedulers": ["batsch"] } })).expect_err("is refused");
    assert_eq!(error.to_string(), "server.enabled_schedulers: unknown scheduler \"batsch\"");
}

#[test]
fn plan_rejection_tracker_is_read_and_needs_a_threshold() {
    let document = json!({ "server": { "plan_rejection_tracker": { "enabled": true, "node_threshold": 5 } } });
    let (config, warnings) = agent(document).expect("is a configuration");
    let limits = config.server.expect("a dev agent has a server").plan_rejections;
    assert_eq!((limits.enabled, limits.node_threshold, limits.node_window.to_std().as_secs()), (true, 5, 300));
    assert!(warnings.is_empty(), "{warnings:?}");
    let document = json!({ "server": { "plan_rejection_tracker": { "enabled": true, "node_window": "0s" } } });
    let (config, _) = agent(document).expect("is a configuration");
    let error = config.check().expect_err("is refused").to_string();
    assert_eq!(error, "server.plan_rejection_tracker: node_threshold and node_window must be above 0");
}

#[test]
fn config_sizes_are_parsed_or_refused() {
    let bytes = |word| {
        agent(json!({ "server": { "log_retention_bytes": word } }))
            .map(|(config, _)| config.server.map(|s| s.log_retention_bytes))
    };
    assert_eq!(bytes("2Gi").expect("is a size"), Some(2 << 30));
    assert_eq!(bytes("18446744073709551615").expect("is a size"), Some(u64::MAX));
    let error = bytes("18446744073709551615k").expect_err("is refused").to_string();
    assert_eq!(error, "log_retention_bytes: \"18446744073709551615k\" is more than can be counted");
}

#[test]
fn config_error_is_one_line() {
    for document in [json!({ "no\npe": 1 }), json!({ "server": { "heartbeat_grace": "5\r\nx" } })] {
        let error = format!("{:#}", agent(document).expect_err("is refused"));
        assert!(!error.contains(char::is_control), "{error:?}");
    }
}

#[test]
fn invalid_config_duration_names_its_key() {
    let error = agent(json!({ "server": { "heartbeat_grace": "5 x" } })).expect_err("is refused");
    assert_eq!(error.to_string(), "server.heartbeat_grace can't parse time duration 5 x");
}

#[test]
fn join_addresses_come_from_server_join_and_from_the_old_keys() {
    let (config, warnings) = agent(json!({
        "server": [
            { "bootstrap_expect": 3, "encrypt": "AAAAAAAAAAAAAAAAAAAAAA==", "retry_join": ["10.0.0.1"], "non_voting_server": true },
            { "server_join": [{ "retry_join": ["10.0.0.2:4648"], "start_join": "s3", "retry_interval": "2s", "retry_max": 4 }] },
        ],
        "client": { "servers": ["a", "b:1"], "server_join": { "retry_join": ["c"] } },
        "advertise": { "rpc": "192.0.2.1" },
        "addresses": { "http": "127.0.0.1" },
    }))
    .expect("is a configuration");
    assert_eq!(
        warnings,
        [
            "server.server_join.retry_interval is accepted and has no effect yet",
            "server.server_join.retry_max is accepted and has no effect yet"
        ]
    );
    let server = config.server.as_ref().expect("a dev agent has a server");
    assert_eq!((server.bootstrap_expect, server.non_voting_server, server.encrypt.is_some()), (Some(3), true, true));
    assert_eq!(server.join.addresses(), ["s3:4647", "10.0.0.1:4647", "10.0.0.2:4648"]);
    assert_eq!(config.server_addresses(), ["a:4647", "b:1", "c:4647"]);
    assert_eq!(
        (config.advertise.rpc.as_deref(), config.addresses.http.as_deref()),
        (Some("192.0.2.1"), Some("127.0.0.1"))
    );
}

#[test]
fn invalid_configurations_are_refused_with_a_reason() {
    for (document, text) in [
        (json!({ "server": { "encrypt": "AA" } }), "Invalid encryption key: "),
        (json!({ "tls": { "rpc": true } }), "tls: cert_file and key_file are needed where http or rpc is on"),
        (
            json!({ "tls": { "rpc": true, "cert_file": "c", "key_file": "k" } }),
            "tls: ca_file is needed to verify certificates",
        ),
        (
            json!({ "tls": { "tls_min_version": "tls10" } }),
            "tls.tls_min_version: \"tls10\" is not offered: tls12 or tls13",
        ),
        (
            json!({ "server": { "retry_join": ["provider=aws tag_key=x"] } }),
            "server.retry_join: \"provider=aws tag_key=x\" asks a cloud",
        ),
        (json!({ "server": { "event_sink_dir": "sinks" } }), "server.event_sink_dir must be an absolute path"),
        (json!({ "advertise": { "http": "{{ GetPrivateIP }}" } }), "advertise.http: templates such as"),
        (json!({ "limits": { "rpc_max_conns_per_client": 20 } }), "limits.rpc_max_conns_per_client must be above 20"),
        (json!({ "client": { "server_join": { "nope": 1 } } }), "client.server_join unexpected keys nope"),
        (json!({ "ui": { "label": { "colour": "red" } } }), "ui.label unexpected keys colour"),
        (json!({ "ui": { "label": { "text_color": "red;" } } }), "ui.label.text_color: \"red;\" is no colour"),
        (json!({ "ui": { "vault": { "ui_url": "javascript:alert(1)" } } }), "ui.vault.ui_url: \"javascript:alert(1)\""),
        (
            json!({ "ui": { "content_security_policy": { "img_src": ["a;b"] } } }),
            "ui.content_security_policy.img_src: \"a;b\" is no source",
        ),
    ] {
        let error = agent(document).and_then(|(config, _)| config.check()).expect_err(text).to_string();
        assert!(error.starts_with(text), "{error} is not {text}");
    }
}

#[test]
fn ui_block_is_read_and_replaces_only_the_directives_that_it_names() {
    let (config, warnings) = agent(json!({ "ui": {
        "label": { "text": "staging", "background_color": "#7a4b00", "text_color": "white" },
        "consul": { "ui_url": "https://consul.example/ui" },
        "content_security_policy": { "frame_ancestors": ["https://portal.example"] },
    } }))
    .expect("is a configuration");
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(
        (config.ui.label.text.as_str(), config.ui.consul_url.as_str()),
        ("staging", "https://consul.example/ui")
    );
    let policy = config.ui.content_security_policy();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; "), "{policy}");
    assert!(policy.ends_with("; frame-ancestors https://portal.example"), "{policy}");
}

#[test]
fn consul_agent_is_read_and_a_wrong_value_named() {
    let (config, warnings) = agent(json!({ "consul": {
        "address": "10.0.0.1:8501", "token": "t", "ssl": true, "verify_ssl": false, "ca_file": "/ca.pem",
        "cert_file": "/c.pem", "key_file": "/k.pem", "timeout": "2s", "auth": "me:word", "tags": ["a"],
    }}))
    .expect("is a configuration");
    let consul = config.consul;
    assert_eq!(
        (consul.address.as_str(), consul.token.reveal(), consul.auth.reveal()),
        ("10.0.0.1:8501", "t", "me:word")
    );
    assert!(consul.ssl && !consul.trust.verify && consul.trust.own_files.is_some());
    assert_eq!(consul.timeout, Dur::from_secs(2));
    assert_eq!(warnings, ["consul.tags is accepted and has no effect yet"]);
    let refused = |block: Value| agent(json!({ "consul": block })).expect_err("is refused").to_string();
    assert_eq!(refused(json!({ "adress": "x" })), "consul unexpected keys adress");
    assert_eq!(refused(json!({ "auth": "secret" })), "consul.auth: expected user:password");
    assert_eq!(refused(json!({ "cert_file": "/c.pem" })), "consul: cert_file and key_file belong together");
    assert!(refused(json!({ "address": "unix:///run/consul" })).starts_with("consul.address: "));
}

#[test]
fn retries_of_templates_are_read() {
    let retries = json!({ "nomad_retry": { "attempts": 3 }, "vault_retry": { "attempts": 0, "max_backoff": "2s" } });
    let (config, warnings) =
        agent(json!({ "client": { "enabled": true, "template": retries } })).expect("is a configuration");
    let template = config.client.expect("is enabled").template;
    assert_eq!((template.nomad_retry.attempts, template.vault_retry.attempts), (3, 0));
    assert_eq!(template.vault_retry.backoff_max, Dur::from_secs(2));
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn vault_is_read_and_what_it_cannot_do_is_refused() {
    let (config, warnings) = agent(json!({ "vault": {
        "enabled": true, "address": "https://vault:8200", "token": "s.own", "create_from_role": "tasks",
        "task_token_ttl": "1h", "namespace": "team", "tls_skip_verify": true, "allow_unauthenticated": true,
        "tls_server_name": "vault",
    }}))
    .expect("is a configuration");
    let vault = config.vault;
    assert_eq!(
        (vault.address.as_str(), vault.token.reveal(), vault.namespace.as_str()),
        ("https://vault:8200", "s.own", "team")
    );
    assert_eq!((vault.create_from_role.as_str(), vault.task_token_ttl.as_str()), ("tasks", "1h"));
    assert!(vault.enabled && !vault.trust.verify);
    assert_eq!(warnings, ["vault.tls_server_name is accepted and has no effect yet"]);
    let refused = |block: Value| agent(json!({ "vault": block })).expect_err("is refused").to_string();
    assert_eq!(refused(json!({ "adress": "x" })), "vault unexpected keys adress");
    assert!(refused(json!({ "allow_unauthenticated": false })).starts_with("vault.allow_unauthenticated: "));
    assert!(refused(json!({ "address": "vault:8200" })).starts_with("vault.address: "));
    assert!(refused(json!({ "task_token_ttl": "long" })).contains("vault.task_token_ttl"));
}
