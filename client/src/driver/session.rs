//! A command that a caller runs in a running task: the agent's side. It holds the pipes or the terminal, and kills
//! all remaining processes of the command when the session ends or is dropped. `crate::executor::session` is the
//! process between agent and command.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use songline_rpc::{ExecInput, ExecOutput, RpcError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::executor::session::{IN_TASK_DIR, PIPES, SHARED_TERMINAL, kill_session};

/// Largest piece of output, in bytes.
const PIECE_BYTES_MAX: usize = 4096;
/// Longest wait for streams that a process outside of the session keeps open after the session has ended.
const DRAIN_MAX: Duration = Duration::from_secs(2);
/// Character that a terminal interprets as the end of input.
const END_OF_TRANSMISSION: &[u8] = &[4];

/// A command to run.
#[derive(Debug, Clone)]
pub struct Command {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Whether the command gets a terminal.
    pub tty: bool,
    /// Whether the command begins in the task's directory rather than in `/`, in drivers that have both.
    pub in_task_dir: bool,
}

/// The driver's ends of a session.
#[derive(Debug)]
pub struct Ends {
    /// Input from the caller.
    pub input: mpsc::Receiver<ExecInput>,
    /// Output to the caller.
    pub output: mpsc::Sender<Result<ExecOutput, RpcError>>,
}

impl Ends {
    /// Sends a message to the caller, who may be gone.
    pub(super) async fn say(&self, what: ExecOutput) {
        let _ = self.output.send(Ok(what)).await;
    }
}

/// Result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommandEnd {
    /// Exit code; 128 plus the signal when a signal ended the command.
    pub exit_code: i32,
    /// The signal, or 0.
    pub signal: i32,
}

/// Runs a command beside the task whose run has this directory.
pub(super) async fn run(
    executor: &[PathBuf],
    run_dir: &Path,
    command: &Command,
    mut ends: Ends,
) -> Result<CommandEnd, String> {
    let report = run_dir.join(format!("session-{}", uuid::Uuid::new_v4()));
    let started = spawn(executor, run_dir, &report, command);
    let (mut session, wires) = started.map_err(|error| format!("failed to start command: {error}"))?;
    let carried = carry(&mut session, wires, &mut ends, &report).await;
    let failure = tokio::fs::read_to_string(&report).await.ok();
    // The report exists only if the start failed.
    let _ = tokio::fs::remove_file(&report).await;
    match failure {
        Some(failure) => Err(failure),
        None => carried.map_err(|error| error.to_string()),
    }
}

/// Connections of the command's standard streams.
enum Wires {
    Pipes,
    Terminal { from: pipe::Receiver, to: pipe::Sender, size: OwnedFd },
}

/// The intermediate process and all processes that it has started. Dropping this kills them.
struct Session {
    /// `None` only during the drop.
    child: Option<Child>,
    /// Process id and session id of the intermediate process; `None` once its end is known.
    leader: Option<Pid>,
}

impl Drop for Session {
    fn drop(&mut self) {
        let (Some(leader), child) = (self.leader.take(), self.child.take()) else { return };
        let end = move || {
            // The process is not reaped yet, so its id is not reused. Stopped, it starts nothing new; the runtime
            // reaps dropped children.
            let _ = kill_process(leader, Signal::STOP);
            kill_session(leader, None);
            let _ = kill_process(leader, Signal::KILL);
            drop(child);
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(end)),
            Err(_) => end(),
        }
    }
}

fn spawn(executor: &[PathBuf], run_dir: &Path, report: &Path, command: &Command) -> io::Result<(Session, Wires)> {
    let (program, first) = executor.split_first().ok_or_else(|| io::Error::other("no executor is configured"))?;
    let mut between = tokio::process::Command::new(program);
    between.args(first).arg("session").arg(run_dir).arg(report).env_clear().current_dir("/");
    let wires = if command.tty {
        let (master, terminal) = open_terminal()?;
        between.arg(SHARED_TERMINAL).stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(terminal);
        // A terminal is read and written like a pipe; only those operations of the pipe types are used.
        Wires::Terminal {
            from: pipe::Receiver::from_owned_fd_unchecked(master.try_clone()?)?,
            to: pipe::Sender::from_owned_fd_unchecked(master.try_clone()?)?,
            size: master,
        }
    } else {
        between.arg(if command.in_task_dir { IN_TASK_DIR } else { PIPES });
        between.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Wires::Pipes
    };
    let child = between.args(&command.argv).spawn()?;
    let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    Ok((Session { child: Some(child), leader }, wires))
}

/// The agent's side of a new terminal, which never blocks, and the command's.
fn open_terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    let terminal = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    rustix::fs::fcntl_setfl(&master, rustix::fs::fcntl_getfl(&master)? | OFlags::NONBLOCK)?;
    Ok((master, terminal))
}

/// Copies input and output until the intermediate process has ended and all its output is sent.
async fn carry(session: &mut Session, wires: Wires, ends: &mut Ends, report: &Path) -> io::Result<CommandEnd> {
    let Session { child: Some(child), leader } = session else { return Err(io::Error::other("the session is over")) };
    let over = CancellationToken::new();
    let to = |piece, close| Listener { output: ends.output.clone(), piece, close, over: &over, report };
    let (out, err) = (to(ExecOutput::Stdout, ExecOutput::StdoutClose), to(ExecOutput::Stderr, ExecOutput::StderrClose));
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let ended = async {
        let status = child.wait().await;
        *leader = None;
        over.cancel();
        status
    };
    let status = match wires {
        Wires::Terminal { from, to, size } => {
            until_over(ended, out.tell(Some(from)), write_terminal(&mut ends.input, to, &size)).await
        }
        Wires::Pipes => {
            let both = async { tokio::join!(out.tell(stdout), err.tell(stderr)) };
            until_over(ended, both, write_pipe(&mut ends.input, stdin)).await
        }
    };
    Ok(end_of(status?))
}

/// Waits for the end and for all output; input that arrives later is dropped.
async fn until_over<T>(ended: impl Future<Output = T>, reading: impl Future, writing: impl Future) -> T {
    let both = async { tokio::join!(ended, reading).0 };
    let writing = async {
        writing.await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        status = both => status,
        () = writing => unreachable!("it is pending for ever"),
    }
}

fn end_of(status: std::process::ExitStatus) -> CommandEnd {
    use std::os::unix::process::ExitStatusExt;
    let own = status.signal();
    let exit_code = status.code().unwrap_or_else(|| 128 + own.unwrap_or(0));
    // The intermediate process reports a signal as the exit code that shells use for it.
    let signal = if exit_code > 128 && exit_code <= 128 + 64 { exit_code - 128 } else { 0 };
    CommandEnd { exit_code, signal: own.unwrap_or(signal) }
}

/// One output stream on its way to the caller.
struct Listener<'a> {
    output: mpsc::Sender<Result<ExecOutput, RpcError>>,
    piece: fn(Bytes) -> ExecOutput,
    close: ExecOutput,
    over: &'a CancellationToken,
    report: &'a Path,
}

impl Listener<'_> {
    /// Sends the output to the caller. A caller that does not read blocks the command.
    async fn tell(self, from: Option<impl AsyncRead + Unpin>) {
        let Some(mut from) = from else { return };
        let mut buffer = vec![0; PIECE_BYTES_MAX];
        loop {
            let given_up = async {
                self.over.cancelled().await;
                tokio::time::sleep(DRAIN_MAX).await;
            };
            let read = tokio::select! {
                biased;
                read = from.read(&mut buffer) => read,
                () = given_up => break,
            };
            match read {
                // Reading a terminal that no process holds open any more is an error.
                Ok(0) | Err(_) => break,
                Ok(n) => {
                    if self.output.send(Ok((self.piece)(Bytes::copy_from_slice(&buffer[..n])))).await.is_err() {
                        return;
                    }
                }
            }
        }
        // A command that was never started has no streams to close.
        if !self.report.exists() {
            let _ = self.output.send(Ok(self.close)).await;
        }
    }
}

async fn write_pipe(input: &mut mpsc::Receiver<ExecInput>, stdin: Option<impl AsyncWrite + Unpin>) {
    let mut stdin = stdin;
    while let Some(said) = input.recv().await {
        match said {
            ExecInput::Stdin(bytes) => {
                let Some(pipe) = &mut stdin else { continue };
                // The command may have closed its input: later input is dropped.
                if pipe.write_all(&bytes).await.is_err() || pipe.flush().await.is_err() {
                    stdin = None;
                }
            }
            ExecInput::StdinClose => stdin = None,
            ExecInput::TtySize { .. } => {}
        }
    }
}

async fn write_terminal(input: &mut mpsc::Receiver<ExecInput>, mut to: pipe::Sender, terminal: &OwnedFd) {
    while let Some(said) = input.recv().await {
        let bytes = match &said {
            ExecInput::Stdin(bytes) => bytes,
            ExecInput::StdinClose => END_OF_TRANSMISSION,
            ExecInput::TtySize { height, width } => {
                let size = Winsize { ws_row: *height, ws_col: *width, ws_xpixel: 0, ws_ypixel: 0 };
                if let Err(error) = rustix::termios::tcsetwinsize(terminal, size) {
                    tracing::debug!(%error, "setting the size of a terminal");
                }
                continue;
            }
        };
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}
