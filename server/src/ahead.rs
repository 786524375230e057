//! Reading a state on more than one processor: threads decode blocks while earlier blocks are inserted. The format of
//! a block is defined in `projections`.

use std::io::Read;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use songline_projections::{Ahead, CheckpointError, Done, Piece, State};

/// Largest number of decoding threads. More would wait for the thread that inserts the rows.
const THREADS_MAX: usize = 4;
/// Number of blocks in flight for each thread; together they take a few megabytes.
const BLOCKS_EACH: usize = 3;

/// Reads a state back as fast as this machine can. Input after the state is left unread.
pub fn read_state(input: &mut dyn Read) -> Result<State, CheckpointError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).min(THREADS_MAX);
    match Threads::start(threads) {
        Some(mut threads) => State::read_checkpoint_with(input, &mut threads),
        None => State::read_checkpoint(input),
    }
}

/// Decoding threads that take turns.
struct Threads {
    workers: Vec<Worker>,
    given: usize,
    taken: usize,
}

struct Worker {
    pieces: Option<SyncSender<Piece>>,
    done: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
}

impl Threads {
    /// Starts the threads. `None` when none are wanted or none can be spawned.
    fn start(threads: usize) -> Option<Self> {
        let workers: std::io::Result<Vec<_>> = (0..threads).map(|_| Worker::start()).collect();
        let workers = workers.ok().filter(|workers| !workers.is_empty())?;
        Some(Self { workers, given: 0, taken: 0 })
    }
}

impl Worker {
    fn start() -> std::io::Result<Self> {
        let (pieces, given) = sync_channel::<Piece>(BLOCKS_EACH);
        let (finished, done) = sync_channel(BLOCKS_EACH);
        let run = move || {
            while let Ok(piece) = given.recv() {
                if finished.send(piece.run()).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("decode".to_owned()).spawn(run)?;
        Ok(Self { pieces: Some(pieces), done, thread: Some(thread) })
    }
}

impl Ahead for Threads {
    fn give(&mut self, piece: Piece) {
        let turn = self.given % self.workers.len();
        let pieces = self.workers[turn].pieces.as_ref().expect("it is open until the threads are dropped");
        pieces.send(piece).expect("a worker goes on until the threads are dropped, or it has panicked");
        self.given += 1;
    }

    fn has_room(&self) -> bool {
        self.given - self.taken < self.workers.len() * BLOCKS_EACH
    }

    fn take(&mut self) -> Option<Done> {
        if self.taken == self.given {
            return None;
        }
        let turn = self.taken % self.workers.len();
        self.taken += 1;
        Some(self.workers[turn].done.recv().expect("a worker answers each piece, or it has panicked"))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            worker.pieces = None;
            // Drain the answers: a worker that is blocked on sending could not be joined.
            while worker.done.recv().is_ok() {}
            if let Some(thread) = worker.thread.take()
                && thread.join().is_err()
            {
                tracing::error!("a thread that decodes a state has panicked");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use songline_commands::{Actor, Envelope, RegisterNode};
    use songline_model::{Node, NodeId, Time};

    use super::*;

    #[test]
    fn checkpoint_read_with_threads_equals_the_written_state() {
        let mut state = State::new();
        for n in 0_u32..3_000 {
            let mut id = [0; 16];
            id[..4].copy_from_slice(&n.wrapping_mul(0x9e37_79b9).to_be_bytes());
            let node = Node { id: NodeId::from_bytes(id), name: "x".repeat(600).into(), ..Node::default() };
            let command = RegisterNode { node, create_node_pool: false };
            let envelope = Envelope::new(Time::from_secs(1), Actor::Anonymous, command);
            songline_projections::apply(&mut state, u64::from(n) + 1, &envelope).result.expect("a node registers");
        }
        let mut bytes = Vec::new();
        state.write_checkpoint(&mut bytes).expect("memory does not fail");
        for threads in [1, 3] {
            let mut threads = Threads::start(threads).expect("threads start");
            let read = State::read_checkpoint_with(&mut bytes.as_slice(), &mut threads).expect("it was just written");
            assert_eq!((read.digest(), read.nodes().count()), (state.digest(), 3_000));
        }
        for end in [bytes.len() / 2, bytes.len() - 1] {
            assert!(
                read_state(&mut &bytes[..end]).is_err(),
                "what is cut off is refused, and no thread is left behind"
            );
        }
    }
}
