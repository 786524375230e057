//! Files of an allocation's directory: access checks, and their properties. No spelling of a path and no link leads
//! out of the directory: [`beneath`](crate::beneath) ensures that.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Stat};
use songline_model::Time;
use songline_rpc::{AllocFileInfo, RpcError};

use super::follow::Followed;
use crate::allocdir::{AllocDir, PRIVATE, SECRETS};
use crate::beneath::{Dir, Found, NotFound};

const ESCAPES: &str = "Path escapes the alloc directory";
const UNKNOWN_CONTENT: &str = "application/octet-stream";
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// The entries of a directory, by name. Links are listed as links.
pub(super) fn list(dir: &AllocDir, path: &str) -> Result<Vec<AllocFileInfo>, RpcError> {
    let asked = Asked::new(dir, path).map_err(|problem| problem.plain())?;
    let failed = |error: &io::Error| RpcError::Remote(format!("open {}: {}", asked.full().display(), reason(error)));
    let found = asked.find().map_err(|problem| match problem {
        Problem::Missing => coded(404, format!("open {}: no such file or directory", asked.full().display())),
        other => other.plain(),
    })?;
    if found.kind() != FileType::Directory {
        return Err(failed(&io::ErrorKind::NotADirectory.into()));
    }
    let listed = found.into_dir().map_err(|error| failed(&error))?;
    // An entry that vanishes while the directory is read is left out.
    let info = |name: std::ffi::OsString| Some(info(&name.to_string_lossy(), listed.entry(&name).ok()?.stat(), ""));
    Ok(listed.names().map_err(|error| failed(&error))?.into_iter().filter_map(info).collect())
}

/// Properties of one file or directory.
pub(super) fn stat(dir: &AllocDir, path: &str) -> Result<AllocFileInfo, RpcError> {
    let asked = Asked::new(dir, path).map_err(|problem| problem.plain())?;
    let found = asked.find().map_err(|problem| match problem {
        Problem::Missing => coded(404, format!("stat {}: no such file or directory", asked.full().display())),
        other => other.plain(),
    })?;
    let content = found.read().map_or(UNKNOWN_CONTENT, content_type);
    let name = found.path().file_name().or(dir.root().file_name()).map(|name| name.to_string_lossy().into_owned());
    Ok(info(&name.unwrap_or_default(), found.stat(), content))
}

/// Opens a file that may be read.
pub(super) fn readable(dir: &AllocDir, path: &str) -> Result<Followed, RpcError> {
    if path.is_empty() {
        return Err(coded(400, "must provide a file path".to_owned()));
    }
    let reading = |problem: Problem| match problem {
        Problem::Escapes => coded(400, ESCAPES.to_owned()),
        other => other.plain(),
    };
    let asked = Asked::new(dir, path).map_err(reading)?;
    // The check and the opened file come from one lookup: a task may swap links between two lookups.
    let found = asked.find();
    let real = match &found {
        Ok(found) => found.path().to_owned(),
        Err(_) => asked.real().map_err(reading)?,
    };
    match real.components().nth(1).and_then(|part| part.as_os_str().to_str()) {
        Some(SECRETS) => return Err(RpcError::Remote(format!("Reading secret file prohibited: {path}"))),
        Some(PRIVATE) => return Err(RpcError::Remote(format!("Reading private file prohibited: {path}"))),
        _ => {}
    }
    let found = found.map_err(|problem| match problem {
        Problem::Missing => coded(400, format!("stat {}: no such file or directory", asked.full().display())),
        other => reading(other),
    })?;
    match found.kind() {
        FileType::RegularFile => {}
        FileType::Directory => return Err(coded(400, format!("file {path:?} is a directory"))),
        _ => return Err(coded(400, format!("file {path:?} is not a regular file"))),
    }
    let file =
        found.read().map_err(|error| coded(400, format!("open {}: {}", asked.full().display(), reason(&error))))?;
    Ok(Followed::new(file, found.stat(), asked.root, asked.path))
}

enum Problem {
    Escapes,
    NoDirectory,
    Missing,
    Other(String),
}

impl Problem {
    fn plain(&self) -> RpcError {
        RpcError::Remote(match self {
            Problem::Escapes => ESCAPES.to_owned(),
            Problem::NoDirectory => "Failed to check if path escapes alloc directory: not a directory".to_owned(),
            Problem::Missing => reason(&io::ErrorKind::NotFound.into()),
            Problem::Other(text) => text.clone(),
        })
    }
}

impl From<NotFound> for Problem {
    fn from(why: NotFound) -> Self {
        match why {
            NotFound::Escapes => Problem::Escapes,
            NotFound::Io(error) if error.kind() == io::ErrorKind::NotADirectory => Problem::NoDirectory,
            NotFound::Io(error) if error.kind() == io::ErrorKind::NotFound => Problem::Missing,
            NotFound::Io(error) => Problem::Other(error.to_string()),
        }
    }
}

/// A path below an allocation's directory.
struct Asked<'a> {
    dir: &'a AllocDir,
    root: Dir,
    /// Path below the root, without `.` and `..`.
    path: PathBuf,
}

impl<'a> Asked<'a> {
    fn new(dir: &'a AllocDir, path: &str) -> Result<Self, Problem> {
        let mut plain = PathBuf::new();
        for part in Path::new(path.trim_start_matches('/')).components() {
            match part {
                Component::Normal(name) => plain.push(name),
                Component::ParentDir if !plain.pop() => return Err(Problem::Escapes),
                Component::ParentDir | Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        let root =
            dir.open().map_err(|error| Problem::Other(format!("open {}: {}", dir.root().display(), reason(&error))))?;
        Ok(Self { dir, root, path: plain })
    }

    fn find(&self) -> Result<Found, Problem> {
        Ok(self.root.find(&self.path)?)
    }

    /// Absolute path on this node, for messages.
    fn full(&self) -> PathBuf {
        if self.path.as_os_str().is_empty() { self.dir.root().to_owned() } else { self.dir.root().join(&self.path) }
    }

    /// Path below the directory with all links resolved, as far as the path exists.
    fn real(&self) -> Result<PathBuf, Problem> {
        let mut known = self.path.as_path();
        loop {
            match self.root.find(known).map_err(Problem::from) {
                Ok(found) => return Ok(found.path().join(self.path.strip_prefix(known).unwrap_or(Path::new("")))),
                Err(Problem::Missing) => known = known.parent().ok_or(Problem::Escapes)?,
                Err(other) => return Err(other),
            }
        }
    }
}

fn info(name: &str, stat: &Stat, content_type: &str) -> AllocFileInfo {
    let nanos = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
    AllocFileInfo {
        name: name.into(),
        is_dir: FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
        size: stat.st_size,
        file_mode: file_mode(stat.st_mode).into(),
        mod_time: Time::from_nanos(stat.st_mtime.saturating_mul(NANOS_PER_SECOND).saturating_add(nanos)),
        content_type: content_type.into(),
    }
}

/// A mode in Go's notation: kind letters, then the nine permissions.
fn file_mode(mode: u32) -> String {
    let kind = FileType::from_raw_mode(mode);
    let kinds = [
        (kind == FileType::Directory, 'd'),
        (kind == FileType::Symlink, 'L'),
        (kind == FileType::BlockDevice || kind == FileType::CharacterDevice, 'D'),
        (kind == FileType::Fifo, 'p'),
        (kind == FileType::Socket, 'S'),
        (mode & 0o4000 != 0, 'u'),
        (mode & 0o2000 != 0, 'g'),
        (kind == FileType::CharacterDevice, 'c'),
        (mode & 0o1000 != 0, 't'),
    ];
    let mut text: String = kinds.iter().filter(|(is, _)| *is).map(|(_, letter)| *letter).collect();
    if text.is_empty() {
        text.push('-');
    }
    text.extend(
        "rwxrwxrwx".chars().enumerate().map(|(bit, letter)| if mode & (1 << (8 - bit)) != 0 { letter } else { '-' }),
    );
    text
}

/// Content type of a file, from its first bytes.
fn content_type(file: File) -> &'static str {
    let mut head = Vec::with_capacity(512);
    if file.take(512).read_to_end(&mut head).is_err() || head.is_empty() {
        return UNKNOWN_CONTENT;
    }
    sniff(&head)
}

fn sniff(head: &[u8]) -> &'static str {
    const MAGIC: &[(&[u8], &str)] = &[
        (b"%PDF-", "application/pdf"),
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"PK\x03\x04", "application/zip"),
        (b"\x1f\x8b\x08", "application/x-gzip"),
        (b"\0asm", "application/wasm"),
    ];
    if let Some((_, kind)) = MAGIC.iter().find(|(magic, _)| head.starts_with(magic)) {
        return kind;
    }
    let text = head.trim_ascii_start().to_ascii_lowercase();
    let tags: [&[u8]; 7] = [b"<!doctype html", b"<html", b"<head", b"<script", b"<body", b"<title", b"<table"];
    if tags.iter().any(|tag| text.starts_with(tag)) {
        return "text/html; charset=utf-8";
    }
    if text.starts_with(b"<?xml") {
        return "text/xml; charset=utf-8";
    }
    let binary = |byte: &u8| matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f);
    if head.iter().any(binary) { UNKNOWN_CONTENT } else { "text/plain; charset=utf-8" }
}

/// The system's error text without its number, in Go's form.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::NotADirectory => "not a directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

fn coded(code: u16, text: String) -> RpcError {
    RpcError::Coded { code, text }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use songline_model::AllocId;

    use super::*;

    fn check(path: &str, expected: &str) {
        let parent = tempfile::tempdir().expect("a directory");
        let dir = AllocDir::new(parent.path(), &AllocId::from_bytes([7; 16]));
        dir.build().and_then(|()| dir.build_task("web", None)).expect("builds");
        fs::write(parent.path().join("outside"), "x").expect("writes");
        fs::write(dir.task("web").join("secrets/key"), "x").expect("writes");
        fs::write(dir.shared().join("data/page"), "<html>").expect("writes");
        symlink(parent.path().join("outside"), dir.shared().join("out")).expect("links");
        symlink("data/page", dir.shared().join("in")).expect("links");
        symlink("../../web/secrets", dir.shared().join("data/hidden")).expect("links");
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.shared().join("pipe"), rustix::fs::Mode::RWXU).expect("makes");
        let said = match readable(&dir, path) {
            Ok(_) => format!(
                "ok {}",
                dir.open().expect("opens").find(path.trim_start_matches('/')).expect("is there").path().display()
            ),
            Err(RpcError::Coded { code, text }) => format!("{code} {text}"),
            Err(other) => other.to_string(),
        };
        assert_eq!(said.replace(&parent.path().display().to_string(), "DIR"), expected);
    }

    #[test]
    fn file_read_outside_the_alloc_or_in_secrets_is_refused() {
        check("alloc/data/page", "ok alloc/data/page");
        check("/alloc/in", "ok alloc/data/page");
        check("alloc/../../outside", "400 Path escapes the alloc directory");
        check("alloc/out", "400 Path escapes the alloc directory");
        check("web/secrets/key", "Reading secret file prohibited: web/secrets/key");
        check("alloc/data/hidden/key", "Reading secret file prohibited: alloc/data/hidden/key");
        check("web/private/key", "Reading private file prohibited: web/private/key");
        check("alloc/data/hidden/none", "Reading secret file prohibited: alloc/data/hidden/none");
        check("alloc/pipe", "400 file \"alloc/pipe\" is not a regular file");
        check("alloc/data", "400 file \"alloc/data\" is a directory");
        check("alloc/data/page/x", "Failed to check if path escapes alloc directory: not a directory");
        let missing = "400 stat DIR/07070707-0707-0707-0707-070707070707/alloc/nope: no such file or directory";
        check("alloc/nope", missing);
        check("", "400 must provide a file path");
    }

    #[test]
    fn file_modes_and_content_types_are_formatted_as_in_nomad() {
        let parent = tempfile::tempdir().expect("a directory");
        let dir = AllocDir::new(parent.path(), &AllocId::from_bytes([7; 16]));
        dir.build().and_then(|()| dir.build_task("web", None)).expect("builds");
        fs::write(dir.shared().join("data/page"), "<html>").expect("writes");
        let page = stat(&dir, "alloc/data/page").expect("is there");
        assert_eq!(
            (page.file_mode.as_str(), page.content_type.as_str(), page.size),
            ("-rw-r--r--", "text/html; charset=utf-8", 6)
        );
        let listed: Vec<_> = list(&dir, "web")
            .expect("lists")
            .into_iter()
            .map(|info| format!("{} {}", info.file_mode, info.name))
            .collect();
        assert_eq!(listed, ["drwxrwxrwx local", "drwx------ private", "drwx------ secrets", "dtrwxrwxrwx tmp"]);
    }
}
