//! The languages in job fields, for the checks of a job.

use songline_model::Languages;

use crate::cron::Cron;
use crate::zone::Zone;
use crate::{regexp, version};

/// Parsers of cron, time zones, version constraints and regular expressions.
#[derive(Debug, Clone, Copy, Default)]
pub struct JobLanguages;

impl Languages for JobLanguages {
    fn cron(&self, spec: &str) -> Result<(), String> {
        Cron::parse(spec).map(drop)
    }

    fn time_zone(&self, name: &str) -> Result<(), String> {
        Zone::named(name).map(drop).ok_or_else(|| format!("unknown time zone {name}"))
    }

    fn version_constraint(&self, list: &str, semver: bool) -> Result<(), String> {
        let dialect = if semver { version::Dialect::Semver } else { version::Dialect::Version };
        version::Constraints::parse(list, dialect).map(drop).map_err(|error| error.to_string())
    }

    fn regexp(&self, pattern: &str) -> Result<(), String> {
        regexp::compile(pattern).map(drop).map_err(|error| error.to_string())
    }
}
