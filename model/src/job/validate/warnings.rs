//! Warnings about a valid job.

use crate::job::errors::Errors;
use crate::{Dur, Job, Task, TaskGroup};

impl Job {
    /// The warnings, one per item.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for group in self.groups() {
            if let Err(found) = group.warnings(self).into_result() {
                warnings.push(format!("Group {:?} has warnings: {found}", group.name));
            }
        }
        let updates = || self.groups().filter_map(|group| group.update.as_ref());
        // Groups without canaries need no promotion, so they are ignored.
        if updates().any(|update| update.auto_promote)
            && !updates().all(|update| update.canary == 0 || update.auto_promote)
        {
            warnings.push("auto_promote must be true for all groups to enable automatic promotion".into());
        }
        if self.periodic.as_ref().is_some_and(|periodic| !periodic.spec.is_empty()) {
            warnings.push("cron is deprecated and may be removed in a future release. Use crons instead".into());
        }
        warnings
    }
}

impl TaskGroup {
    fn warnings(&self, job: &Job) -> Errors {
        let mut warnings = Errors::new();
        let count_comes_later = job.is_multiregion() && job.region == "global";
        if let Some(update) = &self.update
            && self.count > 1
            && update.max_parallel > self.count
            && !count_comes_later
        {
            warnings.push(format!(
                "Update max parallel count is greater than task group count ({} > {}). \
                 A destructive change would result in the simultaneous replacement of all allocations.",
                update.max_parallel, self.count
            ));
        }
        if self.networks.iter().flatten().next().is_some_and(|network| network.mbits > 0) {
            warnings.push("mbits has been deprecated as of Nomad 0.12.0. Please remove mbits from the network block");
        }
        for task in self.tasks.iter().flatten() {
            for warning in task.warnings() {
                warnings.push(format!("Task {:?}: {warning}", task.name));
            }
        }
        warnings
    }
}

impl Task {
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(resources) = &self.resources {
            if resources.iops != 0 {
                warnings
                    .push("IOPS has been deprecated as of Nomad 0.9.0. Please remove IOPS from resource block.".into());
            }
            if resources.networks.iter().flatten().next().is_some() {
                warnings.push(
                    "task network resources have been deprecated as of Nomad 0.12.0. Please configure networking via group network block."
                        .into(),
                );
            }
        }
        for (index, template) in self.templates.iter().flatten().enumerate() {
            if template.vault_grace != Dur::ZERO {
                warnings.push(format!(
                    "Template[{index}] VaultGrace has been deprecated as of Nomad 0.11 and ignored since Vault 0.5. \
                     Please remove VaultGrace / vault_grace from template block."
                ));
            }
        }
        warnings
    }
}
