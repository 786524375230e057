//! `alloc exec`: a command in a running task, with this terminal as its own where it is one.

use std::io::{IsTerminal, Read, Write};

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use futures_util::{SinkExt, StreamExt};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

use super::find::{by_id, of_job, only_task};
use crate::client::{escape, text};
use crate::exit::{Failure, Outcome, Tried};
use crate::{General, out};

/// How often the agent is told that this side lives.
const HEARTBEAT: std::time::Duration = std::time::Duration::from_secs(10);
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
        if self.escape != "none" && self.escape.chars().count() > 1 {
            return Err(Failure::new("-e requires 'none' or a single character"));
        }
        let client = self.general.client()?;
        let alloc = if self.job { of_job(&client, &self.alloc).await? } else { by_id(&client, &self.alloc).await? };
        let client = client.with_scope(None, Some(text(&alloc["Namespace"])));
        let task = match &self.task {
            Some(task) => task.clone(),
            None => only_task(&alloc)?,
        };
        let terminals = || std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let tty = self.tty.unwrap_or_else(|| self.interactive && terminals());
        if tty && !self.interactive {
            return Err(Failure::new("-i must be enabled if running with tty"));
        }
        let (id, command) = (text(&alloc["ID"]), serde_json::to_string(&self.command).tried("Error encoding command")?);
        let path =
            format!("/v1/client/allocation/{id}/exec?task={}&command={}&tty={tty}", escape(&task), escape(&command));
        let upgraded = client.upgrade(&path).await.tried("failed to exec into task")?;
        let socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await;
        let raw = if tty { Raw::enter() } else { None };
        let ended = converse(socket, self.interactive, tty).await;
        drop(raw);
        let code = ended.map_err(|error| Failure::of("failed to exec into task", format_args!("{error:#}")))?;
        // Not by returning: a read of standard input that waits would hold the process.
        std::process::exit(code)
    }
}

async fn converse(mut socket: WebSocketStream<reqwest::Upgraded>, interactive: bool, tty: bool) -> anyhow::Result<i32> {
    let mut stdin = if interactive { read_stdin() } else { mpsc::channel(1).1 };
    let (mut reads, mut resized, mut beat) =
        (interactive, signal(SignalKind::window_change())?, tokio::time::interval(HEARTBEAT));
    if tty && let Some(size) = size() {
        say(&mut socket, &size).await?;
    }
    if !interactive {
        say(&mut socket, &json!({"stdin": {"close": true}})).await?;
    }
    loop {
        tokio::select! {
            message = socket.next() => match message.context("the agent hung up")? {
                Ok(Message::Text(text)) => {
                    if let Some(code) = show(&serde_json::from_str(&text)?)? {
                        // The agent closes by itself; that the answer arrives is of no use to anybody.
                        let _ = socket.close(None).await;
                        return Ok(code);
                    }
                }
                Ok(Message::Close(Some(CloseFrame { reason, .. }))) if !reason.is_empty() => bail!("{reason}"),
                Ok(Message::Close(_)) => bail!("the session was closed before its end"),
                Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
                Err(error) => return Err(error).context("the session broke"),
            },
            read = stdin.recv(), if reads => {
                reads = read.is_some();
                let input = read.map_or_else(|| json!({"close": true}), |bytes| json!({"data": STANDARD.encode(bytes)}));
                say(&mut socket, &json!({"stdin": input})).await?;
            },
            _ = resized.recv(), if tty => {
                if let Some(size) = size() {
                    say(&mut socket, &size).await?;
                }
            },
            _ = beat.tick() => say(&mut socket, &json!({})).await?,
        }
    }
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

async fn say(socket: &mut WebSocketStream<reqwest::Upgraded>, what: &Value) -> anyhow::Result<()> {
    match socket.send(Message::text(what.to_string())).await {
        Ok(()) => Ok(()),
        // The agent has said why, and that is read next.
        Err(
            tokio_tungstenite::tungstenite::Error::Protocol(_)
            | tokio_tungstenite::tungstenite::Error::ConnectionClosed,
        ) => Ok(()),
        Err(error) => Err(error).context("the session broke"),
    }
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

/// The terminal while its keys go to the command: nothing of them is looked at here, not even Ctrl-C.
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
