//! `alloc exec`: a command in a running task, with this terminal as its own where it is one.

mod escape;
mod outbox;

use std::future::pending;
use std::io::{IsTerminal, Read, Write};

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use futures_util::StreamExt;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

use self::escape::Escape;
use self::outbox::Outbox;
use super::find::{by_id, of_job, only_task};
use crate::client::{escape as quoted, text};
use crate::exit::{Failure, Outcome, Tried};
use crate::{General, errln, out};

/// How often the agent is told that this side lives.
const HEARTBEAT: std::time::Duration = std::time::Duration::from_secs(10);
/// Exit code of a command that a signal has ended is this plus the signal's number, as in shells.
const SIGNALLED: i32 = 128;
/// Bytes of input that are sent at once.
const INPUT_BYTES_MAX: usize = 8 << 10;

/// Arguments of `alloc exec`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    general: General,
    /// Pass standard input on to the command.
    #[arg(long = "i", default_value_t = true, action = clap::ArgAction::Set)]
    interactive: bool,
    /// Give the command a terminal; by default if standard input and output are one.
    #[arg(long = "t")]
    tty: Option<bool>,
    /// Character that begins an escape at the start of a line, or `none`.
    #[arg(long = "e", default_value = "~")]
    escape: String,
    /// The argument is a job, one of whose allocations is taken.
    #[arg(long)]
    job: bool,
    /// The task, where the allocation has several.
    #[arg(long)]
    task: Option<String>,
    /// Id of the allocation, or its beginning; with `-job` that of the job.
    alloc: String,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

impl crate::Run for Options {
    async fn run(self, _: &crate::Context) -> Outcome {
        let escape = Escape::parse(&self.escape).map_err(Failure::new)?;
        let tty = self.tty()?;
        let client = self.general.client()?;
        let alloc = if self.job { of_job(&client, &self.alloc).await? } else { by_id(&client, &self.alloc).await? };
        let client = client.with_scope(None, Some(text(&alloc["Namespace"])));
        let task = match &self.task {
            Some(task) => task.clone(),
            None => only_task(&alloc)?,
        };
        let (id, command) = (text(&alloc["ID"]), serde_json::to_string(&self.command).tried("Error encoding command")?);
        let path =
            format!("/v1/client/allocation/{id}/exec?task={}&command={}&tty={tty}", quoted(&task), quoted(&command));
        let upgraded = client.upgrade(&path).await.tried("failed to exec into task")?;
        let socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await;
        let escape = if tty { escape } else { Escape::none() };
        // Before the terminal is raw: a signal that ended the process would leave it so.
        let signals = Signals::listen().tried("Error handling signals")?;
        let raw = if tty { Raw::enter() } else { None };
        let input = self.interactive.then(read_stdin);
        let ended = converse(socket, Side { input, tty, escape, signals }).await;
        drop(raw);
        let code = match ended.map_err(|error| Failure::of("failed to exec into task", format_args!("{error:#}")))? {
            Ended::Exited(code) => code,
            Ended::HungUp => {
                errln!("\nConnection closed");
                1
            }
            Ended::Signalled(signal) => SIGNALLED + signal.as_raw_value(),
        };
        // Not by returning: a read of standard input that waits would hold the process.
        std::process::exit(code)
    }
}

impl Options {
    /// Whether the command gets a terminal.
    fn tty(&self) -> Result<bool, Failure> {
        let is_terminal = std::io::stdin().is_terminal();
        let tty = self.tty.unwrap_or_else(|| self.interactive && is_terminal && std::io::stdout().is_terminal());
        if tty && !self.interactive {
            return Err(Failure::new("-i must be enabled if running with tty"));
        }
        if tty && !is_terminal {
            return Err(Failure::new("-t requires standard input to be a terminal; use -t=false"));
        }
        Ok(tty)
    }
}

/// How a session ended.
enum Ended {
    /// The command has exited.
    Exited(i32),
    /// The user has left by the escape.
    HungUp,
    /// A signal has ended this side.
    Signalled(SignalKind),
}

/// This side of a session.
struct Side {
    /// Pieces of standard input. `None`: the command gets none.
    input: Option<mpsc::Receiver<Vec<u8>>>,
    tty: bool,
    escape: Escape,
    signals: Signals,
}

/// The signals that end a session.
struct Signals([(SignalKind, Signal); 3]);

impl Signals {
    fn listen() -> std::io::Result<Self> {
        let listened = |kind: SignalKind| Ok::<_, std::io::Error>((kind, signal(kind)?));
        let (hangup, terminate) = (listened(SignalKind::hangup())?, listened(SignalKind::terminate())?);
        Ok(Self([listened(SignalKind::interrupt())?, terminate, hangup]))
    }

    /// The signal that has come.
    async fn received(&mut self) -> SignalKind {
        let [(interrupt, first), (terminate, second), (hangup, third)] = &mut self.0;
        tokio::select! {
            _ = first.recv() => *interrupt,
            _ = second.recv() => *terminate,
            _ = third.recv() => *hangup,
        }
    }
}

/// Holds a session until its end. Nothing waits for the connection or for standard output outside of the `select!`:
/// signals and the escape end a session whose command takes no input, or whose output is not read.
async fn converse<T>(socket: WebSocketStream<T>, side: Side) -> anyhow::Result<Ended>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let Side { input, tty, mut escape, mut signals } = side;
    let (to, mut from) = socket.split();
    let mut outbox = Outbox::new(to);
    let mut printing = None;
    let mut reads = input.is_some();
    let mut stdin = input.unwrap_or_else(|| mpsc::channel(1).1);
    let (mut resized, mut beat) = (signal(SignalKind::window_change())?, tokio::time::interval(HEARTBEAT));
    if tty && let Some(size) = size() {
        outbox.say(&size);
    }
    if !reads {
        outbox.say(&json!({"stdin": {"close": true}}));
    }
    loop {
        tokio::select! {
            message = from.next(), if printing.is_none() => match message.context("the agent hung up")? {
                Ok(Message::Text(text)) => {
                    let message: Value = serde_json::from_str(&text)?;
                    printing = Some(tokio::task::spawn_blocking(move || show(&message)));
                }
                Ok(Message::Close(Some(CloseFrame { reason, .. }))) if !reason.is_empty() => bail!("{reason}"),
                Ok(Message::Close(_)) => bail!("the session was closed before its end"),
                Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
                Err(error) => return Err(error).context("the session broke"),
            },
            code = printed(&mut printing) => {
                if let Some(code) = code? {
                    outbox.close().await;
                    return Ok(Ended::Exited(code));
                }
            }
            () = outbox.send(), if outbox.is_busy() => {}
            read = stdin.recv(), if reads && outbox.has_room() => {
                reads = read.is_some();
                let Some(typed) = read.map(|bytes| escape.take(bytes)) else {
                    outbox.say(&json!({"stdin": {"close": true}}));
                    continue;
                };
                if !typed.data.is_empty() {
                    outbox.say(&json!({"stdin": {"data": STANDARD.encode(typed.data)}}));
                }
                if typed.hangs_up {
                    outbox.close().await;
                    return Ok(Ended::HungUp);
                }
            },
            signal = signals.received() => {
                outbox.close().await;
                return Ok(Ended::Signalled(signal));
            }
            _ = resized.recv(), if tty => {
                if let Some(size) = size() {
                    outbox.say(&size);
                }
            },
            // A message that waits shows that this side lives once it arrives.
            _ = beat.tick() => if !outbox.is_busy() {
                outbox.say(&json!({}));
            },
        }
    }
}

/// Result of the message that is printed now; without one this waits for ever.
async fn printed(printing: &mut Option<JoinHandle<anyhow::Result<Option<i32>>>>) -> anyhow::Result<Option<i32>> {
    let Some(task) = printing else { return pending().await };
    let shown = task.await;
    *printing = None;
    shown.context("printing failed")?
}

/// Standard input, piece by piece, read by a thread that nobody waits for.
fn read_stdin() -> mpsc::Receiver<Vec<u8>> {
    let (to, pieces) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut buffer = vec![0; INPUT_BYTES_MAX];
        // What cannot be read has ended.
        while let Ok(count @ 1..) = std::io::stdin().read(&mut buffer) {
            if to.blocking_send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    pieces
}

/// Prints what a message brings. The exit code, when it brings that.
fn show(message: &Value) -> anyhow::Result<Option<i32>> {
    let bytes = |stream: &str| STANDARD.decode(message[stream]["data"].as_str().unwrap_or_default());
    out::bytes(&bytes("stdout")?);
    // There is no place to report that this fails.
    let _ = std::io::stderr().write_all(&bytes("stderr")?);
    if message["exited"] != true {
        return Ok(None);
    }
    let code = message["result"]["exit_code"].as_i64().unwrap_or(0);
    Ok(Some(i32::try_from(code).unwrap_or(1)))
}

fn size() -> Option<Value> {
    let size = tcgetwinsize(std::io::stdout()).ok()?;
    Some(json!({"tty_size": {"height": size.ws_row, "width": size.ws_col}}))
}

/// The terminal while its keys go to the command, Ctrl-C among them: only the escape is taken out.
struct Raw(Termios);

impl Raw {
    fn enter() -> Option<Self> {
        let before = tcgetattr(std::io::stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(std::io::stdin(), OptionalActions::Now, &raw).ok()?;
        Some(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // There is nothing left to do for a terminal that refuses its own settings.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::SinkExt;

    use super::*;

    #[tokio::test]
    async fn output_is_read_while_the_agent_takes_no_input() {
        let (here, there) = tokio::io::duplex(1 << 10);
        let socket = WebSocketStream::from_raw_socket(here, Role::Client, None).await;
        let mut agent = WebSocketStream::from_raw_socket(there, Role::Server, None).await;
        let (to, pieces) = mpsc::channel(1);
        let signals = Signals::listen().expect("signals are handled");
        let side = Side { input: Some(pieces), tty: false, escape: Escape::none(), signals };
        let session = tokio::spawn(converse(socket, side));
        // Pieces are taken until the connection and the queue are full. The agent never reads.
        let piece = || to.send(vec![b'x'; INPUT_BYTES_MAX]);
        let full = std::time::Duration::from_millis(200);
        while let Ok(taken) = tokio::time::timeout(full, piece()).await {
            taken.expect("the session goes on");
        }
        for said in [json!({}), json!({"exited": true, "result": {"exit_code": 7}})] {
            agent.send(Message::text(said.to_string())).await.expect("the session reads");
        }
        let ended = tokio::time::timeout(std::time::Duration::from_secs(30), session).await;
        let ended = ended.expect("the session ends").expect("it does not panic").expect("it does not fail");
        assert!(matches!(ended, Ended::Exited(7)));
    }
}
