//! Files of an allocation's directory: which may be seen, what they are. Nothing outside the directory is reached, by no spelling and no link.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

use songline_model::{Dur, Time};
use songline_rpc::{AllocFileInfo, RpcError};

use crate::allocdir::{AllocDir, PRIVATE, SECRETS};

const ESCAPES: &str = "Path escapes the alloc directory";
const UNKNOWN_CONTENT: &str = "application/octet-stream";

/// The entries of a directory, by name.
pub(super) fn list(dir: &AllocDir, path: &str) -> Result<Vec<AllocFileInfo>, RpcError> {
    let full = inside(dir, path).map_err(|problem| problem.plain())?;
    let open = |error: &io::Error| match error.kind() {
        io::ErrorKind::NotFound => coded(404, format!("open {}: no such file or directory", full.display())),
        _ => RpcError::Remote(format!("open {}: {}", full.display(), reason(error))),
    };
    let mut infos = Vec::new();
    for entry in fs::read_dir(&full).map_err(|error| open(&error))? {
        let entry = entry.map_err(|error| open(&error))?;
        // One that vanishes while the directory is read was not there.
        if let Ok(meta) = entry.metadata() {
            infos.push(info(&entry.file_name().to_string_lossy(), &meta, ""));
        }
    }
    infos.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(infos)
}

/// One file or directory.
pub(super) fn stat(dir: &AllocDir, path: &str) -> Result<AllocFileInfo, RpcError> {
    let full = inside(dir, path).map_err(|problem| problem.plain())?;
    let meta = fs::metadata(&full).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => coded(404, format!("stat {}: no such file or directory", full.display())),
        _ => RpcError::Remote(format!("stat {}: {}", full.display(), reason(&error))),
    })?;
    let content = if meta.is_file() { content_type(&full) } else { UNKNOWN_CONTENT };
    let name = full.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(info(&name, &meta, content))
}

/// Where a file is that may be read.
pub(super) fn readable(dir: &AllocDir, path: &str) -> Result<PathBuf, RpcError> {
    if path.is_empty() {
        return Err(coded(400, "must provide a file path".to_owned()));
    }
    let full = inside(dir, path).map_err(|problem| match problem {
        Problem::Escapes => coded(400, ESCAPES.to_owned()),
        other => other.plain(),
    })?;
    let root = dir.root().canonicalize().unwrap_or_else(|_| dir.root().to_owned());
    let within = full.strip_prefix(&root).unwrap_or(&full);
    let parts: Vec<_> = within.components().filter_map(|part| part.as_os_str().to_str()).collect();
    if let [_, kept, ..] = parts.as_slice() {
        match *kept {
            SECRETS => return Err(RpcError::Remote(format!("Reading secret file prohibited: {path}"))),
            PRIVATE => return Err(RpcError::Remote(format!("Reading private file prohibited: {path}"))),
            _ => {}
        }
    }
    match fs::metadata(&full) {
        Ok(meta) if meta.is_dir() => Err(coded(400, format!("file {path:?} is a directory"))),
        Ok(meta) if meta.file_type().is_fifo() || meta.file_type().is_socket() => {
            Err(coded(400, format!("file {path:?} is not a regular file")))
        }
        Ok(_) => Ok(full),
        Err(error) => Err(coded(400, format!("stat {}: {}", full.display(), reason(&error)))),
    }
}

enum Problem {
    Escapes,
    NoDirectory,
    Other(String),
}

impl Problem {
    fn plain(&self) -> RpcError {
        RpcError::Remote(match self {
            Problem::Escapes => ESCAPES.to_owned(),
            Problem::NoDirectory => "Failed to check if path escapes alloc directory: not a directory".to_owned(),
            Problem::Other(text) => text.clone(),
        })
    }
}

/// The full path of something in the directory, links resolved as far as it exists.
fn inside(dir: &AllocDir, path: &str) -> Result<PathBuf, Problem> {
    let mut depth = 0_usize;
    let mut plain = PathBuf::new();
    for part in Path::new(path.trim_start_matches('/')).components() {
        match part {
            Component::Normal(name) => {
                depth += 1;
                plain.push(name);
            }
            Component::ParentDir => {
                depth = depth.checked_sub(1).ok_or(Problem::Escapes)?;
                plain.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    let root = dir.root().canonicalize().map_err(|error| Problem::Other(error.to_string()))?;
    let full = root.join(&plain);
    let mut known = full.as_path();
    loop {
        match known.canonicalize() {
            Ok(real) if !real.starts_with(&root) => return Err(Problem::Escapes),
            // What does not exist yet below an existing directory is no way out.
            Ok(real) => return Ok(full.strip_prefix(known).map_or_else(|_| real.clone(), |rest| join(&real, rest))),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(Problem::NoDirectory),
            Err(error) if error.kind() == io::ErrorKind::NotFound => known = known.parent().ok_or(Problem::Escapes)?,
            Err(error) => return Err(Problem::Other(error.to_string())),
        }
    }
}

fn join(real: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { real.to_owned() } else { real.join(rest) }
}

fn info(name: &str, meta: &Metadata, content_type: &str) -> AllocFileInfo {
    let changed = meta.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    AllocFileInfo {
        name: name.into(),
        is_dir: meta.is_dir(),
        size: i64::try_from(meta.len()).unwrap_or(i64::MAX),
        file_mode: file_mode(meta).into(),
        mod_time: Time::from_nanos(Dur::from(changed).nanos()),
        content_type: content_type.into(),
    }
}

/// As Go prints a mode: kind letters, then the nine permissions.
fn file_mode(meta: &Metadata) -> String {
    let (kind, mode) = (meta.file_type(), meta.permissions().mode());
    let kinds = [
        (kind.is_dir(), 'd'),
        (kind.is_symlink(), 'L'),
        (kind.is_block_device() || kind.is_char_device(), 'D'),
        (kind.is_fifo(), 'p'),
        (kind.is_socket(), 'S'),
        (mode & 0o4000 != 0, 'u'),
        (mode & 0o2000 != 0, 'g'),
        (kind.is_char_device(), 'c'),
        (mode & 0o1000 != 0, 't'),
    ];
    let mut text: String = kinds.iter().filter(|(is, _)| *is).map(|(_, letter)| *letter).collect();
    if text.is_empty() {
        text.push('-');
    }
    text.extend("rwxrwxrwx".chars().enumerate().map(|(bit, letter)| if mode & (1 << (8 - bit)) != 0 { letter } else { '-' }));
    text
}

/// What a file holds, from its first bytes.
fn content_type(path: &Path) -> &'static str {
    let mut head = Vec::with_capacity(512);
    if File::open(path).and_then(|file| file.take(512).read_to_end(&mut head)).is_err() || head.is_empty() {
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

/// The system's words without its numbers, as Go says them.
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
        let said = match readable(&dir, path) {
            Ok(full) => {
                let root = dir.root().canonicalize().expect("exists");
                format!("ok {}", full.strip_prefix(root).expect("inside").display())
            }
            Err(RpcError::Coded { code, text }) => format!("{code} {text}"),
            Err(other) => other.to_string(),
        };
        assert_eq!(said.replace(&parent.path().canonicalize().expect("exists").display().to_string(), "DIR"), expected);
    }

    #[test]
    fn only_what_belongs_to_the_tasks_can_be_read() {
        check("alloc/data/page", "ok alloc/data/page");
        check("/alloc/in", "ok alloc/data/page");
        check("alloc/../../outside", "400 Path escapes the alloc directory");
        check("alloc/out", "400 Path escapes the alloc directory");
        check("web/secrets/key", "Reading secret file prohibited: web/secrets/key");
        check("alloc/data/hidden/key", "Reading secret file prohibited: alloc/data/hidden/key");
        check("web/private/key", "Reading private file prohibited: web/private/key");
        check("alloc/data", "400 file \"alloc/data\" is a directory");
        check("alloc/data/page/x", "Failed to check if path escapes alloc directory: not a directory");
        let missing = "400 stat DIR/07070707-0707-0707-0707-070707070707/alloc/nope: no such file or directory";
        check("alloc/nope", missing);
        check("", "400 must provide a file path");
    }

    #[test]
    fn modes_and_kinds_are_told_as_the_reference_tells_them() {
        let parent = tempfile::tempdir().expect("a directory");
        let dir = AllocDir::new(parent.path(), &AllocId::from_bytes([7; 16]));
        dir.build().and_then(|()| dir.build_task("web", None)).expect("builds");
        fs::write(dir.shared().join("data/page"), "<html>").expect("writes");
        let page = stat(&dir, "alloc/data/page").expect("is there");
        assert_eq!((page.file_mode.as_str(), page.content_type.as_str(), page.size), ("-rw-r--r--", "text/html; charset=utf-8", 6));
        let listed: Vec<_> =
            list(&dir, "web").expect("lists").into_iter().map(|info| format!("{} {}", info.file_mode, info.name)).collect();
        assert_eq!(listed, ["drwxrwxrwx local", "drwx------ private", "drwx------ secrets", "dtrwxrwxrwx tmp"]);
    }
}
