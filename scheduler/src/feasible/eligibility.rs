//! What is known of whole classes of nodes: one check answers for all nodes of a class, and a blocked evaluation waits only for classes
//! that could help it.

use std::collections::BTreeMap;

use songline_model::Str;

/// What one attempt learnt about classes of nodes.
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

/// What is known of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassStatus {
    /// Its nodes pass.
    Eligible,
    /// Its nodes do not pass.
    Ineligible,
    /// Nothing yet.
    Unknown,
    /// Its nodes differ in what is asked for: each has to be checked.
    Escaped,
}

impl Eligibility {
    /// Says whether the constraints of the job tell apart nodes of one class.
    pub fn set_job(&mut self, escapes: bool) {
        self.job_escapes = escapes;
    }

    /// Says it of a group.
    pub fn set_group(&mut self, group: &Str, escapes: bool) {
        self.groups.entry(group.clone()).or_default().escapes = escapes;
    }

    /// What is known for the job.
    pub fn job_status(&self, class: &str) -> ClassStatus {
        status(self.job_escapes, &self.job, class)
    }

    /// What is known for a group.
    pub fn group_status(&self, group: &str, class: &str) -> ClassStatus {
        match self.groups.get(group) {
            Some(group) => status(group.escapes, &group.classes, class),
            None => ClassStatus::Unknown,
        }
    }

    /// Remembers a check of the job.
    pub fn record_job(&mut self, class: &Str, eligible: bool) {
        record(&mut self.job, class, eligible);
    }

    /// Remembers a check of a group.
    pub fn record_group(&mut self, group: &Str, class: &Str, eligible: bool) {
        match self.groups.get_mut(group) {
            Some(group) => record(&mut group.classes, class, eligible),
            None => record(&mut self.groups.entry(group.clone()).or_default().classes, class, eligible),
        }
    }

    /// Whether any constraint told apart nodes of one class.
    pub fn has_escaped(&self) -> bool {
        self.job_escapes || self.groups.values().any(|group| group.escapes)
    }

    /// Classes with whether any group could use them. What the job forbids no group can use.
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
        // A node without a class stands for itself.
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
