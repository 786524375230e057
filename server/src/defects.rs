//! Defects that a test injects into the servers of its own process, to check that they are detected. Release builds
//! do not have this module, and only code that is linked with the library reaches it: no option or environment
//! variable does.

use std::sync::OnceLock;

use songline_commands::Envelope;

/// Injected defects of this process.
#[derive(Debug, Default)]
pub struct Defects {
    /// Changes entries before they are applied, so that the state differs from that of servers without the defect.
    pub alter: Option<fn(&mut Envelope)>,
    /// Number of entries after which a leader has the servers compare their states.
    pub digest_interval: Option<u64>,
}

static DEFECTS: OnceLock<Defects> = OnceLock::new();

/// Installs the defects. Has to be called before a server starts; further calls do nothing.
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
