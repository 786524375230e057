//! An allocation's data as a tar: the tasks' shared data, and the `local` directory of each task. Callers authorize
//! the request.

use std::io::{self, Read, Write};
use std::path::Path;

use bytes::Bytes;
use rustix::fs::FileType;
use songline_model::AllocId;
use tokio::sync::mpsc;

use crate::allocdir::{AllocDir, SHARED};
use crate::beneath::Dir;

/// Size of one piece, in bytes.
const PIECE_BYTES: usize = 64 << 10;
/// Largest depth of nested directories. Each directory holds a descriptor while its content is packed.
const DEPTH_MAX: usize = 128;

/// Writes the tar. A special entry tells the reader that files are missing.
pub(super) fn write(dir: &AllocDir, id: AllocId, tasks: &[String], to: mpsc::Sender<io::Result<Bytes>>) {
    let mut archive = tar::Builder::new(Pieces { to, gathered: Vec::new() });
    let written = dir.open().and_then(|root| entries(&mut archive, &root, tasks));
    let ended = match written {
        Ok(()) => archive.into_inner().and_then(|mut pieces| pieces.flush()),
        Err(error) => {
            tracing::warn!(alloc = %id, %error, "the data of an allocation could not be read for its successor");
            let text = error.to_string();
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len().try_into().unwrap_or(0));
            header.set_mode(0o666);
            header.set_cksum();
            let told = archive.append_data(&mut header, format!("NOMAD-{id}-ERROR.log"), text.as_bytes());
            told.and_then(|()| archive.into_inner()).and_then(|mut pieces| pieces.flush())
        }
    };
    if let Err(error) = ended {
        tracing::debug!(alloc = %id, %error, "the reader of the data is gone");
    }
}

fn entries(archive: &mut tar::Builder<Pieces>, root: &Dir, tasks: &[String]) -> io::Result<()> {
    let shared = Path::new(SHARED).join("data");
    let own = tasks.iter().map(|task| Path::new(task).join("local"));
    for path in std::iter::once(shared).chain(own) {
        match root.kind(&path)? {
            None => {}
            Some(FileType::Directory) => append(archive, root, &path, &path, DEPTH_MAX)?,
            Some(_) => return Err(io::Error::other(format!("{} is not a directory any more", path.display()))),
        }
    }
    Ok(())
}

/// Packs the entry at a path below `dir` under a name. A link stays a link, wherever it leads; pipes, devices and
/// sockets are left out.
fn append(
    archive: &mut tar::Builder<Pieces>,
    dir: &Dir,
    path: &Path,
    name: &Path,
    depth_left: usize,
) -> io::Result<()> {
    let entry = match dir.entry(path) {
        Ok(entry) => entry,
        // The file was removed after the directory was read.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut header = tar::Header::new_gnu();
    header.set_metadata(&entry.metadata()?);
    match entry.kind() {
        FileType::Directory => {
            archive.append_data(&mut header, name, io::empty())?;
            let depth_left =
                depth_left.checked_sub(1).ok_or_else(|| io::Error::other(format!("{} is too deep", name.display())))?;
            let dir = entry.into_dir()?;
            dir.names()?
                .iter()
                .try_for_each(|below| append(archive, &dir, Path::new(below), &name.join(below), depth_left))
        }
        FileType::RegularFile => {
            let file = entry.open_file(rustix::fs::OFlags::RDONLY)?;
            let size = file.metadata()?.len();
            header.set_size(size);
            // The content is cut or padded to the size in the header, because the file may grow or shrink meanwhile.
            archive.append_data(&mut header, name, file.take(size).chain(io::repeat(0)).take(size))
        }
        FileType::Symlink => archive.append_link(&mut header, name, entry.target()?),
        _ => Ok(()),
    }
}

/// Sends written bytes, and blocks for a slow reader.
struct Pieces {
    to: mpsc::Sender<io::Result<Bytes>>,
    gathered: Vec<u8>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let piece = Bytes::from(std::mem::take(&mut self.gathered));
        self.to.blocking_send(Ok(piece)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alloc_snapshot_holds_data_and_local_files_and_keeps_links() -> io::Result<()> {
        let parent = tempfile::tempdir()?;
        let id = AllocId::default();
        let dir = AllocDir::new(parent.path(), &id);
        dir.build()?;
        dir.build_task("web", None)?;
        std::fs::write(dir.shared().join("data/kept"), "kept")?;
        std::fs::write(dir.task("web").join("local/own"), "own")?;
        std::fs::write(dir.task("web").join("secrets/token"), "secret")?;
        std::os::unix::fs::symlink("/etc/passwd", dir.task("web").join("local/link"))?;
        let (to, mut pieces) = mpsc::channel(100);
        write(&dir, id, &["web".to_owned(), "gone".to_owned()], to);
        let mut bytes = Vec::new();
        while let Some(piece) = pieces.blocking_recv() {
            bytes.extend_from_slice(&piece?);
        }
        let mut names = Vec::new();
        for entry in tar::Archive::new(bytes.as_slice()).entries()? {
            let entry = entry?;
            names.push(format!("{} {:?}", entry.path()?.display(), entry.header().entry_type()));
        }
        names.sort();
        let expected = [
            "alloc/data Directory",
            "alloc/data/kept Regular",
            "web/local Directory",
            "web/local/link Symlink",
            "web/local/own Regular",
        ];
        assert_eq!(names.iter().map(|name| name.replace("/ ", " ")).collect::<Vec<_>>(), expected);
        Ok(())
    }
}
