//! The policies of a group: restart, reschedule, migrate, update, disk, scaling.

use crate::job::errors::Errors;
use crate::{Dur, EphemeralDisk, Job, MigrateStrategy, ReschedulePolicy, RestartPolicy, TaskGroup, UpdateStrategy};

/// Shortest interval of a restart policy.
const RESTART_INTERVAL_MIN: Dur = Dur::from_secs(5);
/// Shortest delay of a reschedule policy.
const RESCHEDULE_DELAY_MIN: Dur = Dur::from_secs(5);
/// Shortest interval of a reschedule policy.
const RESCHEDULE_INTERVAL_MIN: Dur = Dur::from_secs(15);
/// Smallest disk of a group, in MiB.
const DISK_MB_MIN: i64 = 10;

impl RestartPolicy {
    pub(super) fn validate(&self) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if !matches!(self.mode.as_str(), "delay" | "fail") {
            errors.push(format!("Unsupported restart mode: {:?}", self.mode));
        }
        if self.attempts == 0 && self.mode != "fail" {
            errors.push(format!("Restart policy {:?} with {} attempts is ambiguous", self.mode, self.attempts));
        }
        if self.interval < RESTART_INTERVAL_MIN {
            errors.push(format!("Interval can not be less than {RESTART_INTERVAL_MIN} (got {})", self.interval));
        }
        if times(self.delay, self.attempts) > self.interval {
            errors.push(format!(
                "Nomad can't restart the TaskGroup {} times in an interval of {} with a delay of {}",
                self.attempts, self.interval, self.delay
            ));
        }
        errors.into_result()
    }
}

impl ReschedulePolicy {
    pub(super) fn validate(&self) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if self.attempts <= 0 && !self.unlimited {
            return Ok(());
        }
        if self.attempts > 0 {
            if self.interval <= Dur::ZERO {
                errors.push("Interval must be a non zero value if Attempts > 0");
            }
            if self.unlimited {
                errors.push(format!(
                    "Reschedule Policy with Attempts = {}, Interval = {}, and Unlimited = true is ambiguous",
                    self.attempts, self.interval
                ));
                errors.push("If Attempts >0, Unlimited cannot also be set to true");
            }
        }
        let mut delays_make_sense = true;
        if self.delay < RESCHEDULE_DELAY_MIN {
            errors.push(format!("Delay cannot be less than {RESCHEDULE_DELAY_MIN} (got {})", self.delay));
            delays_make_sense = false;
        }
        if !matches!(self.delay_function.as_str(), "constant" | "exponential" | "fibonacci") {
            errors.push(format!(
                "Invalid delay function {:?}, must be one of [\"constant\" \"exponential\" \"fibonacci\"]",
                self.delay_function
            ));
            delays_make_sense = false;
        }
        if self.delay_function != "constant" {
            if self.max_delay < RESCHEDULE_DELAY_MIN {
                // The text names the maximum delay but shows the delay: clients expect this defect of the reference.
                errors.push(format!("Max Delay cannot be less than {RESCHEDULE_DELAY_MIN} (got {})", self.delay));
            }
            if self.max_delay < self.delay {
                errors.push(format!("Max Delay cannot be less than Delay {} (got {})", self.delay, self.max_delay));
            }
        }
        if !self.unlimited {
            if self.interval < RESCHEDULE_INTERVAL_MIN {
                errors.push(format!("Interval cannot be less than {RESCHEDULE_INTERVAL_MIN} (got {})", self.interval));
            }
            if delays_make_sense {
                self.validate_attempts(&mut errors);
            }
        }
        errors.into_result()
    }

    /// Checks that all attempts fit in the interval.
    fn validate_attempts(&self, errors: &mut Errors) {
        let (possible, needed) = match self.delay_function.as_str() {
            "constant" => self.constant_attempts(),
            "exponential" => self.exponential_attempts(),
            _ => self.fibonacci_attempts(),
        };
        let Some(possible) = possible else { return };
        let ceiling = match self.delay_function.as_str() {
            "constant" => format!(" and delay function {:?}", self.delay_function),
            _ => format!(", delay function {:?}, and delay ceiling {}", self.delay_function, self.max_delay),
        };
        errors.push(format!(
            "Nomad can only make {possible} attempts in {} with initial delay {}{ceiling}",
            self.interval, self.delay
        ));
        errors.push(format!(
            "Set the interval to at least {} to accommodate {} attempts",
            rounded_to_secs(needed),
            self.attempts
        ));
    }

    /// Number of possible attempts if not all fit, and the interval that all of them need.
    fn constant_attempts(&self) -> (Option<i64>, Dur) {
        let needed = times(self.delay, self.attempts);
        let possible = (self.interval < needed).then(|| self.interval.0 / self.delay.0.max(1));
        (possible, needed)
    }

    fn exponential_attempts(&self) -> (Option<i64>, Dur) {
        let (mut possible, mut needed) = (0, Dur::ZERO);
        for attempt in 0..self.attempts.min(ATTEMPTS_CHECKED_MAX) {
            let factor = 2i64.saturating_pow(u32::try_from(attempt).unwrap_or(u32::MAX));
            let next = times(self.delay, factor);
            needed = if next > self.max_delay { Dur(needed.0.saturating_add(self.max_delay.0)) } else { next };
            if needed < self.interval {
                possible += 1;
            }
        }
        ((possible < self.attempts.min(ATTEMPTS_CHECKED_MAX)).then_some(possible), needed)
    }

    fn fibonacci_attempts(&self) -> (Option<i64>, Dur) {
        let mut slots = vec![self.delay, self.delay];
        let mut at_ceiling = false;
        for _ in 2..self.attempts.min(ATTEMPTS_CHECKED_MAX) {
            let last = slots[slots.len() - 1];
            let next = if at_ceiling {
                Dur(last.0.saturating_add(self.max_delay.0))
            } else {
                let sum = Dur(last.0.saturating_add(slots[slots.len() - 2].0));
                at_ceiling = sum > self.max_delay;
                sum.min(self.max_delay)
            };
            slots.push(next);
        }
        let needed = slots[slots.len() - 1];
        let fitting = || slots.iter().position(|slot| *slot > self.interval).unwrap_or_default();
        ((self.interval < needed).then(|| i64::try_from(fitting()).unwrap_or(i64::MAX)), needed)
    }
}

/// Bound on the attempts computed one by one; with more attempts no interval would be long enough.
const ATTEMPTS_CHECKED_MAX: i64 = 100_000;

impl MigrateStrategy {
    pub(super) fn validate(&self) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if self.max_parallel < 0 {
            errors.push(format!("MaxParallel must be >= 0 but found {}", self.max_parallel));
        }
        match self.health_check.as_str() {
            "checks" | "task_states" => {}
            "" => {
                if self.max_parallel > 0 {
                    errors.push("Missing HealthCheck");
                }
            }
            other => errors.push(format!("Invalid HealthCheck: {other:?}")),
        }
        if self.min_healthy_time < Dur::ZERO {
            errors.push(format!("MinHealthyTime is {} and must be >= 0", self.min_healthy_time));
        }
        if self.healthy_deadline < Dur::ZERO {
            errors.push(format!("HealthyDeadline is {} and must be >= 0", self.healthy_deadline));
        }
        if self.min_healthy_time > self.healthy_deadline {
            errors.push("MinHealthyTime must be less than HealthyDeadline");
        }
        errors.into_result()
    }
}

impl UpdateStrategy {
    pub(super) fn validate(&self) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if !matches!(self.health_check.as_str(), "checks" | "task_states" | "manual") {
            errors.push(format!("Invalid health check given: {:?}", self.health_check));
        }
        if self.max_parallel < 0 {
            errors.push(format!("Max parallel can not be less than zero: {} < 0", self.max_parallel));
        }
        if self.canary < 0 {
            errors.push(format!("Canary count can not be less than zero: {} < 0", self.canary));
        }
        if self.canary == 0 && self.auto_promote {
            errors.push("Auto Promote requires a Canary count greater than zero");
        }
        let (healthy, deadline, progress) = (self.min_healthy_time, self.healthy_deadline, self.progress_deadline);
        if healthy < Dur::ZERO {
            errors.push(format!("Minimum healthy time may not be less than zero: {healthy}"));
        }
        if deadline <= Dur::ZERO {
            errors.push(format!("Healthy deadline must be greater than zero: {deadline}"));
        }
        if progress < Dur::ZERO {
            errors.push(format!("Progress deadline must be zero or greater: {progress}"));
        }
        if healthy >= deadline {
            errors.push(format!("Minimum healthy time must be less than healthy deadline: {healthy} > {deadline}"));
        }
        if progress != Dur::ZERO && deadline >= progress {
            errors.push(format!("Healthy deadline must be less than progress deadline: {deadline} > {progress}"));
        }
        if self.stagger <= Dur::ZERO {
            errors.push(format!("Stagger must be greater than zero: {}", self.stagger));
        }
        errors.into_result()
    }
}

impl EphemeralDisk {
    pub(super) fn validate(&self) -> Result<(), String> {
        if self.size_mb < DISK_MB_MIN {
            Err(format!("minimum DiskMB value is {DISK_MB_MIN}; got {}", self.size_mb))
        } else {
            Ok(())
        }
    }
}

/// Validates the scaling policy of a group together with the group's count.
pub(super) fn scaling(group: &TaskGroup, job: &Job) -> Result<(), Errors> {
    let mut errors = Errors::new();
    let Some(policy) = &group.scaling else { return Ok(()) };
    let mut invalid = |reason: &str| errors.push(format!("Scaling policy invalid: {reason}"));
    match policy.kind.as_str() {
        "horizontal" => {}
        "" => invalid("missing scaling policy type"),
        other => invalid(&format!("scaling policy type {other:?} is not valid")),
    }
    if policy.max < 0 {
        invalid("maximum count must be specified and non-negative");
    } else if policy.max < policy.min {
        invalid("maximum count must not be less than minimum count");
    }
    if policy.min < 0 {
        invalid("minimum count must be specified and non-negative");
    }
    if policy.max < group.count {
        invalid("task group count must not be greater than maximum count in scaling policy");
    }
    let count_comes_later = job.is_multiregion() && group.count == 0 && job.region == "global";
    if group.count < policy.min && !count_comes_later {
        invalid("task group count must not be less than minimum count in scaling policy");
    }
    errors.into_result()
}

fn times(span: Dur, factor: i64) -> Dur {
    Dur(span.0.saturating_mul(factor))
}

fn rounded_to_secs(span: Dur) -> Dur {
    const SEC: i64 = 1_000_000_000;
    Dur(span.0.saturating_add(SEC / 2).div_euclid(SEC).saturating_mul(SEC))
}
