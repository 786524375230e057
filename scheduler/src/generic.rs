//! The scheduler of service and batch jobs: a job has a number of allocations per group, and each gets the best of the
//! nodes. [`crate::attempts`] repeats it until its plan is accepted.

mod ask;
mod attempt;
mod grant;
mod nodes;
mod older;
mod properties;
mod quota;
mod room;
pub(crate) mod stack;
mod tasks;
pub(crate) mod update;
mod usage;

pub(crate) use attempt::run;
pub use tasks::tasks_updated;

#[cfg(test)]
pub(crate) mod tests;
