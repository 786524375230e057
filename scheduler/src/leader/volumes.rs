//! The volume watcher: finds claims whose allocs are gone or terminal, and has them released. It looks at every claimed
//! volume once at the start of a term, at a volume whenever its row changes, and at all of them at every garbage
//! collection. A stopped job or a silent node alone is no reason to look: the nodes release claims themselves.
//!
//! A volume without past claims is settled and leaves the watcher. The steps of a release are in [`crate::csi`].

use std::collections::BTreeMap;

use songline_model::{AllocId, CsiVolume, CsiVolumeKey, Dur, Time};
use songline_projections::{Change, State};

use super::backoff::backoff;

/// Most releases at a time. Each waits for a node or a controller.
const RELEASES_MAX: usize = 32;
/// Wait after the first failed release of a claim; each further failure doubles it.
const RETRY_WAIT_FIRST: Dur = Dur::from_secs(5);
/// Longest wait after a failed release.
const RETRY_WAIT_MAX: Dur = Dur::from_mins(5);

/// A claim that the shell has to release now. The outcome goes to [`Volumes::on_outcome`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The volume.
    pub volume: CsiVolumeKey,
    /// The alloc that holds the claim.
    pub alloc: AllocId,
}

/// Claimed volumes that are not settled.
#[derive(Debug, Clone, Default)]
pub struct Volumes {
    watched: BTreeMap<CsiVolumeKey, Watched>,
    running: usize,
}

/// A volume that may have past claims.
#[derive(Debug, Clone, Default)]
struct Watched {
    /// Whether the row may have past claims that are not in `claims`.
    is_due: bool,
    claims: BTreeMap<AllocId, Attempt>,
}

/// The last attempt to release a claim.
#[derive(Debug, Clone, Copy)]
enum Attempt {
    /// Under way after so many failures.
    Running { failures: u32 },
    /// Failed so many times; the next attempt is at this time.
    Failed { failures: u32, again_at: Time },
}

impl Volumes {
    /// A watcher without volumes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets everything, and looks at all claimed volumes. A new leader calls this: an interrupted one may have
    /// released half of a claim.
    pub fn restore(&mut self, view: &State) {
        *self = Self::default();
        self.look_at_all(view, u64::MAX);
    }

    /// Forgets everything. Outcomes of releases that are under way are ignored.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Looks at all claimed volumes that are as old as the cutoff, which is a create index.
    pub fn look_at_all(&mut self, view: &State, cutoff: u64) {
        for volume in view.csi_volumes().filter(|volume| is_claimed(volume) && volume.create_index <= cutoff) {
            self.look_at(volume);
        }
    }

    /// Notes changed volumes. Returns whether there is one to look at.
    pub fn on_changes(&mut self, changes: &[Change]) -> bool {
        for change in changes {
            match change {
                Change::CsiVolume { after: Some(volume), .. } if is_claimed(volume) => self.look_at(volume),
                _ => {}
            }
        }
        self.watched.values().any(|watched| watched.is_due)
    }

    fn look_at(&mut self, volume: &CsiVolume) {
        self.watched.entry(volume.key()).or_default().is_due = true;
    }

    /// The releases to start at `now`, and none for a claim whose release is under way.
    pub fn on_time(&mut self, view: &State, now: Time) -> Vec<Release> {
        let mut releases = Vec::new();
        let running = &mut self.running;
        self.watched.retain(|key, watched| {
            if *running >= RELEASES_MAX || !watched.wants(now) {
                return true;
            }
            let volume = view.csi_volume_by_key(key).map(|row| view.denormalize(row).volume);
            let past = volume.map(|volume| volume.past_claims).unwrap_or_default();
            watched.claims.retain(|alloc, last| past.contains_key(alloc) || matches!(last, Attempt::Running { .. }));
            watched.is_due = false;
            for alloc in past.into_keys() {
                let failures = match watched.claims.get(&alloc) {
                    None => 0,
                    Some(Attempt::Failed { failures, again_at }) if *again_at <= now => *failures,
                    Some(Attempt::Failed { .. } | Attempt::Running { .. }) => continue,
                };
                if *running >= RELEASES_MAX {
                    watched.is_due = true;
                    break;
                }
                *running += 1;
                watched.claims.insert(alloc, Attempt::Running { failures });
                releases.push(Release { volume: key.clone(), alloc });
            }
            watched.is_due || !watched.claims.is_empty()
        });
        releases
    }

    /// Takes the outcome of a release.
    pub fn on_outcome(&mut self, release: &Release, is_freed: bool, now: Time) {
        let Some(watched) = self.watched.get_mut(&release.volume) else { return };
        let Some(Attempt::Running { failures }) = watched.claims.get(&release.alloc).copied() else { return };
        self.running = self.running.saturating_sub(1);
        if is_freed {
            watched.claims.remove(&release.alloc);
            watched.is_due = true;
        } else {
            let again_at = now.plus(backoff(failures, RETRY_WAIT_FIRST, RETRY_WAIT_MAX));
            watched.claims.insert(release.alloc, Attempt::Failed { failures: failures.saturating_add(1), again_at });
        }
    }

    /// The next time at which [`Self::on_time`] has work. `None`: every volume is settled, or as many releases as
    /// allowed are under way.
    pub fn next_deadline(&self) -> Option<Time> {
        if self.running >= RELEASES_MAX {
            return None;
        }
        self.watched.values().filter_map(Watched::deadline).min()
    }

    /// Number of volumes that are not settled.
    pub fn len(&self) -> usize {
        self.watched.len()
    }

    /// Whether every volume is settled.
    pub fn is_empty(&self) -> bool {
        self.watched.is_empty()
    }
}

impl Watched {
    fn deadline(&self) -> Option<Time> {
        if self.is_due {
            return Some(Time::from_nanos(0));
        }
        let failed = |attempt: &Attempt| match attempt {
            Attempt::Running { .. } => None,
            Attempt::Failed { again_at, .. } => Some(*again_at),
        };
        self.claims.values().filter_map(failed).min()
    }

    fn wants(&self, now: Time) -> bool {
        self.deadline().is_some_and(|at| at <= now)
    }
}

/// Whether the volume may have claims to release.
fn is_claimed(volume: &CsiVolume) -> bool {
    volume.in_use() || !volume.past_claims.is_empty()
}

#[cfg(test)]
mod tests;
