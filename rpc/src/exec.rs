//! Exec sessions in running tasks: input to the command and output from it. Transports encode them for the wire.

use bytes::Bytes;
use songline_model::{AllocId, Str};
use tokio::sync::mpsc;

use crate::RpcError;

/// Pieces of input and of output buffered in a session; then the writing side has to wait.
pub const SESSION_PIECES_MAX: usize = 16;

/// A command to run in a task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecCommand {
    /// The allocation.
    pub alloc: AllocId,
    /// The task of the allocation.
    pub task: Str,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Whether the command gets a terminal.
    pub tty: bool,
}

/// Input of the caller to a running command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecInput {
    /// Bytes of its standard input.
    Stdin(Bytes),
    /// End of its standard input.
    StdinClose,
    /// Size of the caller's terminal.
    TtySize {
        /// Lines.
        height: u16,
        /// Columns.
        width: u16,
    },
}

/// Output of a command, and its exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecOutput {
    /// Bytes of its standard output; with a terminal, all output.
    Stdout(Bytes),
    /// Bytes of its standard error.
    Stderr(Bytes),
    /// End of its standard output.
    StdoutClose,
    /// End of its standard error.
    StderrClose,
    /// Exit of the command; always last.
    Exited {
        /// Exit code; 128 plus the signal if a signal ended the command.
        exit_code: i32,
        /// The signal, or 0.
        signal: i32,
    },
}

/// An exec session. Dropping `output` ends the session, and kills the command with everything it started. Dropping
/// `input` alone closes the command's standard input.
#[derive(Debug)]
pub struct ExecSession {
    /// To the command. Sending waits while the command does not read.
    pub input: mpsc::Sender<ExecInput>,
    /// From the command. The command waits while this is not read.
    pub output: mpsc::Receiver<Result<ExecOutput, RpcError>>,
}
