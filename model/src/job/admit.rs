//! Admission of a job: fills in a submitted job, then decides whether it may be stored. State is passed in as data.

use super::errors::{Errors, warnings_text};
use crate::{Job, Namespace, Secret, spec};

/// Parsers for the small languages in a job, which are in other crates. Their error texts are shown to clients.
pub trait Languages {
    /// Whether `spec` is a cron expression.
    fn cron(&self, spec: &str) -> Result<(), String>;
    /// Whether a time zone of this name is known.
    fn time_zone(&self, name: &str) -> Result<(), String>;
    /// Whether `list` is a list of version constraints, with ordering by semantic versioning if `semver`.
    fn version_constraint(&self, list: &str, semver: bool) -> Result<(), String>;
    /// Whether `pattern` is a regular expression.
    fn regexp(&self, pattern: &str) -> Result<(), String>;
}

/// Input for the admission of a job.
pub struct AdmitContext<'a> {
    /// Parsers of the small languages in a job.
    pub languages: &'a dyn Languages,
    /// The job's namespace, if it exists.
    pub namespace: Option<&'a Namespace>,
    /// Whether a node pool of this name exists.
    pub node_pool_exists: &'a dyn Fn(&str) -> bool,
    /// Highest priority a job may have.
    pub job_priority_max: i64,
    /// Whether the servers create tokens of Vault for tasks.
    pub vault_enabled: bool,
    /// Whether tasks may use more memory than they reserve.
    pub memory_oversubscription: bool,
}

/// An admitted job in its stored form, with warnings for its author.
#[derive(Debug, Clone, PartialEq)]
pub struct Admitted {
    /// The job with all defaults filled in.
    pub job: Job,
    /// The warnings, one per item.
    pub warnings: Vec<String>,
}

/// Reason why a job was not admitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    /// A mutator failed: the whole request fails.
    #[error("error in job mutator {mutator}: {reason}")]
    Mutator {
        /// Name of the mutator.
        mutator: &'static str,
        /// The error.
        reason: String,
    },
    /// The job is invalid.
    #[error("{errors}")]
    Invalid {
        /// Everything that is wrong with the job.
        errors: Errors,
        /// Warnings, in addition to the errors.
        warnings: Vec<String>,
    },
}

impl Admitted {
    /// The warnings as one text.
    pub fn warnings_text(&self) -> String {
        warnings_text(&self.warnings)
    }
}

impl Job {
    /// Stored form of a submitted job: with the defaults of clients and servers, but not validated.
    pub fn from_spec(mut spec: spec::Job) -> Job {
        spec.canonicalize();
        spec.into_row()
    }

    /// Fills in the job, adds what it implies, and validates it: every step before the log.
    pub fn admit(mut self, context: &AdmitContext<'_>) -> Result<Admitted, NotAdmitted> {
        self.canonicalize();
        self.inject_connect().map_err(|reason| NotAdmitted::Mutator { mutator: "connect", reason })?;
        self.inject_expose_paths().map_err(|reason| NotAdmitted::Mutator { mutator: "expose-check", reason })?;
        self.add_implied_constraints();
        self.choose_node_pool(context.namespace);
        self.clear_tokens();
        let mut warnings = Vec::new();
        let errors = self.check(context, &mut warnings);
        match errors.into_result() {
            Ok(()) => Ok(Admitted { job: self, warnings }),
            Err(errors) => Err(NotAdmitted::Invalid { errors, warnings }),
        }
    }

    /// Clears the tokens of other systems. A registration may carry them to prove the submitter's rights there; the
    /// reference empties them before it stores the job, and a secret in the log could never be removed again.
    fn clear_tokens(&mut self) {
        self.vault_token = Secret::default();
        self.consul_token = Secret::default();
    }

    fn choose_node_pool(&mut self, namespace: Option<&Namespace>) {
        if self.node_pool.is_empty() {
            let of_namespace = namespace
                .and_then(|namespace| namespace.node_pool_configuration.as_ref())
                .map(|pools| pools.default.clone());
            self.node_pool =
                of_namespace.filter(|pool| !pool.is_empty()).unwrap_or_else(|| crate::DEFAULT_NODE_POOL.into()).into();
        }
    }

    fn check(&self, context: &AdmitContext<'_>, warnings: &mut Vec<String>) -> Errors {
        let mut errors = Errors::new();
        errors.check(self.validate_connect());
        errors.check(self.validate_expose());
        errors.check(self.validate_vault(context.vault_enabled));
        errors.check(self.validate_in_namespace(context.namespace));
        if !(context.node_pool_exists)(&self.node_pool) {
            let (job, pool) = (crate::quote(&self.id), crate::quote(&self.node_pool));
            errors.push(format!("job {job} is in nonexistent node pool {pool}"));
        }
        errors.extend(self.validate(context.languages));
        warnings.extend(self.warnings());
        self.validate_submission(context, &mut errors);
        if !context.memory_oversubscription {
            warnings.extend(self.memory_warnings());
        }
        errors
    }

    fn validate_vault(&self, enabled: bool) -> Result<(), String> {
        let used = self.groups().flat_map(|group| group.tasks.iter().flatten()).any(|task| task.vault.is_some());
        if used && !enabled { Err("Vault not enabled but used in the job".into()) } else { Ok(()) }
    }

    fn validate_in_namespace(&self, namespace: Option<&Namespace>) -> Result<(), String> {
        let Some(namespace) = namespace else {
            let (job, namespace) = (crate::quote(&self.id), crate::quote(&self.namespace));
            return Err(format!("job {job} is in nonexistent namespace {namespace}"));
        };
        let drivers = self.groups().flat_map(|group| group.tasks.iter().flatten()).map(|task| task.driver.as_str());
        let refused: Vec<String> =
            drivers.filter(|driver| !namespace.allows_driver(driver)).map(|driver| format!("{driver:?}")).collect();
        match refused.as_slice() {
            [] => Ok(()),
            [only] => Err(format!("used task driver {only} is not allowed in namespace \"{}\"", namespace.name)),
            several => Err(format!(
                "used task drivers [{}] are not allowed in namespace \"{}\"",
                several.join(" "),
                namespace.name
            )),
        }
    }

    /// Checks of submitted jobs that do not apply to jobs that servers derive.
    fn validate_submission(&self, context: &AdmitContext<'_>, errors: &mut Errors) {
        if self.kind.as_str() == "_core" {
            errors.push("job type cannot be core");
        }
        if self.payload.as_ref().is_some_and(|payload| !payload.0.is_empty()) {
            errors.push("job can't be submitted with a payload, only dispatched");
        }
        if self.priority < 1 || self.priority > context.job_priority_max {
            errors.push(format!("job priority must be between [1, {}]", context.job_priority_max));
        }
    }

    fn memory_warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for group in self.groups() {
            for task in group.tasks.iter().flatten() {
                if task.resources.as_ref().is_some_and(|resources| resources.memory_max_mb > resources.memory_mb) {
                    warnings.push(format!(
                        "Memory oversubscription is not enabled; Task \"{}.{}\" memory_max value will be ignored. \
                         Update the Scheduler Configuration to allow oversubscription.",
                        group.name, task.name
                    ));
                }
            }
        }
        warnings
    }
}

impl Namespace {
    /// Whether jobs in the namespace may use a driver.
    pub fn allows_driver(&self, driver: &str) -> bool {
        let Some(capabilities) = &self.capabilities else { return true };
        let named = |list: &Option<Vec<crate::Str>>| list.iter().flatten().any(|name| name == driver);
        let all_enabled = capabilities.enabled_task_drivers.as_ref().is_none_or(Vec::is_empty);
        (all_enabled || named(&capabilities.enabled_task_drivers)) && !named(&capabilities.disabled_task_drivers)
    }
}
