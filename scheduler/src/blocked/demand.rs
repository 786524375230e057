//! Resources that blocked evaluations wait for, summed by job and by datacenter and node class. Kept as evaluations
//! come and go, so that a scrape walks no evaluation.

use std::collections::{BTreeMap, BTreeSet};

use songline_model::{Evaluation, JobKey, Str};

/// Resources that ran out for the groups of blocked evaluations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    /// CPU shares, in MHz.
    pub cpu: i64,
    /// Memory in MiB.
    pub memory: i64,
}

/// Resources that the blocked evaluations wait for. Jobs and places without an evaluation are left out.
#[derive(Debug, Clone, Default)]
pub struct Demand {
    jobs: BTreeMap<JobKey, Sum>,
    places: BTreeMap<(Str, Str), Sum>,
}

#[derive(Debug, Clone, Default)]
struct Sum {
    wanted: Wanted,
    /// Number of evaluations in the sum.
    evals: u64,
}

impl Demand {
    /// The sum of each job.
    pub fn by_job(&self) -> impl Iterator<Item = (&JobKey, Wanted)> {
        self.jobs.iter().map(|(job, sum)| (job, sum.wanted))
    }

    /// The sum of each datacenter and node class in which a group found no room. An evaluation counts whole in each.
    pub fn by_place(&self) -> impl Iterator<Item = (&Str, &Str, Wanted)> {
        self.places.iter().map(|((datacenter, class), sum)| (datacenter, class, sum.wanted))
    }

    pub(super) fn add(&mut self, eval: &Evaluation) {
        let wanted = wanted(eval);
        self.jobs.entry(job(eval)).or_default().add(wanted);
        for place in places(eval) {
            self.places.entry(place).or_default().add(wanted);
        }
    }

    pub(super) fn remove(&mut self, eval: &Evaluation) {
        let wanted = wanted(eval);
        remove(&mut self.jobs, &job(eval), wanted);
        for place in places(eval) {
            remove(&mut self.places, &place, wanted);
        }
    }
}

impl Sum {
    fn add(&mut self, wanted: Wanted) {
        self.wanted.cpu += wanted.cpu;
        self.wanted.memory += wanted.memory;
        self.evals += 1;
    }
}

fn remove<K: Ord>(sums: &mut BTreeMap<K, Sum>, key: &K, wanted: Wanted) {
    let Some(sum) = sums.get_mut(key) else { return };
    sum.wanted.cpu -= wanted.cpu;
    sum.wanted.memory -= wanted.memory;
    sum.evals -= 1;
    if sum.evals == 0 {
        sums.remove(key);
    }
}

fn job(eval: &Evaluation) -> JobKey {
    JobKey { namespace: eval.namespace.clone(), id: eval.job_id.clone() }
}

fn wanted(eval: &Evaluation) -> Wanted {
    let failed = eval.failed_tg_allocs.iter().flat_map(|groups| groups.values());
    let tasks = failed.flat_map(|metric| metric.resources_exhausted.iter().flat_map(|tasks| tasks.values()));
    tasks.fold(Wanted::default(), |sum, task| Wanted { cpu: sum.cpu + task.cpu, memory: sum.memory + task.memory_mb })
}

fn places(eval: &Evaluation) -> BTreeSet<(Str, Str)> {
    let mut places = BTreeSet::new();
    for metric in eval.failed_tg_allocs.iter().flat_map(|groups| groups.values()) {
        for datacenter in metric.nodes_available.as_deref().into_iter().flatten().map(|(datacenter, _)| datacenter) {
            for class in metric.class_exhausted.as_deref().into_iter().flatten().map(|(class, _)| class) {
                places.insert((datacenter.clone(), class.clone()));
            }
        }
    }
    places
}
