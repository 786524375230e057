//! Regions replicate, register and roll out under faults, and each defect of that is found.

use std::time::Duration;

use super::super::plan::{Fault, Plan, Sabotage, What, Whom};
use super::super::run::{Report, run};

/// A plan of regions with one node each, and these faults (region, start and duration in seconds).
fn story(seed: u64, regions: usize, servers: usize, seconds: u64, faults: &[(usize, u64, u64, What)]) -> Plan {
    let fault = |(region, at, lasts, what): &(usize, u64, u64, What)| Fault {
        region: *region,
        at: Duration::from_secs(*at),
        lasts: Duration::from_secs(*lasts),
        what: what.clone(),
    };
    let (length, faults) = (Duration::from_secs(seconds), faults.iter().map(fault).collect());
    Plan { seed, length, regions, servers, clients: 0, nodes: 1, faults, sabotage: None }
}

fn sound(plan: &Plan) -> Report {
    let report = run(plan);
    assert!(report.violation.is_none(), "seed {}: {:?}\n{}", plan.seed, report.violation, report.lines.join("\n"));
    report
}

#[test]
fn two_regions_roll_jobs_out_although_one_loses_its_server_for_a_time() {
    let report = sound(&story(1, 2, 1, 60, &[(1, 20, 5, What::Crash(Whom::Leader))]));
    let counts = report.counts;
    assert!(counts.registered > 2 && counts.finished > 3 && counts.replicated > 5, "{counts:?}");
}

/// The first finding of runs with an injected defect. Every change of the servers' behaviour changes which seeds meet
/// the defect, so several seeds are tried.
fn check(sabotage: Sabotage, words: &str) {
    let plan = |seed| Plan { sabotage: Some(sabotage), ..story(seed, 2, 1, 100, &[]) };
    let violation = (9..17).find_map(|seed| run(&plan(seed)).violation);
    let said = violation.map_or_else(|| "nothing".to_owned(), |(_, violation)| violation.to_string());
    assert!(said.contains(words), "{sabotage:?}: {said}");
}

#[test]
fn sabotaged_replication_is_found() {
    check(Sabotage::SurplusReplicas, "which the authoritative region does not have");
    check(Sabotage::OtherReplicas, "has another policy");
    check(Sabotage::LostLocalTokens, "has lost its local token");
}

#[test]
fn sabotaged_parts_are_found() {
    check(Sabotage::TornRegistrations, "is not the same in all of its regions");
    check(Sabotage::OtherParts, " in one region and ");
}

#[test]
fn sabotaged_starts_of_regions_are_found() {
    check(Sabotage::HastyRegions, " version ");
}

#[test]
fn sabotaged_ends_of_regions_are_found() {
    check(Sabotage::EarlyRegions, "finishes version");
    check(Sabotage::RegionsThatGoOn, "is still");
    check(Sabotage::RegionsThatGiveUp, "and none has failed");
    check(Sabotage::RegionsThatLoseHeart, "and all regions have it");
    check(Sabotage::RegionsThatWait, "is still blocked");
}
