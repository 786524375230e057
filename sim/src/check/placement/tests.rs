//! Clusters at rest in short notation: wanted counts, tables, nodes' processes, and the verdict.

use expect_test::{Expect, expect};

use super::{NodeRuns, Placed, Placements, Standing, Wanted, placements_are_sound};

/// Notation: `web=2` wanted, `web=2?` fewer if need be; `1:web[0]@a` in the tables, with `?` unknown, `-` over, `.`
/// done, `~` not reported yet; `a:1,2` processes of a node, `a!` for a node that is not ready.
fn check(wanted: &str, allocs: &str, nodes: &str, expected: &Expect) {
    let placements = Placements {
        wanted: wanted
            .split_whitespace()
            .filter_map(|word| word.split_once('='))
            .map(|(job, n)| (job.into(), wants(n)))
            .collect(),
        allocs: allocs.split_whitespace().map(placed).collect(),
        nodes: nodes.split_whitespace().map(node).collect(),
    };
    let verdict = placements_are_sound(&placements);
    expected.assert_eq(&verdict.map_or_else(|error| error.to_string(), |()| "sound".to_owned()));
}

fn wants(text: &str) -> Wanted {
    Wanted { count: text.trim_end_matches('?').parse().unwrap(), may_lack: text.ends_with('?') }
}

fn placed(word: &str) -> Placed {
    let (id, rest) = word.split_once(':').unwrap();
    let (name, at) = rest.split_once('@').unwrap();
    let node = at.trim_end_matches(['?', '-', '.', '~']);
    let standing = match &at[node.len()..] {
        "?" => Standing::Unknown,
        "-" => Standing::Over,
        "." => Standing::Done,
        "~" => Standing::Awaited,
        _ => Standing::Runs,
    };
    let job = name.split('[').next().unwrap().to_owned();
    Placed { id: id.into(), name: name.into(), job, node: node.into(), standing }
}

fn node(word: &str) -> NodeRuns {
    let (node, runs) = word.split_once(':').unwrap();
    let name = node.trim_end_matches('!');
    let runs = runs.split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect();
    NodeRuns { node: name.into(), is_ready: name == node, runs }
}

#[test]
fn wanted_allocs_that_each_run_once_are_sound() {
    check("web=2 db=1 old=0", "1:web[0]@a 2:web[1]@b 3:db[0]@a 4:old[0]@b-", "a:1,3 b:2", &expect!["sound"]);
    check("", "", "a:", &expect!["sound"]);
}

#[test]
fn too_many_and_too_few_allocs_are_found() {
    check("web=2", "1:web[0]@a", "a:1", &expect!["job web wants 2 allocations and has 1"]);
    check("web=1", "1:web[0]@a 2:web[1]@a", "a:1,2", &expect!["job web wants 1 allocations and has 2"]);
    check("", "1:web[0]@a", "a:1", &expect!["job web wants 0 allocations and has 1"]);
}

#[test]
fn done_allocs_count_and_run_nothing() {
    check("b=2", "1:b[0]@a. 2:b[1]@a", "a:2", &expect!["sound"]);
    check("b=2", "1:b[0]@a. 2:b[0]@a. 3:b[0]@a", "a:3", &expect!["job b wants 2 allocations and has 1"]);
    check("b=1", "1:b[0]@a. 2:b[1]@a.", "a:", &expect!["sound"]);
    check("b=0", "1:b[0]@a.", "a:1", &expect!["a runs 1, and should not"]);
}

#[test]
fn job_that_waits_for_room_may_have_fewer_and_never_more() {
    check("web=2?", "1:web[0]@a", "a:1", &expect!["sound"]);
    check("web=0?", "1:web[0]@a", "a:1", &expect!["job web wants 0 allocations and has 1"]);
}

#[test]
fn unknown_or_unreported_alloc_and_missing_or_unready_node_are_found() {
    check("web=1", "1:web[0]@a?", "a:1", &expect!["allocation web[0] is stuck in unknown"]);
    check(
        "web=1",
        "1:web[0]@a~",
        "a:1",
        &expect!["allocation web[0] should run on a, which has not said that it does"],
    );
    check("web=1", "1:web[0]@c", "a:", &expect!["allocation web[0] should run on c, which there is not"]);
    check("web=1", "1:web[0]@a", "a!:1", &expect!["a is not ready"]);
}

#[test]
fn two_allocs_of_one_name_are_found() {
    check("web=2", "1:web[0]@a 2:web[0]@b", "a:1 b:2", &expect!["two allocations are called web[0]"]);
}

#[test]
fn node_that_runs_other_allocs_than_the_tables_say_is_found() {
    check("web=1", "1:web[0]@a", "a: b:1", &expect!["a does not run web[0], and the tables say that it does"]);
    check("web=1", "1:web[0]@a 2:web[0]@a-", "a:1,2", &expect!["a runs 2, and should not"]);
    check("web=1", "1:web[0]@a", "a:1 b:1", &expect!["b runs 1, and should not"]);
    check("web=1", "1:web[0]@a", "a:1,1", &expect!["a runs 1 twice"]);
}
