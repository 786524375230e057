//! The stores that are derived from the log: the event history with its hub, and the object history. `refill.rs` fills
//! them anew when they are lost.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use songline_events::Folder;
use songline_events::hub::{EventHub, History, HubConfig, StoredHistory};
use songline_events::object_history::ObjectHistory;
use songline_events::refill::Refill;

use super::archives::{NamedArchives, ReadArchive};
use super::{StartError, Surroundings, refill};

/// The derived stores of a server.
pub(crate) struct Stores {
    events: OnceLock<Arc<EventHub>>,
    history: Arc<StoredHistory>,
    object_history: Arc<ObjectHistory>,
    /// Progress of filling the stores anew.
    pub(super) refill: refill::Progress,
    /// The archive that was decoded last, for the entry that restores it.
    pub(super) read_archive: Mutex<Option<ReadArchive>>,
    /// The archives that entries of the log name.
    pub(super) named_archives: NamedArchives,
}

impl Stores {
    /// Opens or creates the stores in a server's directory.
    pub(super) fn open(dir: &Path, surroundings: &Surroundings) -> Result<Self, StartError> {
        let (history_dir, object_history_dir) = (dir.join("events"), dir.join("touches"));
        let folder = |given: &Option<Folder>, dir: &PathBuf| given.clone().unwrap_or_else(|| dir.into());
        let history = StoredHistory::open(folder(&surroundings.history, &history_dir));
        let history = history.map_err(|source| StartError::History { dir: history_dir, source })?;
        let object_history = ObjectHistory::open(folder(&surroundings.object_history, &object_history_dir));
        let object_history =
            object_history.map_err(|source| StartError::ObjectHistory { dir: object_history_dir, source })?;
        Ok(Self {
            events: OnceLock::new(),
            history: Arc::new(history),
            object_history,
            refill: refill::Progress::default(),
            read_archive: Mutex::default(),
            named_archives: NamedArchives::default(),
        })
    }

    /// Both stores, for filling them anew.
    pub(super) fn derived(&self) -> [Arc<dyn Refill>; 2] {
        [Arc::clone(&self.history) as Arc<dyn Refill>, Arc::clone(&self.object_history) as Arc<dyn Refill>]
    }

    /// The record of the objects that each entry changed.
    pub(super) fn object_history(&self) -> &Arc<ObjectHistory> {
        &self.object_history
    }

    /// Hub of the event streams. It is started before the server is handed out.
    pub(super) fn events(&self) -> &Arc<EventHub> {
        self.events.get().expect("the hub is started before the server is handed out")
    }

    /// Whether the event hub was started: a server that still replays its log has no subscribers.
    pub(super) fn has_events(&self) -> bool {
        self.events.get().is_some()
    }

    /// Starts the event hub at the first index to publish. Panics on failure: an entry whose events are lost must not
    /// be applied.
    pub(super) fn start_events(&self, first_index: u64, config: HubConfig) {
        self.events.get_or_init(|| {
            let history: Arc<dyn History> = Arc::clone(&self.history) as Arc<dyn History>;
            match EventHub::start(config, Some(history), first_index) {
                Ok(hub) => hub,
                Err(error) => panic!("the event history cannot be used: {error}"),
            }
        });
    }

    /// Ends the event streams and closes the stores.
    pub(super) fn close(&self) {
        self.events().close();
        self.object_history.close();
    }
}
