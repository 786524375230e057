//! Data on disk and from other servers: entries of the log and checkpoints. Bytes are read or refused; what
//! was read can be written, and is then the same; and an entry that can be read can be applied, whatever it says.

use songline_commands::Envelope;
use songline_projections::{State, apply};

/// First bytes of a checkpoint.
const MAGIC: &[u8; 16] = b"songline state 1";

/// An entry of the log, applied to tables that hold nothing, and once more.
pub fn command(input: &[u8]) {
    let Ok(envelope) = Envelope::decode(input) else { return };
    let bytes = envelope.encode().expect("what was read can be written");
    let again = Envelope::decode(&bytes).expect("what was written can be read");
    // Bytes and not values are compared: a number that is not one differs from itself.
    assert_eq!(again.encode().expect("what was read can be written"), bytes, "what was written is read as it was");
    let mut state = State::new();
    for raft_index in 1..=2 {
        apply(&mut state, raft_index, &envelope);
    }
    let mut checkpoint = Vec::new();
    state.write_checkpoint(&mut checkpoint).expect("memory takes everything");
    let read = State::read_checkpoint(&mut &checkpoint[..]).expect("what was written can be read");
    assert_eq!(read.digest(), state.digest(), "a checkpoint holds the state");
}

/// Frames of a checkpoint: a byte of kind, two of length, and the payload. They are sealed here, so that it is what
/// they hold that is tried, and not a checksum.
pub fn checkpoint(input: &[u8]) {
    let mut bytes = MAGIC.to_vec();
    let mut rest = input;
    while let Some(([kind, low, high], after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        let (payload, after) = after.split_at(length);
        let [a, b, c, d] = u32::try_from(length).expect("fits into two bytes").to_le_bytes();
        let head = [*kind, a, b, c, d];
        let mut hasher = blake3::Hasher::new();
        hasher.update(&head).update(payload);
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(payload);
        bytes.extend_from_slice(&hasher.finalize().as_bytes()[..16]);
        rest = after;
    }
    if let Ok(state) = State::read_checkpoint(&mut &bytes[..]) {
        let mut out = Vec::new();
        state.write_checkpoint(&mut out).expect("memory takes everything");
    }
    let _ = State::read_checkpoint(&mut &input[..]);
}
