//! The same seed is the same run, and nothing is wrong in some of them.

use std::time::Duration;

use super::super::plan::{Fault, Plan, What, Whom};
use super::{Report, run};

fn sound(plan: &Plan) -> Report {
    let report = run(plan);
    assert!(report.violation.is_none(), "seed {}: {:?}\n{}", plan.seed, report.violation, report.lines.join("\n"));
    report
}

#[test]
fn the_same_seed_is_the_same_run_in_any_thread() {
    let plan = Plan::of_seed(3, Duration::from_secs(15));
    let first = sound(&plan);
    let other = std::thread::spawn({
        let plan = plan.clone();
        move || run(&plan)
    });
    assert_eq!(first.digest, other.join().unwrap().digest);
    assert_ne!(first.digest, sound(&Plan::of_seed(4, Duration::from_secs(15))).digest);
}

#[test]
fn a_leader_that_dies_while_it_writes_loses_nothing() {
    let fault =
        |at, after| Fault { at: Duration::from_secs(at), lasts: Duration::from_secs(1), what: What::CrashWriting(Whom::Leader, after) };
    let plan = Plan {
        seed: 11,
        length: Duration::from_secs(25),
        servers: 3,
        clients: 4,
        nodes: 3,
        faults: vec![fault(9, 1), fault(14, 2), fault(19, 5)],
    };
    let report = sound(&plan);
    assert_eq!(report.counts.crashes, 3);
    assert!(report.counts.acknowledged > 5, "{:?}", report.counts);
}
