//! Stories of blocked evaluations: blocking, waking, duplicates.

use expect_test::{Expect, expect};

use super::*;

fn eval(name: &str, job: &str, snapshot: u64, classes: &str) -> Arc<Evaluation> {
    let mut id = [0; 16];
    id[..name.len()].copy_from_slice(name.as_bytes());
    let eligible: BTreeMap<Str, bool> = classes
        .split(',')
        .filter_map(|class| class.split_once('='))
        .map(|(class, fits)| (class.into(), fits == "y"))
        .collect();
    Arc::new(Evaluation {
        id: EvalId::from_bytes(id),
        job_id: job.into(),
        snapshot_index: snapshot,
        escaped_computed_class: classes == "any",
        class_eligibility: Some(eligible.into()),
        ..Evaluation::default()
    })
}

fn names<'a>(evals: impl IntoIterator<Item = &'a Arc<Evaluation>>) -> String {
    evals
        .into_iter()
        .map(|eval| String::from_utf8_lossy(eval.id.as_bytes()).trim_end_matches('\0').to_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

fn check(story: &str, expected: Expect) {
    let mut blocked = BlockedEvals::new();
    blocked.set_enabled(true);
    let mut seen = String::new();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<_> = line.split(' ').collect();
        let answer = match words[..] {
            ["block", id, job, snapshot, classes] => {
                let wake = blocked.block(eval(id, job, snapshot.parse().unwrap(), classes), None);
                wake.map_or("waits".into(), |(eval, _)| format!("runs {}", names([&eval])))
            }
            ["class", class, index] => {
                names(blocked.unblock(&class.into(), index.parse().unwrap()).iter().map(|(eval, _)| eval))
            }
            ["done", job] => {
                blocked.untrack(&JobKey::new("", job));
                String::new()
            }
            ["duplicates"] => names(&blocked.take_duplicates()),
            _ => panic!("no such line: {line}"),
        };
        seen.push_str(format!("{line}: {answer}").trim_end());
        seen.push('\n');
    }
    expected.assert_eq(&seen);
}

#[test]
fn node_class_wakes_blocked_evaluations_that_may_fit_it() {
    check(
        "block a one 5 c1=n,c2=y
         block b two 5 c1=y
         block c three 5 any
         class c1 9
         class c2 10",
        expect![[r#"
            block a one 5 c1=n,c2=y: waits
            block b two 5 c1=y: waits
            block c three 5 any: waits
            class c1 9: b c
            class c2 10: a
        "#]],
    );
}

#[test]
fn capacity_newer_than_its_snapshot_runs_a_blocked_evaluation_at_once() {
    check(
        "class c1 9
         block a one 5 c1=y
         block b two 9 c1=y
         block c three 5 c1=n",
        expect![[r#"
            class c1 9:
            block a one 5 c1=y: runs a
            block b two 9 c1=y: waits
            block c three 5 c1=n: waits
        "#]],
    );
}

#[test]
fn a_job_has_one_blocked_evaluation_the_newest() {
    check(
        "block a web 5 any
         block b web 8 any
         block c web 6 any
         duplicates
         done web
         class c1 99",
        expect![[r#"
            block a web 5 any: waits
            block b web 8 any: waits
            block c web 6 any: waits
            duplicates: a c
            done web:
            class c1 99:
        "#]],
    );
}
