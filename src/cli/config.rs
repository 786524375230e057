//! `config validate`: configuration files as an agent would read them. Their settings one by one are in `check`.

mod check;

use std::path::PathBuf;

use songline_cli::{Context, Exit, Failure, Outcome, RunHere, outln};

pub(crate) use check::Check;

use crate::config::{AgentConfig, file};

/// Arguments of `config validate`.
#[derive(clap::Args)]
pub(crate) struct Validate {
    /// Configuration files, and directories of them. Later ones go before earlier ones.
    paths: Vec<PathBuf>,
}

impl RunHere for Validate {
    fn run_here(self, _: &Context) -> Outcome {
        if self.paths.is_empty() {
            return Err(Failure::arguments("Must specify at least one config file or directory"));
        }
        let mut config = AgentConfig::default();
        for path in &self.paths {
            let shown = path.display();
            if !path.exists() {
                return Err(unreadable(&format!("{shown}: stat {shown}: no such file or directory")));
            }
            let warnings = file::load(path, &mut config)
                .map_err(|error| unreadable(&format!("{shown}: {}", reason(&error, &shown.to_string()))))?;
            for warning in warnings {
                songline_cli::out::warning(&format!("WARNING: {warning}"));
            }
        }
        if let Err(error) = config.check() {
            let words = match error.to_string() {
                missing if missing.contains("\"data_dir\"") => {
                    "Must specify the state, alloc dir, and plugin dir if data-dir is omitted.".to_owned()
                }
                other => other,
            };
            return Err(Failure::new(format!("{words}\nConfiguration is invalid")));
        }
        outln!("Configuration is valid!");
        Ok(Exit::DONE)
    }
}

/// The innermost reason behind the name of the file, which some reasons have by themselves.
fn reason(error: &anyhow::Error, file: &str) -> String {
    let (reason, named) = (error.root_cause().to_string(), format!("Error loading {file}: "));
    if reason.starts_with(&named) { reason } else { named + &reason }
}

/// The error of files that cannot be read, in the reference's layout.
fn unreadable(what: &str) -> Failure {
    Failure::new(format!("1 error occurred:\n\t* Error loading configuration from {what}\n\n"))
}
