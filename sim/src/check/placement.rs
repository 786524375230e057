//! Whether jobs run as they should once nothing is wrong any more: what the tables say against what they want, and what nodes really run
//! against what the tables say.

use std::collections::{BTreeMap, BTreeSet};

/// How one allocation stands in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It should run, and its node has said that it does.
    Runs,
    /// It should run, and its node has not said so yet.
    Awaited,
    /// Its node is away, and nobody knows.
    Unknown,
    /// It should not run.
    Over,
}

/// One allocation, as the tables have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Its id.
    pub id: String,
    /// Its name, of which a job has each once.
    pub name: String,
    /// Whose it is.
    pub job: String,
    /// Where it is.
    pub node: String,
    /// How it stands.
    pub standing: Standing,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRuns {
    /// Which.
    pub node: String,
    /// Whether the tables have it as ready.
    pub is_ready: bool,
    /// The allocations of which it runs a process, once for each.
    pub runs: Vec<String>,
}

/// A cluster at rest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placements {
    /// How many allocations of each job should run; 0 for one that was stopped.
    pub wanted: BTreeMap<String, usize>,
    /// The tables' allocations.
    pub allocs: Vec<Placed>,
    /// The nodes.
    pub nodes: Vec<NodeRuns>,
}

/// What is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// Too many run, or too few.
    #[error("job {job} wants {wanted} allocations and has {running}")]
    Count {
        /// Which job.
        job: String,
        /// How many it wants.
        wanted: usize,
        /// How many should run, by the tables.
        running: usize,
    },
    /// One whose node is well again, or was given up.
    #[error("allocation {alloc} is stuck in unknown")]
    Unknown {
        /// By name.
        alloc: String,
    },
    /// It should run, and nobody has said that it does.
    #[error("allocation {alloc} should run on {node}, which has not said that it does")]
    Awaited {
        /// By name.
        alloc: String,
        /// Where.
        node: String,
    },
    /// Two allocations of a job that run have one name.
    #[error("two allocations are called {name}")]
    Name {
        /// The name.
        name: String,
    },
    /// A node that is well is not ready.
    #[error("{node} is not ready")]
    NotReady {
        /// Which.
        node: String,
    },
    /// One should run on a node that is not there.
    #[error("allocation {alloc} should run on {node}, which there is not")]
    Nowhere {
        /// By name.
        alloc: String,
        /// Where.
        node: String,
    },
    /// The tables believe that it runs.
    #[error("{node} does not run {alloc}, and the tables say that it does")]
    Missing {
        /// By name.
        alloc: String,
        /// Where.
        node: String,
    },
    /// A node runs what was stopped, or what it never should have.
    #[error("{node} runs {alloc}, and should not")]
    Stray {
        /// By id.
        alloc: String,
        /// Where.
        node: String,
    },
    /// A node runs an allocation more than once.
    #[error("{node} runs {alloc} twice")]
    Twice {
        /// By id.
        alloc: String,
        /// Where.
        node: String,
    },
}

/// Checks a cluster at rest: every job has as many allocations as it wants, each with a name of its own, on a node that is ready and runs
/// exactly what it should.
pub fn placements_are_sound(placements: &Placements) -> Result<(), PlacementError> {
    let Placements { wanted, allocs, nodes } = placements;
    if let Some(unknown) = allocs.iter().find(|alloc| alloc.standing == Standing::Unknown) {
        return Err(PlacementError::Unknown { alloc: unknown.name.clone() });
    }
    let live: Vec<&Placed> = allocs.iter().filter(|alloc| alloc.standing != Standing::Over).collect();
    let jobs: BTreeSet<&String> = wanted.keys().chain(live.iter().map(|alloc| &alloc.job)).collect();
    for job in jobs {
        let running = live.iter().filter(|alloc| alloc.job == *job).count();
        let wanted = wanted.get(job).copied().unwrap_or(0);
        if running != wanted {
            return Err(PlacementError::Count { job: job.clone(), wanted, running });
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
            Some(there) if !there.runs.contains(&alloc.id) => return Err(PlacementError::Missing { alloc: name, node }),
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

#[cfg(test)]
mod tests;
