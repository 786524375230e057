//! Services and checks of the provider `consul`, at a Consul agent in this process.

use std::sync::Arc;

use serde_json::{Value, json};
use songline_client::{ClientConfig, ConsulSettings};
use songline_model::{
    AllocClientStatus, AllocDeploymentStatus, AllocatedPortMapping, AllocatedResources, Allocation, CheckRestart,
    DeploymentId, Dur, Job, JobType, Secret, Service, ServiceCheck, UpdateStrategy,
};

use crate::consul_api::{ConsulApi, TOKEN};
use crate::fake::{Stage, alloc, is_running, messages, shell, task, until};

fn at(consul: &ConsulApi) -> impl Fn(&mut ClientConfig) + Send + Sync + 'static {
    let address = consul.address();
    move |config| {
        config.consul = Some(ConsulSettings {
            address: address.as_str().into(),
            token: Secret::new(TOKEN),
            ..ConsulSettings::default()
        });
        config.plugins.insert("raw_exec".into(), [("enabled".to_owned(), json!(true))].into_iter().collect());
    }
}

fn http(name: &str) -> ServiceCheck {
    ServiceCheck {
        name: name.into(),
        kind: "http".into(),
        path: "/health".into(),
        interval: Dur::from_secs(10),
        timeout: Dur::from_secs(2),
        ..ServiceCheck::default()
    }
}

fn service(name: &str, checks: Vec<ServiceCheck>) -> Service {
    Service {
        name: name.into(),
        port_label: "http".into(),
        provider: "consul".into(),
        tags: Some(vec!["${NOMAD_GROUP_NAME}".into()]),
        meta: Some([("version".into(), "7".into())].into()),
        checks: Some(checks),
        ..Service::default()
    }
}

/// A group with these services and a task that runs for long.
fn served(services: Vec<Service>) -> Allocation {
    let mut placed = alloc(JobType::Service, vec![task("mock_driver", json!({ "run_for": "1h" }))]);
    let port = AllocatedPortMapping { label: "http".into(), value: 23456, to: 0, host_ip: "127.0.0.1".into() };
    let mut resources = AllocatedResources::clone(placed.allocated_resources.as_ref().expect("has resources"));
    resources.shared.ports = Some(vec![port]);
    placed.allocated_resources = Some(Arc::new(resources));
    with_services(&mut placed, services);
    placed
}

fn with_services(placed: &mut Allocation, services: Vec<Service>) {
    let mut job = Job::clone(placed.job.as_ref().expect("has a job"));
    job.task_groups.as_mut().expect("has groups")[0].services = Some(services);
    placed.job = Some(Arc::new(job));
}

fn in_a_deployment(mut placed: Allocation) -> Allocation {
    let mut job = Job::clone(placed.job.as_ref().expect("has a job"));
    job.task_groups.as_mut().expect("has groups")[0].update = Some(UpdateStrategy {
        max_parallel: 1,
        health_check: "checks".into(),
        min_healthy_time: Dur::from_millis(10),
        healthy_deadline: Dur::from_mins(5),
        ..UpdateStrategy::default()
    });
    placed.job = Some(Arc::new(job));
    placed.deployment_id = Some(DeploymentId::from_bytes([1; 16]));
    placed.deployment_status = Some(Arc::new(AllocDeploymentStatus::default()));
    placed
}

async fn until_services(consul: &ConsulApi, names: &[&str]) {
    until(&format!("services {names:?}"), || (consul.services() == names).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_tells_what_its_consul_agent_says_about_itself() {
    let consul = ConsulApi::start().await;
    let stage = Stage::with(at(&consul)).await;
    let node = stage.client.node();
    let told = |key: &str| node.attribute(key).map(|value| value.to_string()).unwrap_or_default();
    assert_eq!(told("consul.version"), "1.16.6");
    assert_eq!(told("consul.datacenter"), "east");
    assert_eq!(told("unique.consul.name"), "c1");
    assert_eq!(told("songline.ability.consul"), "true");
    let link = node.links.as_ref().and_then(|links| links.get("consul")).map(|link| link.to_string());
    assert_eq!(link.as_deref(), Some("east.c1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn services_and_checks_are_registered_until_the_alloc_stops() {
    let consul = ConsulApi::start().await;
    let stage = Stage::with(at(&consul)).await;
    consul.add_service("other", json!({ "Service": "other" }));
    let id = stage.servers.place(served(vec![service("web", vec![http("alive")])]));
    until_services(&consul, &["web", "other"]).await;

    let web = consul.service("web").expect("is registered");
    assert_eq!(web["ID"], format!("_nomad-task-{id}-group-group-web-http"));
    assert_eq!((&web["Address"], &web["Port"]), (&json!("127.0.0.1"), &json!(23456)));
    assert_eq!(web["Tags"], json!(["group"]));
    assert_eq!((&web["Meta"]["version"], &web["Meta"]["external-source"]), (&json!("7"), &json!("nomad")));
    let alive = consul.check("alive").expect("is registered");
    assert_eq!(alive["HTTP"], "http://127.0.0.1:23456/health");
    assert_eq!((&alive["Interval"], &alive["Timeout"]), (&json!("10s"), &json!("2s")));
    assert_eq!(alive["ServiceID"], web["ID"]);

    // Another service and another check of an updated job: the new ones come before the old ones go.
    stage.servers.edit(id, |placed| with_services(placed, vec![service("api", vec![http("ready")])]));
    until_services(&consul, &["api", "other"]).await;
    stage.servers.edit(id, |placed| with_services(placed, vec![service("api", vec![http("really")])]));
    until("the other check", || (consul.check("really").is_some() && consul.check("ready").is_none()).then_some(()))
        .await;
    assert_eq!(consul.calls(), ["+web", "+api", "-web", "+check really", "-check ready"]);

    stage.servers.stop(id);
    stage.until_status(id, AllocClientStatus::Complete).await;
    assert_eq!(consul.services(), ["other"], "the service was gone before the task was");
}

#[tokio::test(flavor = "multi_thread")]
async fn registrations_that_consul_lost_or_that_others_changed_come_back() {
    let consul = ConsulApi::start().await;
    let stage = Stage::with(at(&consul)).await;
    stage.servers.place(served(vec![service("web", vec![http("alive")])]));
    until_services(&consul, &["web"]).await;

    consul.forget();
    until_services(&consul, &["web"]).await;
    consul.forget_check("alive");
    until("the check", || consul.check("alive")).await;
    let mut web = consul.service("web").expect("is registered");
    let id = web["ID"].as_str().expect("has an id").to_owned();
    web["Tags"] = json!(["changed"]);
    consul.add_service(&id, web);
    until("the tags", || consul.service("web").filter(|web| web["Tags"] == json!(["group"]))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_agent_keeps_the_registrations_and_removes_those_of_stopped_allocs() {
    let consul = ConsulApi::start().await;
    let stage = Stage::with(at(&consul)).await;
    let id = stage.servers.place(served(vec![service("web", vec![])]));
    until_services(&consul, &["web"]).await;
    stage.until("running", id, is_running).await;
    stage.client.shutdown(false).await;
    assert_eq!(consul.services(), ["web"]);
    stage.servers.stop(id);
    let stage = stage.start_again().await;
    stage.until_status(id, AllocClientStatus::Complete).await;
    until_services(&consul, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn alloc_is_healthy_once_consul_says_that_all_its_checks_pass() {
    let consul = ConsulApi::start().await;
    let stage = Stage::with(at(&consul)).await;
    let tolerant = ServiceCheck { on_update: "ignore_warnings".into(), ..http("tolerant") };
    let ignored = ServiceCheck { on_update: "ignore".into(), ..http("ignored") };
    let placed = served(vec![service("web", vec![http("strict"), tolerant, ignored])]);
    let id = stage.servers.place(in_a_deployment(placed));
    stage.until("running", id, is_running).await;
    until("the checks", || consul.check("ignored")).await;
    let healthy = || {
        let updates = stage.servers.updates_of(id).into_iter();
        updates.filter_map(|update| update.deployment_status?.healthy).next_back()
    };
    consul.set_status("tolerant", "warning");
    consul.set_status("strict", "warning");
    // A check that Consul no longer has is not one that passes.
    consul.forget_check("ignored");
    until("the check again", || consul.check("ignored")).await;
    assert_eq!(healthy(), None, "a warning is not ignored without on_update");
    consul.set_status("strict", "passing");
    until("healthy", || healthy().filter(|healthy| *healthy)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn task_whose_check_at_consul_fails_for_too_long_is_restarted() {
    let consul = ConsulApi::start().await;
    let stage = Stage::with(at(&consul)).await;
    let restart = CheckRestart { limit: 1, grace: Dur::ZERO, ignore_warnings: true };
    let check = ServiceCheck { check_restart: Some(restart), initial_status: "passing".into(), ..http("alive") };
    let id = stage.servers.place(served(vec![service("web", vec![check])]));
    stage.until("running", id, is_running).await;
    until("the check", || consul.check("alive")).await;
    consul.set_status("alive", "critical");
    let told = stage.until("restarted", id, |update| messages(update).iter().any(|text| text.contains("unhealthy")));
    let told = messages(&told.await).join("; ");
    assert!(told.contains("healthcheck: check \"alive\" unhealthy"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn script_runs_in_its_task_and_its_outcome_is_told_to_consul() {
    let consul = ConsulApi::start().await;
    let stage = Stage::with(at(&consul)).await;
    let script = |name: &str, text: &str| ServiceCheck {
        kind: "script".into(),
        command: "/bin/sh".into(),
        args: Some(vec!["-c".into(), text.into()]),
        task_name: "web".into(),
        ..http(name)
    };
    let checks =
        vec![script("fine", "echo in $NOMAD_TASK_NAME"), script("so-so", "exit 1"), script("broken", "exit 2")];
    let mut placed = served(vec![service("web", checks)]);
    let mut job = Job::clone(placed.job.as_ref().expect("has a job"));
    job.task_groups.as_mut().expect("has groups")[0].tasks = Some(vec![shell("sleep 600")]);
    placed.job = Some(Arc::new(job));
    stage.servers.place(placed);
    let status = |name: &str| consul.check(name).map(|check: Value| check["Status"].clone());
    until("fine", || status("fine").filter(|status| status == "passing")).await;
    until("so-so", || status("so-so").filter(|status| status == "warning")).await;
    until("broken", || consul.check("broken").filter(|check| check["Output"] == "")).await;
    let fine = consul.check("fine").expect("is registered");
    assert_eq!((&fine["Output"], &fine["TTL"]), (&json!("in web\n"), &json!("42s")));
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_run_while_consul_is_away_and_are_registered_when_it_is_back() {
    let consul = ConsulApi::start().await;
    let stage = Stage::with(at(&consul)).await;
    consul.set_away(true);
    let id = stage.servers.place(served(vec![service("web", vec![])]));
    stage.until("running", id, is_running).await;
    consul.set_away(false);
    until_services(&consul, &["web"]).await;
    assert!(stage.client.node().attribute("consul.version").is_some());
}
