//! Three servers as real processes, each in a network namespace of its own, under load and faults of processes,
//! networks and disks. Checks afterwards: no acknowledged write lost or duplicated, streams without gaps, registers
//! linearizable, equal states.
//!
//! Needs root, network namespaces, /dev/net/tun and iproute2; without them every test prints that and passes, or fails
//! where the environment variable CI is set. A switch in this process makes the network faults, so no traffic control
//! of the kernel is needed. One test runs at a time. `SONGLINE_FAULTS=long` runs as long as a report needs; `KILLS`,
//! `WRITES` between two kills, `WRITERS` and `PARTITIONS` set numbers; `SONGLINE_FAULTS_SEED` repeats a run as far as
//! timing permits; `SONGLINE_FAULTS_LOGS` prints the last log lines of every server. Measured times are meaningful in a
//! release build.

mod caller;
mod chance;
mod cluster;
mod disk;
mod filler;
mod handovers;
mod history;
#[path = "../support/http.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod http;
mod kills;
mod net;
mod nodes;
mod partitions;
#[path = "../support/process.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod process;
mod progress;
mod registers;
mod server;
mod stalls;
mod stream;
mod switch;
mod trial;
mod tun;
mod wait;
mod wiped;
mod writers;

use std::io::Write;
use std::time::Instant;

use chance::Chance;
use parking_lot::{Mutex, MutexGuard};

/// Serializes the tests: a cluster uses the whole machine, so concurrent ones would distort each other's times.
static ALONE: Mutex<()> = Mutex::new(());

/// The right of one test to run.
struct Run {
    name: &'static str,
    seed: u64,
    began: Instant,
    _alone: MutexGuard<'static, ()>,
}

impl Run {
    /// Waits until no other test runs. `None` when this machine cannot run the test, which is printed with the
    /// reason. Panics instead where CI is set.
    fn begin(name: &'static str) -> Option<Run> {
        if let Some(why) = net::missing() {
            say(&format!("{name}: skipped: {why}"));
            assert!(!in_ci(), "in CI no test may be skipped: {name}: {why}");
            return None;
        }
        let alone = ALONE.lock();
        let seed = from_env("SONGLINE_FAULTS_SEED").unwrap_or_else(Chance::seed_of_now);
        say(&format!("{name}: seed {seed}"));
        Some(Run { name, seed, began: Instant::now(), _alone: alone })
    }

    /// A count from the environment variable, or the default of a short or a long run.
    fn count(&self, variable: &str, short: u64, long: u64) -> u64 {
        from_env(variable).unwrap_or(if std::env::var("SONGLINE_FAULTS").as_deref() == Ok("long") {
            long
        } else {
            short
        })
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        say(&format!("{}: took {} s", self.name, self.began.elapsed().as_secs()));
    }
}

/// Whether a test that cannot run fails: the environment variable CI is set and not empty.
fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty())
}

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Prints past the test harness, which captures the output of passing tests.
fn say(text: &str) {
    let _unheard = writeln!(std::io::stderr(), "cluster: {text}");
}
