//! A user who registers and stops jobs of several regions, by way of any region. Several of these users have the same
//! jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::RngExt;
use rand::rngs::SmallRng;
use serde_json::{Value, json};

use super::super::observer::REGISTRATION;
use super::super::record::Violation;
use super::asker::Asker;

/// Nanoseconds of a second.
const SECOND: i64 = 1_000_000_000;
/// Key of the job's meta that says why tasks do not start.
const FAULT: &str = "fault";
/// Share of the registrations whose tasks do not start in one region.
const FAULTY: f64 = 0.35;

/// A job of several regions.
#[derive(Debug, Clone, Copy)]
struct Trip {
    id: &'static str,
    /// Whether the regions are in the opposite order.
    backwards: bool,
    /// Whether the job is registered once more at the end. Otherwise it stays as its last registration has left it.
    settles: bool,
}

const TRIPS: [Trip; 3] = [
    Trip { id: "m0", backwards: false, settles: true },
    Trip { id: "m1", backwards: true, settles: true },
    Trip { id: "m2", backwards: false, settles: false },
];

/// The user.
pub(super) struct Traveller {
    number: u64,
    asker: Asker,
    regions: &'static [&'static str],
    /// Number of registrations so far.
    count: u64,
    enough: Arc<AtomicBool>,
}

impl Traveller {
    /// A user of these regions, who ends when there is enough.
    pub(super) fn new(number: u64, asker: Asker, regions: &'static [&'static str], enough: &Arc<AtomicBool>) -> Self {
        Self { number, asker, regions, count: 0, enough: Arc::clone(enough) }
    }

    /// Registers and stops jobs until there is enough. The first user then registers some of them once more.
    pub(super) async fn run(mut self) {
        while !self.enough.load(Ordering::Relaxed) {
            self.asker.pause(15_000).await;
            let trip = TRIPS[self.asker.rng.random_range(0..TRIPS.len())];
            match self.asker.rng.random_range(0..12) {
                0 => self.stop(trip).await,
                _ => drop(self.register(trip).await),
            }
        }
        if self.number == 0 {
            for trip in TRIPS.into_iter().filter(|trip| trip.settles) {
                while !self.register(trip).await {
                    self.asker.pause(1000).await;
                }
            }
        }
    }

    /// Registers a version of the job. Returns whether all regions have it.
    async fn register(&mut self, trip: Trip) -> bool {
        self.count += 1;
        let registration = format!("{}-{}", self.number, self.count);
        let place = self.asker.any_region();
        let job = job(&mut self.asker.rng, trip, self.regions, &registration);
        let strategy = &job["Multiregion"]["Strategy"];
        let what = format!("register {} as {registration} with {strategy}", trip.id);
        let answer = self.asker.ask(place, (&what, "PUT", "/v1/jobs"), &json!({ "Job": job })).await;
        let Some((status, body)) = answer else { return false };
        if status == 400 {
            let why = format!("the registration of {} is refused: {}", trip.id, String::from_utf8_lossy(&body));
            self.asker.record.found(Violation::Stuck(why));
        }
        self.asker.record.count(|counts| counts.registered += u64::from(status == 200));
        status == 200
    }

    async fn stop(&mut self, trip: Trip) {
        let place = self.asker.any_region();
        let path = format!("/v1/job/{}?global=true", trip.id);
        self.asker.ask(place, (&format!("stop {}", trip.id), "DELETE", &path), &Value::Null).await;
    }
}

/// A registration of a job, with everything about it that the seed decides.
fn job(rng: &mut SmallRng, trip: Trip, regions: &[&str], registration: &str) -> Value {
    let faulty = rng.random_bool(FAULTY).then(|| rng.random_range(0..regions.len()));
    let region = |(place, name): (usize, &&str)| {
        let meta = if faulty == Some(place) { json!({ FAULT: "it never starts" }) } else { json!({}) };
        json!({ "Name": name, "Count": rng.random_range(1..3), "Datacenters": ["dc1"], "Meta": meta })
    };
    let mut of_regions: Vec<Value> = regions.iter().enumerate().map(region).collect();
    if trip.backwards {
        of_regions.reverse();
    }
    let on_failure = ["", "fail_all", "fail_local"][rng.random_range(0..3)];
    // A version without a fault does not fail: its deadline is longer than any run.
    let deadline = if faulty.is_some() { 20 } else { 3600 };
    let delay = rng.random_range(5..15) * SECOND;
    let group = json!({
        "Name": "g",
        "Count": 0,
        "EphemeralDisk": { "SizeMB": 110 },
        "RestartPolicy": { "Attempts": 1, "Interval": 300 * SECOND, "Delay": 2 * SECOND, "Mode": "fail" },
        "ReschedulePolicy": {
            "Unlimited": true, "Attempts": 0, "Interval": 0, "Delay": delay, "MaxDelay": delay, "DelayFunction": "constant",
        },
        "Update": {
            "Stagger": 30 * SECOND,
            "MaxParallel": rng.random_range(1..3),
            "HealthCheck": "task_states",
            "MinHealthyTime": rng.random_range(1..4) * SECOND,
            "HealthyDeadline": deadline * SECOND,
            "ProgressDeadline": 2 * deadline * SECOND,
        },
        "Tasks": [{
            "Name": "t",
            "Driver": "mock_driver",
            "Config": { "start_error": format!("${{NOMAD_META_{FAULT}}}") },
            "Env": { "E": registration },
            "Resources": { "CPU": 100, "MemoryMB": 100 },
            "KillTimeout": 3 * SECOND,
            "LogConfig": { "MaxFiles": 1, "MaxFileSizeMB": 10 },
        }],
    });
    json!({
        "ID": trip.id,
        "Name": trip.id,
        "Type": "service",
        "Priority": 50,
        "Datacenters": ["*"],
        "Meta": { REGISTRATION: registration },
        "Multiregion": {
            "Strategy": { "MaxParallel": rng.random_range(0..=regions.len()), "OnFailure": on_failure },
            "Regions": of_regions,
        },
        "TaskGroups": [group],
    })
}
