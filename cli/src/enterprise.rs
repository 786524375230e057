//! Commands whose routes only Nomad Enterprise has: an agent answers 501, and that answer is printed. Their arguments
//! are read and checked, so that a script fails with the agent's words and not with an unknown command. Not here:
//! quotas, which work.

mod recommendation;
mod sentinel;

use clap::Args;

use crate::client::with_query;
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::{Context, Entry, General, Run, format, outln};

pub(crate) const COMMANDS: &[Entry] = &[
    Entry::group("license", "Interact with the license of Nomad Enterprise"),
    Entry::command::<License>("license get", "Show the license"),
    Entry::group("recommendation", "Interact with recommendations of Nomad Enterprise"),
    Entry::command::<recommendation::Apply>("recommendation apply", "Apply recommendations")
        .arity("This command takes at least one argument: <recommendation id>"),
    Entry::command::<recommendation::Dismiss>("recommendation dismiss", "Dismiss recommendations")
        .arity("This command takes at least one argument: <recommendation id>"),
    Entry::command::<recommendation::Info>("recommendation info", "Show a recommendation")
        .arity("This command takes one argument: <recommendation id>"),
    Entry::command::<recommendation::List>("recommendation list", "Show recommendations"),
    Entry::group("sentinel", "Interact with Sentinel policies of Nomad Enterprise"),
    Entry::command::<sentinel::Apply>("sentinel apply", "Make or change a Sentinel policy")
        .arity("This command takes two arguments: <name> <file>"),
    Entry::command::<sentinel::Delete>("sentinel delete", "Delete a Sentinel policy")
        .arity("This command takes one argument: <name>"),
    Entry::command::<sentinel::List>("sentinel list", "Show Sentinel policies"),
    Entry::command::<sentinel::Read>("sentinel read", "Show a Sentinel policy")
        .arity("This command takes one argument: <name>"),
];

/// Arguments of `license get`.
#[derive(Args)]
pub(crate) struct License {
    #[command(flatten)]
    general: General,
    /// Ask this server, even when it does not lead.
    #[arg(long)]
    stale: bool,
}

impl Run for License {
    async fn run(self, _: &Context) -> Outcome {
        let stale = if self.stale { "true" } else { "" };
        let path = with_query("/v1/operator/license", &[("stale", stale)]);
        let answer = self.general.client()?.get(&path).await.tried("Error getting license")?;
        if answer.is_null() {
            // An agent without licenses answers 204.
            return Err(Failure::new("Error getting license: Nomad Enterprise only endpoint"));
        }
        outln!("{}", format::json(&answer));
        Ok(Exit::DONE)
    }
}
