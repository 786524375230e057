//! Placement of jobs in a cluster at rest: compares the tables with the jobs' counts, and the nodes' processes with
//! the tables.

use std::collections::{BTreeMap, BTreeSet};

/// State of one allocation in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Desired to run, and its node reports it as running.
    Runs,
    /// Desired to run, and its node has not reported it as running yet.
    Awaited,
    /// Its node is disconnected, so its state is unknown.
    Unknown,
    /// Its tasks ended as they should, under the job's present version; its job wants no other in its place.
    Done,
    /// Not desired to run.
    Over,
}

/// One allocation in the tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Allocation id.
    pub id: String,
    /// Allocation name, unique in its job; for a job that runs on each node once, with the node's name.
    pub name: String,
    /// Job.
    pub job: String,
    /// Node.
    pub node: String,
    /// State.
    pub standing: Standing,
}

/// One node and its processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRuns {
    /// Node name.
    pub node: String,
    /// Whether the tables have the node as ready.
    pub is_ready: bool,
    /// The allocation ids of its processes, one for each process.
    pub runs: Vec<String>,
}

/// The number of allocations that a job asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Number of allocations that run or are done; 0 for a stopped job.
    pub count: usize,
    /// Whether there may be fewer: an evaluation of the job waits for room, or its deployment failed.
    pub may_lack: bool,
}

/// A cluster at rest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placements {
    /// The demand of each job.
    pub wanted: BTreeMap<String, Wanted>,
    /// Allocations in the tables.
    pub allocs: Vec<Placed>,
    /// Nodes.
    pub nodes: Vec<NodeRuns>,
}

/// A fault in the placements.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// Too many or too few allocations of a job.
    #[error("job {job} wants {wanted} allocations and has {has}")]
    Count {
        /// Job.
        job: String,
        /// Wanted number.
        wanted: usize,
        /// Number that is desired to run or is done, by the tables.
        has: usize,
    },
    /// An unknown allocation, although its node is ready or down.
    #[error("allocation {alloc} is stuck in unknown")]
    Unknown {
        /// Allocation name.
        alloc: String,
    },
    /// An allocation that is desired to run and not reported as running.
    #[error("allocation {alloc} should run on {node}, which has not said that it does")]
    Awaited {
        /// Allocation name.
        alloc: String,
        /// Node.
        node: String,
    },
    /// Two running allocations of a job have the same name.
    #[error("two allocations are called {name}")]
    Name {
        /// Allocation name.
        name: String,
    },
    /// A healthy node is not ready.
    #[error("{node} is not ready")]
    NotReady {
        /// Node.
        node: String,
    },
    /// An allocation on a node that does not exist.
    #[error("allocation {alloc} should run on {node}, which there is not")]
    Nowhere {
        /// Allocation name.
        alloc: String,
        /// Node.
        node: String,
    },
    /// An allocation without a process, although its node reported it as running.
    #[error("{node} does not run {alloc}, and the tables say that it does")]
    Missing {
        /// Allocation name.
        alloc: String,
        /// Node.
        node: String,
    },
    /// A process of an allocation that was stopped, or that the node never got.
    #[error("{node} runs {alloc}, and should not")]
    Stray {
        /// Allocation id.
        alloc: String,
        /// Node.
        node: String,
    },
    /// A node runs more than one process of an allocation.
    #[error("{node} runs {alloc} twice")]
    Twice {
        /// Allocation id.
        alloc: String,
        /// Node.
        node: String,
    },
}

/// Checks a cluster at rest: every job has as many allocations as it wants, or fewer and waits for room; each has a
/// unique name and is on a ready node that runs exactly the processes it should.
pub fn placements_are_sound(placements: &Placements) -> Result<(), PlacementError> {
    let Placements { wanted, allocs, nodes } = placements;
    if let Some(unknown) = allocs.iter().find(|alloc| alloc.standing == Standing::Unknown) {
        return Err(PlacementError::Unknown { alloc: unknown.name.clone() });
    }
    let is_live = |alloc: &&Placed| !matches!(alloc.standing, Standing::Over | Standing::Done);
    let live: Vec<&Placed> = allocs.iter().filter(is_live).collect();
    let jobs: BTreeSet<&String> = wanted.keys().chain(live.iter().map(|alloc| &alloc.job)).collect();
    for job in jobs {
        let running = live.iter().filter(|alloc| alloc.job == *job).count();
        let has = running + done(allocs, job, &live);
        let Wanted { count, may_lack } = wanted.get(job).copied().unwrap_or_default();
        if running > count || (has < count && !may_lack) {
            return Err(PlacementError::Count { job: job.clone(), wanted: count, has });
        }
    }
    let mut names = BTreeSet::new();
    if let Some(second) = live.iter().find(|alloc| !names.insert(&alloc.name)) {
        return Err(PlacementError::Name { name: second.name.clone() });
    }
    for alloc in &live {
        let (name, node) = (alloc.name.clone(), alloc.node.clone());
        if alloc.standing == Standing::Awaited {
            return Err(PlacementError::Awaited { alloc: name, node });
        }
        match nodes.iter().find(|there| there.node == node) {
            None => return Err(PlacementError::Nowhere { alloc: name, node }),
            Some(there) if !there.runs.contains(&alloc.id) => {
                return Err(PlacementError::Missing { alloc: name, node });
            }
            Some(_) => {}
        }
    }
    for there in nodes {
        let mut seen = BTreeSet::new();
        for id in &there.runs {
            let (alloc, node) = (id.clone(), there.node.clone());
            if !live.iter().any(|placed| placed.id == *id && placed.node == node) {
                return Err(PlacementError::Stray { alloc, node });
            }
            if !seen.insert(id) {
                return Err(PlacementError::Twice { alloc, node });
            }
        }
        if !there.is_ready {
            return Err(PlacementError::NotReady { node: there.node.clone() });
        }
    }
    Ok(())
}

/// Number of names whose allocation is done, and that no other allocation has taken since.
fn done(allocs: &[Placed], job: &str, live: &[&Placed]) -> usize {
    let done = allocs.iter().filter(|alloc| alloc.job == job && alloc.standing == Standing::Done);
    let names: BTreeSet<&String> = done.map(|alloc| &alloc.name).collect();
    names.into_iter().filter(|name| !live.iter().any(|alloc| alloc.name == **name)).count()
}

#[cfg(test)]
mod tests;
