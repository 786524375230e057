//! Service registrations of an allocation at the servers, from its start to its end.

use std::sync::Arc;

use serde_json::json;
use songline_model::{
    AllocClientStatus, AllocDesiredStatus, AllocatedPortMapping, AllocatedResources, Allocation, Job, JobType, Service,
    Str,
};

use crate::fake::{Stage, alloc, is_running, task, until};

fn service(name: &str, tags: &[&str]) -> Service {
    let tags = tags.iter().map(Str::new).collect();
    Service {
        name: name.into(),
        port_label: "http".into(),
        provider: "nomad".into(),
        tags: Some(tags),
        ..Service::default()
    }
}

/// A group with a service of its own, and a task with another one.
fn served(tags: &[&str]) -> Allocation {
    let mut web = task("mock_driver", json!({ "run_for": "1h" }));
    web.services = Some(vec![service("task", &[])]);
    let mut placed = alloc(JobType::Service, vec![web]);
    let port = AllocatedPortMapping { label: "http".into(), value: 23456, to: 0, host_ip: "127.0.0.1".into() };
    let mut resources = AllocatedResources::clone(placed.allocated_resources.as_ref().expect("has resources"));
    resources.shared.ports = Some(vec![port]);
    placed.allocated_resources = Some(Arc::new(resources));
    with_group_services(&mut placed, vec![service("group", tags)]);
    placed
}

fn with_group_services(placed: &mut Allocation, services: Vec<Service>) {
    let mut job = Job::clone(placed.job.as_ref().expect("has a job"));
    job.task_groups.as_mut().expect("has groups")[0].services = Some(services);
    placed.job = Some(Arc::new(job));
}

async fn until_called(stage: &Stage, calls: &[&str]) {
    until(&format!("{calls:?}"), || (stage.servers.service_calls() == calls).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn services_are_registered_from_the_start_to_the_stop_of_an_alloc() {
    let stage = Stage::new().await;
    let id = stage.servers.place(served(&["${NOMAD_GROUP_NAME}"]));
    until_called(&stage, &["+group", "+task"]).await;
    let found = stage.servers.services();
    let shown: Vec<String> =
        found.iter().map(|row| format!("{} {}:{} {}", row.id, row.address, row.port, row.tags.join(","))).collect();
    let group = format!("_nomad-task-{id}-group-group-group-http 127.0.0.1:23456 group");
    let own = format!("_nomad-task-{id}-web-task-http 127.0.0.1:23456 ");
    assert_eq!(shown, [group, own]);

    // A changed tag and another service: new registrations are written before old ones are deleted.
    stage.servers.edit(id, |placed| with_group_services(placed, vec![service("other", &[])]));
    until_called(&stage, &["+group", "+task", "+other", "-group"]).await;

    stage.servers.stop(id);
    let ended = stage.until_status(id, AllocClientStatus::Complete).await;
    assert!(!is_running(&ended));
    assert_eq!(stage.servers.service_calls().len(), 6, "they were gone before the task was");
    assert!(stage.servers.services().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_agent_registers_services_again_and_removes_stopped_ones() {
    let stage = Stage::new().await;
    let id = stage.servers.place(served(&[]));
    stage.until("running", id, is_running).await;
    until_called(&stage, &["+group", "+task"]).await;
    let stage = stage.crash().await;
    until("announced again", || (stage.servers.service_calls().len() == 4).then_some(())).await;
    assert_eq!(stage.servers.services().len(), 2);
    stage.client.shutdown(false).await;
    stage.servers.edit(id, |placed| placed.desired_status = AllocDesiredStatus::Stop);
    let stage = stage.start_again().await;
    stage.until_status(id, AllocClientStatus::Complete).await;
    until("taken back", || stage.servers.services().is_empty().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn group_with_an_unresolvable_service_address_does_not_start() {
    let stage = Stage::new().await;
    let mut placed = served(&[]);
    with_group_services(&mut placed, vec![Service { address_mode: "driver".into(), ..service("group", &[]) }]);
    let id = stage.servers.place(placed);
    let failed = stage.until_status(id, AllocClientStatus::Failed).await;
    let told = failed
        .task("web")
        .unwrap()
        .events
        .iter()
        .flatten()
        .map(|event| event.display_message.as_str())
        .collect::<Vec<_>>()
        .join("; ");
    assert!(told.contains("unable to get address for service \"group\": cannot use address_mode=\"driver\""), "{told}");
    assert!(stage.servers.service_calls().is_empty());
}
