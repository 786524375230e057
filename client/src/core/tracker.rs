//! Restart decisions for a task that ended or could not start. Counts attempts for each task, independently of other
//! tasks.

use serde::{Deserialize, Serialize};
use songline_model::{Dur, JobType, RestartPolicy, Str, Time};

use super::coordinator::Stage;
use super::jitter::Jitter;

/// Reason that display messages leave out.
pub const REASON_WITHIN_POLICY: &str = "Restart within policy";
const REASON_NO_RESTARTS: &str = "Policy allows no restarts";
const REASON_UNRECOVERABLE: &str = "Error was unrecoverable";
const REASON_DELAY: &str = "Exceeded allowed attempts, applying a delay";

/// Result of a task's process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExitResult {
    /// Exit code as the parent process sees it; 128 plus the signal when a signal ended it.
    pub exit_code: i64,
    /// The signal that ended it, 0 when none did.
    pub signal: i64,
    /// Whether the process was killed for lack of memory.
    pub oom_killed: bool,
    /// Set when the end of the process is unknown.
    pub error: Option<Str>,
}

impl ExitResult {
    /// An exit with `code`, without a signal.
    pub fn code(code: i64) -> Self {
        Self { exit_code: code, ..Self::default() }
    }

    /// An end that was not observed.
    pub fn lost(error: impl Into<Str>) -> Self {
        Self { error: Some(error.into()), ..Self::default() }
    }

    /// Whether the exit counts as success.
    pub fn successful(&self) -> bool {
        self.exit_code == 0 && self.signal == 0 && self.error.is_none()
    }
}

/// Reason why a task could not be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartFailure {
    /// Text for users.
    pub error: Str,
    /// Whether a retry may help.
    pub recoverable: bool,
}

/// Decision about a task that does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The task was stopped on purpose.
    Killed,
    /// The task completed.
    Terminated,
    /// The task has failed for good.
    NotRestarting(Str),
    /// The task starts again after `delay`.
    Restart {
        /// Delay before the start.
        delay: Dur,
        /// Reason for the event.
        reason: Str,
    },
}

/// Restart policy of one task and the attempts used so far.
#[derive(Debug, Clone)]
pub struct RestartTracker {
    policy: RestartPolicy,
    on_success: bool,
    interval_start: Time,
    count: i64,
    killed: bool,
    restart_triggered: bool,
    failure: bool,
    start_failure: Option<StartFailure>,
    exit: Option<ExitResult>,
    jitter: Jitter,
}

impl RestartTracker {
    /// A tracker whose interval begins now. Service-like tasks restart even after success.
    pub fn new(policy: RestartPolicy, job: &JobType, stage: Stage, now: Time, jitter: Jitter) -> Self {
        let on_success = match stage {
            Stage::Main => !matches!(job, JobType::Batch | JobType::SysBatch),
            Stage::PrestartSidecar | Stage::PoststartSidecar => true,
            Stage::PrestartEphemeral | Stage::PoststartEphemeral | Stage::Poststop => false,
        };
        Self {
            policy,
            on_success,
            interval_start: now,
            count: 0,
            killed: false,
            restart_triggered: false,
            failure: false,
            start_failure: None,
            exit: None,
            jitter,
        }
    }

    /// Sets a changed policy; used attempts stay used.
    pub fn set_policy(&mut self, policy: RestartPolicy) {
        self.policy = policy;
    }

    /// The task is being stopped on purpose.
    pub fn set_killed(&mut self) {
        self.killed = true;
    }

    /// A restart was requested. A restart with `failure` counts against the policy.
    pub fn set_restart_triggered(&mut self, failure: bool) {
        if failure {
            self.failure = true;
        } else {
            self.restart_triggered = true;
        }
    }

    /// The task could not be started.
    pub fn set_start_failure(&mut self, failure: StartFailure) {
        self.failure = true;
        self.start_failure = Some(failure);
    }

    /// The task's process has ended.
    pub fn set_exit(&mut self, exit: ExitResult) {
        self.failure = true;
        self.exit = Some(exit);
    }

    /// Decides, and clears the inputs since the last decision.
    pub fn decide(&mut self, now: Time) -> Decision {
        let killed = std::mem::take(&mut self.killed);
        let triggered = std::mem::take(&mut self.restart_triggered);
        let failure = std::mem::take(&mut self.failure);
        let start_failure = self.start_failure.take();
        let exit = self.exit.take();
        if killed {
            return Decision::Killed;
        }
        if triggered {
            return Decision::Restart { delay: Dur::ZERO, reason: Str::default() };
        }
        let succeeded = exit.as_ref().is_some_and(ExitResult::successful) && !self.on_success;
        if self.policy.attempts == 0 {
            return if succeeded { Decision::Terminated } else { Decision::NotRestarting(REASON_NO_RESTARTS.into()) };
        }
        if now > self.interval_start.plus(self.policy.interval) {
            self.count = 0;
            self.interval_start = now;
        }
        self.count += 1;
        if !failure {
            return Decision::Restart { delay: Dur::ZERO, reason: Str::default() };
        }
        if start_failure.is_some_and(|failure| !failure.recoverable) {
            return Decision::NotRestarting(REASON_UNRECOVERABLE.into());
        }
        if succeeded {
            return Decision::Terminated;
        }
        if self.count > self.policy.attempts {
            if self.policy.mode == "delay" {
                let delay = self.interval_start.plus(self.policy.interval).since(now);
                return Decision::Restart { delay, reason: REASON_DELAY.into() };
            }
            let (attempts, interval, mode) = (self.policy.attempts, self.policy.interval, "fail");
            return Decision::NotRestarting(
                format!("Exceeded allowed attempts {attempts} in interval {interval} and mode is {mode:?}").into(),
            );
        }
        let delay = self.policy.delay;
        let spread = Dur(self.jitter.below(delay).nanos() / 4);
        Decision::Restart {
            delay: Dur(delay.nanos().saturating_add(spread.nanos())),
            reason: REASON_WITHIN_POLICY.into(),
        }
    }
}
