//! Archives among servers: a log entry only names the archive that it restores, so every server needs the archive's
//! content. The leader lets a majority fetch the content before it proposes the entry. A server that still lacks it
//! fetches it when it applies the entry.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use songline_api::ProposeError;

use super::super::Core;
use super::super::archives::touch;
use super::peers::Topic;
use super::{decode, encode};

/// Largest content of one answer, in bytes.
const PIECE_BYTES: usize = 4 << 20;
/// Timeout of one piece.
const PIECE_WITHIN: Duration = Duration::from_secs(30);
/// Timeout for another server to fetch a whole archive.
const FETCH_WITHIN: Duration = Duration::from_secs(600);
/// Delay before a server that needs an archive asks all others again.
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// A question about an archive, which is named by the digest of its content.
#[derive(Debug, Serialize, Deserialize)]
enum Question {
    /// Fetch the archive from the server at this address. Answered once the content is on disk.
    Fetch { digest: String, from: String },
    /// The content from this offset on; empty at the end.
    Piece { digest: String, offset: u64 },
}

impl Core {
    /// Lets the other servers fetch an archive from this one. Returns once a majority, including this server, has it
    /// on disk.
    pub(crate) async fn spread_archive(&self, digest: &str) -> Result<(), ProposeError> {
        if self.other_servers().is_empty() {
            return Ok(());
        }
        let question =
            encode(&Question::Fetch { digest: digest.to_owned(), from: self.connections.cluster.address.clone() });
        if self.majority_answers(Topic::Archive, &question, FETCH_WITHIN).await {
            return Ok(());
        }
        Err(ProposeError::Unavailable("the archive could not be given to a majority of the servers".to_owned()))
    }

    /// Answers another server.
    pub(super) async fn answer_about_archive(&self, question: &[u8]) -> Result<Bytes, String> {
        match decode(question)? {
            Question::Fetch { digest, from } => self.fetch_archive(&digest, &from).await.map(|()| Bytes::new()),
            Question::Piece { digest, offset } => {
                let path = self.archive_path(&digest).ok_or("no such archive")?;
                let piece = tokio::task::spawn_blocking(move || read_piece(&File::open(path)?, offset)).await;
                piece.map_err(|error| error.to_string())?.map(Bytes::from).map_err(|error| error.to_string())
            }
        }
    }

    async fn fetch_archive(&self, digest: &str, from: &str) -> Result<(), String> {
        let path = self.archive_path(digest).ok_or("no archive has such a name")?;
        let text = |error: io::Error| format!("keeping an archive: {error}");
        self.stores.named_archives.expect(digest);
        if path.exists() {
            return touch(&path, self.world().wall()).map_err(text);
        }
        let dir = path.parent().ok_or("an archive lies in a directory")?.to_owned();
        std::fs::create_dir_all(&dir).map_err(text)?;
        let mut file = tempfile::Builder::new().suffix(".tmp").tempfile_in(&dir).map_err(text)?;
        let (mut hasher, mut offset) = (blake3::Hasher::new(), 0);
        loop {
            let question = encode(&Question::Piece { digest: digest.to_owned(), offset });
            let piece = self
                .connections
                .cluster
                .peers
                .ask(from, Topic::Archive, &question, PIECE_WITHIN)
                .await
                .map_err(|error| error.to_string())?;
            if piece.is_empty() {
                break;
            }
            offset += piece.len() as u64;
            hasher.update(&piece);
            file.write_all(&piece).map_err(text)?;
        }
        if hasher.finalize().to_hex().as_str() != digest {
            return Err("what came is not that archive".to_owned());
        }
        let kept = tokio::task::spawn_blocking(move || {
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)?;
            File::open(&dir)?.sync_all()
        });
        kept.await.map_err(|error| error.to_string())?.map_err(text)
    }

    /// Fetches an archive that an entry names and that is missing here, from any server that has it. `None` when no
    /// other server is known, or this server is shutting down. Blocks: neither this entry nor later ones can be
    /// applied without the archive.
    pub(crate) fn await_archive(self: &Arc<Self>, digest: &str) -> Option<()> {
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        let (core, digest) = (Arc::clone(self), digest.to_owned());
        // A separate thread, because the caller may be a thread of the async runtime, which must not block on it.
        let fetching =
            std::thread::spawn(move || runtime.block_on(async move { core.fetch_from_anybody(&digest).await }));
        fetching.join().ok()?
    }

    async fn fetch_from_anybody(&self, digest: &str) -> Option<()> {
        loop {
            // While the log is being opened the members are unknown; the configured addresses are asked.
            let addresses =
                if self.log.get().is_some() { self.other_servers() } else { self.facts.config.join.addresses() };
            let addresses: Vec<_> =
                addresses.into_iter().filter(|address| *address != self.connections.cluster.address).collect();
            if addresses.is_empty() {
                return None;
            }
            for address in &addresses {
                match self.fetch_archive(digest, address).await {
                    Ok(()) => return Some(()),
                    Err(error) => {
                        tracing::warn!(%address, digest, error, "an archive that the log names was not to be had")
                    }
                }
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY_WAIT) => {}
                () = self.shutdown.cancelled() => return None,
            }
        }
    }
}

fn read_piece(file: &File, offset: u64) -> io::Result<Vec<u8>> {
    let rest = file.metadata()?.len().saturating_sub(offset);
    let mut piece = vec![0; usize::try_from(rest).unwrap_or(usize::MAX).min(PIECE_BYTES)];
    file.read_exact_at(&mut piece, offset)?;
    Ok(piece)
}
