//! `config check`: the effect of each setting of configuration files.

use std::path::PathBuf;

use serde_json::{Value, json};
use songline_cli::format::Format;
use songline_cli::{Context, Exit, Failure, Outcome, RunHere, layout, out, outln};

use crate::config::AgentConfig;
use crate::config::file::{self, Checked, Effect};

/// Arguments of `config check`.
#[derive(clap::Args)]
pub(crate) struct Check {
    #[command(flatten)]
    format: Format,
    /// Configuration files, and directories of them, in the order in which the agent reads them.
    #[arg(value_name = "FILE", required = true)]
    paths: Vec<PathBuf>,
}

impl RunHere for Check {
    fn run_here(self, _: &Context) -> Outcome {
        self.format.wanted()?;
        let mut config = AgentConfig::default();
        let (mut reports, mut refused) = (Vec::new(), 0);
        for path in &self.paths {
            for file in file::files(path)? {
                let shown = file.display().to_string();
                let checked = std::fs::read_to_string(&file)
                    .map_err(anyhow::Error::from)
                    .and_then(|text| file::check(&text, &mut config))
                    .map_err(|error| format!("{error:#}"));
                refused += match &checked {
                    Ok(settings) => settings.iter().filter(|one| matches!(one.effect, Effect::Refused(_))).count(),
                    Err(_) => 1,
                };
                reports.push((shown, checked));
            }
        }
        if !self.format.print(&reports.iter().map(of_file).collect())? {
            reports.iter().enumerate().for_each(|(at, report)| print(at > 0, report));
        }
        if refused > 0 {
            return Ok(Exit::FAILED);
        }
        match config.check() {
            Ok(()) => Ok(Exit::DONE),
            Err(error) => Err(Failure::of("The agent would not start", error)),
        }
    }
}

type Report = (String, Result<Vec<Checked>, String>);

/// Word and reason of an effect.
fn words(effect: &Effect) -> (&'static str, &str) {
    match effect {
        Effect::Works => ("works", ""),
        Effect::Ignored => ("ignored", ""),
        Effect::Refused(reason) => ("refused", reason),
    }
}

fn print(apart: bool, (file, checked): &Report) {
    if apart {
        outln!();
    }
    outln!("{}", layout::heading(file));
    let settings = match checked {
        Ok(settings) => settings,
        Err(reason) => return outln!("{}", out::paint(out::Colour::Red, &format!("refused: {reason}"))),
    };
    let row = |one: &Checked| {
        let (word, reason) = words(&one.effect);
        vec![
            one.line.map_or_else(|| "-".to_owned(), |line| line.to_string()),
            word.into(),
            one.path.clone(),
            reason.into(),
        ]
    };
    let rows: Vec<_> = settings.iter().map(row).collect();
    outln!("{}", layout::resources(&["Line", "Effect", "Setting", "Reason"], &rows));
}

fn of_file((file, checked): &Report) -> Value {
    let setting = |one: &Checked| {
        let (word, reason) = words(&one.effect);
        json!({ "Setting": one.path, "Line": one.line, "Effect": word, "Reason": reason })
    };
    match checked {
        Ok(settings) => {
            json!({ "File": file, "Error": "", "Settings": settings.iter().map(setting).collect::<Vec<_>>() })
        }
        Err(reason) => json!({ "File": file, "Error": reason, "Settings": [] }),
    }
}
