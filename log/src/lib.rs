//! The replicated log of opaque bytes: durable files, consensus over them, and checkpoints of the state built from
//! them. This crate does not interpret the bytes.

mod cache;
mod checkpoint;
mod disk;
mod error;
mod history;
mod log;
mod machine;
mod members;
mod past;
mod position;
mod raft;
mod reader;
mod record;
mod recovery;
mod retention;
mod running;
mod segment;
mod slots;
mod store;
mod transport;

pub use checkpoint::CheckpointInfo;
pub use disk::{Disk, DiskFile, Lock, Open, RealDisk, put_by_rename};
pub use error::{CheckpointError, Failure, MemberError, OpenError, ProposeError, ReadError};
pub use history::Entries;
pub use log::{Accepted, Config, Leadership, Log, PeerProgress, Start, Timing};
pub use machine::{CheckpointSource, Committed, Payload, StateMachine};
pub use members::{Members, NodeId};
pub use past::PastBounds;
pub use position::{Edge, Position};
pub use raft::{Alone, seed_this_thread, stand_alone};
pub use reader::{Reader, Report};
pub use record::{Kind, PAYLOAD_BYTES_MAX, Record};
pub use recovery::Recovery;
pub use retention::{Dropped, Retention};
pub use store::{Done, Opened, SegmentInfo, Store, StoreConfig, TornTail};
pub use transport::{NoTransport, Transport, TransportError};
