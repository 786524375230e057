//! Checks of an allocation's services: when each runs, its newest result, whether all of them pass, and which failing
//! check restarts tasks. Addresses and texts are resolved before ([`CheckPlan`]); the shell makes the requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_model::{CheckRestart, Dur, Str, Time};
use songline_rpc::message::CheckResult;

use super::alloc::Workload;

/// Interval at which results are compared with the bounds of `check_restart`.
const RESTART_POLL: Dur = Dur::from_secs(1);
/// Output of a check that has not run yet.
const WAITS: &str = "nomad: waiting to run";

const PENDING: &str = "pending";
const SUCCESS: &str = "success";
const WARNING: &str = "warning";
const FAILURE: &str = "failure";

/// Interval at which the statuses of Consul's checks are looked at.
const CONSUL_POLL: Dur = Dur::from_millis(500);

/// Effect of a check's results on deployments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckMode {
    /// The allocation is healthy only while the check passes.
    Healthiness,
    /// As healthiness, but a warning counts as passing (`on_update = "ignore_warnings"`).
    WithoutWarnings,
    /// A failure delays nothing (`on_update = "ignore"`).
    Readiness,
}

/// Request of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckRequest {
    /// An HTTP request; an answer with a status below 400 is a success.
    Http {
        /// Method, upper case.
        method: Str,
        /// Whole address.
        url: Str,
        /// Header fields; names may repeat.
        headers: Vec<(Str, Str)>,
        /// Body; empty sends none.
        body: Str,
    },
    /// A TCP connection to `host:port`; an empty host is this machine.
    Tcp {
        /// Address.
        address: Str,
    },
    /// None: Consul runs the check, and its agent on this node knows the newest status.
    AtConsul,
    /// No request can be made, for this reason: every run fails.
    Impossible(Str),
}

/// A check of one service, with all texts resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckPlan {
    /// Identity: a check with another request has another one.
    pub id: Str,
    /// Workload of the service.
    pub of: Workload,
    /// Name of the allocation.
    pub group: Str,
    /// Name of the service.
    pub service: Str,
    /// Name of the check.
    pub name: Str,
    /// Effect on deployments.
    pub mode: CheckMode,
    /// Interval of runs; the first run comes after half of it.
    pub interval: Dur,
    /// Timeout of one run.
    pub timeout: Dur,
    /// Bounds of failures after which the workload's tasks are restarted.
    pub restart: Option<CheckRestart>,
    /// The request.
    pub request: CheckRequest,
}

/// Verdict of one run of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckVerdict {
    /// All is well.
    Passed,
    /// Something is not as it should be; only Consul's checks say this.
    Warned,
    /// The service does not work.
    Failed,
    /// Consul does not know the check.
    Missing,
}

/// Outcome of one run of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckOutcome {
    /// Verdict of the run.
    pub verdict: CheckVerdict,
    /// Status code of an HTTP answer.
    pub code: Option<u16>,
    /// Text for users.
    pub output: Str,
}

/// Next step of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Runs at this time.
    Run(Time),
    /// Runs since `began` as run number `run`.
    Answer { run: u64, began: Time },
}

/// Failures of a check with `check_restart`, since its workload serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Watch {
    grace_until: Time,
    unhealthy_since: Option<Time>,
}

#[derive(Debug)]
struct Observed {
    plan: Arc<CheckPlan>,
    result: CheckResult,
    next: Next,
    watch: Option<Watch>,
}

/// All checks of an allocation.
#[derive(Debug, Default)]
pub(super) struct Checks {
    observed: BTreeMap<Str, Observed>,
    /// Results of an earlier agent.
    earlier: BTreeMap<Str, CheckResult>,
    planned: bool,
    runs: u64,
    look_at: Option<Time>,
    /// Whether a result has changed.
    pub(super) changed: bool,
    /// Whether a status has changed, or a check came or went.
    pub(super) dirty: bool,
}

impl Checks {
    /// Remembers the results of an earlier agent until the checks run again.
    pub(super) fn restore(&mut self, earlier: BTreeMap<Str, CheckResult>) {
        self.earlier = earlier;
    }

    /// Makes `plans` the checks that run. Those that ran before go on, the others begin.
    pub(super) fn plan(&mut self, plans: Vec<CheckPlan>, now: Time) {
        let mut before = std::mem::take(&mut self.observed);
        self.planned = true;
        for plan in plans {
            let kept = before.remove(&plan.id);
            let earlier = self.earlier.remove(&plan.id);
            self.dirty |= kept.is_none() && earlier.is_none();
            let observed = match kept {
                Some(kept) => Observed { plan: Arc::new(plan), ..kept },
                None => Observed {
                    result: earlier.unwrap_or_else(|| waiting(&plan, now)),
                    next: Next::Run(now.plus(first_wait(&plan))),
                    watch: None,
                    plan: Arc::new(plan),
                },
            };
            self.observed.insert(observed.plan.id.clone(), observed);
        }
        self.dirty |= !before.is_empty() || !self.earlier.is_empty();
        self.earlier.clear();
        self.changed = true;
    }

    /// Ends all checks and drops their results.
    pub(super) fn stop(&mut self) {
        if self.planned || !self.earlier.is_empty() {
            *self = Self { runs: self.runs, changed: true, dirty: true, ..Self::default() };
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.observed.is_empty()
    }

    /// Begins the runs that are due, each with its number.
    pub(super) fn begin_runs(&mut self, now: Time) -> Vec<(u64, Arc<CheckPlan>)> {
        let mut begun = Vec::new();
        for observed in self.observed.values_mut() {
            if matches!(observed.next, Next::Run(at) if now >= at) {
                self.runs += 1;
                observed.next = Next::Answer { run: self.runs, began: now };
                begun.push((self.runs, Arc::clone(&observed.plan)));
            }
        }
        begun
    }

    /// Records the outcome of a run. Outcomes of checks that were stopped or changed meanwhile are dropped.
    pub(super) fn end_run(&mut self, check: &str, run: u64, outcome: CheckOutcome, now: Time) {
        let Some(observed) = self.observed.get_mut(check) else { return };
        let Next::Answer { run: awaited, began } = observed.next else { return };
        if awaited != run {
            return;
        }
        let status = match outcome.verdict {
            CheckVerdict::Passed => SUCCESS,
            CheckVerdict::Warned => WARNING,
            CheckVerdict::Failed => FAILURE,
            CheckVerdict::Missing => PENDING,
        };
        let interval = match observed.plan.request {
            CheckRequest::AtConsul => CONSUL_POLL,
            CheckRequest::Http { .. } | CheckRequest::Tcp { .. } | CheckRequest::Impossible(_) => {
                observed.plan.interval
            }
        };
        self.dirty |= observed.result.status != status;
        self.changed |= !observed.is_at_consul();
        observed.next = Next::Run(began.plus(interval).max(now));
        observed.result = CheckResult {
            status: status.into(),
            status_code: outcome.code.map_or(0, i64::from),
            output: outcome.output,
            timestamp: now.nanos().div_euclid(1_000_000_000),
            ..waiting(&observed.plan, now)
        };
    }

    /// Whether the checks are known, have all run, and those that deployments wait for pass.
    pub(super) fn pass(&self) -> bool {
        self.planned && self.observed.values().all(Observed::passes)
    }

    /// Text for a task's event about Consul's checks of its services and of its group's; `None` if they pass, or if
    /// there are none. Other checks have no text of their own.
    pub(super) fn complaint(&self, task: &str) -> Option<String> {
        let is_of = |of: &Workload| match of {
            Workload::Group => true,
            Workload::Task(name) => *name == task,
        };
        let all: Vec<&Observed> =
            self.observed.values().filter(|observed| observed.is_at_consul() && is_of(&observed.plan.of)).collect();
        let (passing, others): (Vec<&Observed>, Vec<&Observed>) =
            all.iter().copied().partition(|observed| observed.passes());
        let failing: BTreeSet<&str> = others
            .iter()
            .filter(|observed| observed.result.status != PENDING)
            .map(|observed| observed.plan.service.as_str())
            .collect();
        if !failing.is_empty() {
            let names: Vec<&str> = failing.into_iter().collect();
            return Some(format!("Services not healthy by deadline: {}", names.join(", ")));
        }
        match (passing.len(), all.len()) {
            (passing, all) if passing == all => None,
            (0, _) => Some("Service checks not registered".to_owned()),
            (passing, all) => Some(format!("Only {passing} out of {all} checks registered and passing")),
        }
    }

    /// Newest results by check. Those of Consul's checks are shown by Consul.
    pub(super) fn results(&self) -> BTreeMap<Str, CheckResult> {
        let own = self.observed.iter().filter(|(_, observed)| !observed.is_at_consul());
        own.map(|(id, observed)| (id.clone(), observed.result.clone())).collect()
    }

    /// Begins anew to count failures of a workload's checks.
    pub(super) fn watch_anew(&mut self, of: &Workload) {
        self.observed
            .values_mut()
            .filter(|observed| observed.plan.of == *of)
            .for_each(|observed| observed.watch = None);
    }

    /// Workloads to restart, each with the reason. Failures count while the workload serves.
    pub(super) fn restarts(&mut self, now: Time, serves: impl Fn(&Workload) -> bool) -> Vec<(Workload, String)> {
        for observed in self.observed.values_mut() {
            observed.watch = match &observed.plan.restart {
                Some(restart) if restart.limit > 0 && serves(&observed.plan.of) => {
                    let grace_until = now.plus(restart.grace);
                    observed.watch.or(Some(Watch { grace_until, unhealthy_since: None }))
                }
                Some(_) | None => None,
            };
        }
        if self.observed.values().all(|observed| observed.watch.is_none()) {
            self.look_at = None;
            return Vec::new();
        }
        let look_at = *self.look_at.get_or_insert(now.plus(RESTART_POLL));
        if now < look_at {
            return Vec::new();
        }
        self.look_at = Some(now.plus(RESTART_POLL));
        let mut restarts: Vec<(Workload, String)> = Vec::new();
        for observed in self.observed.values_mut() {
            let known = restarts.iter().any(|(of, _)| *of == observed.plan.of);
            if !known && observed.is_due(now) {
                let reason = format!("healthcheck: check {:?} unhealthy", observed.plan.name.as_str());
                restarts.push((observed.plan.of.clone(), reason));
            }
        }
        restarts.iter().for_each(|(of, _)| self.watch_anew(of));
        restarts
    }

    /// Time of the next run or look.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let runs = self.observed.values().filter_map(|observed| match observed.next {
            Next::Run(at) => Some(at),
            Next::Answer { .. } => None,
        });
        runs.chain(self.look_at).min()
    }
}

impl Observed {
    /// Whether the newest result keeps no deployment waiting.
    fn passes(&self) -> bool {
        match self.result.status.as_str() {
            SUCCESS => true,
            WARNING => self.plan.mode != CheckMode::Healthiness,
            FAILURE => self.plan.mode == CheckMode::Readiness,
            _ => false,
        }
    }

    fn is_at_consul(&self) -> bool {
        self.plan.request == CheckRequest::AtConsul
    }

    /// Whether the check has been unhealthy for longer than its `check_restart` allows. A check that has not run yet
    /// is unhealthy; one that Consul does not know, or not yet, is left alone.
    fn is_due(&mut self, now: Time) -> bool {
        let unknown = self.is_at_consul() && self.result.status == PENDING;
        let (Some(watch), Some(restart)) = (&mut self.watch, &self.plan.restart) else { return false };
        if unknown {
            return false;
        }
        if self.result.status == SUCCESS || (self.result.status == WARNING && restart.ignore_warnings) {
            watch.unhealthy_since = None;
            return false;
        }
        if now < watch.grace_until {
            return false;
        }
        let since = *watch.unhealthy_since.get_or_insert(now);
        let allowed = self.plan.interval.nanos().saturating_mul(restart.limit - 1);
        now >= since.plus(Dur(allowed))
    }
}

/// Time until the first run of a check.
fn first_wait(plan: &CheckPlan) -> Dur {
    match plan.request {
        CheckRequest::AtConsul => Dur::ZERO,
        CheckRequest::Http { .. } | CheckRequest::Tcp { .. } | CheckRequest::Impossible(_) => {
            Dur(plan.interval.nanos() / 2)
        }
    }
}

fn waiting(plan: &CheckPlan, now: Time) -> CheckResult {
    let (mode, task) = (plan.mode, &plan.of);
    CheckResult {
        id: plan.id.clone(),
        mode: match mode {
            CheckMode::Healthiness | CheckMode::WithoutWarnings => "healthiness".into(),
            CheckMode::Readiness => "readiness".into(),
        },
        status: PENDING.into(),
        output: WAITS.into(),
        timestamp: now.nanos().div_euclid(1_000_000_000),
        status_code: 0,
        group: plan.group.clone(),
        task: match task {
            Workload::Group => Str::default(),
            Workload::Task(name) => name.clone(),
        },
        service: plan.service.clone(),
        check: plan.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_of_an_earlier_agent_stays_until_the_check_runs_again() {
        let plan = |id: &str| CheckPlan {
            id: id.into(),
            of: Workload::Group,
            group: "g".into(),
            service: "s".into(),
            name: id.into(),
            mode: CheckMode::Healthiness,
            interval: Dur::from_secs(2),
            timeout: Dur::from_secs(1),
            restart: None,
            request: CheckRequest::Tcp { address: ":1".into() },
        };
        let passed = CheckResult { status: SUCCESS.into(), ..CheckResult::default() };
        let mut checks = Checks::default();
        checks.restore([("a".into(), passed.clone()), ("gone".into(), passed)].into());
        checks.plan(vec![plan("a"), plan("b")], Time::from_secs(1));
        let told: Vec<String> = checks.results().iter().map(|(id, row)| format!("{id} {}", row.status)).collect();
        assert_eq!(told, ["a success", "b pending"]);
        assert!(checks.dirty && checks.changed && !checks.pass());
    }
}
