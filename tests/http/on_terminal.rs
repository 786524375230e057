//! Commands on a terminal: questions with their answers, and a deployment that is redrawn in its place. Not here:
//! commands whose output is a pipe.

mod exec;

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};

use crate::story::{Story, WITHIN};

const QUESTION: &str = "Proceed with the next batch? [y/N/<wait duration>] ";

/// A command on a terminal of its own. Dropping it kills the command.
struct Session {
    child: Child,
    keyboard: File,
    pieces: Receiver<Vec<u8>>,
    shown: Vec<u8>,
    /// Length of the output in which a text was found.
    seen: usize,
}

impl Session {
    fn begin(story: &Story, words: &[&str]) -> Result<Session> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let terminal = ioctl_tiocgptpeer(&master, flags)?;
        tcsetwinsize(&terminal, Winsize { ws_row: 50, ws_col: 160, ws_xpixel: 0, ws_ypixel: 0 })?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_songline"));
        command.args(words).env("NOMAD_ADDR", format!("http://{}", story.http()));
        command.env("TERM", "xterm").env("NOMAD_CLI_NO_COLOR", "1");
        command.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(terminal);
        let child = command.spawn().with_context(|| format!("running songline {words:?}"))?;
        // The output ends when no process has the terminal open any more.
        drop(command);
        let mut screen = File::from(master.try_clone()?);
        let (to, pieces) = mpsc::channel();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = screen.read(&mut piece) {
                if to.send(piece[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Ok(Session { child, keyboard: File::from(master), pieces, shown: Vec::new(), seen: 0 })
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown).into_owned()
    }

    /// Waits until the terminal shows a text after the one before.
    fn until(&mut self, text: &str) -> Result<()> {
        let deadline = Instant::now() + WITHIN;
        loop {
            let at = self.shown[self.seen..].windows(text.len()).position(|found| found == text.as_bytes());
            if let Some(at) = at {
                self.seen += at + text.len();
                return Ok(());
            }
            match self.pieces.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(piece) => self.shown.extend(piece),
                Err(error) => bail!("{text:?} never came ({error}): {}", self.text()),
            }
        }
    }

    fn type_line(&mut self, line: &str) -> Result<()> {
        Ok(writeln!(self.keyboard, "{line}")?)
    }

    /// All output and the exit code, after the end of the command.
    fn end(mut self) -> Result<(String, Option<i32>)> {
        let deadline = Instant::now() + WITHIN;
        while let Ok(piece) = self.pieces.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            self.shown.extend(piece);
        }
        ensure!(Instant::now() < deadline, "the command does not end: {}", self.text());
        let status = self.child.wait()?;
        Ok((self.text(), status.code()))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A command that has ended cannot be killed.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn job(id: &str, count: u64) -> Value {
    json!({"Job": {
        "ID": id, "Name": id, "Type": "service", "Datacenters": ["dc1"],
        "TaskGroups": [{
            "Name": "g", "Count": count,
            "Tasks": [{"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1h"}}],
        }],
    }})
}

#[test]
fn restart_asks_between_batches() -> Result<()> {
    let story = Story::begin()?;
    for id in ["first", "second"] {
        story.put("/v1/jobs", &job(id, 2))?;
        story.wait_for_running(id, 2, 0)?;
    }
    let restarted = |shown: &str| shown.matches("Restarting running tasks in allocation").count();

    let mut session = Session::begin(&story, &["job", "restart", "-batch-wait", "ask", "first"])?;
    session.until(QUESTION)?;
    session.type_line("n")?;
    let (shown, exit) = session.end()?;
    ensure!(exit == Some(0) && shown.contains("Cancelling job restart") && restarted(&shown) == 1, "{exit:?}: {shown}");

    let mut session = Session::begin(&story, &["job", "restart", "-batch-wait", "ask", "second"])?;
    session.until(QUESTION)?;
    session.type_line("soon")?;
    session.until("The answer must be")?;
    session.until(QUESTION)?;
    session.type_line("10ms")?;
    let (shown, exit) = session.end()?;
    ensure!(shown.contains("Waiting 10ms before restarting the next batch"), "{shown}");
    ensure!(shown.contains("Job restarted successfully!") && restarted(&shown) == 2, "{shown}");
    ensure!(exit == Some(0), "{exit:?}: {shown}");
    Ok(())
}

#[test]
fn deployment_is_redrawn_in_its_place_and_ends_with_a_mark() -> Result<()> {
    let story = Story::begin()?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("web.json");
    let mut web = job("web", 1);
    // The deployment outlasts the evaluation, which is looked at once a second.
    web["Job"]["Update"] = json!({
        "MinHealthyTime": 3_000_000_000_u64, "HealthyDeadline": 60_000_000_000_u64, "HealthCheck": "task_states",
    });
    std::fs::write(&file, web.to_string())?;
    let path = file.display().to_string();
    let (shown, exit) = Session::begin(&story, &["job", "run", "-json", "-verbose", &path])?.end()?;
    let deployment = story.get("/v1/job/web/deployment")?;
    let id = deployment["ID"].as_str().context("a deployment has an id")?;
    ensure!(exit == Some(0), "{exit:?}: {shown}");
    ensure!(shown.contains(&format!("Deployment \"{id}\" in progress...")), "{shown}");
    ensure!(shown.contains(&format!("\u{2713} Deployment \"{id}\" successful\r\n")), "{shown}");
    // Only the block at the end has lines of its own.
    for heading in ["    Deployed\r\n", "    Allocations\r\n"] {
        ensure!(shown.matches(heading).count() == 1, "{heading:?} in {shown}");
    }
    Ok(())
}
