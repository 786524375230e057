//! A list that is read through an index equals the list of a walk through all rows.

use songline_commands::{Actor, ApplyPlan, Command, Envelope, RegisterJob};
use songline_model::{Job, NodeId, Task, TaskGroup, Time};

use super::*;
use crate::http::params::Query;

fn apply(state: &mut State, command: impl Into<Command>) {
    let raft_index = state.raft_index() + 1;
    songline_projections::apply(state, raft_index, &Envelope::new(Time::from_secs(1), Actor::Anonymous, command))
        .result
        .expect("is done");
}

fn state() -> State {
    let mut state = State::new();
    for id in ["web", "db"] {
        let task = Task { name: "t".into(), driver: "mock_driver".into(), ..Task::default() };
        let group = TaskGroup { name: "g".into(), count: 1, tasks: Some(vec![task]), ..TaskGroup::default() };
        let job = Job {
            id: id.into(),
            name: id.into(),
            namespace: "default".into(),
            task_groups: Some(vec![group]),
            ..Job::default()
        };
        apply(&mut state, RegisterJob { job: Arc::new(job), versions_max: 6, ..RegisterJob::default() });
    }
    for entry in 0_u8..30 {
        let job = state.job("default", if entry.is_multiple_of(3) { "web" } else { "db" }).cloned().expect("is there");
        let alloc = |n: u8| Allocation {
            id: AllocId::from_bytes([
                n.wrapping_mul(83).wrapping_add(entry),
                n,
                3,
                4,
                5,
                6,
                7,
                8,
                9,
                entry,
                1,
                2,
                3,
                4,
                5,
                6,
            ]),
            namespace: "default".into(),
            job_id: job.id.clone(),
            eval_id: Some(EvalId::from_bytes([entry / 4 + 1; 16])),
            node_id: Some(NodeId::from_bytes([n; 16])),
            task_group: "g".into(),
            ..Allocation::default()
        };
        let updated = (1..4).map(|n| Arc::new(alloc(n))).collect();
        apply(&mut state, ApplyPlan { job: Some(Arc::clone(&job)), updated, ..ApplyPlan::default() });
    }
    state
}

#[test]
fn alloc_list_narrowed_by_its_filter_equals_a_full_scan() {
    let view = state();
    assert_eq!(view.allocs().count(), 90);
    let filters = [
        "",
        "JobID == web",
        "JobID == nobody",
        "NodeID == \"02020202-0202-0202-0202-020202020202\"",
        "EvalID == \"03030303-0303-0303-0303-030303030303\" and JobID == db",
        "EvalID == nonsense",
        "ID == \"59010304-0506-0708-0906-010203040506\"",
        "DeploymentID == \"03030303-0303-0303-0303-030303030303\"",
        "JobID == db and Nonsense == 1",
        "Nonsense == 1 and JobID == nobody",
    ];
    for filter in filters {
        for (namespace, reverse) in [("*", false), ("default", true), ("dev", false)] {
            for per_page in [0, 4, 100] {
                for token in ["", "12.", "14.5a", "x"] {
                    let query =
                        format!("namespace={namespace}&reverse={reverse}&per_page={per_page}&next_token={token}");
                    let mut params = ReadParams::parse(Query(&query), "global").expect("these are parameters");
                    params.filter = filter.to_owned();
                    let page = |rows: Box<dyn Iterator<Item = Arc<Allocation>> + '_>| {
                        let of = |alloc: &Allocation| Token::Indexed(alloc.create_index, alloc.id.to_string());
                        let page = paging::page(&params, rows, of, |alloc| params.in_namespace(&alloc.namespace));
                        page.map(|page| (page.rows.iter().map(|row| row.id).collect::<Vec<_>>(), page.next_token))
                            .map_err(|error| error.text.to_string())
                    };
                    let all = if reverse {
                        page(Box::new(view.allocs().rev().cloned()))
                    } else {
                        page(Box::new(view.allocs().cloned()))
                    };
                    assert_eq!(page(rows(&view, &params).expect("is a list")), all, "{filter} {query}");
                }
            }
        }
    }
}
