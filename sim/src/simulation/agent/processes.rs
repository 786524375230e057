//! Simulated processes of a node: they end when they are stopped, sometimes by themselves, and with their machine.
//! They do not end with the agent that started them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use songline_client::core::{ExitResult, StartFailure};
use songline_model::{AllocId, Str};

use super::super::ending::Ending;
use super::script::Script;

/// Duration of starting a scripted run.
const SCRIPTED_START: Duration = Duration::from_millis(5);

/// Identifies a run of a task.
pub type RunKey = (AllocId, Str, u64);

/// State of a process.
#[derive(Clone)]
struct Process {
    ended: Arc<Ending>,
    exit: Arc<Mutex<Option<ExitResult>>>,
    /// Whether it ends as soon as it is stopped.
    ends_at_once: bool,
}

impl Process {
    fn end(&self, exit: ExitResult) {
        self.exit.lock().get_or_insert(exit);
        self.ended.end();
    }
}

/// All processes of a machine.
pub struct Processes {
    rng: Mutex<SmallRng>,
    /// Number of runs in a thousand that fail to start; twice as many fail after a while.
    failing_of_1000: AtomicU32,
    /// Injected defect: processes keep running after they have ended for their agent.
    stay: bool,
    runs: Mutex<BTreeMap<RunKey, Process>>,
}

impl Processes {
    /// Creates an empty set of processes.
    pub fn new(seed: u64, stay: bool) -> Self {
        let rng = Mutex::new(SmallRng::seed_from_u64(seed));
        Self { rng, failing_of_1000: AtomicU32::new(30), stay, runs: Mutex::default() }
    }

    /// Stops random failures. Processes that were started earlier may still fail.
    pub fn spare(&self) {
        self.failing_of_1000.store(0, Ordering::Relaxed);
    }

    /// Running processes by allocation and task; a task that runs twice is listed twice.
    pub fn alive(&self) -> Vec<(AllocId, Str)> {
        let runs = self.runs.lock();
        runs.iter()
            .filter(|(_, process)| self.stay || !process.ended.is_over())
            .map(|((alloc, task, _), _)| (*alloc, task.clone()))
            .collect()
    }

    /// Kills all processes with the machine.
    pub fn die(&self) {
        for process in std::mem::take(&mut *self.runs.lock()).into_values() {
            process.end(ExitResult::lost("the machine died"));
        }
    }

    /// Starts a run that does what its task is configured to do, and fails at random.
    pub async fn start(&self, key: RunKey, script: Script) -> Result<(), StartFailure> {
        let failing = self.failing_of_1000.load(Ordering::Relaxed);
        let (takes_ms, fate, after_ms) = {
            let mut rng = self.rng.lock();
            (rng.random_range(5..300), rng.random_range(0..1000), rng.random_range(1_000..60_000))
        };
        tokio::time::sleep(Duration::from_millis(takes_ms)).await;
        if fate < failing {
            return Err(StartFailure { error: "it does not start today".into(), recoverable: true });
        }
        if let Some(error) = script.start_error {
            return Err(StartFailure { error, recoverable: false });
        }
        let process = self.begin(key, false);
        let fails_after = (fate < failing * 3).then_some((Duration::from_millis(after_ms), 1));
        let ends_after = script.ends().then_some((script.runs_for, script.exit_code));
        // The end that comes first is the end.
        for (after, exit_code) in fails_after.into_iter().chain(ends_after) {
            end_later(process.clone(), after, exit_code);
        }
        Ok(())
    }

    /// Starts a run that does what its task is configured to do.
    pub async fn start_scripted(&self, key: RunKey, script: Script) -> Result<(), StartFailure> {
        tokio::time::sleep(SCRIPTED_START).await;
        if let Some(error) = script.start_error {
            return Err(StartFailure { error, recoverable: false });
        }
        let process = self.begin(key, true);
        end_later(process, script.runs_for, script.exit_code);
        Ok(())
    }

    fn begin(&self, key: RunKey, ends_at_once: bool) -> Process {
        let process = Process { ended: Ending::new(), exit: Arc::default(), ends_at_once };
        if let Some(before) = self.runs.lock().insert(key, process.clone()) {
            before.end(ExitResult::lost("it was started again"));
        }
        process
    }

    /// Waits for the end of a run and returns its result.
    pub async fn wait(&self, key: &RunKey) -> ExitResult {
        let Some(process) = self.get(key) else { return ExitResult::lost("there is no such process") };
        process.ended.over().await;
        let exit = process.exit.lock().clone();
        exit.unwrap_or_else(|| ExitResult::lost("nobody saw it end"))
    }

    /// Whether a run is known.
    pub fn knows(&self, key: &RunKey) -> bool {
        self.get(key).is_some()
    }

    /// Stops a run, which takes some time.
    pub async fn stop(&self, key: &RunKey) {
        let takes = self.rng.lock().random_range(5..2_000);
        if !self.get(key).is_some_and(|process| process.ends_at_once) {
            tokio::time::sleep(Duration::from_millis(takes)).await;
        }
        if let Some(process) = self.get(key) {
            process.end(ExitResult { exit_code: 143, signal: 15, ..ExitResult::default() });
        }
    }

    /// Removes the remains of a run.
    pub fn destroy(&self, key: &RunKey) {
        if self.stay {
            return;
        }
        if let Some(process) = self.runs.lock().remove(key) {
            process.end(ExitResult::code(137));
        }
    }

    fn get(&self, key: &RunKey) -> Option<Process> {
        self.runs.lock().get(key).cloned()
    }
}

fn end_later(process: Process, after: Duration, exit_code: i64) {
    tokio::spawn(async move {
        tokio::time::sleep(after).await;
        process.end(ExitResult::code(exit_code));
    });
}
