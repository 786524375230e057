//! Unpacking of the downloaded file into the staging directory. Runs in the fetching process only; the agent checks the
//! result again.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use flate2::read::MultiGzDecoder;
use rustix::fs::{FileType, Timespec, Timestamps};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use tar::{Entry, EntryType};

use super::child::{STAGED, Staged};
use super::place::link;
use super::settings::ArtifactSettings;
use super::source::{Archive, Compression, Source};
use super::{ArtifactError, DEPTH_MAX, doing, subdir, unzip, within};
use crate::beneath::Dir;

/// Bytes that headers of a tape archive may take beside as much again as its members.
const HEADERS_MAX: u64 = 64 << 20;
/// The name of the downloaded file in the staging directory.
pub(super) const DOWNLOAD: &str = "download";

/// Turns the downloaded file into the staged file or directory that the agent is to place. In mode `file` an archive
/// has to have one member, which becomes the file.
pub(super) fn stage(
    source: &Source,
    mode: &str,
    staging: &Dir,
    settings: &ArtifactSettings,
) -> Result<Staged, ArtifactError> {
    let packed = || staging.read(DOWNLOAD).map_err(doing("opening a file"));
    let mut bounds = Bounds::new(settings);
    match source.archive {
        Archive::None => {
            staging.rename(DOWNLOAD, staging, STAGED).map_err(doing("moving a file"))?;
            return Ok(Staged::File { name: source.filename.clone() });
        }
        Archive::Single(compression) => {
            let mut out = staging.create(STAGED, 0o644).map_err(doing("making a file"))?;
            bounds.copy(unpacked(packed()?, Some(compression))?, &mut out)?;
            return Ok(Staged::File { name: source.filename.clone() });
        }
        Archive::Tar(compression) => {
            let tree = Tree::new(staging)?;
            // A header may lie about the size of a member, so the bytes read are limited as well.
            let stream = unpacked(packed()?, compression)?.take(bounds.with_headers());
            for entry in tar::Archive::new(stream).entries().map_err(doing("unpacking"))? {
                bounds.file()?;
                tree.add(entry.map_err(doing("unpacking"))?, &mut bounds)?;
            }
        }
        Archive::Zip => unzip::unpack(packed()?, &Tree::new(staging)?, &mut bounds)?,
    }
    let subdir = subdir::find(staging, &source.subdir)?;
    if mode == "file" {
        single(staging, &subdir)?;
        return Ok(Staged::File { name: source.filename.clone() });
    }
    Ok(Staged::Tree { subdir })
}

/// Puts the one file below `subdir` of the staged directory in the place of that directory. Directories above the file
/// do not count as members.
fn single(staging: &Dir, subdir: &str) -> Result<(), ArtifactError> {
    let several = || ArtifactError::Invalid("source is a directory, and a file is wanted".to_owned());
    let read = doing("reading what was unpacked");
    let mut dir = staging.dir(Path::new(STAGED).join(subdir)).map_err(&read)?;
    loop {
        let names = dir.names().map_err(&read)?;
        let [name] = names.as_slice() else { return Err(several()) };
        let entry = dir.entry(name).map_err(&read)?;
        match entry.kind() {
            FileType::Directory => dir = entry.into_dir().map_err(&read)?,
            FileType::RegularFile => {
                let mut from = dir.read(name).map_err(&read)?;
                let meta = from.metadata().map_err(&read)?;
                // The file is copied, because the oldest Landlock refuses a rename into another directory.
                staging.remove(DOWNLOAD).map_err(doing("removing a file"))?;
                let mut to = staging.create(DOWNLOAD, meta.mode() & 0o777).map_err(doing("making a file"))?;
                copy(&mut from, &mut to)?;
                keep_time(&to, u64::try_from(meta.mtime()).unwrap_or(0))?;
                return staging.replace(DOWNLOAD, staging, STAGED).map_err(doing("moving a file"));
            }
            _ => return Err(several()),
        }
    }
}

/// The content of a compressed stream.
fn unpacked(packed: File, compression: Option<Compression>) -> Result<Box<dyn Read>, ArtifactError> {
    let packed = io::BufReader::new(packed);
    Ok(match compression {
        None => Box::new(packed),
        Some(Compression::Gz) => Box::new(MultiGzDecoder::new(packed)),
        Some(Compression::Bz2) => Box::new(bzip2::bufread::MultiBzDecoder::new(packed)),
        Some(Compression::Xz) => Box::new(lzma_rust2::XzReader::new(packed, true)),
        Some(Compression::Zst) => Box::new(ZstFrames(Some(frame(packed).map_err(doing("unpacking"))?))),
    })
}

/// One frame of a zstd file.
type ZstFrame<R> = StreamingDecoder<R, FrameDecoder>;

fn frame<R: Read>(packed: R) -> io::Result<ZstFrame<R>> {
    StreamingDecoder::new(packed).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
}

/// All frames of a zstd file; programs that compress on several processors write more than one.
struct ZstFrames<R: BufRead>(Option<ZstFrame<R>>);

impl<R: BufRead> Read for ZstFrames<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(current) = &mut self.0 else { return Ok(0) };
            let count = current.read(to)?;
            if count > 0 || to.is_empty() {
                return Ok(count);
            }
            let mut rest = self.0.take().ok_or(io::ErrorKind::UnexpectedEof)?.into_inner();
            if rest.fill_buf()?.is_empty() {
                return Ok(0);
            }
            self.0 = Some(frame(rest)?);
        }
    }
}

/// Files and bytes that an archive may still unpack to.
pub(super) struct Bounds {
    files_max: u64,
    files: u64,
    bytes_max: u64,
    bytes_left: u64,
}

impl Bounds {
    fn new(settings: &ArtifactSettings) -> Self {
        let unless_zero = |most: u64| if most == 0 { u64::MAX } else { most };
        let bytes = unless_zero(settings.unpacked_bytes_max);
        Self { files_max: unless_zero(settings.unpacked_files_max), files: 0, bytes_max: bytes, bytes_left: bytes }
    }

    /// Bytes of a tape archive with headers and padding whose members fit.
    fn with_headers(&self) -> u64 {
        self.bytes_left.saturating_mul(2).saturating_add(HEADERS_MAX)
    }

    /// Counts one member.
    pub fn file(&mut self) -> Result<(), ArtifactError> {
        self.files += 1;
        within("its number of files", self.files, self.files_max)
    }

    /// Copies a member's content, and stops after the bytes that are left.
    pub fn copy(&mut self, from: impl Read, to: &mut File) -> Result<(), ArtifactError> {
        let length = copy(from.take(self.bytes_left.saturating_add(1)), to)?;
        let left = self.bytes_left.checked_sub(length);
        self.bytes_left =
            left.ok_or(ArtifactError::TooMuch { what: "its unpacked size in bytes", most: self.bytes_max })?;
        Ok(())
    }
}

/// The directory that an archive is unpacked into.
pub(super) struct Tree {
    dir: Dir,
}

impl Tree {
    fn new(staging: &Dir) -> Result<Self, ArtifactError> {
        Ok(Self { dir: staging.make_dir(STAGED, 0o755).map_err(doing("making a directory"))? })
    }

    /// Unpacks one member. Names of users and groups, and the bits for setuid, setgid and sticky, are not kept.
    fn add<R: Read>(&self, mut entry: Entry<'_, R>, bounds: &mut Bounds) -> Result<(), ArtifactError> {
        let kind = entry.header().entry_type();
        if kind.is_pax_global_extensions() {
            return Ok(());
        }
        let path = inside(&entry.path().map_err(doing("unpacking"))?)?;
        let mode = entry.header().mode().unwrap_or(0o644) & 0o777;
        match kind {
            EntryType::Directory => self.directory(&path, mode),
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let time = entry.header().mtime().unwrap_or(0);
                self.file(&path, mode, time, &mut entry, bounds)
            }
            EntryType::Symlink => self.symlink(&path, &link_target(&entry)?),
            // A hard link becomes a copy, so that no placed file has a second name.
            EntryType::Link => {
                let target = inside(&link_target(&entry)?)?;
                let (parent, name) = self.place_for(&path)?;
                let original = self.dir.read(target).map_err(doing("unpacking a link"))?;
                let mode = original.metadata().map_err(doing("unpacking a link"))?.mode() & 0o777;
                bounds.copy(original, &mut parent.create(name, mode).map_err(doing("unpacking a link"))?)
            }
            _ => Err(ArtifactError::Invalid("the archive has something that is no file, directory or link".to_owned())),
        }
    }

    /// Makes a directory. `path` is from [`inside`].
    pub fn directory(&self, path: &Path, mode: u32) -> Result<(), ArtifactError> {
        // The fetching process must be able to write into the directory.
        self.dir.make_dirs(path, mode | 0o700).map(drop).map_err(doing("unpacking a directory"))
    }

    /// Makes a file with this time of its last change, in seconds since 1970.
    pub fn file(
        &self,
        path: &Path,
        mode: u32,
        time: u64,
        content: impl Read,
        bounds: &mut Bounds,
    ) -> Result<(), ArtifactError> {
        let (parent, name) = self.place_for(path)?;
        let mut file = parent.create(name, mode).map_err(doing("unpacking a file"))?;
        bounds.copy(content, &mut file)?;
        keep_time(&file, time)
    }

    /// Makes a link, or an empty file if the link leads out of the archive.
    pub fn symlink(&self, path: &Path, target: &Path) -> Result<(), ArtifactError> {
        self.place_for(path)?;
        link(&self.dir, path, target).map_err(doing("unpacking a link"))
    }

    /// Makes the parents of a member, and removes an earlier member of the same name. No link of the archive is
    /// followed.
    fn place_for<'a>(&self, path: &'a Path) -> Result<(Dir, &'a OsStr), ArtifactError> {
        let name = path.file_name().ok_or_else(leads_out)?;
        let parent = self
            .dir
            .make_dirs(path.parent().unwrap_or(Path::new("")), 0o755)
            .map_err(doing("unpacking a directory"))?;
        parent.remove(name).map_err(doing("unpacking a file"))?;
        Ok((parent, name))
    }
}

/// Path of an archive's member, relative to the destination. A path with `..` or deeper than [`DEPTH_MAX`] is refused.
pub(super) fn inside(path: &Path) -> Result<PathBuf, ArtifactError> {
    let mut kept = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => kept.push(name),
            // An absolute path begins at the destination.
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err(leads_out()),
        }
    }
    within("its depth of directories", kept.components().count() as u64, DEPTH_MAX)?;
    Ok(kept)
}

fn leads_out() -> ArtifactError {
    ArtifactError::Invalid("the archive has a path that leads out of it".to_owned())
}

fn link_target<R: Read>(entry: &Entry<'_, R>) -> Result<PathBuf, ArtifactError> {
    let target = entry.link_name().map_err(doing("unpacking a link"))?;
    Ok(target.ok_or_else(|| ArtifactError::Invalid("the archive has a link without a target".to_owned()))?.into_owned())
}

fn copy(mut from: impl Read, to: &mut File) -> Result<u64, ArtifactError> {
    let length = io::copy(&mut from, to).map_err(doing("unpacking"))?;
    to.flush().map_err(doing("unpacking"))?;
    Ok(length)
}

fn keep_time(file: &File, seconds: u64) -> Result<(), ArtifactError> {
    let time = Timespec { tv_sec: seconds.min(i64::MAX as u64).cast_signed(), tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::futimens(file, &times).map_err(|error| doing("unpacking a file")(error.into()))
}
