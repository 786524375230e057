//! The request that creates a container, for a task's `config` block on a node with some settings.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use songline_model::{AllocId, AllocatedPortMapping, DnsConfig};

use super::create::{self, Prepared};
use super::resolver::Resolver;
use super::settings::Settings;
use crate::config::ClientConfig;
use crate::driver::{AllocNetwork, Listener, RunId, TaskConfig};
use crate::executor::place::{Bind, Propagation};

/// A task with 100 of the node's 1000 MHz, 32 MB and two ports.
fn task(config: Value) -> TaskConfig {
    let alloc: AllocId = "1b5a6a5e-0000-0000-0000-000000000001".parse().expect("an id");
    let port =
        |label: &str, value, to| AllocatedPortMapping { label: label.into(), value, to, host_ip: "127.0.0.1".into() };
    TaskConfig {
        id: RunId { alloc, task: "web".into(), run: 1 },
        config: config.as_object().cloned().unwrap_or_default(),
        env: BTreeMap::from([("A".to_owned(), "1".to_owned()), ("NOMAD_JOB_ID".to_owned(), "shop".to_owned())]),
        user: String::new(),
        task_dir: "/data/alloc/1/web".into(),
        shared_dir: "/data/alloc/1/alloc".into(),
        log_dir: "/data/alloc/1/.logs".into(),
        alloc_dir: "/data/alloc/1".into(),
        log_files_max: 3,
        log_file_bytes_max: 1 << 20,
        log_disabled: false,
        cpu_shares: 100,
        memory_mb: 32,
        memory_max_mb: 0,
        cores: Vec::new(),
        mounts: Vec::new(),
        network: None,
        dns: None,
        resolv_conf: None,
        cpu_fraction: 0.1,
        ports: vec![port("http", 20_001, 8080), port("same", 20_002, 0)],
        own_ports: Vec::new(),
        node: ("5e4f".into(), "node-1".into()),
        listener: Listener::default(),
    }
}

fn settings(options: Value) -> Settings {
    let mut config = ClientConfig::default();
    config.plugins.insert("docker".into(), options.as_object().cloned().unwrap_or_default());
    Settings::new(&config)
}

fn told(task: &TaskConfig, options: Value) -> Result<Value, String> {
    told_to(false, task, options)
}

fn told_to(is_podman: bool, task: &TaskConfig, options: Value) -> Result<Value, String> {
    let security_opt = crate::driver::texts(&task.config, "security_opt");
    let prepared = Prepared { image: "sha256:aa".into(), security_opt, files: BTreeMap::new(), is_podman, cores: 4 };
    create::body(task, &settings(options), &prepared)
}

/// Differences from the container of a task with an empty block, one a line, or the refusal.
fn check(config: Value, options: Value) -> String {
    check_task(&task(config), options)
}

fn check_task(task: &TaskConfig, options: Value) -> String {
    let plain = told(&self::task(json!({})), options.clone());
    match told(task, options) {
        Ok(body) => {
            let plain = plain.expect("an empty block is fine");
            let mut lines = Vec::new();
            differences("", &plain, &body, &mut lines);
            lines.join("\n")
        }
        Err(error) => format!("refused: {error}"),
    }
}

fn differences(at: &str, plain: &Value, body: &Value, lines: &mut Vec<String>) {
    match (plain, body) {
        (Value::Object(before), Value::Object(after)) => {
            let keys: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for key in keys {
                differences(&format!("{at}.{key}"), &plain[key], &body[key], lines);
            }
        }
        _ if plain != body => lines.push(format!("{} {body}", at.trim_start_matches('.'))),
        _ => {}
    }
}

#[test]
fn plain_container_has_the_tasks_directories_limits_and_environment() {
    let body = told(&task(json!({})), json!({})).expect("fine");
    expect_test::expect![[r#"
        {
          "Image": "sha256:aa",
          "Env": [
            "A=1",
            "NOMAD_JOB_ID=shop"
          ],
          "Labels": {
            "com.hashicorp.nomad.alloc_id": "1b5a6a5e-0000-0000-0000-000000000001"
          },
          "HostConfig": {
            "Memory": 33554432,
            "MemorySwap": 33554432,
            "CpuShares": 100,
            "CapDrop": [
              "net_raw"
            ],
            "LogConfig": {
              "Type": "json-file",
              "Config": {
                "max-file": "3",
                "max-size": "1048576"
              }
            },
            "NetworkMode": "default",
            "Binds": [
              "/data/alloc/1/alloc:/alloc",
              "/data/alloc/1/web/local:/local",
              "/data/alloc/1/web/secrets:/secrets"
            ]
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&body).expect("JSON"));
}

#[test]
fn command_environment_and_names_are_the_tasks() {
    let story = [
        check(json!({"command": "run", "args": ["a", 1]}), json!({})),
        check(json!({"args": ["a"], "entrypoint": ["/bin/sh", "-c"], "work_dir": "/tmp", "hostname": "h"}), json!({})),
        check(json!({"entrypoint": "/one", "tty": true, "interactive": true, "init": true}), json!({})),
        check(json!({"labels": [{"mine": "yes"}], "mac_address": "02:42:ac:11:00:02"}), json!({})),
        check(json!({}), json!({"extra_labels": ["job_*", "node_name"]})),
        check(json!({"labels": {"mine": "yes"}}), json!({"extra_labels": ["job_*", "node_name"]})),
        check(json!({"healthchecks": {"disable": true}}), json!({})),
    ];
    expect_test::expect![[r#"
        Cmd ["run","a","1"]

        Cmd ["a"]
        Entrypoint ["/bin/sh","-c"]
        Hostname "h"
        WorkingDir "/tmp"

        Entrypoint ["/one"]
        HostConfig.Init true
        OpenStdin true
        Tty true

        Labels.mine "yes"
        MacAddress "02:42:ac:11:00:02"



        Labels.mine "yes"

        Healthcheck {"Test":["NONE"]}"#]]
    .assert_eq(&story.join("\n\n"));
}

#[test]
fn limits_come_from_resources_and_options_within_those_of_the_node() {
    let with = |change: fn(&mut TaskConfig)| {
        let mut task = task(json!({}));
        change(&mut task);
        check_task(&task, json!({}))
    };
    let story = [
        with(|task| task.memory_max_mb = 64),
        with(|task| task.cores = vec![0, 3]),
        check(json!({"memory_hard_limit": 70, "pids_limit": 50, "shm_size": 5000, "oom_score_adj": 5}), json!({})),
        check(json!({"memory_hard_limit": 16}), json!({})),
        check(json!({"cpu_hard_limit": true}), json!({})),
        check(json!({"cpu_hard_limit": true, "cpu_cfs_period": 50_000, "cpuset_cpus": "1-2"}), json!({})),
        check(json!({"cpu_hard_limit": true, "cpu_cfs_period": 5}), json!({})),
        check(
            json!({"ulimit": [{"nofile": "100:200", "nproc": "9"}], "sysctl": {"net.core.somaxconn": "16"}}),
            json!({}),
        ),
        check(json!({"ulimit": {"nofile": "many"}}), json!({})),
        check(json!({"storage_opt": {"size": "1G"}}), json!({"pids_limit": 100})),
        check(json!({"pids_limit": 101}), json!({"pids_limit": 100})),
    ];
    expect_test::expect![[r#"
        HostConfig.Memory 67108864
        HostConfig.MemoryReservation 33554432
        HostConfig.MemorySwap 67108864

        HostConfig.CpusetCpus "0,3"

        HostConfig.Memory 73400320
        HostConfig.MemoryReservation 33554432
        HostConfig.MemorySwap 73400320
        HostConfig.OomScoreAdj 5
        HostConfig.PidsLimit 50
        HostConfig.ShmSize 5000



        HostConfig.CpuPeriod 100000
        HostConfig.CpuQuota 40000

        HostConfig.CpuPeriod 50000
        HostConfig.CpuQuota 20000
        HostConfig.CpusetCpus "1-2"

        refused: invalid value for cpu_cfs_period

        HostConfig.Sysctls {"net.core.somaxconn":"16"}
        HostConfig.Ulimits [{"Name":"nofile","Soft":100,"Hard":200},{"Name":"nproc","Soft":9,"Hard":9}]

        refused: failed to parse ulimit configuration: Malformed ulimit specification nofile: "many"

        HostConfig.StorageOpt {"size":"1G"}

        refused: pids_limit cannot be greater than nomad plugin config pids_limit: 100"#]]
    .assert_eq(&story.join("\n\n"));
}

#[test]
fn privileges_need_the_nodes_permission() {
    let read_only = json!({"host_path": "/dev/b", "container_path": "/dev/c", "cgroup_permissions": "r"});
    let allowing = json!({"allow_privileged": true, "allow_caps": ["all"], "allow_runtimes": ["kata"]});
    let story = [
        check(json!({"privileged": true}), json!({})),
        check(json!({"privileged": true}), allowing.clone()),
        check(json!({"cap_add": ["net_raw"]}), json!({})),
        check(json!({"cap_add": ["net_raw", "SYS_TIME"], "cap_drop": ["chown"]}), allowing.clone()),
        check(json!({"cap_drop": ["all"], "cap_add": ["chown"]}), json!({})),
        check(json!({"cap_add": ["odd"]}), json!({})),
        check(json!({}), json!({"allow_caps": ["odd"]}).clone()),
        check(json!({"runtime": "kata"}), json!({})),
        check(json!({"runtime": "kata", "ipc_mode": "host", "pid_mode": "host", "uts_mode": "host"}), allowing),
        check(json!({"userns_mode": "host", "readonly_rootfs": true, "group_add": ["7"]}), json!({})),
        check(json!({"security_opt": ["no-new-privileges"]}), json!({})),
        check(json!({"devices": [{"host_path": "/dev/a"}, read_only]}), json!({})),
        check(json!({"devices": [{"container_path": "/dev/c"}]}), json!({})),
        check(json!({"devices": [{"host_path": "/dev/a", "cgroup_permissions": "x"}]}), json!({})),
    ];
    expect_test::expect![[r#"
        refused: Docker privileged mode is disabled on this Nomad agent

        HostConfig.Privileged true

        refused: driver does not allow the following capabilities: net_raw

        HostConfig.CapAdd ["sys_time"]
        HostConfig.CapDrop ["chown"]

        HostConfig.CapDrop ["audit_write","dac_override","fowner","fsetid","kill","mknod","net_bind_service","net_raw","setfcap","setgid","setpcap","setuid","sys_chroot"]

        refused: failed driver config validation: cap_add configured with capabilities not supported by system: odd

        refused: allow_caps configured with capabilities not supported by system: odd

        refused: requested runtime "kata" is not allowed

        HostConfig.IpcMode "host"
        HostConfig.PidMode "host"
        HostConfig.Runtime "kata"
        HostConfig.UTSMode "host"

        HostConfig.GroupAdd ["7"]
        HostConfig.ReadonlyRootfs true
        HostConfig.UsernsMode "host"

        HostConfig.SecurityOpt ["no-new-privileges"]

        HostConfig.Devices [{"PathOnHost":"/dev/a","PathInContainer":"/dev/a","CgroupPermissions":"rwm"},{"PathOnHost":"/dev/b","PathInContainer":"/dev/c","CgroupPermissions":"r"}]

        refused: device host path must be set in configuration for devices

        refused: invalid cgroup permission string: "x""#]].assert_eq(&story.join("\n\n"));
}

#[test]
fn ports_are_published_by_label_as_tcp_and_udp() {
    let old = |config: Value| {
        let mut task = task(config);
        task.own_ports = std::mem::take(&mut task.ports);
        check_task(&task, json!({}))
    };
    let story = [
        check(json!({"ports": ["http"]}), json!({})),
        check(json!({"ports": ["same"], "network_mode": "host"}), json!({})),
        check(json!({"ports": ["none"]}), json!({})),
        check(json!({"port_map": {"http": "80"}}), json!({})),
        old(json!({"port_map": [{"http": 80}]})),
    ];
    expect_test::expect![[r#"
        ExposedPorts {"8080/tcp":{},"8080/udp":{}}
        HostConfig.PortBindings {"8080/tcp":[{"HostIp":"127.0.0.1","HostPort":"20001"}],"8080/udp":[{"HostIp":"127.0.0.1","HostPort":"20001"}]}

        ExposedPorts {"20002/tcp":{},"20002/udp":{}}
        HostConfig.NetworkMode "host"
        HostConfig.PortBindings {"20002/tcp":[{"HostIp":"127.0.0.1","HostPort":"20002"}],"20002/udp":[{"HostIp":"127.0.0.1","HostPort":"20002"}]}

        refused: Port "none" not found, check network block

        refused: Trying to map ports but no network interface is available

        ExposedPorts {"20002/tcp":{},"20002/udp":{},"80/tcp":{},"80/udp":{}}
        HostConfig.PortBindings {"20002/tcp":[{"HostIp":"127.0.0.1","HostPort":"20002"}],"20002/udp":[{"HostIp":"127.0.0.1","HostPort":"20002"}],"80/tcp":[{"HostIp":"127.0.0.1","HostPort":"20001"}],"80/udp":[{"HostIp":"127.0.0.1","HostPort":"20001"}]}"#]].assert_eq(&story.join("\n\n"));
}

#[test]
fn network_of_the_allocation_takes_the_place_of_the_engines() {
    let mut shared = task(json!({
        "ports": ["http"],
        "hostname": "h",
        "extra_hosts": ["a:1.2.3.4"],
        "dns_servers": ["1.1.1.1"],
        "mac_address": "02:42:ac:11:00:02",
        "network_mode": "host",
    }));
    shared.network = Some(AllocNetwork { container: Some("c0ffee".to_owned()), ..AllocNetwork::default() });
    let story = [
        check_task(&shared, json!({})),
        check(json!({"dns_servers": ["1.1.1.1"], "dns_options": ["ndots:1"], "dns_search_domains": ["x"]}), json!({})),
        check(json!({"network_mode": "mine", "network_aliases": ["a", "b"], "ipv4_address": "10.1.2.3"}), json!({})),
        check(json!({"extra_hosts": ["a:1.2.3.4"]}), json!({})),
    ];
    expect_test::expect![[r#"
        HostConfig.NetworkMode "container:c0ffee"

        HostConfig.Dns ["1.1.1.1"]
        HostConfig.DnsOptions ["ndots:1"]
        HostConfig.DnsSearch ["x"]

        HostConfig.NetworkMode "mine"
        NetworkingConfig {"EndpointsConfig":{"mine":{"Aliases":["a","b"],"IPAMConfig":{"IPv4Address":"10.1.2.3"}}}}

        HostConfig.ExtraHosts ["a:1.2.3.4"]"#]]
    .assert_eq(&story.join("\n\n"));
    let dns = DnsConfig { servers: Some(vec!["9.9.9.9".into()]), options: Some(vec!["rotate".into()]), searches: None };
    let own = json!({"dns_servers": ["1.1.1.1"], "dns_search_domains": ["x", "y"]});
    let of_both = TaskConfig { dns: Some(dns), ..task(own) };
    assert_eq!(Resolver::of(&of_both).lines(), "nameserver 1.1.1.1\nsearch x y\noptions rotate\n");
    assert_eq!(Resolver::of(&task(json!({}))).lines(), "");
}

#[test]
fn podman_is_told_every_capability_the_size_of_its_log_and_the_path_of_a_namespace() {
    let check = |task: TaskConfig, options: Value| {
        let bodies = [false, true].map(|podman| told_to(podman, &task, options.clone()).expect("fine"));
        let mut lines = Vec::new();
        differences("", &bodies[0], &bodies[1], &mut lines);
        lines.join("\n")
    };
    let mut shared = task(json!({
        "cap_drop": ["all"],
        "cap_add": ["chown"],
        "hostname": "h",
        "network_mode": "none",
    }));
    let path = PathBuf::from("/var/run/netns/1b5a");
    shared.network = Some(AllocNetwork { path, hostname: "of-group".to_owned(), ..AllocNetwork::default() });
    let body = told_to(true, &shared, json!({})).expect("fine");
    let refusal = |config: Value| {
        let enabled = json!({"volumes": {"enabled": true}});
        told_to(true, &task(config), enabled).expect_err("Podman would use another volume")
    };
    let of_driver = json!({"volume_options": [{"driver_config": [{"name": "nfs"}]}], "source": "data", "target": "/x"});
    let story = [
        refusal(json!({"volumes": ["x:/x"], "volume_driver": "odd"})),
        refusal(json!({"mount": [of_driver]})),
        check(task(json!({})), json!({})),
        check(shared, json!({})),
        format!("{} {}", body["HostConfig"]["NetworkMode"], body["Hostname"]),
    ];
    expect_test::expect![[r#"
        Podman's service has no volume drivers; cannot use "odd"

        Podman's service has no volume drivers; cannot use "nfs"

        HostConfig.CapAdd ["audit_write","chown","dac_override","fowner","fsetid","kill","mknod","net_bind_service","setfcap","setgid","setpcap","setuid","sys_chroot"]
        HostConfig.CapDrop ["all"]
        HostConfig.LogConfig.Config.max-file null
        HostConfig.LogConfig.Config.max-size "3145728"

        HostConfig.CapAdd ["chown"]
        HostConfig.CapDrop ["all"]
        HostConfig.LogConfig.Config.max-file null
        HostConfig.LogConfig.Config.max-size "3145728"

        "ns:/var/run/netns/1b5a" "of-group""#]].assert_eq(&story.join("\n\n"));
}

#[test]
fn directories_of_the_host_need_the_nodes_permission() {
    let enabled = json!({"volumes": {"enabled": true}});
    let labelled = json!({"volumes": {"enabled": true, "selinuxlabel": "z"}});
    let mount = |mount: Value| json!({"mount": [mount]});
    let options = json!({"no_copy": true, "labels": {"a": "b"}, "driver_config": [{"name": "local"}]});
    let named = mount(json!({"source": "data", "target": "/x", "volume_options": [options]}));
    let shared = json!({"type": "bind", "source": "local", "target": "/x", "bind_options": {"propagation": "rshared"}});
    let story = [
        check(json!({"volumes": ["sub:/x", "../other/data:/y:ro"]}), json!({})),
        check(json!({"volumes": ["/etc:/x"]}), json!({})),
        check(json!({"volumes": ["../../../../etc:/x"]}), json!({})),
        check(json!({"volumes": ["../../../../etc:/x", "/srv:/y"]}), enabled.clone()),
        check(json!({"volumes": ["/srv:/y"]}), labelled),
        check(json!({"volumes": ["/srv"]}), enabled.clone()),
        check(json!({"volumes": ["x:/x"], "volume_driver": "odd"}), enabled.clone()),
        check(json!({"volumes": ["x:/x"], "volume_driver": "odd"}), json!({})),
        check(mount(shared), json!({})),
        check(mount(json!({"type": "bind", "source": "/etc", "target": "/x"})), json!({})),
        check(
            mount(json!({"type": "tmpfs", "target": "/x", "tmpfs_options": [{"size": 100, "mode": 511}]})),
            json!({}),
        ),
        check(named.clone(), json!({})),
        check(named, enabled.clone()),
        check(mount(json!({"type": "npipe", "target": "/x"})), enabled),
    ];
    expect_test::expect![[r#"
        HostConfig.Binds ["/data/alloc/1/alloc:/alloc","/data/alloc/1/web/local:/local","/data/alloc/1/web/secrets:/secrets","/data/alloc/1/web/sub:/x","/data/alloc/1/other/data:/y:ro"]

        refused: volumes are not enabled; cannot mount host paths: "/etc"

        refused: volumes are not enabled; cannot mount host paths: "../../../../etc"

        HostConfig.Binds ["/data/alloc/1/alloc:/alloc","/data/alloc/1/web/local:/local","/data/alloc/1/web/secrets:/secrets","/etc:/x","/srv:/y"]

        HostConfig.Binds ["/data/alloc/1/alloc:/alloc:z","/data/alloc/1/web/local:/local:z","/data/alloc/1/web/secrets:/secrets:z","/srv:/y:z"]

        refused: invalid docker volume "/srv": not <src>:<destination> format

        HostConfig.Binds ["/data/alloc/1/alloc:/alloc","/data/alloc/1/web/local:/local","/data/alloc/1/web/secrets:/secrets","x:/x"]
        HostConfig.VolumeDriver "odd"

        refused: volumes are not enabled; cannot use volume driver "odd"

        HostConfig.Mounts [{"Target":"/x","Source":"/data/alloc/1/web/local","BindOptions":{"Propagation":"rshared"},"Type":"bind"}]

        refused: volumes are not enabled; cannot mount host paths: "/etc"

        HostConfig.Mounts [{"Target":"/x","TmpfsOptions":{"SizeBytes":100,"Mode":511},"Type":"tmpfs"}]

        refused: volumes are not enabled; cannot use volume driver "local"

        HostConfig.Mounts [{"Target":"/x","Source":"data","VolumeOptions":{"NoCopy":true,"Labels":{"a":"b"},"DriverConfig":{"Name":"local","Options":{}}},"Type":"volume"}]

        refused: invalid mount type, must be "bind", "volume", "tmpfs": "npipe""#]].assert_eq(&story.join("\n\n"));
    let mut volume = task(json!({}));
    let bind = |to: &str, read_only, propagation| Bind {
        from: PathBuf::from("/srv/a"),
        to: to.into(),
        read_only,
        propagation,
    };
    volume.mounts = vec![bind("/a", true, Propagation::Private), bind("b", false, Propagation::HostToTask)];
    expect_test::expect![[r#"HostConfig.Mounts [{"Type":"bind","Source":"/srv/a","Target":"/a","ReadOnly":true,"BindOptions":{"Propagation":"rprivate"}},{"Type":"bind","Source":"/srv/a","Target":"/b","ReadOnly":false,"BindOptions":{"Propagation":"rslave"}}]"#]].assert_eq(&check_task(&volume, json!({})));
    assert_eq!(create::name(&volume), "web-1b5a6a5e-0000-0000-0000-000000000001");
}

#[test]
fn log_driver_is_the_tasks_or_the_nodes_or_the_default() {
    let node = json!({"logging": [{"type": "syslog", "config": [{"tag": "x"}]}]});
    let story = [
        check(json!({"logging": [{"type": "json-file", "config": [{"max-size": "1m"}]}]}), json!({})),
        check(json!({"logging": {"driver": "journald"}}), node.clone()),
        check(json!({"logging": {}}), node),
    ];
    expect_test::expect![[r#"
        HostConfig.LogConfig.Config.max-file null
        HostConfig.LogConfig.Config.max-size "1m"

        HostConfig.LogConfig.Config.tag null
        HostConfig.LogConfig.Type "journald"

        HostConfig.LogConfig.Config.tag null
        HostConfig.LogConfig.Type "json-file""#]]
    .assert_eq(&story.join("\n\n"));
}
