//! Property tests: a list narrowed by any index equals a walk through all rows.

use proptest::prelude::*;
use songline_commands::{Actor, Envelope, UpdateEvals};
use songline_model::{EvalTrigger, Time};

use super::*;

const NAMESPACES: [&str; 3] = ["default", "dev", "a"];
const JOBS: [&str; 4] = ["web", "db", "cron", "w"];

fn node(n: u8) -> NodeId {
    NodeId::from_bytes([n; 16])
}

/// Rows that are spread over namespaces, jobs, nodes and statuses, a few per entry.
fn state(rows: u64) -> State {
    let mut state = State::new();
    for entry in 0..rows / 5 {
        let evals = (entry * 5..entry * 5 + 5).map(|n| {
            let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
            let pick = |of: u64, shift: u32| ((mixed >> shift) % of) as usize;
            let mut id = [0; 16];
            id[..8].copy_from_slice(&mixed.to_be_bytes());
            id[15] = 1;
            Evaluation {
                id: EvalId::from_bytes(id),
                namespace: NAMESPACES[pick(9, 3).saturating_sub(6)].into(),
                job_id: JOBS[pick(4, 7)].into(),
                node_id: Some(pick(30, 13)).filter(|n| *n < 20).map(|n| node(n as u8)),
                status: EvalStatus::ALL[pick(EvalStatus::ALL.len() as u64, 21)],
                status_description: if pick(3, 29) == 0 { "why".into() } else { "".into() },
                priority: pick(3, 33) as i64 * 10,
                triggered_by: if pick(2, 37) == 0 { EvalTrigger::NodeUpdate } else { EvalTrigger::None },
                ..Evaluation::default()
            }
        });
        let command = UpdateEvals { evals: evals.collect() };
        let raft_index = state.raft_index() + 1;
        let envelope = Envelope::new(Time::from_secs(1), Actor::Anonymous, command);
        crate::apply(&mut state, raft_index, &envelope).result.expect("evaluations are written");
    }
    crate::check::consistent(&state);
    state
}

/// Reference implementation: tests whole rows one after the other.
fn plain(state: &State, list: &EvalList<'_>) -> Result<Vec<EvalId>, EvalError> {
    let rows: Vec<_> = if list.reverse { state.evals().rev().collect() } else { state.evals().collect() };
    let mut found = Vec::new();
    for row in rows {
        let outside =
            list.from.is_some_and(|from| if list.reverse { row.create_index > from } else { row.create_index < from });
        let meant = (list.in_namespace)(&row.namespace)
            && (list.job.is_empty() || row.job_id == *list.job)
            && (list.status.is_empty() || row.status.as_str() == list.status);
        if outside || (list.is_before)(row.create_index, row.id) || !meant {
            continue;
        }
        if let Some(filter) = list.filter
            && !filter.matches(&*row)?
        {
            continue;
        }
        found.push(row.id);
        if found.len() >= list.rows_max {
            break;
        }
    }
    Ok(found)
}

fn part() -> impl Strategy<Value = String> {
    let field = proptest::sample::select(vec![
        "JobID",
        "Status",
        "Namespace",
        "NodeID",
        "StatusDescription",
        "TriggeredBy",
        "ID",
        "Type",
    ]);
    let literal = proptest::sample::select(vec![
        "web",
        "db",
        "complete",
        "blocked",
        "dev",
        "a",
        "why",
        "node-update",
        "",
        "05050505-0505-0505-0505-050505050505",
        "0C0C0C0C-0C0C-0C0C-0C0C-0C0C0C0C0C0C",
    ]);
    let test = proptest::sample::select(vec!["==", "==", "==", "!=", "contains", "matches"]);
    let plain = (field, test, literal).prop_map(|(field, test, literal)| format!("{field} {test} \"{literal}\""));
    let odd = proptest::sample::select(vec![
        "Priority == 10",
        "Priority == ten",
        "Priority != 20",
        "Nonsense == 1",
        "NodeID is empty",
        "StatusDescription matches \"[\"",
        "Status.deeper == 1",
    ]);
    prop_oneof![5 => plain, 1 => odd.prop_map(str::to_owned)]
}

fn expression() -> impl Strategy<Value = String> {
    part().prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            4 => proptest::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" and "))),
            1 => proptest::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" or "))),
            1 => inner.prop_map(|part| format!("not ({part})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn eval_list_by_index_equals_a_full_scan(
        text in expression(),
        namespace in proptest::option::of(proptest::sample::select(NAMESPACES.to_vec())),
        job in proptest::sample::select(vec!["", "", "web", "nobody"]),
        status in proptest::sample::select(vec!["", "", "failed", "odd"]),
        reverse in any::<bool>(),
        from in proptest::option::of(0_u64..250),
        skipped in any::<u8>(),
        rows_max in 1_usize..40,
    ) {
        static STATE: std::sync::LazyLock<State> = std::sync::LazyLock::new(|| state(1000));
        let filter = Filter::parse(&text).expect("it is a filter");
        let list = EvalList {
            namespace,
            in_namespace: &|of| namespace.is_none_or(|namespace| namespace == of),
            job,
            status,
            filter: Some(&filter),
            reverse,
            from,
            is_before: &|created, id| Some(created) == from && (id.as_bytes()[0] < skipped) != reverse,
            rows_max,
        };
        let found = STATE.list_evals(&list).map(|rows| rows.iter().map(|row| row.id).collect());
        prop_assert_eq!(found, plain(&STATE, &list), "{}", text);
    }
}

#[test]
fn eval_filter_on_an_indexed_field_reads_only_matching_rows() {
    let state = state(1000);
    let narrowed = |text: &str, namespace| {
        let filter = Filter::parse(text).expect("it is a filter");
        let list = EvalList {
            namespace,
            in_namespace: &|_| true,
            job: "",
            status: "",
            filter: Some(&filter),
            reverse: false,
            from: None,
            is_before: &|_, _| false,
            rows_max: 10,
        };
        state.narrowest(&list).len()
    };
    let count = |passes: fn(&Evaluation) -> bool| Some(state.evals().filter(|row| passes(row)).count());
    let node_5 = "NodeID == \"05050505-0505-0505-0505-050505050505\"";
    assert_eq!(narrowed(node_5, None), count(|row| row.node_id == Some(node(5))));
    assert_eq!(narrowed("Namespace == dev", None), count(|row| row.namespace == *"dev"));
    assert_eq!(narrowed("JobID == db", Some("dev")), count(|row| row.namespace == *"dev" && row.job_id == *"db"));
    assert_eq!(narrowed(&format!("Status == failed and {node_5}"), None), count(|row| row.node_id == Some(node(5))));
    assert_eq!(narrowed("Status == nonsense", None), Some(0));
    assert_eq!(narrowed("ID == \"05050505-0505-0505-0505-050505050505\"", None), Some(0));
    assert_eq!(narrowed("StatusDescription == why", None), None, "no index knows");
    assert_eq!(narrowed("Nonsense == 1 and Status == nonsense", None), None, "what fails is not hidden");
}
