//! A container's output on its way to the task's log files. The agent follows the engine's log of each stream; after
//! its own restart it continues where it was, and no line is lost or written twice: a cursor in the run's directory
//! says which entry of the engine's log was written at which place of the files, and whatever the files have beyond that
//! place is skipped when the engine repeats it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::container::LogOutput;
use bollard::query_parameters::LogsOptionsBuilder;
use bytes::Bytes;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use songline_model::Time;

use super::engine::{Engine, Failure};
use crate::executor::place::LogSpec;
use crate::rotate::RotatingFile;

/// Least time between two writes of a cursor.
const SAVE_PERIOD: Duration = Duration::from_millis(500);
/// Pause before the engine is asked again after a failure.
const RETRY: Duration = Duration::from_secs(1);
const NANOS_PER_SEC: i64 = 1_000_000_000;

/// One of the two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    /// Both streams.
    pub const ALL: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

    fn base(self, logs: &LogSpec) -> &str {
        match self {
            Stream::Stdout => &logs.stdout,
            Stream::Stderr => &logs.stderr,
        }
    }

    fn file(self, run_dir: &Path) -> PathBuf {
        run_dir.join(match self {
            Stream::Stdout => "stdout.cursor",
            Stream::Stderr => "stderr.cursor",
        })
    }
}

/// Position in the engine's log, and the end of the task's files at that moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Cursor {
    /// Time of the last written entry, in nanoseconds since 1970.
    at: i64,
    /// Number of written entries of that time: parts of one long line have the same.
    entries: u64,
    /// Number of the newest file, and its length.
    end: (u64, u64),
}

impl Cursor {
    fn read(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&std::fs::read(path)?)?)
    }

    fn write(self, path: &Path) -> io::Result<()> {
        let new = path.with_extension("new");
        std::fs::write(&new, serde_json::to_vec(&self)?)?;
        std::fs::rename(new, path)
    }
}

/// Records where the files of a run begin, before its container starts.
pub(super) fn begin(logs: &LogSpec, run_dir: &Path) -> io::Result<()> {
    Stream::ALL.into_iter().try_for_each(|stream| {
        let end = logs.open(stream.base(logs))?.position();
        Cursor { end, ..Cursor::default() }.write(&stream.file(run_dir))
    })
}

/// Copies one stream of a container to the task's files until the container has ended.
pub(super) async fn follow(engine: Arc<Engine>, container: String, stream: Stream, logs: LogSpec, run_dir: PathBuf) {
    let copy = match Copy::open(&logs, stream, &run_dir) {
        Ok(copy) => copy,
        Err(error) => return tracing::warn!(container, ?stream, %error, "opening the log files of a task"),
    };
    if let Err(error) = copy.run(&engine, &container, stream).await {
        tracing::warn!(container, ?stream, %error, "writing the log files of a task");
    }
}

/// Entries of the engine's log that the files have already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    /// Entries up to the cursor that the engine repeats, of which `seen` have come.
    seen: u64,
    /// Whether the cursor is passed.
    passed: bool,
}

/// One stream on its way to the files.
struct Copy {
    file: RotatingFile,
    cursor: Cursor,
    /// Bytes after the cursor that the files have already.
    skip: u64,
    path: PathBuf,
    saved: Instant,
}

impl Copy {
    fn open(logs: &LogSpec, stream: Stream, run_dir: &Path) -> io::Result<Self> {
        let file = logs.open(stream.base(logs))?;
        let path = stream.file(run_dir);
        let cursor = Cursor::read(&path)?;
        let skip = file.bytes_since(cursor.end)?;
        Ok(Self { file, cursor, skip, path, saved: Instant::now() })
    }

    /// Follows the engine's log; asks again when the connection breaks while the container runs.
    async fn run(mut self, engine: &Engine, container: &str, stream: Stream) -> io::Result<()> {
        loop {
            // Read before the log: a container that has ended writes no more.
            let ended = has_ended(engine, container).await;
            match self.follow(engine, container, stream, ended != Some(true)).await? {
                Ok(()) if ended == Some(true) => return self.save(),
                Ok(()) => {}
                Err(failure) if failure.is_not_found() => return self.save(),
                Err(failure) => {
                    tracing::debug!(container, %failure, "following the log of a container");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Copies what the engine has after the cursor. The outer error is that of the files.
    async fn follow(
        &mut self,
        engine: &Engine,
        container: &str,
        stream: Stream,
        until_ended: bool,
    ) -> io::Result<Result<(), Failure>> {
        let client = match engine.client().await {
            Ok(client) => client,
            Err(failure) => return Ok(Err(failure)),
        };
        // The engine takes whole seconds.
        let since = i32::try_from(self.cursor.at / NANOS_PER_SEC).unwrap_or(0);
        let options = LogsOptionsBuilder::default()
            .follow(until_ended)
            .stdout(stream == Stream::Stdout)
            .stderr(stream == Stream::Stderr)
            .timestamps(true)
            .since(since);
        let mut entries = client.logs(container, Some(options.build())).boxed();
        let mut known = Known { seen: 0, passed: self.cursor.at == 0 };
        while let Some(entry) = entries.next().await {
            match entry {
                Ok(
                    LogOutput::StdOut { message }
                    | LogOutput::StdErr { message }
                    | LogOutput::Console { message }
                    | LogOutput::StdIn { message },
                ) => self.take(&mut known, &message)?,
                Err(error) => return Ok(Err(error.into())),
            }
        }
        Ok(Ok(()))
    }

    /// Writes an entry, unless the files have it.
    fn take(&mut self, known: &mut Known, entry: &Bytes) -> io::Result<()> {
        let (at, text) = timed(entry, self.cursor.at);
        if !known.passed {
            if at < self.cursor.at {
                return Ok(());
            }
            known.seen += u64::from(at == self.cursor.at);
            known.passed = at > self.cursor.at || known.seen > self.cursor.entries;
            if !known.passed {
                return Ok(());
            }
        }
        let skipped = self.skip.min(text.len() as u64);
        self.skip -= skipped;
        self.file.write(&text[usize::try_from(skipped).unwrap_or(text.len())..])?;
        let entries = if at == self.cursor.at { self.cursor.entries + 1 } else { 1 };
        // While bytes are skipped the end of the files is ahead of the cursor, so the saved cursor stays.
        self.cursor = Cursor { at, entries, end: self.cursor.end };
        if self.skip == 0 {
            self.cursor.end = self.file.position();
            if self.saved.elapsed() >= SAVE_PERIOD {
                self.save()?;
            }
        }
        Ok(())
    }

    fn save(&mut self) -> io::Result<()> {
        self.saved = Instant::now();
        if self.skip == 0 { self.cursor.write(&self.path) } else { Ok(()) }
    }
}

/// Time and text of an entry. An entry without a time belongs to the one before.
fn timed(entry: &[u8], before: i64) -> (i64, &[u8]) {
    let space = entry.iter().position(|byte| *byte == b' ');
    let time = |at: usize| Time::parse(std::str::from_utf8(&entry[..at]).ok()?);
    match space.and_then(|at| Some((time(at)?.nanos(), &entry[at + 1..]))) {
        Some(timed) => timed,
        None => (before, entry),
    }
}

/// Whether a container has ended; `None` if the engine does not say.
async fn has_ended(engine: &Engine, container: &str) -> Option<bool> {
    let client = engine.client().await.ok()?;
    match client.inspect_container(container, None).await.map_err(Failure::from) {
        Ok(found) => found.state.and_then(|state| state.running).map(|runs| !runs),
        Err(failure) => failure.is_not_found().then_some(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An agent that copies entries, and is killed and started again at each `crash` and `crash unsaved`.
    fn story(script: &str) -> String {
        let dir = tempfile::tempdir().expect("a directory");
        let logs = LogSpec {
            dir: dir.path().to_owned(),
            alloc_dir: None,
            stdout: "t.stdout".into(),
            stderr: "t.stderr".into(),
            files_max: 10,
            file_bytes_max: 16,
        };
        begin(&logs, dir.path()).expect("begins");
        let open = || Copy::open(&logs, Stream::Stdout, dir.path()).expect("opens");
        let mut engine: Vec<Bytes> = Vec::new();
        let mut copy = open();
        let mut known = Known { seen: 0, passed: true };
        for line in script.lines().map(str::trim) {
            match line.split_once(' ').unwrap_or((line, "")) {
                ("write", entry) => {
                    let entry = Bytes::from(format!("2026-01-01T00:00:{entry}\n"));
                    engine.push(entry.clone());
                    copy.take(&mut known, &entry).expect("writes");
                }
                ("missed", entry) => engine.push(Bytes::from(format!("2026-01-01T00:00:{entry}\n"))),
                ("crash", unsaved) => {
                    if unsaved.is_empty() {
                        copy.save().expect("saves");
                    }
                    copy = open();
                    known = Known { seen: 0, passed: copy.cursor.at == 0 };
                    for entry in &engine {
                        copy.take(&mut known, entry).expect("writes");
                    }
                }
                other => panic!("unknown step {other:?}"),
            }
        }
        let dir = crate::beneath::Dir::open(dir.path()).expect("opens");
        let all = crate::rotate::indexes(&dir, "t.stdout").expect("lists");
        let read = |index| std::io::read_to_string(dir.read(crate::rotate::name("t.stdout", index)).expect("opens"));
        all.into_iter().map(|index| read(index).expect("reads")).collect()
    }

    #[test]
    fn restarted_agent_loses_no_line_and_writes_none_twice() {
        let whole = "a\nb\nc\nd\nlong line number one\nlong line number two\ne\n";
        let lines = [
            "01.1Z a",
            "01.1Z b",
            "01.1Z c",
            "02.5Z d",
            "03Z long line number one",
            "03.2Z long line number two",
            "04Z e",
        ];
        // After every line: a crash with the cursor saved, one without, and lines that come while no agent is there.
        for how in ["crash", "crash unsaved"] {
            for at in 0..lines.len() {
                for word in ["write", "missed"] {
                    let before = lines[..at].iter().map(|line| format!("write {line}\n"));
                    let between = [format!("{word} {}\n{how}\n", lines[at])];
                    let after = lines[at + 1..].iter().map(|line| format!("write {line}\n"));
                    let script: String = before.chain(between).chain(after).collect();
                    assert_eq!(story(&script), whole, "{script}");
                }
            }
        }
        assert_eq!(
            story("write 01Z a\ncrash unsaved\ncrash unsaved\nmissed 01Z b\ncrash\ncrash\nwrite 02Z c"),
            "a\nb\nc\n"
        );
    }

    #[test]
    fn entry_has_a_time_and_a_text() {
        let entries = ["2026-01-01T00:00:01.5Z a b", "2026-01-01T01:00:01.5+01:00 a b", "no time", ""];
        let read = entries.map(|entry| {
            let (at, text) = timed(entry.as_bytes(), 7);
            format!("{at} {:?}", String::from_utf8_lossy(text))
        });
        let same = r#"1767225601500000000 "a b""#;
        assert_eq!(read, [same, same, r#"7 "no time""#, r#"7 """#]);
    }
}
