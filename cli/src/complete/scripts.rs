//! `completion`: the script that makes a shell ask this program.

use clap::{Args, ValueEnum};

use super::install;
use crate::exit::{Exit, Outcome, Tried};
use crate::{Context, RunHere, outln};

/// A shell that can be completed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Arguments of `completion`.
#[derive(Args)]
pub(crate) struct Completion {
    /// Shell: `bash`, `zsh`, `fish`.
    shell: Shell,
}

impl RunHere for Completion {
    fn run_here(self, context: &Context) -> Outcome {
        let binary = install::binary().tried("Error finding this program")?;
        outln!("{}", script(self.shell, &context.program, &binary));
        Ok(Exit::DONE)
    }
}

/// The lines for a shell's configuration.
pub(super) fn script(shell: Shell, program: &str, binary: &str) -> String {
    match shell {
        Shell::Bash => format!("complete -o default -C {binary} {program}"),
        Shell::Zsh => {
            format!("autoload -U +X bashcompinit && bashcompinit\ncomplete -o default -C {binary} {program}")
        }
        Shell::Fish => format!(
            "function __complete_{program}\n    set -lx COMP_LINE (commandline -cp)\n    test -z (commandline -ct)\n    \
             and set COMP_LINE \"$COMP_LINE \"\n    {binary}\nend\ncomplete -c {program} -a \"(__complete_{program})\""
        ),
    }
}
