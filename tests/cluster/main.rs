//! Three servers as real processes, each in a network namespace of its own, under load, while whatever can go wrong with processes, networks
//! and disks does. Then: nothing acknowledged lost, nothing doubled, streams without holes, registers linearizable, equal states.
//!
//! Needs root, network namespaces, /dev/net/tun and iproute2; without them every test here says so and passes, or fails where the
//! environment variable CI is set. Faults of the network are made by a switch in this process, so no traffic control of the kernel is
//! needed. One test runs at a time. `SONGLINE_FAULTS=long` runs as long as a report needs; `KILLS`, `WRITES` between two of them, `WRITERS`
//! and `PARTITIONS` say how many; `SONGLINE_FAULTS_SEED` repeats a run as far as timing lets; `SONGLINE_FAULTS_LOGS` prints the last words
//! of every server. Numbers are meant for a release build.

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
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use chance::Chance;

/// Clusters take all of a machine; two at a time would measure each other.
static ALONE: Mutex<()> = Mutex::new(());

/// One test's turn.
struct Run {
    name: &'static str,
    seed: u64,
    began: Instant,
    _alone: MutexGuard<'static, ()>,
}

impl Run {
    /// Waits until no other test runs. `None`: this machine cannot run the test, which is printed with the reason. Panics instead where CI
    /// is set.
    fn begin(name: &'static str) -> Option<Run> {
        if let Some(why) = net::missing() {
            say(&format!("{name}: skipped: {why}"));
            assert!(!in_ci(), "in CI no test may be skipped: {name}: {why}");
            return None;
        }
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let seed = from_env("SONGLINE_FAULTS_SEED").unwrap_or_else(Chance::seed_of_now);
        say(&format!("{name}: seed {seed}"));
        Some(Run { name, seed, began: Instant::now(), _alone: alone })
    }

    /// How many times: as the environment says, or else as is usual in a short or a long run.
    fn count(&self, variable: &str, short: u64, long: u64) -> u64 {
        from_env(variable).unwrap_or(if std::env::var("SONGLINE_FAULTS").as_deref() == Ok("long") { long } else { short })
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

/// Past the test harness, which keeps the output of tests that pass to itself.
fn say(text: &str) {
    let _unheard = writeln!(std::io::stderr(), "cluster: {text}");
}
