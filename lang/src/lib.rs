//! The small languages that users and agents write: list filters, version constraints, durations, job files,
//! configuration files, JSON as Go programs read it. Pure functions from text to values: no file is opened and no clock
//! is read here.

pub mod acl;
pub mod bexpr;
pub mod config;
pub mod cron;
pub mod duration;
pub mod go_json;
pub mod go_time;
mod hcl;
mod hcl1;
pub mod interpolation;
pub mod jobspec;
pub mod languages;
pub mod regexp;
mod rust_type;
pub mod schedule;
pub mod template;
mod url;
pub mod version;
pub mod zone;
