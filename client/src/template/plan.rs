//! From a job's templates to what is rendered where: text, destination, mode and owner.

use std::io::Read;
use std::path::{Path, PathBuf};

use songline_model::{Dur, Task, Template};

use super::settings::TemplateSettings;
use crate::artifact::place;
use crate::beneath::{Dir, NotFound, Owner};
use crate::env::TaskEnv;

/// Largest source file in bytes.
const SOURCE_BYTES_MAX: u64 = 16 << 20;

pub(crate) use crate::artifact::Dirs;

/// A template with its place.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The text.
    pub text: String,
    /// As in the job.
    pub template: Template,
    /// Path of the file below the allocation's directory.
    pub destination: PathBuf,
    /// Permission bits of the file.
    pub mode: u32,
    /// Owner of the file, if it is not the agent's user.
    pub owner: Option<Owner>,
    /// Shortest and longest time for which answers have to be stable before the template is rendered again.
    pub wait: (Dur, Dur),
}

/// Plans a task's templates. `env` has the paths of this node. Reads source files, so it blocks.
pub(crate) fn plan(task: &Task, dirs: &Dirs, env: &TaskEnv, settings: &TemplateSettings) -> Result<Vec<Plan>, String> {
    let all = task.templates.iter().flatten();
    all.map(|template| {
        let text = if template.source_path.is_empty() {
            template.embedded_tmpl.to_string()
        } else {
            source(&env.replace(&template.source_path), dirs)?
        };
        let destination = place::destination(dirs, &env.replace(&template.dest_path))
            .map_err(|_| "template destination path escapes alloc directory".to_owned())?;
        Ok(Plan {
            text,
            destination,
            mode: mode(&template.perms)?,
            owner: owner(template),
            wait: settings.wait_of(template.wait.as_ref()),
            template: template.clone(),
        })
    })
    .collect()
}

/// Text of a source file.
fn source(wanted: &str, dirs: &Dirs) -> Result<String, String> {
    let below =
        place::destination(dirs, wanted).map_err(|_| "template source path escapes alloc directory".to_owned())?;
    let shown = dirs.alloc.join(&below);
    let read = read_below(&dirs.alloc, &below).map_err(|error| match error {
        NotFound::Escapes => "template source path escapes alloc directory".to_owned(),
        NotFound::Io(error) => {
            format!("failed to read template: open {}: {}", shown.display(), reason(&error))
        }
    })?;
    Ok(songline_lang::template::text_of_bytes(&read))
}

/// Contents of a file below a directory. Links are followed as long as they stay below it.
pub(super) fn read_below(root: &Path, below: &Path) -> Result<Vec<u8>, NotFound> {
    let file = Dir::open(root)?.find(below)?.read()?;
    let mut read = Vec::new();
    file.take(SOURCE_BYTES_MAX + 1).read_to_end(&mut read)?;
    if read.len() as u64 > SOURCE_BYTES_MAX {
        return Err(NotFound::Io(std::io::Error::other(format!("the file has more than {SOURCE_BYTES_MAX} bytes"))));
    }
    Ok(read)
}

/// An I/O error in the words of Go.
pub(super) fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        _ => error.to_string(),
    }
}

/// Permission bits; none at all mean the default.
fn mode(perms: &str) -> Result<u32, String> {
    let text = if perms.is_empty() { "0644" } else { perms };
    let bits = u32::from_str_radix(text, 8).map_err(|_| format!("Failed to parse {text:?} as octal"))?;
    Ok(if bits & 0o777 == 0 { 0o644 } else { bits & 0o777 })
}

/// An absent or negative id keeps that of the agent.
fn owner(template: &Template) -> Option<Owner> {
    let id = |id: Option<i64>| id.and_then(|id| u32::try_from(id).ok());
    match (id(template.uid), id(template.gid)) {
        (None, None) => None,
        (user, group) => Some((
            user.unwrap_or_else(|| rustix::process::geteuid().as_raw()),
            group.unwrap_or_else(|| rustix::process::getegid().as_raw()),
        )),
    }
}
