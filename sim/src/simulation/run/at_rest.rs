//! The end of a simulation: the checks of a cluster on which nothing is wrong any more.

use std::sync::Arc;
use std::time::Duration;

use songline_projections::State;

use super::super::client::Client;
use super::super::record::Violation;
use super::super::rest::{late_launches, open_ends, placements, told};
use super::super::server::Host;
use super::{Cluster, QUIET_AT_LAST, REST_WITHIN, SABOTAGED_REST_WITHIN};
use crate::check::{LaunchError, all_is_settled, placements_are_sound};

/// Time for which jobs have to stay as they should be.
const REST_STAYS: Duration = Duration::from_secs(5);
/// Seconds by which a launch may be late: those of a vote, and of a full disk that just became free.
const LAUNCH_LATE_SECS_MAX: i64 = 15;

impl Cluster {
    /// Checks that the cluster makes progress.
    pub(super) async fn quiesce(&self, seed: u64) {
        let mut client = Client::new(999, seed, &self.hosts, &self.network, &self.record);
        let answered = async {
            let mut answered = 0;
            while answered < 5 {
                answered += u32::from(client.operate().await);
            }
        };
        if tokio::time::timeout(QUIET_AT_LAST, answered).await.is_err() {
            self.record.found(Violation::Stuck("nothing is wrong any more, and yet clients get no answers".to_owned()));
        }
    }

    /// Checks that the operations of the operator come to their ends.
    pub(super) async fn membership_comes_to_rest(&self) {
        if tokio::time::timeout(QUIET_AT_LAST, self.operator.at_rest()).await.is_err() {
            self.record.found(Violation::Stuck(
                "nothing is wrong any more, and yet the membership does not become what it should".to_owned(),
            ));
        }
    }

    /// Checks that all servers reach the same end of the log.
    pub(in super::super) async fn come_to_rest(&self) {
        let wanted = || self.hosts.iter().filter(|host| host.is_wanted());
        let same = async {
            loop {
                let last: Vec<_> = wanted().map(|host| host.life().and_then(|life| life.log().applied())).collect();
                if last.iter().all(|applied| applied.is_some() && *applied == last[0]) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        if tokio::time::timeout(QUIET_AT_LAST, same).await.is_err() {
            let last: Vec<_> =
                wanted().map(|host| (host.machine(), host.life().and_then(|life| life.log().applied()))).collect();
            self.record
                .found(Violation::Stuck(format!("nothing is wrong any more, and yet servers stay behind: {last:?}")));
        }
    }

    /// Checks that all jobs run as they should, and stay so.
    pub(super) async fn jobs_come_to_rest(&self) {
        if self.record.violation().is_some() {
            return;
        }
        let within = if self.record.sabotage().is_some() { SABOTAGED_REST_WITHIN } else { REST_WITHIN };
        let since = tokio::time::Instant::now();
        let mut sound_since = None;
        loop {
            let verdict = self.jobs();
            match &verdict {
                Ok(()) if sound_since.is_some_and(|at: tokio::time::Instant| at.elapsed() >= REST_STAYS) => {
                    let took = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
                    self.record.note(&format!("all jobs run as they should after {took} ms"));
                    return self.record.count(|counts| counts.rest_ms = took);
                }
                Ok(()) => drop(sound_since.get_or_insert_with(tokio::time::Instant::now)),
                Err(_) => sound_since = None,
            }
            if let Err(why) = verdict
                && since.elapsed() >= within
            {
                self.record.tell(self.rows());
                return self.record.found(why);
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Whether all jobs run as they should now.
    pub(in super::super) fn jobs(&self) -> Result<(), Violation> {
        let Some((host, view)) = self.leading() else { return Err(Violation::Stuck("nobody rules".to_owned())) };
        all_is_settled(&open_ends(&view, host.now()))?;
        Ok(placements_are_sound(&placements(&view, &self.nodes))?)
    }

    /// Checks that periodic jobs are launched again when nothing is wrong any more.
    pub(super) async fn launches_go_on(&self) {
        let late = || {
            self.leading().map_or_else(Vec::new, |(host, view)| late_launches(&view, host.now(), LAUNCH_LATE_SECS_MAX))
        };
        let since = tokio::time::Instant::now();
        while let Some((job, due)) = late().into_iter().next() {
            if since.elapsed() >= QUIET_AT_LAST {
                self.record.tell(self.rows());
                return self.record.found(LaunchError::Late { job, due }.into());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// The machine whose server leads, and the state there.
    pub(in super::super) fn leading(&self) -> Option<(&Arc<Host>, Arc<State>)> {
        let leads = |host: &Arc<Host>| host.life().filter(|life| life.core.leads());
        self.hosts.iter().find_map(|host| Some((host, leads(host)?.view())))
    }

    /// The jobs' rows as text, for analysing a failure.
    pub(in super::super) fn rows(&self) -> Vec<String> {
        let life = self.hosts.iter().find_map(|host| host.life());
        life.map(|life| told(&life.view(), &self.nodes)).unwrap_or_default()
    }
}
