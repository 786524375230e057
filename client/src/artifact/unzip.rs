//! Unpacking of zip archives. Runs in the fetching process only.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use zip::ZipArchive;
use zip::read::ZipFile;

use super::ArtifactError;
use super::unpack::{Bounds, Tree, inside};

/// Type of a link in the mode of a member, and the bits of the type.
const LINK: u32 = 0o120_000;
const TYPE: u32 = 0o170_000;
/// Longest target of a link, in bytes: `PATH_MAX` of Linux.
const TARGET_MAX: u64 = 4096;

fn failed(error: zip::result::ZipError) -> ArtifactError {
    ArtifactError::Invalid(format!("unpacking: {error}"))
}

/// Unpacks all members into a directory.
pub(super) fn unpack(packed: File, tree: &Tree, bounds: &mut Bounds) -> Result<(), ArtifactError> {
    let mut archive = ZipArchive::new(packed).map_err(failed)?;
    for at in 0..archive.len() {
        bounds.file()?;
        add(archive.by_index(at).map_err(failed)?, tree, bounds)?;
    }
    Ok(())
}

fn add<R: Read>(mut member: ZipFile<'_, R>, tree: &Tree, bounds: &mut Bounds) -> Result<(), ArtifactError> {
    let name = member.name().map_err(failed)?.into_owned();
    let path = inside(Path::new(&name))?;
    let is_directory = name.ends_with('/');
    // An archive of another system has no modes.
    let mode = member.unix_mode().unwrap_or(if is_directory { 0o755 } else { 0o644 });
    if is_directory {
        return tree.directory(&path, mode & 0o777);
    }
    if mode & TYPE == LINK {
        let mut target = String::new();
        member.by_ref().take(TARGET_MAX).read_to_string(&mut target).map_err(super::doing("unpacking a link"))?;
        return tree.symlink(&path, Path::new(&target));
    }
    tree.file(&path, mode & 0o777, 0, member, bounds)
}
