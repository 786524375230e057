//! Sessions in running tasks: what goes to the command and what comes back. Frames of the wire are the business of transports.

use bytes::Bytes;
use songline_model::{AllocId, Str};
use tokio::sync::mpsc;

use crate::RpcError;

/// How many pieces of input and of output wait in a session before the side that writes has to.
pub const SESSION_PIECES_MAX: usize = 16;

/// What is to be run, and where.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecCommand {
    /// In this allocation.
    pub alloc: AllocId,
    /// In this task of it.
    pub task: Str,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Whether it gets a terminal.
    pub tty: bool,
}

/// What the caller says to a command that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecInput {
    /// Bytes of its standard input.
    Stdin(Bytes),
    /// There will be no more of them.
    StdinClose,
    /// The size of the caller's terminal.
    TtySize {
        /// Lines.
        height: u16,
        /// Columns.
        width: u16,
    },
}

/// What a command says, and how it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecOutput {
    /// Bytes of its standard output; with a terminal, all it prints.
    Stdout(Bytes),
    /// Bytes of its standard error.
    Stderr(Bytes),
    /// Nothing more comes from its standard output.
    StdoutClose,
    /// Nothing more comes from its standard error.
    StderrClose,
    /// Always last.
    Exited {
        /// Exit code; 128 and the signal when one ended it.
        exit_code: i32,
        /// The signal, or 0.
        signal: i32,
    },
}

/// A session. Dropping `output` ends it, and the command with everything it has started; dropping `input` alone closes its standard input.
#[derive(Debug)]
pub struct ExecSession {
    /// To the command. Waits while the command does not read.
    pub input: mpsc::Sender<ExecInput>,
    /// From the command. It waits while nobody reads here.
    pub output: mpsc::Receiver<Result<ExecOutput, RpcError>>,
}
