//! openraft's own storage test suite, run on this crate's storage.

use std::io::{self, Read, Write};
use std::sync::Arc;

use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use tempfile::TempDir;

use super::Machine;
use super::storage::LogStorage;
use super::types::Types;
use crate::disk::RealDisk;
use crate::machine::{CheckpointSource, Committed, StateMachine};
use crate::position::Position;
use crate::store::{Store, StoreConfig};

struct Nothing;

impl StateMachine for Nothing {
    type Reply = ();

    fn apply(&mut self, batch: Vec<Committed>) -> Vec<()> {
        vec![(); batch.len()]
    }

    fn checkpoint(&mut self) -> Box<dyn CheckpointSource> {
        Box::new(Nothing)
    }

    fn install(&mut self, _position: Position, _content: &mut dyn Read) -> io::Result<()> {
        Ok(())
    }
}

impl CheckpointSource for Nothing {
    fn write_to(self: Box<Self>, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

struct InTempDir {
    config: StoreConfig,
}

impl StoreBuilder<Types<()>, LogStorage, Machine<Nothing>, TempDir> for InTempDir {
    async fn build(&self) -> Result<(TempDir, LogStorage, Machine<Nothing>), StorageError<Types<()>>> {
        let dir = tempfile::tempdir().unwrap();
        let (store, _) = Store::open(&dir.path().join("log"), self.config.clone()).unwrap();
        let machine = Machine::new(Nothing, Arc::new(RealDisk), dir.path().join("checkpoints"));
        Ok((dir, LogStorage { store: Arc::new(store), asks_anew: false }, machine))
    }
}

#[tokio::test]
async fn openrafts_storage_suite_passes() {
    Suite::test_all(InTempDir { config: StoreConfig { segment_bytes: 1 << 20, ..StoreConfig::default() } })
        .await
        .unwrap();
}

#[tokio::test]
async fn openrafts_storage_suite_passes_with_tiny_segments_and_no_cache() {
    let config = StoreConfig { segment_bytes: 256, cache_bytes: 0, ..StoreConfig::default() };
    Suite::test_all(InTempDir { config }).await.unwrap();
}
