//! Log files of a task that rotate: `<task>.stdout.0`, `.1`, .. each up to a size, the oldest removed. Reading them is elsewhere.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Appends to the newest file of a task's log.
#[derive(Debug)]
pub struct RotatingFile {
    dir: PathBuf,
    base: String,
    files_max: u64,
    file_bytes_max: u64,
    index: u64,
    written: u64,
    file: File,
}

impl RotatingFile {
    /// Goes on with the newest file there is, so that a restarted task continues its log.
    pub fn open(dir: &Path, base: &str, files_max: u64, file_bytes_max: u64) -> io::Result<Self> {
        let index = indexes(dir, base)?.last().copied().unwrap_or(0);
        let file = append(&path(dir, base, index))?;
        let written = file.metadata()?.len();
        Ok(Self {
            dir: dir.to_owned(),
            base: base.to_owned(),
            files_max: files_max.max(1),
            file_bytes_max: file_bytes_max.max(1),
            index,
            written,
            file,
        })
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

    fn rotate(&mut self) -> io::Result<()> {
        self.index += 1;
        self.file = append(&path(&self.dir, &self.base, self.index))?;
        self.written = 0;
        for old in indexes(&self.dir, &self.base)? {
            if old + self.files_max <= self.index {
                fs::remove_file(path(&self.dir, &self.base, old))?;
            }
        }
        Ok(())
    }
}

/// The numbers of a log's files, ascending.
pub fn indexes(dir: &Path, base: &str) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let index: Option<u64> = name.to_str().and_then(|name| name.strip_prefix(base)?.strip_prefix('.')?.parse().ok());
        found.extend(index);
    }
    found.sort_unstable();
    Ok(found)
}

/// Where file `index` of a log is.
pub fn path(dir: &Path, base: &str, index: u64) -> PathBuf {
    dir.join(format!("{base}.{index}"))
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_keeps_its_newest_files_and_goes_on_after_a_restart() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut log = RotatingFile::open(dir.path(), "web.stdout", 2, 4).expect("opens");
        log.write(b"abcdefghij").expect("writes");
        assert_eq!(indexes(dir.path(), "web.stdout").expect("lists"), [1, 2]);
        drop(log);
        let mut log = RotatingFile::open(dir.path(), "web.stdout", 2, 4).expect("opens again");
        log.write(b"kl").expect("writes");
        let read = |index| fs::read_to_string(path(dir.path(), "web.stdout", index)).expect("reads");
        assert_eq!((read(1), read(2)), ("efgh".to_owned(), "ijkl".to_owned()));
    }
}
