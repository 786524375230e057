//! Launch times of periodic jobs: those of all their cron expressions, in the job's time zone.

use songline_model::{PeriodicConfig, Time};

use crate::cron::Cron;
use crate::zone::Zone;

/// Length of the first search for the latest launch, in seconds. Each further search goes back twice as far.
const LATEST_SEARCH_SECS: i64 = 60;

/// The launch times of a periodic job.
#[derive(Debug, Clone)]
pub struct Schedule {
    crons: Vec<Cron>,
    /// Launch times in Unix seconds: the spec type of the reference's own tests.
    times: Vec<i64>,
    zone: Zone,
}

impl Schedule {
    /// The schedule of a periodic block. Expressions that cannot be parsed have no launch times, and an unknown time
    /// zone is UTC: both are refused when a job is registered.
    pub fn of(periodic: &PeriodicConfig) -> Self {
        let specs =
            Some(&periodic.spec).filter(|spec| !spec.is_empty()).into_iter().chain(periodic.specs.iter().flatten());
        let (mut crons, mut times) = (Vec::new(), Vec::new());
        for spec in specs {
            if periodic.spec_type == "cron" {
                crons.extend(Cron::parse(spec));
            } else {
                times.extend(spec.split(',').filter_map(|time| time.trim().parse::<i64>().ok()));
            }
        }
        Self { crons, times, zone: Zone::named(&periodic.time_zone).unwrap_or_default() }
    }

    /// The first launch time after `after`, a whole second. `None`: there is no further one.
    pub fn next(&self, after: Time) -> Option<Time> {
        let after = after.secs();
        let ahead = |at: i64| self.zone.ahead(at);
        let of_crons = self.crons.iter().filter_map(|cron| cron.next(after, &ahead));
        let listed = self.times.iter().copied().filter(|time| *time > after);
        of_crons.chain(listed).min().map(Time::from_secs)
    }

    /// The last launch time that is after `after` and not after `until`.
    pub fn latest(&self, after: Time, until: Time) -> Option<Time> {
        let first = self.next(after).filter(|first| *first <= until)?;
        let mut back = LATEST_SEARCH_SECS;
        while until.secs() - back > first.secs() {
            let from = Time::from_secs(until.secs() - back);
            if let Some(found) = self.last_of(from, until) {
                return Some(found);
            }
            back = back.saturating_mul(2);
        }
        self.last_of(first, until).or(Some(first))
    }

    fn last_of(&self, from: Time, until: Time) -> Option<Time> {
        std::iter::successors(self.next(from), |time| self.next(*time)).take_while(|time| *time <= until).last()
    }

    /// A time in the schedule's time zone, in RFC 3339.
    pub fn shown(&self, at: Time) -> Option<String> {
        self.zone.shown(at.secs())
    }
}

#[cfg(test)]
mod tests;
