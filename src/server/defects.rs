//! Defects that a test puts into the servers of its own process, to see that they are noticed. Builds for release do not have this, and nothing
//! from outside reaches it: neither an option nor a variable, only code that is linked with the library.

use std::sync::OnceLock;

use songline_commands::Envelope;

/// What is different in this process.
#[derive(Debug, Default)]
pub struct Defects {
    /// Changes entries before they are applied, so that the state becomes another one than that of servers without it.
    pub alter: Option<fn(&mut Envelope)>,
    /// After how many entries a leader has the servers compare their states.
    pub digest_interval: Option<u64>,
}

static DEFECTS: OnceLock<Defects> = OnceLock::new();

/// Puts them in. Call it once, before a server starts: later calls do nothing.
pub fn install(defects: Defects) {
    let _ = DEFECTS.set(defects);
}

pub(super) fn alter(envelope: &mut Envelope) {
    if let Some(alter) = DEFECTS.get().and_then(|defects| defects.alter) {
        alter(envelope);
    }
}

pub(super) fn digest_interval() -> Option<u64> {
    DEFECTS.get().and_then(|defects| defects.digest_interval)
}
