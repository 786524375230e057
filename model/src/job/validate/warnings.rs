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
        // The warnings of one task are one list, and so are those of one template inside it.
        for task in self.tasks.iter().flatten() {
            let mut of_task = Errors::new();
            for warning in task.warnings().list() {
                of_task.push(format!("Task {:?}: {warning}", task.name));
            }
            warnings.nest(of_task.into_result());
        }
        warnings
    }
}

impl Task {
    fn warnings(&self) -> Errors {
        let mut warnings = Errors::new();
        if let Some(resources) = &self.resources {
            if resources.iops != 0 {
                warnings.push("IOPS has been deprecated as of Nomad 0.9.0. Please remove IOPS from resource block.");
            }
            if resources.networks.iter().flatten().next().is_some() {
                warnings.push(
                    "task network resources have been deprecated as of Nomad 0.12.0. Please configure networking via group network block.",
                );
            }
        }
        for (index, template) in self.templates.iter().flatten().enumerate() {
            if template.vault_grace != Dur::ZERO {
                let warning = format!(
                    "Template[{index}] VaultGrace has been deprecated as of Nomad 0.11 and ignored since Vault 0.5. \
                     Please remove VaultGrace / vault_grace from template block."
                );
                warnings.nest(Err(warning.into()));
            }
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn warnings_of_a_task_are_one_list_and_those_of_a_template_another_inside() {
        let task = json!({
            "Name": "t",
            "Resources": {"IOPS": 1},
            "Templates": [{"VaultGrace": 1}],
        });
        let job = json!({"Region": "global", "TaskGroups": [{"Name": "g", "Tasks": [task]}]});
        let job: Job = serde_json::from_value(job).expect("a job");
        let found = job.warnings().join("|").replace("\n\t", "^").replace('\n', "_");
        assert_eq!(
            found,
            "Group \"g\" has warnings: 1 error occurred:^* 2 errors occurred:\
             ^* Task \"t\": IOPS has been deprecated as of Nomad 0.9.0. Please remove IOPS from resource block.\
             ^* Task \"t\": 1 error occurred:^* Template[0] VaultGrace has been deprecated as of Nomad 0.11 and \
             ignored since Vault 0.5. Please remove VaultGrace / vault_grace from template block.______"
        );
    }
}
