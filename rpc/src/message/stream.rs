//! Requests of methods that answer with a stream, and stream messages beside wrapped payloads.

use std::collections::BTreeMap;

use songline_model::{AllocId, Blob, Str};

use super::{Empty, StreamError, message};

message! {
    /// Asks for a task's log.
    stream FileSystemLogs ("FileSystem.Logs") {
        #[serde(rename = "AllocID")]
        alloc_id: AllocId,
        task: Str,
        /// `stdout` or `stderr`.
        log_type: Str,
        /// Distance from `origin`, in bytes.
        offset: i64,
        /// `start` or `end`.
        origin: Str,
        /// Whether payloads are raw bytes instead of frames.
        plain_text: bool,
        follow: bool,
    }
}
message! {
    /// Asks for a file.
    stream FileSystemStream ("FileSystem.Stream") {
        #[serde(rename = "AllocID")]
        alloc_id: AllocId,
        path: Str,
        /// Distance from `origin`, in bytes.
        offset: i64,
        /// `start` or `end`.
        origin: Str,
        /// Whether payloads are raw bytes instead of frames.
        plain_text: bool,
        /// Most bytes to send; 0 means unlimited.
        limit: i64,
        follow: bool,
    }
}
message! {
    /// Runs a command in a task.
    stream AllocationsExec ("Allocations.Exec") {
        #[serde(rename = "AllocID")]
        alloc_id: AllocId,
        task: Str,
        tty: bool,
        cmd: Option<Vec<Str>>,
    }
}
message! {
    /// Input to a running command.
    plain ExecMessage {
        /// Set (and empty) in the message that starts the command.
        setup: Option<Empty>,
        stdin: Option<ExecStdin>,
        tty_size: Option<ExecTtySize>,
    }
}

message! {
    /// Bytes of standard input, or its end.
    plain ExecStdin {
        data: Option<Blob>,
        close: bool,
    }
}
message! {
    /// Size of the caller's terminal.
    plain ExecTtySize {
        /// Lines.
        height: i32,
        /// Columns.
        width: i32,
    }
}
message! {
    /// Asks for an agent's log lines from now on.
    stream AgentMonitor ("Agent.Monitor") {
        log_level: Str,
        #[serde(rename = "LogJSON")]
        log_json: bool,
        log_include_location: bool,
        #[serde(rename = "NodeID")]
        node_id: Str,
        #[serde(rename = "ServerID")]
        server_id: Str,
        plain_text: bool,
    }
}
message! {
    /// Asks for events.
    stream EventStream ("Event.Stream") {
        /// Events wanted, by topic and key.
        topics: Option<BTreeMap<Str, Option<Vec<Str>>>>,
        /// Index from which events are wanted; negative means only new events.
        index: i64,
    }
}
message! {
    /// A message of the event stream. An error ends the stream.
    plain EventStreamWrapper {
        error: Option<StreamError>,
        event: Option<EventJson>,
    }
}
message! {
    /// A frame of events.
    plain EventJson {
        /// JSON; `{}` is a heartbeat.
        data: Option<Blob>,
    }
}
