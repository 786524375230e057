//! Rotating log files of a task: `<task>.stdout.0`, `.1`, .. each up to a size, the oldest removed. The files are in
//! a directory of the agent that no task can change. They have hard links in the directory where tasks look for them.
//! Other modules read them.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::beneath::Dir;

/// Mode of a log file: tasks of any user read it.
const MODE: u32 = 0o644;

/// Appends to the newest file of a task's log.
#[derive(Debug)]
pub struct RotatingFile {
    dir: Dir,
    /// The directory in which tasks find the files, as long as no task replaces it.
    shown: Option<Dir>,
    base: String,
    files_max: u64,
    file_bytes_max: u64,
    index: u64,
    written: u64,
    file: File,
}

impl RotatingFile {
    /// Continues the newest existing file, so that a restarted task continues its log. A log that is not a regular file
    /// is an error.
    pub fn open(dir: &Path, shown: Option<Dir>, base: &str, files_max: u64, file_bytes_max: u64) -> io::Result<Self> {
        let dir = Dir::open(dir)?;
        let index = indexes(&dir, base)?.last().copied().unwrap_or(0);
        let file = dir.append(name(base, index), MODE)?;
        let written = file.metadata()?.len();
        let log = Self {
            dir,
            shown,
            base: base.to_owned(),
            files_max: files_max.max(1),
            file_bytes_max: file_bytes_max.max(1),
            index,
            written,
            file,
        };
        for index in indexes(&log.dir, base)? {
            log.show(index);
        }
        Ok(log)
    }

    /// Writes all of `bytes`, over as many files as it takes.
    pub fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.written >= self.file_bytes_max {
                self.rotate()?;
            }
            let room = usize::try_from(self.file_bytes_max - self.written).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.file.write_all(now)?;
            self.written += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }

    /// The end of the log: the number of the newest file, and its length in bytes.
    pub fn position(&self) -> (u64, u64) {
        (self.index, self.written)
    }

    /// Number of bytes after an earlier end of the log. Files that were removed since do not count.
    pub fn bytes_since(&self, (index, offset): (u64, u64)) -> io::Result<u64> {
        if index >= self.index {
            return Ok(if index == self.index { self.written.saturating_sub(offset) } else { 0 });
        }
        let mut bytes = self.written;
        for older in indexes(&self.dir, &self.base)?.into_iter().filter(|older| (index..self.index).contains(older)) {
            let length = self.dir.read(name(&self.base, older))?.metadata()?.len();
            bytes += if older == index { length.saturating_sub(offset) } else { length };
        }
        Ok(bytes)
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.index += 1;
        self.file = self.dir.append(name(&self.base, self.index), MODE)?;
        self.written = 0;
        self.show(self.index);
        for old in indexes(&self.dir, &self.base)? {
            if old + self.files_max <= self.index {
                self.dir.remove(name(&self.base, old))?;
                self.hide(old);
            }
        }
        Ok(())
    }

    /// Links a file into the directory of the tasks. An error is ignored: a task that puts an entry in the way only
    /// loses its own view.
    fn show(&self, index: u64) {
        if let Some(shown) = &self.shown {
            let _ = self.dir.link(name(&self.base, index), shown);
        }
    }

    fn hide(&self, index: u64) {
        if let Some(shown) = &self.shown {
            let _ = shown.remove(name(&self.base, index));
        }
    }
}

/// The numbers of a log's files, ascending.
pub fn indexes(dir: &Dir, base: &str) -> io::Result<Vec<u64>> {
    let names = dir.names()?;
    let index = |name: &std::ffi::OsString| name.to_str()?.strip_prefix(base)?.strip_prefix('.')?.parse().ok();
    let mut found: Vec<u64> = names.iter().filter_map(index).collect();
    found.sort_unstable();
    Ok(found)
}

/// Name of file `index` of a log.
pub fn name(base: &str, index: u64) -> String {
    format!("{base}.{index}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotated_task_log_keeps_its_newest_files_and_continues_after_a_restart() {
        let parent = tempfile::tempdir().expect("a directory");
        let shown = || Dir::make(&parent.path().join("shown"), 0o777).expect("makes");
        let dir = parent.path().join("own");
        let own = Dir::make(&dir, 0o755).expect("makes");
        let mut log = RotatingFile::open(&dir, Some(shown()), "web.stdout", 2, 4).expect("opens");
        log.write(b"abcdefghij").expect("writes");
        assert_eq!(indexes(&own, "web.stdout").expect("lists"), [1, 2]);
        drop(log);
        let mut log = RotatingFile::open(&dir, Some(shown()), "web.stdout", 2, 4).expect("opens again");
        log.write(b"kl").expect("writes");
        for dir in [&dir, &parent.path().join("shown")] {
            let read = |index| std::fs::read_to_string(dir.join(name("web.stdout", index))).expect("reads");
            assert_eq!((read(1), read(2)), ("efgh".to_owned(), "ijkl".to_owned()));
        }
        assert_eq!(indexes(&shown(), "web.stdout").expect("lists"), [1, 2]);
    }

    #[test]
    fn bytes_after_a_position_are_counted_over_all_files_that_are_left() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut log = RotatingFile::open(dir.path(), None, "web.stdout", 2, 4).expect("opens");
        log.write(b"ab").expect("writes");
        let begun = log.position();
        let mut counts = vec![log.bytes_since(begun).expect("counts")];
        for piece in ["c", "defg", "hijkl"] {
            log.write(piece.as_bytes()).expect("writes");
            counts.push(log.bytes_since(begun).expect("counts"));
        }
        // The first file, with "abcd", is gone after the last piece.
        assert_eq!((begun, counts), ((0, 2), vec![0, 1, 5, 8]));
    }

    #[test]
    fn log_that_is_a_pipe_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("web.stdout.0"), rustix::fs::Mode::RWXU).expect("makes");
        let refused = RotatingFile::open(dir.path(), None, "web.stdout", 2, 4).expect_err("is refused");
        assert_eq!(refused.to_string(), "not a regular file");
    }
}
