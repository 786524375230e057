//! Proxies that are added to jobs whose services are in the mesh.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

#[path = "recorded/languages.rs"]
mod languages;

use expect_test::{Expect, expect};
use languages::context_for;
use serde_json::{Value, json};
use songline_model::{Job, TaskGroup, spec};

fn admitted(group: &Value) -> Result<TaskGroup, String> {
    let spec: spec::Job = serde_json::from_value(json!({"ID": "j", "TaskGroups": [group]})).unwrap();
    context_for(&spec, |context| {
        let once = Job::from_spec(spec.clone()).admit(context).map_err(|refusal| refusal.to_string())?;
        let twice = once.job.clone().admit(context).map_err(|refusal| refusal.to_string())?;
        assert_eq!(once.job, twice.job, "admitted twice");
        Ok(once.job.groups().next().unwrap().clone())
    })
}

fn check(service: Value, expected: Expect) {
    let group = json!({
        "Name": "g",
        "Networks": [{"Mode": "bridge"}],
        "Services": [service],
        "Tasks": [{"Name": "t", "Driver": "exec"}],
    });
    let mut out = String::new();
    match admitted(&group) {
        Err(refusal) => out.push_str(&refusal),
        Ok(group) => {
            for task in group.tasks.iter().flatten() {
                let resources = task.resources.clone().unwrap_or_default();
                let lifecycle = task.lifecycle.as_ref().map(|lifecycle| lifecycle.hook.to_string()).unwrap_or_default();
                out.push_str(&format!(
                    "task {} {:?} {} {lifecycle} {}MHz {}MB\n",
                    task.name, task.kind, task.driver, resources.cpu, resources.memory_mb
                ));
            }
            for port in group.networks.iter().flatten().flat_map(|network| network.dynamic_ports.iter().flatten()) {
                out.push_str(&format!("port {} to {}\n", port.label, port.to));
            }
            for service in group.services.iter().flatten() {
                let proxy = service
                    .connect
                    .as_ref()
                    .and_then(|connect| connect.sidecar_service.as_ref())
                    .and_then(|sidecar| sidecar.proxy.as_ref());
                let paths = proxy.and_then(|proxy| proxy.expose.as_ref()).and_then(|expose| expose.paths.clone());
                for path in paths.iter().flatten() {
                    out.push_str(&format!(
                        "path {} at {} for port {}\n",
                        path.path, path.listener_port, path.local_path_port
                    ));
                }
            }
        }
    }
    expected.assert_eq(&out);
}

#[test]
fn sidecar_service_adds_a_proxy_task_and_a_port() {
    check(
        json!({"Name": "web", "PortLabel": "8080", "Connect": {"SidecarService": {}}}),
        expect![[r#"
            task t "" exec  100MHz 300MB
            task connect-proxy-web "connect-proxy:web" docker prestart 250MHz 128MB
            port connect-proxy-web to -1
        "#]],
    );
}

#[test]
fn sidecar_task_block_overrides_the_proxy_defaults() {
    check(
        json!({"Name": "web", "PortLabel": "8080", "Connect": {
            "SidecarService": {"Port": "own"},
            "SidecarTask": {"Driver": "exec", "Resources": {"CPU": 50}},
        }}),
        expect![[r#"
            task t "" exec  100MHz 300MB
            task connect-proxy-web "connect-proxy:web" exec prestart 50MHz 300MB
            port own to -1
        "#]],
    );
}

#[test]
fn exposed_check_adds_a_proxy_path_and_a_port() {
    check(
        json!({"Name": "web", "PortLabel": "8080", "Connect": {"SidecarService": {}}, "Checks": [
            {"Name": "alive", "Type": "http", "Path": "/health", "Expose": true, "Interval": 10_000_000_000_i64, "Timeout": 2_000_000_000},
        ]}),
        expect![[r#"
            task t "" exec  100MHz 300MB
            task connect-proxy-web "connect-proxy:web" docker prestart 250MHz 128MB
            port connect-proxy-web to -1
            port svc_web_ck_eba011 to -1
            path /health at svc_web_ck_eba011 for port 8080
        "#]],
    );
}

#[test]
fn native_connect_service_uses_the_only_task() {
    check(
        json!({"Name": "web", "PortLabel": "8080", "Connect": {"Native": true}}),
        expect![[r#"
            task t "connect-native:web" exec  100MHz 300MB
        "#]],
    );
}
