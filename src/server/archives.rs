//! Saving the state as an archive, and replacing it by one.
//!
//! An entry of the log only names the archive that it restores; its content lies in the server's directory, durable before the entry is.

use std::io::Write;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use songline_api::{Proposal, ProposeError, RestoreError};
use songline_commands::{Actor, Idempotency, RestoreArchive};
use songline_model::Blob;
use songline_projections::State;

use super::Core;
use crate::archive::{self, Configuration, Member, Meta};

impl Core {
    /// An archive of the newest state. Apply goes on meanwhile.
    pub(crate) async fn save_archive(&self) -> Result<Bytes, ProposeError> {
        let view = self.view();
        let term = self.log().leadership().borrow().term;
        let address = self.rpc_addr();
        let now = self.now();
        let written = tokio::task::spawn_blocking(move || {
            let mut state = Vec::new();
            view.write_checkpoint(&mut state).map_err(|error| error.to_string())?;
            let meta = describe(&view, term, address, now.nanos() / 1_000_000);
            let mut out = Vec::new();
            let secs = u64::try_from(now.secs()).unwrap_or(0);
            archive::write(meta, &state, secs, &mut out).map_err(|error| error.to_string())?;
            Ok::<_, String>(Bytes::from(out))
        });
        let result = written.await.map_err(|error| error.to_string());
        result.and_then(|inner| inner).map_err(|error| ProposeError::Unavailable(format!("failed to save snapshot: {error}")))
    }

    /// Verifies an archive, keeps its content and writes the entry that restores it.
    pub(crate) async fn restore_archive(&self, bytes: Bytes, actor: Actor, idempotency: Option<Idempotency>) -> Result<(), RestoreError> {
        let dir = self.archives_dir();
        let stored = tokio::task::spawn_blocking(move || keep(&dir, &bytes)).await;
        let digest = stored.map_err(|error| RestoreError::Archive(error.to_string()))?.map_err(RestoreError::Archive)?;
        let command = RestoreArchive { archive: Blob::default(), digest: digest.into() };
        self.write(Proposal { actor, cause: None, idempotency, command: command.into() }).await?;
        Ok(())
    }

    /// The content of an archive that an entry names.
    pub(crate) fn load_archive(&self, digest: &str) -> Option<Vec<u8>> {
        load(&self.dir, digest)
    }

    fn archives_dir(&self) -> PathBuf {
        self.dir.join("archives")
    }
}

/// The content of an archive that an entry names, from a server's directory.
pub fn load(server_dir: &std::path::Path, digest: &str) -> Option<Vec<u8>> {
    // The digest comes from the log, where only `keep` put it: it is hexadecimal.
    let content = std::fs::read(server_dir.join("archives").join(format!("{digest}.state"))).ok()?;
    (blake3::hash(&content).to_hex().as_str() == digest).then_some(content)
}

fn keep(dir: &std::path::Path, bytes: &[u8]) -> Result<String, String> {
    let (_, state) = archive::read(bytes).map_err(|error| error.to_string())?;
    State::read_checkpoint(&mut &state[..]).map_err(|error| format!("failed to read snapshot: {error}"))?;
    let digest = blake3::hash(&state).to_hex().to_string();
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(dir)?;
        let path = dir.join(format!("{digest}.state"));
        let unfinished = path.with_extension("tmp");
        let mut file = std::fs::File::create(&unfinished)?;
        file.write_all(&state)?;
        file.sync_all()?;
        std::fs::rename(&unfinished, &path)?;
        std::fs::File::open(dir)?.sync_all()
    };
    write().map_err(|error| format!("keeping the snapshot: {error}"))?;
    Ok(digest)
}

fn describe(view: &State, term: u64, address: String, unix_ms: i64) -> Meta {
    let index = view.applied_index();
    let id = view.cluster_metadata().map_or_else(String::new, |cluster| cluster.cluster_id.to_string());
    // A msgpack list of one binary: what old readers look for.
    let mut peers = vec![0x91, 0xa0 | u8::try_from(address.len().min(31)).unwrap_or(31)];
    peers.extend(address.bytes().take(31));
    Meta {
        version: 1,
        id: format!("{term}-{index}-{unix_ms}"),
        index,
        term,
        peers: STANDARD.encode(peers),
        configuration: Configuration { servers: vec![Member { suffrage: 0, id, address }] },
        configuration_index: 1,
        size: 0,
    }
}
