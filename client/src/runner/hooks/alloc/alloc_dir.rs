//! The directories that the tasks share, with the data of the allocation before; and everything that is left on disk
//! when the allocation is no longer needed.

use songline_model::{Str, with_sources};

use super::{AllocContext, AllocHook};
use crate::beneath::Dir;
use crate::driver::Boxed;
use crate::previous::{Ended, Wanted};
use crate::runner::hooks::blocking;

pub(super) struct Dirs;

impl AllocHook for Dirs {
    fn name(&self) -> &'static str {
        "alloc_dir"
    }

    fn prerun<'a>(&'a self, context: &'a AllocContext) -> Boxed<'a, Result<(), String>> {
        Box::pin(async move {
            let dir = context.dir.clone();
            blocking(move || dir.build()).await?;
            let Err(error) = take_over(context).await else { return Ok(()) };
            // An allocation without its predecessor's data is better than none.
            tracing::warn!(alloc = %context.alloc.id, error, "taking over the data of the allocation before");
            let dir = context.dir.clone();
            let again = move || {
                dir.remove()?;
                dir.build()
            };
            blocking(again).await
        })
    }

    fn destroy<'a>(&'a self, context: &'a AllocContext) -> Boxed<'a, Result<(), String>> {
        Box::pin(async move {
            let AllocContext { shared, alloc, .. } = context;
            // The records go first: a later agent must not restore an allocation without a directory.
            shared.state.forget(&alloc.id).await;
            let (dir, runs, id) = (context.dir.clone(), shared.config.runs_dir(), alloc.id.to_string());
            let remove = move || {
                // The directory of runs does not exist before a task has run.
                let _ = Dir::open(&runs).and_then(|runs| runs.remove_all(id));
                dir.remove()
            };
            blocking(remove).await.map_err(|error| format!("removing the directory of an allocation: {error}"))
        })
    }
}

/// Takes over the data of the allocation before, if its group keeps them.
async fn take_over(context: &AllocContext) -> Result<(), String> {
    let AllocContext { shared, alloc, dir, resources, .. } = context;
    let group = alloc.group().cloned().unwrap_or_default();
    let disk = group.ephemeral_disk.unwrap_or_default();
    let tasks: Vec<Str> = group.tasks.iter().flatten().map(|task| task.name.clone()).collect();
    match (resources.previous(), alloc.previous_allocation) {
        (Some(Ended::Here(previous)), _) if disk.sticky || disk.migrate => {
            let to = dir.clone();
            let _migrating = shared.waits.migrate();
            let adopt = move || to.adopt(&previous, &tasks.iter().map(Str::as_str).collect::<Vec<_>>());
            blocking(adopt).await
        }
        (Some(Ended::Away(node)), Some(previous)) if disk.migrate => {
            let _migrating = shared.waits.migrate();
            let wanted = Wanted { successor: alloc.id, previous, node, tasks, to: dir.clone() };
            shared.earlier.fetch(wanted).await.map_err(|error| with_sources(&error))
        }
        (Some(Ended::Here(_) | Ended::Away(_) | Ended::Gone) | None, _) => Ok(()),
    }
}
