//! Workload identities: they are valid until their allocation ends.

use songline_api::Reads;
use songline_api::keyring::workload;
use songline_commands::{ApplyPlan, RegisterNode, UpdateAllocsFromClient};
use songline_model::{AllocClientStatus, AllocId, Allocation, Job, JobId, Node, NodeId, StopAlloc, Task, TaskGroup};

use crate::server::{Memory, Mirror};

#[test]
fn identity_token_is_valid_until_its_alloc_is_terminal_on_its_node() {
    let server = Memory::new();
    let node_id = NodeId::from_bytes([1; 16]);
    let task = Task { name: "t".into(), ..Task::default() };
    let group = TaskGroup { name: "g".into(), tasks: Some(vec![task]), ..TaskGroup::default() };
    let job = Job {
        id: "child".into(),
        namespace: "default".into(),
        parent_id: "parent".into(),
        task_groups: Some(vec![group]),
        ..Job::default()
    };
    let alloc = Allocation {
        id: AllocId::from_bytes([2; 16]),
        node_id: Some(node_id),
        namespace: "default".into(),
        job_id: "child".into(),
        task_group: "g".into(),
        job: Some(job.into()),
        ..Allocation::default()
    };
    let claims = alloc.identity_claims("t");
    let told = |claims: &songline_model::IdentityClaims| {
        let token = serde_json::to_string(claims).expect("is JSON");
        workload(&server.view(), &Mirror, &token)
            .map(|(claims, alloc)| (claims.job_id, alloc.id))
            .map_err(|error| error.to_string())
    };
    assert_eq!(told(&claims), Err("allocation does not exist".to_owned()));
    server.run(RegisterNode { node: Node { id: node_id, ..Node::default() }, create_node_pool: true });
    server.run(ApplyPlan { updated: vec![alloc.clone().into()], ..ApplyPlan::default() });
    assert_eq!(told(&claims), Ok((JobId::from("parent"), alloc.id)));
    for other in [
        songline_model::IdentityClaims { job_id: "child".into(), ..claims.clone() },
        songline_model::IdentityClaims { namespace: "dev".into(), ..claims.clone() },
        songline_model::IdentityClaims { task: "other".into(), ..claims.clone() },
    ] {
        assert_eq!(told(&other), Err("allocation does not exist".to_owned()));
    }
    server.run(ApplyPlan { stopped: vec![StopAlloc { id: alloc.id, ..StopAlloc::default() }], ..ApplyPlan::default() });
    assert!(told(&claims).is_ok(), "what is to stop may still run");
    let update = songline_commands::ClientAlloc {
        id: alloc.id,
        node_id,
        client_status: AllocClientStatus::Complete,
        ..Default::default()
    };
    server.run(UpdateAllocsFromClient { allocs: vec![update], evals: Vec::new() });
    assert_eq!(told(&claims), Err("allocation is terminal".to_owned()));
    let refused = workload(&server.view(), &Mirror, "nonsense").expect_err("is no token").to_string();
    assert!(refused.starts_with("failed to verify token: "), "{refused}");
}
