//! `songline dev FILE`, the README's first command: a real job runs, its events are printed, Ctrl-C leaves nothing
//! behind. Not here: other commands.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::http::{self, Request};
use crate::process;
use crate::story::WITHIN;

/// Kills the command and all its descendants on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let pid = i32::try_from(self.0.id()).expect("a process id fits in 31 bits");
        let started = process::descendants(pid);
        let _dead = self.0.kill();
        let _status = self.0.wait();
        for process in started {
            process.kill();
        }
    }
}

#[test]
fn dev_command_runs_the_example_and_ctrl_c_leaves_no_process_behind() -> Result<()> {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/hello.nomad.hcl");
    let port = free_port()?;
    let text = std::fs::read_to_string(example)?.replace("8000", &port.to_string());
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("hello.nomad.hcl");
    std::fs::write(&file, text)?;

    let (_running, pid, told) = dev(folder.path(), &[file.as_os_str()])?;
    let mut lines = Vec::new();
    wait_for(&told, &mut lines, |line| line.contains("successful"))?;
    for word in ["Job", "Evaluation", "Allocation", "Deployment"] {
        ensure!(lines.iter().any(|line| line.contains(word)), "no event of a {word}:\n{}", lines.join("\n"));
    }
    if has_python() {
        let server = SocketAddr::from(([127, 0, 0, 1], port));
        let answer = http::call(server, &Request::new("GET", "/"), Instant::now() + WITHIN)?;
        ensure!(answer.text().contains("Hello"), "{}", answer.text());
    }

    let started = process::descendants(pid);
    ensure!(!started.is_empty(), "the job runs no process");
    process::interrupt(pid)?;
    ensure!(process::wait_for_end(pid, Instant::now() + WITHIN), "Ctrl-C did not end it");
    let left: Vec<_> = started.iter().filter(|process| process.is_running()).collect();
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

#[test]
fn dev_command_runs_several_jobs_and_a_changed_file_again() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let jobs = folder.path().join("jobs");
    std::fs::create_dir(&jobs)?;
    let write = |name: &str, job: &str, meta: &str| {
        let text = format!(
            "variable \"count\" {{ default = 0 }}\njob \"{job}\" {{\n  group \"g\" {{\n    count = var.count\n    meta {{ word = \"{meta}\" }}\n    \
             task \"t\" {{\n      driver = \"raw_exec\"\n      config {{\n        command = \"sleep\"\n        args = [\"600\"]\n      }}\n    }}\n  }}\n}}\n"
        );
        std::fs::write(jobs.join(name), text)
    };
    write("one.nomad.hcl", "one", "first")?;
    write("two.nomad", "two", "first")?;
    let words = ["-watch", "-var", "count=1"].map(OsStr::new);
    let (_running, pid, told) = dev(folder.path(), &[&words[..], &[jobs.as_os_str()]].concat())?;
    let mut lines = Vec::new();
    for job in ["one", "two"] {
        wait_for(&told, &mut lines, |line| line.starts_with(&format!("==> job {job:?} registered")))?;
    }
    wait_for(&told, &mut lines, |line| line.contains("two.g[0]") && line.contains("is running"))?;

    write("two.nomad", "two", "second word")?;
    wait_for(&told, &mut lines, |line| line.ends_with("two.nomad has changed"))?;
    wait_for(&told, &mut lines, |line| line.starts_with("==> job \"two\" registered"))?;
    std::fs::write(jobs.join("two.nomad"), "job {")?;
    wait_for(&told, &mut lines, |line| line.contains("what runs stays as it is"))?;

    let started = process::descendants(pid);
    process::interrupt(pid)?;
    wait_for(&told, &mut lines, |line| line == "==> caught interrupt: stopping jobs \"one\", \"two\"")?;
    ensure!(process::wait_for_end(pid, Instant::now() + WITHIN), "Ctrl-C did not end it");
    let left: Vec<_> = started.iter().filter(|process| process.is_running()).collect();
    ensure!(!started.is_empty() && left.is_empty(), "left behind: {left:?}");
    Ok(())
}

#[test]
fn dev_command_whose_output_is_closed_stops_its_job_and_ends() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("one.nomad");
    let task = "task \"t\" {\n driver = \"raw_exec\"\n config {\n command = \"sleep\"\n args = [\"600\"]\n }\n }";
    std::fs::write(&file, format!("job \"one\" {{\n group \"g\" {{\n {task}\n }}\n}}\n"))?;
    let (reader, writer) = std::io::pipe()?;
    drop(reader);
    let child = Command::new(env!("CARGO_BIN_EXE_songline"))
        .args(["dev", "-http-port", "0"])
        .arg(&file)
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::null())
        .spawn()?;
    let mut running = Running(child);
    let pid = i32::try_from(running.0.id())?;
    ensure!(process::wait_for_end(pid, Instant::now() + WITHIN), "it goes on without a reader");
    ensure!(running.0.wait()?.success(), "a closed output is no failure");
    Ok(())
}

/// Starts the command. Returns its process, its id, and the lines that it prints.
fn dev(folder: &Path, args: &[&OsStr]) -> Result<(Running, i32, mpsc::Receiver<String>)> {
    let child = Command::new(env!("CARGO_BIN_EXE_songline"))
        // The usual port may be taken between the look at it and its use: tests run side by side.
        .args(["dev", "-http-port", "0"])
        .args(args)
        .env("TMPDIR", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("starting songline dev")?;
    let mut running = Running(child);
    let pid = i32::try_from(running.0.id())?;
    let output = running.0.stdout.take().context("its output is a pipe")?;
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    Ok((running, pid, told))
}

fn wait_for(told: &mpsc::Receiver<String>, lines: &mut Vec<String>, good: impl Fn(&str) -> bool) -> Result<()> {
    let deadline = Instant::now() + WITHIN;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(line) = told.recv_timeout(left) else {
            bail!("it ended or went silent after:\n{}", lines.join("\n"));
        };
        let done = good(&line);
        lines.push(line);
        if done {
            return Ok(());
        }
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Whether this machine has python3, which the example's job runs. In CI it must.
fn has_python() -> bool {
    let tried = Command::new("python3").arg("--version").output();
    let has = tried.is_ok_and(|output| output.status.success());
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    assert!(has || !in_ci, "in CI there must be a python3");
    has
}
