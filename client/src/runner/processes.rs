//! Processes of an allocation's tasks, and the final resource usage of those that have ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use songline_model::Str;

use crate::driver::Process;
use crate::stats::{Detail, TaskUsage};

/// Running processes by task name.
#[derive(Default)]
pub(super) struct Processes {
    running: Mutex<BTreeMap<Str, Arc<dyn Process>>>,
    /// Final usage of ended tasks, as of their last reading.
    ended: Mutex<BTreeMap<Str, TaskUsage>>,
}

impl Processes {
    pub(super) fn get(&self, task: &str) -> Option<Arc<dyn Process>> {
        self.running.lock().get(task).cloned()
    }

    pub(super) fn put(&self, task: &Str, process: Arc<dyn Process>) {
        self.running.lock().insert(task.clone(), process);
    }

    pub(super) async fn remove(&self, task: &str) {
        let removed = self.running.lock().remove(task);
        let Some(process) = removed else { return };
        if let Some(usage) = process.usage(Detail::Sums).await {
            self.ended.lock().insert(task.into(), usage);
        }
    }

    pub(super) async fn usage(&self, task: &str, detail: Detail) -> Option<TaskUsage> {
        match self.get(task) {
            Some(process) => process.usage(detail).await,
            None => self.ended.lock().get(task).cloned(),
        }
    }
}
