//! Jobs.

mod act;
mod diff;
mod dispatch;
mod fmt;
mod init;
mod inspect;
pub(crate) mod lists;
mod plan;
mod restart;
mod run;
mod scale;
mod status;
mod stop;

use crate::Entry;

pub(crate) const COMMANDS: &[Entry] = &[
    Entry::command::<fmt::Fmt>("fmt", "Rewrite HCL files in the canonical layout"),
    Entry::group("job", "Interact with jobs"),
    Entry::command::<inspect::Allocs>("job allocs", "Show the allocations of a job")
        .arity("This command takes one argument: <job>"),
    Entry::command::<inspect::Deployments>("job deployments", "Show the deployments of a job")
        .arity("This command takes one argument: <job>"),
    Entry::command::<dispatch::Dispatch>("job dispatch", "Run a parameterized job")
        .arity("This command takes one or two argument: <parameterized job> [input source]"),
    Entry::command::<act::Eval>("job eval", "Evaluate a job anew").arity("This command takes one argument: <job>"),
    Entry::command::<init::Init>("job init", "Write an example of a job file")
        .arity("This command takes either no arguments or one: <filename>"),
    Entry::command::<inspect::Inspect>("job inspect", "Show a job as it was submitted")
        .arity("This command takes one argument: <job>"),
    Entry::group("job periodic", "Interact with periodic jobs"),
    Entry::command::<dispatch::Force>("job periodic force", "Launch a periodic job now")
        .arity("This command takes one argument: <job id>"),
    Entry::command::<plan::Plan>("job plan", "Show what a job file would change")
        .arity("This command takes one argument: <path>")
        .misuse(plan::FAILED),
    Entry::command::<act::Promote>("job promote", "Promote the canaries of a job")
        .arity("This command takes one argument: <job id>"),
    Entry::command::<restart::Restart>("job restart", "Restart the allocations of a job")
        .arity("This command takes one argument: <job>"),
    Entry::command::<inspect::History>("job history", "Show the versions of a job")
        .arity("This command takes one argument: <job>"),
    Entry::command::<act::Revert>("job revert", "Return to an earlier version of a job")
        .arity("This command takes two arguments: <job> <version>"),
    Entry::command::<run::Run>("job run", "Register a job, or change one")
        .arity("This command takes one argument: <path>"),
    Entry::command::<scale::Scale>("job scale", "Change the count of a group")
        .arity("Command requires at least two arguments and no more than three"),
    Entry::command::<scale::Events>("job scaling-events", "Show the changes of counts of a job")
        .arity("This command takes one argument: <job_id>"),
    Entry::command::<status::Status>("job status", "Show jobs, or one of them")
        .arity("This command takes either no arguments or one: <job>"),
    Entry::command::<stop::Stop>("job stop", "Stop jobs").arity("This command takes at least one argument: <job>"),
    Entry::command::<run::Validate>("job validate", "Check a job file")
        .arity("This command takes one argument: <path>"),
    Entry::alias("run", "job run"),
    Entry::alias("plan", "job plan"),
    Entry::alias("stop", "job stop"),
    Entry::alias("validate", "job validate"),
    Entry::alias("init", "job init"),
    Entry::alias("inspect", "job inspect"),
];
