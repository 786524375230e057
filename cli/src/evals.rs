//! Evaluations and deployments.

mod delete;
mod deployment;
mod eval;

use crate::Entry;

/// Arguments of the commands about one deployment.
const ONE: &str = "This command takes one argument: <deployment id>";

pub(crate) const COMMANDS: &[Entry] = &[
    Entry::group("eval", "Interact with evaluations"),
    Entry::command::<delete::Delete>("eval delete", "Delete evaluations"),
    Entry::command::<eval::List>("eval list", "Show evaluations"),
    Entry::command::<eval::Status>("eval status", "Show an evaluation").arity("This command takes one argument"),
    Entry::group("deployment", "Interact with deployments"),
    Entry::command::<deployment::Fail>("deployment fail", "Fail a deployment").arity(ONE),
    Entry::command::<deployment::List>("deployment list", "Show deployments"),
    Entry::command::<deployment::Pause>("deployment pause", "Pause a deployment").arity(ONE),
    Entry::command::<deployment::Promote>("deployment promote", "Promote the canaries of a deployment").arity(ONE),
    Entry::command::<deployment::Resume>("deployment resume", "Go on with a paused deployment").arity(ONE),
    Entry::command::<deployment::Status>("deployment status", "Show a deployment")
        .arity("This command takes one argument: <deployment id>"),
    Entry::command::<deployment::Unblock>("deployment unblock", "Go on with a blocked deployment").arity(ONE),
    Entry::alias("eval-status", "eval status").hidden(),
];
