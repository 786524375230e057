//! Resources that a task asks for, and the size of its logs.

use super::constraint;
use crate::job::admit::Languages;
use crate::job::errors::Errors;
use crate::{EphemeralDisk, LogConfig, RequestedDevice, Resources};

/// Smallest CPU share in MHz of a task without dedicated cores.
const CPU_MIN: i64 = 1;
/// Smallest memory of a task, in MiB.
const MEMORY_MB_MIN: i64 = 10;

impl Resources {
    pub(super) fn validate(&self, languages: &dyn Languages) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if self.cores > 0 && self.cpu > 0 {
            errors.push("Task can only ask for 'cpu' or 'cores' resource, not both.");
        }
        errors.nest(self.validate_least());
        if self.disk_mb > 0 {
            errors.push("Task can't ask for disk resources, they have to be specified at the task group level.");
        }
        for (index, device) in self.devices.iter().flatten().enumerate() {
            errors.nest_as(format_args!("device {} failed validation", index + 1), device.validate(languages));
        }
        if self.memory_max_mb != 0 && self.memory_max_mb < self.memory_mb {
            errors.push(format!(
                "MemoryMaxMB value ({}) should be larger than MemoryMB value ({})",
                self.memory_max_mb, self.memory_mb
            ));
        }
        errors.into_result()
    }

    fn validate_least(&self) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if self.cpu < CPU_MIN && self.cores == 0 {
            errors.push(format!("minimum CPU value is {CPU_MIN}; got {}", self.cpu));
        }
        if self.memory_mb < MEMORY_MB_MIN {
            errors.push(format!("minimum MemoryMB value is {MEMORY_MB_MIN}; got {}", self.memory_mb));
        }
        errors.into_result()
    }
}

impl RequestedDevice {
    fn validate(&self, languages: &dyn Languages) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if self.name.is_empty() {
            errors.push("device name must be given as one of the following: type, vendor/type, or vendor/type/name");
        }
        constraint::constraints(&self.constraints, languages, &mut errors);
        constraint::affinities(&self.affinities, &crate::JobType::Service, languages, &mut errors);
        errors.into_result()
    }
}

impl LogConfig {
    pub(super) fn validate(&self, disk: Option<&EphemeralDisk>) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if self.max_files < 1 {
            errors.push(format!("minimum number of files is 1; got {}", self.max_files));
        }
        if self.max_file_size_mb < 1 {
            errors.push(format!("minimum file size is 1MB; got {}", self.max_file_size_mb));
        }
        let all_mb = self.max_files.saturating_mul(self.max_file_size_mb);
        if let Some(disk) = disk
            && disk.size_mb <= all_mb
        {
            errors.push(format!(
                "log storage ({all_mb} MB) must be less than requested disk capacity ({} MB)",
                disk.size_mb
            ));
        }
        errors.into_result()
    }
}
