//! Validation of a job by itself, with the exact texts that clients show, in the order of the checks. Checks that
//! depend on namespaces, node pools or settings are in `admit`.

mod artifact;
mod constraint;
mod group;
mod policies;
mod resources;
mod service;
mod task;
mod template;
mod warnings;

use std::collections::BTreeMap;

use super::OnFailure;
use super::admit::Languages;
use super::errors::Errors;
use crate::{Dur, Job, JobType, Multiregion, ParameterizedJobConfig, PeriodicConfig};

impl Job {
    /// Returns everything that is wrong with the job.
    pub fn validate(&self, languages: &dyn Languages) -> Result<(), Errors> {
        let mut errors = Errors::new();
        self.validate_names(&mut errors);
        self.validate_targets(languages, &mut errors);
        self.validate_groups(&mut errors);
        for group in self.groups() {
            errors
                .nest_as(format_args!("Task group {} validation failed", group.name), group.validate(self, languages));
        }
        self.validate_kind(languages, &mut errors);
        errors.into_result()
    }

    fn validate_names(&self, errors: &mut Errors) {
        if self.region.is_empty() {
            errors.push("Missing job region");
        }
        if self.id.is_empty() {
            errors.push("Missing job ID");
        } else if self.id.contains(' ') {
            errors.push("Job ID contains a space");
        } else if self.id.contains('\0') {
            errors.push("Job ID contains a null character");
        }
        if self.name.is_empty() {
            errors.push("Missing job name");
        } else if self.name.contains('\0') {
            errors.push("Job Name contains a null character");
        }
        if self.namespace.is_empty() {
            errors.push("Job must be in a namespace");
        }
        match self.kind.as_str() {
            "service" | "batch" | "system" | "sysbatch" | "_core" => {}
            "" => errors.push("Missing job type"),
            other => errors.push(format!("Invalid job type: {other:?}")),
        }
        if self.datacenters.as_ref().is_none_or(Vec::is_empty) {
            if !self.is_multiregion() {
                errors.push("Missing job datacenters");
            }
        } else {
            for _ in self.datacenters.iter().flatten().filter(|name| name.is_empty()) {
                errors.push("Job datacenter must be non-empty string");
            }
        }
        if self.groups().next().is_none() {
            errors.push("Missing job task groups");
        }
    }

    fn validate_targets(&self, languages: &dyn Languages, errors: &mut Errors) {
        constraint::constraints(&self.constraints, languages, errors);
        constraint::affinities(&self.affinities, &self.kind, languages, errors);
        constraint::spreads(&self.spreads, &self.kind, errors);
    }

    fn validate_groups(&self, errors: &mut Errors) {
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, group) in self.groups().enumerate() {
            let number = index + 1;
            if group.name.is_empty() {
                errors.push(format!("Job task group {number} missing name"));
            } else if let Some(first) = numbers.get(group.name.as_str()) {
                errors.push(format!("Job task group {number} redefines '{}' from group {first}", group.name));
            } else {
                numbers.insert(&group.name, number);
            }
            if group.shutdown_delay.is_some_and(|delay| delay < Dur::ZERO) {
                errors.push("ShutdownDelay must be a positive value");
            }
            if let Some(stop_after) = group.stop_after_client_disconnect {
                if stop_after > Dur::ZERO && !matches!(self.kind, JobType::Batch | JobType::Service) {
                    errors.push("stop_after_client_disconnect can only be set in batch and service jobs");
                } else if stop_after < Dur::ZERO {
                    errors.push("stop_after_client_disconnect must be a positive value");
                }
            }
            if self.kind == JobType::System && group.count > 1 {
                errors.push(format!(
                    "Job task group {} has count {}. Count cannot exceed 1 with system scheduler",
                    group.name, group.count
                ));
            }
        }
    }

    fn validate_kind(&self, languages: &dyn Languages, errors: &mut Errors) {
        let ends = matches!(self.kind, JobType::Batch | JobType::SysBatch);
        if let Some(periodic) = self.periodic.as_ref().filter(|periodic| periodic.enabled) {
            if !ends {
                errors.push("Periodic can only be used with \"batch\" or \"sysbatch\" scheduler");
            }
            errors.nest(periodic.validate(languages));
        }
        if let Some(parameterized) = self.parameterized_job.as_ref().filter(|_| !self.dispatched) {
            if !ends {
                errors.push("Parameterized job can only be used with \"batch\" or \"sysbatch\" scheduler");
            }
            errors.nest(parameterized.validate());
        }
        if let Some(multiregion) = &self.multiregion {
            errors.nest(multiregion.validate(self));
        }
    }
}

impl PeriodicConfig {
    fn validate(&self, languages: &dyn Languages) -> Result<(), Errors> {
        let mut errors = Errors::new();
        let specs = || self.specs.iter().flatten();
        match (self.spec.is_empty(), specs().next().is_none()) {
            (false, false) => errors.push("Only cron or crons may be used"),
            (true, true) => errors.push("Must specify a spec"),
            (true, false) | (false, true) => {}
        }
        if !self.time_zone.is_empty()
            && let Err(reason) = languages.time_zone(&self.time_zone)
        {
            errors.push(format!("Invalid time zone {:?}: {reason}", self.time_zone));
        }
        match self.spec_type.as_str() {
            "cron" => {
                for spec in Some(&self.spec).filter(|spec| !spec.is_empty()).into_iter().chain(specs()) {
                    if let Err(reason) = languages.cron(spec) {
                        errors.push(format!("Invalid cron spec {spec:?}: {reason}"));
                    }
                }
            }
            // Used by tests of the reference: a list of Unix times.
            "_internal_test" => {}
            other => errors.push(format!("Unknown periodic specification type {other:?}")),
        }
        errors.into_result()
    }
}

impl ParameterizedJobConfig {
    fn validate(&self) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if !matches!(self.payload.as_str(), "optional" | "required" | "forbidden") {
            errors.push(format!("Unknown payload requirement: {:?}", self.payload));
        }
        let required = self.meta_required.as_deref().unwrap_or_default();
        let both: Vec<&str> =
            self.meta_optional.iter().flatten().filter(|key| required.contains(key)).map(|key| key.as_str()).collect();
        if !both.is_empty() {
            errors.push(format!(
                "Required and optional meta keys should be disjoint. Following keys exist in both: [{}]",
                both.join(" ")
            ));
        }
        errors.into_result()
    }
}

impl Multiregion {
    fn validate(&self, job: &Job) -> Result<(), Errors> {
        let mut errors = Errors::new();
        let no_datacenters = |list: &Option<Vec<crate::Str>>| list.as_ref().is_none_or(Vec::is_empty);
        let mut seen: Vec<&str> = Vec::new();
        for region in self.regions.iter().flatten() {
            if seen.contains(&region.name.as_str()) {
                errors.push(format!("Multiregion region {:?} can't be listed twice", region.name));
            }
            seen.push(&region.name);
            if no_datacenters(&region.datacenters) && no_datacenters(&job.datacenters) {
                errors.push(format!("Multiregion region {:?} must have datacenters", region.name));
            }
        }
        let staged = self
            .strategy
            .as_ref()
            .is_some_and(|strategy| strategy.max_parallel != 0 || !strategy.on_failure.is_empty());
        if let Some(strategy) = &self.strategy {
            if OnFailure::of(&strategy.on_failure).is_none() {
                let word = &strategy.on_failure;
                errors
                    .push(format!("Multiregion on_failure {word:?} is none of \"fail_all\", \"fail_local\" and \"\""));
            }
            if strategy.max_parallel < 0 {
                errors.push(format!("Multiregion max_parallel {} must not be negative", strategy.max_parallel));
            }
        }
        if staged && job.kind == JobType::Batch {
            errors.push("Multiregion batch jobs can't have an update strategy");
        }
        errors.into_result()
    }
}
