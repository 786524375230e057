//! Story words for plans and for the updates of clients.

use super::*;

/// `place=a1@n1:g` places or rewrites an alloc of group g; `stop=a1` and `lose=a1` stop; `preempt=a1:a2` evicts the
/// first for the second.
pub(super) fn plan(words: &Words<'_>) -> ApplyPlan {
    let key = job_key(words.get("job").unwrap_or_default());
    let place = |text: &str| {
        let (alloc, place) = text.split_once('@').expect("alloc@node:group");
        let (node, group) = place.split_once(':').expect("alloc@node:group");
        Arc::new(Allocation {
            id: AllocId::from_bytes(id(alloc)),
            namespace: key.namespace.clone(),
            job_id: key.id.clone(),
            node_id: Some(NodeId::from_bytes(id(node))),
            eval_id: Some(EvalId::from_bytes(id("e"))),
            task_group: group.into(),
            deployment_id: words.get("deployment").map(|name| DeploymentId::from_bytes(id(name))),
            deployment_status: words
                .has("canary")
                .then(|| Arc::new(AllocDeploymentStatus { canary: true, ..AllocDeploymentStatus::default() })),
            signing_key_id: words.get("signed").map(secrets::root_key),
            previous_allocation: words.get("previous").map(|name| AllocId::from_bytes(id(name))),
            client_status: words.get("client").and_then(AllocClientStatus::from_word).unwrap_or_default(),
            allocated_resources: quota::resources(words),
            modify_time: Time::from_secs(50),
            ..Allocation::default()
        })
    };
    let stop = |name: &str, lost: bool| StopAlloc {
        id: AllocId::from_bytes(id(name)),
        desired_description: if lost { "alloc is lost since its node is down" } else { "alloc not needed" }.into(),
        client_status: Some(if lost { AllocClientStatus::Lost } else { AllocClientStatus::Complete }),
        append_state: lost.then(|| AllocState { value: "lost".into(), ..AllocState::default() }),
        ..StopAlloc::default()
    };
    ApplyPlan {
        job: words.number("create").map(|create_index| {
            let (version, job_modify_index) =
                (words.number("version").unwrap_or(0), words.number("job-modify").unwrap_or(create_index));
            Arc::new(Job {
                create_index,
                version,
                job_modify_index,
                ..job(words, words.get("job").unwrap_or_default())
            })
        }),
        stopped: words
            .list("stop")
            .map(|name| stop(name, false))
            .chain(words.list("lose").map(|name| stop(name, true)))
            .collect(),
        updated: words.list("place").map(place).collect(),
        preempted: words
            .list("preempt")
            .filter_map(|text| text.split_once(':'))
            .map(|(alloc, by)| PreemptAlloc {
                id: AllocId::from_bytes(id(alloc)),
                preempted_by: AllocId::from_bytes(id(by)),
                modify_time: Time::default(),
            })
            .collect(),
        deployment: words.get("deploy").map(|name| deployment(words, name, &key)),
        deployment_updates: words.get("end").map(|name| deployment_update(name, "successful")).into_iter().collect(),
        eval_id: words.get("for").map_or(EvalId::NIL, |name| EvalId::from_bytes(id(name))),
        ineligible_nodes: words.list("ineligible").map(|name| NodeId::from_bytes(id(name))).collect(),
        updated_at: Time::from_secs(9),
        ..ApplyPlan::default()
    }
}

/// `client a1@n1 running`: report of node n1 on alloc a1.
pub(super) fn client(words: &Words<'_>, place: &str) -> UpdateAllocsFromClient {
    let (alloc, node) = place.split_once('@').expect("alloc@node");
    let healthy = if words.has("healthy") { Some(true) } else { words.has("unhealthy").then_some(false) };
    UpdateAllocsFromClient {
        allocs: vec![ClientAlloc {
            id: AllocId::from_bytes(id(alloc)),
            node_id: NodeId::from_bytes(id(node)),
            client_status: AllocClientStatus::from_word(words.plain[2]).expect("a client status"),
            deployment_status: healthy.map(|healthy| AllocDeploymentStatus {
                healthy: Some(healthy),
                timestamp: Some(Time::from_secs(60)),
                canary: true,
                ..AllocDeploymentStatus::default()
            }),
            modify_time: Time::from_secs(70),
            ..ClientAlloc::default()
        }],
        evals: Vec::new(),
    }
}
