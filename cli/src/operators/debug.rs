//! `operator debug`: an archive of what a cluster's agents say about themselves over some time. `targets` chooses the
//! agents, `capture` asks them, `flags` are the arguments, `pack` makes the archive.

mod capture;
mod flags;
mod pack;
mod targets;

use std::path::{Path, PathBuf};

pub(crate) use flags::Debug;

use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::{Context, Run, outln};
use capture::Capture;
use targets::Targets;

impl Run for Debug {
    async fn run(self, context: &Context) -> Outcome {
        let plan = self.plan()?;
        let client = self.general.client()?;
        let targets = Targets::choose(&client, &self).await?;
        let stamp = chrono::DateTime::from_timestamp_nanos(crate::values::now()).format("%Y-%m-%d-%H%M%SZ");
        let name = format!("nomad-debug-{stamp}");
        let place = Place::make(self.output.as_deref(), &name)?;
        outln!("Starting debugger...\n");
        self.print_head(context, &client, &targets);
        outln!("\nCapturing cluster data...");
        let capture = Capture::new(client, place.dir().to_owned(), self.verbose);
        capture.json_of(&self.shown_flags(), "cluster/cli-flags.json").await;
        capture.cluster().await;
        let following = capture.follow(&plan, &targets);
        capture.agents(&plan, &targets).await;
        self.others.capture(&capture).await;
        capture.intervals(&plan).await;
        following.end().await;
        pack::write_index(&capture, context, &targets, &plan).tried("Error writing the index")?;
        place.finish(&name)
    }
}

/// Directory of the files: one that stays, or one that becomes an archive.
enum Place {
    Stays(PathBuf),
    Archive(tempfile::TempDir, PathBuf),
}

impl Place {
    fn make(output: Option<&str>, name: &str) -> Result<Self, Failure> {
        let Some(output) = output.filter(|output| !output.is_empty()) else {
            let temporary = tempfile::tempdir().tried("Error creating tmp directory")?;
            let dir = temporary.path().join(name);
            std::fs::create_dir(&dir).tried("Error creating tmp directory")?;
            return Ok(Self::Archive(temporary, dir));
        };
        let dir = Path::new(output).join(name);
        if dir.exists() {
            return Err(Failure::new(format!("Output directory already exists: {}", dir.display())));
        }
        std::fs::create_dir_all(&dir).tried("Error creating output directory")?;
        Ok(Self::Stays(dir))
    }

    fn dir(&self) -> &Path {
        match self {
            Self::Stays(dir) | Self::Archive(_, dir) => dir,
        }
    }

    /// Prints where the files are, after archiving them if they do not stay.
    fn finish(self, name: &str) -> Outcome {
        match self {
            Self::Stays(dir) => outln!("Created debug directory: {}", dir.display()),
            Self::Archive(_temporary, dir) => {
                let file = format!("{name}.tar.gz");
                pack::archive(&dir, name, Path::new(&file)).tried("Error creating archive")?;
                outln!("Created debug archive: {file}");
            }
        }
        Ok(Exit::DONE)
    }
}
