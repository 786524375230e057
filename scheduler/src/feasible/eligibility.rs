//! Eligibility of node classes: one check answers for all nodes of a class, and a blocked evaluation waits only for
//! classes that could run it.

use std::collections::BTreeMap;

use songline_model::{Job, Str, TaskGroup};

use super::{escape, of_group, of_job};

/// Eligibility of node classes as found by one attempt.
#[derive(Debug, Clone, Default)]
pub struct Eligibility {
    job_escapes: bool,
    job: BTreeMap<Str, bool>,
    groups: BTreeMap<Str, GroupEligibility>,
}

#[derive(Debug, Clone, Default)]
struct GroupEligibility {
    escapes: bool,
    classes: BTreeMap<Str, bool>,
}

/// Eligibility of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassStatus {
    /// Nodes of the class pass.
    Eligible,
    /// Nodes of the class do not pass.
    Ineligible,
    /// No node of the class was checked yet.
    Unknown,
    /// Nodes of the class may differ in the checked property: each node has to be checked.
    Escaped,
}

impl Eligibility {
    /// Eligibility before any class was checked. It has the constraints of every group, also of those that place nothing.
    pub fn of(job: &Job) -> Self {
        let of_group = |group: &TaskGroup| GroupEligibility { escapes: escape(of_group(group)), ..Default::default() };
        let groups = job.groups().map(|group| (group.name.clone(), of_group(group))).collect();
        Self { job_escapes: escape(of_job(job)), job: BTreeMap::new(), groups }
    }

    /// Eligibility of a class for the job.
    pub fn job_status(&self, class: &str) -> ClassStatus {
        status(self.job_escapes, &self.job, class)
    }

    /// Eligibility of a class for a group.
    pub fn group_status(&self, group: &str, class: &str) -> ClassStatus {
        match self.groups.get(group) {
            Some(group) => status(group.escapes, &group.classes, class),
            None => ClassStatus::Unknown,
        }
    }

    /// Records the check of the job on a node of the class.
    pub fn record_job(&mut self, class: &Str, eligible: bool) {
        record(&mut self.job, class, eligible);
    }

    /// Records the check of a group on a node of the class.
    pub fn record_group(&mut self, group: &Str, class: &Str, eligible: bool) {
        match self.groups.get_mut(group) {
            Some(group) => record(&mut group.classes, class, eligible),
            None => record(&mut self.groups.entry(group.clone()).or_default().classes, class, eligible),
        }
    }

    /// Whether any constraint can differ between nodes of one class.
    pub fn has_escaped(&self) -> bool {
        self.job_escapes || self.groups.values().any(|group| group.escapes)
    }

    /// All checked classes, each with whether at least one group could use it. A class that the job's constraints
    /// exclude is unusable.
    pub fn classes(&self) -> BTreeMap<Str, bool> {
        let mut classes: BTreeMap<Str, bool> = BTreeMap::new();
        for (class, eligible) in self.groups.values().flat_map(|group| &group.classes) {
            let known = classes.entry(class.clone()).or_insert(false);
            *known |= eligible;
        }
        for (class, eligible) in &self.job {
            if *eligible {
                classes.entry(class.clone()).or_insert(true);
            } else {
                classes.insert(class.clone(), false);
            }
        }
        classes
    }
}

fn status(escapes: bool, classes: &BTreeMap<Str, bool>, class: &str) -> ClassStatus {
    match classes.get(class) {
        // A node without a class is checked on its own.
        _ if escapes || class.is_empty() => ClassStatus::Escaped,
        Some(true) => ClassStatus::Eligible,
        Some(false) => ClassStatus::Ineligible,
        None => ClassStatus::Unknown,
    }
}

fn record(classes: &mut BTreeMap<Str, bool>, class: &Str, eligible: bool) {
    if !class.is_empty() && classes.get(class) != Some(&eligible) {
        classes.insert(class.clone(), eligible);
    }
}
