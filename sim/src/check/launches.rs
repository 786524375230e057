//! Launches of periodic jobs: each of a job's times is launched at most once, in order, not before its time; and while
//! one server leads, no time is left out.

use std::collections::BTreeMap;

/// The launch of a periodic job. Times are Unix seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Index of the entry that registered the child.
    pub index: u64,
    /// Id of the child.
    pub child: String,
    /// Time of the launch by the job's schedule.
    pub at: i64,
    /// Time of the entry.
    pub written: i64,
    /// Times of the schedule between the launch before and this one, or since the registration of the job. Empty for a
    /// job that skips launches while a child runs.
    pub left_out: Vec<i64>,
    /// Whether another server began to lead since the launch before, or since the registration of the job.
    pub leader_changed: bool,
}

/// A launch that should not have happened, or is missing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// One time was launched twice.
    #[error("{child} was launched at index {first} and again at index {second}")]
    Twice {
        /// Id of the child.
        child: String,
        /// Index of the first launch.
        first: u64,
        /// Index of the second one.
        second: u64,
    },
    /// A launch came before its time.
    #[error("{child} was launched {early} s before its time")]
    Early {
        /// Id of the child.
        child: String,
        /// Seconds before its time.
        early: i64,
    },
    /// A time between two launches has none, although one server led all the time.
    #[error("{child} was launched and the launch for {left_out} was left out, under one leader")]
    LeftOut {
        /// Id of the later child.
        child: String,
        /// The time without a launch.
        left_out: i64,
    },
    /// No server launches the job any more.
    #[error("the launch of {job} for {due} is late")]
    Late {
        /// Id of the periodic job.
        job: String,
        /// Time of the launch.
        due: i64,
    },
}

/// The launches so far, by child.
#[derive(Debug, Clone, Default)]
pub struct Launches(BTreeMap<String, u64>);

impl Launches {
    /// Records a launch. An error when it should not have happened, or another one is missing before it.
    pub fn note(&mut self, launch: &Launch) -> Result<(), LaunchError> {
        let child = launch.child.clone();
        if let Some(first) = self.0.insert(child.clone(), launch.index) {
            return Err(LaunchError::Twice { child, first, second: launch.index });
        }
        if launch.written < launch.at {
            return Err(LaunchError::Early { child, early: launch.at - launch.written });
        }
        match launch.left_out.first().filter(|_| !launch.leader_changed) {
            Some(left_out) => Err(LaunchError::LeftOut { child, left_out: *left_out }),
            None => Ok(()),
        }
    }

    /// Number of launches.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there was no launch.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests;
