//! A page that is read through an index equals the page of a walk through all rows, including its token.

use songline_commands::{Actor, Command, Envelope, UpdateEvals};
use songline_model::{EvalStatus, NodeId, Time};

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
    for entry in 0_u8..40 {
        let eval = |n: u8| Evaluation {
            id: EvalId::from_bytes([
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
            namespace: if n == 3 { "dev" } else { "default" }.into(),
            job_id: if entry.is_multiple_of(9) { "web" } else { "db" }.into(),
            node_id: Some(NodeId::from_bytes([n; 16])).filter(|_| entry.is_multiple_of(7)),
            status: EvalStatus::ALL[usize::from(entry) % EvalStatus::ALL.len()],
            ..Evaluation::default()
        };
        apply(&mut state, UpdateEvals { evals: (1..5).map(eval).collect() });
    }
    state
}

/// One page, or its error.
fn told(page: Result<Page<Arc<Evaluation>>, ApiError>) -> Result<(Vec<EvalId>, Option<String>), String> {
    page.map(|page| (page.rows.iter().map(|row| row.id).collect(), page.next_token))
        .map_err(|error| error.text.to_string())
}

fn walked(view: &State, params: &ReadParams) -> Result<Page<Arc<Evaluation>>, ApiError> {
    let rows: Vec<_> = if params.reverse { view.evals().rev().collect() } else { view.evals().collect() };
    let token = |eval: &Evaluation| Token::Indexed(eval.create_index, eval.id.to_string());
    paging::page(params, rows.into_iter(), token, |eval| params.in_namespace(&eval.namespace))
}

#[test]
fn eval_pages_and_next_tokens_equal_those_of_a_full_scan() {
    let view = state();
    let filters = [
        "",
        "JobID == web",
        "Status == failed",
        "Namespace == dev",
        "NodeID == \"02020202-0202-0202-0202-020202020202\"",
        "JobID == web and Status != failed",
        "Status == blocked and Nonsense == 1",
        "JobID == db and not (Status == failed or Status == pending)",
        "Status ==",
    ];
    let acl = Acl::management();
    let mut pages = 0;
    for filter in filters {
        for (namespace, reverse) in [("*", false), ("*", true), ("default", false), ("dev", true)] {
            for per_page in [-1, 0, 1, 3, 7, 1000] {
                for start in ["", "8", "8.", "8.7", "20.ffffffff-0000", "x.y", "99999.", "+9.b"] {
                    let mut token = start.to_owned();
                    loop {
                        let query =
                            format!("namespace={namespace}&reverse={reverse}&per_page={per_page}&next_token={token}");
                        let mut params = ReadParams::parse(Query(&query), "global").expect("these are parameters");
                        params.filter = filter.to_owned();
                        let found = told(page(&view, Asked { params: &params, acl: &acl, status: "", job: "" }));
                        assert_eq!(found, told(walked(&view, &params)), "{filter} {query}");
                        pages += 1;
                        match found {
                            Ok((rows, Some(next))) if !rows.is_empty() => token = next,
                            Ok(_) | Err(_) => break,
                        }
                    }
                }
            }
        }
    }
    assert!(pages > 3_000, "only {pages}");
}
