//! Methods that answer with a stream: their requests and what goes along besides wrapped payloads.

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
        /// Bytes from `origin`.
        offset: i64,
        /// `start` or `end`.
        origin: Str,
        /// Whether payloads are the bytes themselves, and not frames.
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
        /// Bytes from `origin`.
        offset: i64,
        /// `start` or `end`.
        origin: Str,
        /// Whether payloads are the bytes themselves, and not frames.
        plain_text: bool,
        /// At most this many bytes; 0 is no limit.
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
    /// What goes to a command that runs.
    plain ExecMessage {
        /// Empty once, when the command is to begin.
        setup: Option<Empty>,
        stdin: Option<ExecStdin>,
        tty_size: Option<ExecTtySize>,
    }
}

message! {
    /// Bytes of its standard input, or their end.
    plain ExecStdin {
        data: Option<Blob>,
        close: bool,
    }
}
message! {
    /// The size of the caller's terminal.
    plain ExecTtySize {
        /// Lines.
        height: i32,
        /// Columns.
        width: i32,
    }
}
message! {
    /// Asks for what an agent logs from now on.
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
        /// Which, by topic and key.
        topics: Option<BTreeMap<Str, Option<Vec<Str>>>>,
        /// From this one on; negative: only new ones.
        index: i64,
    }
}
message! {
    /// A message of the stream of events. An error ends it.
    plain EventStreamWrapper {
        error: Option<StreamError>,
        event: Option<EventJson>,
    }
}
message! {
    /// A frame of events.
    plain EventJson {
        /// JSON; `{}` says that the stream is alive.
        data: Option<Blob>,
    }
}
