//! Downloads of the task's artifacts. What was downloaded once is not downloaded again; a failure is retried as long as
//! the task's restart policy allows.

use std::collections::BTreeMap;

use songline_model::{Str, TaskArtifact};

use super::{Stopped, TaskContext, TaskHook};
use crate::artifact::{self, Dirs, Fetcher};
use crate::core::event;
use crate::driver::Boxed;
use crate::env::TaskEnv;
use crate::runner::hooks::resources::TaskResources;

pub(super) struct Artifacts;

impl TaskHook for Artifacts {
    fn name(&self) -> &'static str {
        "artifacts"
    }

    fn prestart<'a>(&'a self, context: &'a TaskContext, _: &'a mut TaskResources) -> Boxed<'a, Result<(), Stopped>> {
        Box::pin(fetch(context))
    }
}

async fn fetch(context: &TaskContext) -> Result<(), Stopped> {
    let TaskContext { shared, task, dir, .. } = context;
    let Some(artifacts) = task.artifacts.as_ref().filter(|artifacts| !artifacts.is_empty()) else { return Ok(()) };
    // Destinations are directories of this node, regardless of the paths that the task sees.
    let env = context.environment_of_node();
    let dirs = Dirs { alloc: dir.root().to_owned(), task: task.name.clone() };
    let missing = artifact::missing(artifacts.iter().map(|artifact| interpolated(artifact, &env)), &dirs);
    if missing.is_empty() {
        return Ok(());
    }
    context.event(event::new(event::DOWNLOADING_ARTIFACTS, shared.clock.now()));
    let fetched = match shared.config.executor_command() {
        Ok(executor) => {
            let by = Fetcher { executor: &executor, settings: &shared.config.artifact };
            artifact::fetch_all(missing, &dirs, &by).await
        }
        Err(error) => Err(format!("failed to download artifacts: {error}")),
    };
    fetched.map_err(|error| {
        let event = Some(Box::new(event::failed_artifact_download(shared.clock.now(), &error)));
        Stopped::Failed { error, recoverable: true, event }
    })
}

fn interpolated(artifact: &TaskArtifact, env: &TaskEnv) -> artifact::Wanted {
    let replaced = |text: &Str| Str::from(env.replace(text));
    let all = |map: &Option<BTreeMap<Str, Str>>| {
        map.as_ref().map(|map| map.iter().map(|(key, value)| (key.clone(), replaced(value))).collect())
    };
    artifact::Wanted {
        named: artifact.getter_source.to_string(),
        artifact: TaskArtifact {
            getter_source: replaced(&artifact.getter_source),
            getter_options: all(&artifact.getter_options),
            getter_headers: all(&artifact.getter_headers),
            getter_mode: artifact.getter_mode.clone(),
            relative_dest: replaced(&artifact.relative_dest),
        },
    }
}
