//! The stored state of an agent that does not run, in a readable form: for `operator client-state`.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::{Contents, Left, StateError, database, read};

/// The stored state below the agent's `state_dir`, without secrets. The database is copied first, because opening one
/// writes to it.
///
/// # Errors
/// [`StateError::InUse`] while an agent has the database open; a database that cannot be copied or read.
pub fn read_state(state_dir: &Path) -> Result<Value, StateError> {
    let dir = state_dir.join("client.db");
    let copying = |source| StateError::Copy { dir: dir.display().to_string(), source };
    if is_in_use(&dir).map_err(copying)? {
        return Err(StateError::InUse { dir: dir.display().to_string() });
    }
    let place = tempfile::tempdir().map_err(copying)?;
    let copy = place.path().join("client.db");
    copy_dir(&dir, &copy).map_err(copying)?;
    let (_db, rows) = database(&copy)?;
    Ok(shown(&read(&rows)?))
}

/// Whether a process holds the database's lock, which is released at once.
fn is_in_use(dir: &Path) -> io::Result<bool> {
    let file = match File::open(dir.join("lock")) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => file.unlock().map(|()| false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn copy_dir(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (kind, copy) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_dir(&entry.path(), &copy)?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), copy)?;
        }
    }
    Ok(())
}

fn shown(contents: &Contents) -> Value {
    // The line after the id is the node's secret.
    let id = contents.identity.as_deref().and_then(|identity| identity.lines().next());
    let allocs: serde_json::Map<String, Value> =
        contents.allocs.iter().map(|(id, left)| (id.to_string(), alloc(left))).collect();
    json!({
        "Node": { "ID": id, "Registered": contents.registered, "DynamicMeta": contents.meta },
        "Allocations": allocs,
    })
}

fn alloc(left: &Left) -> Value {
    let tasks: serde_json::Map<String, Value> = left
        .tasks
        .iter()
        .map(|(name, record)| {
            let local = &record.local;
            let shown = json!({
                "State": record.state,
                "LocalState": { "Run": local.run, "HasHandle": local.handle.is_some(), "RunComplete": local.run_complete },
            });
            (name.to_string(), shown)
        })
        .collect();
    json!({
        "Alloc": left.alloc,
        "Tasks": tasks,
        "DeploymentStatus": left.health,
        "NetworkStatus": left.network,
        "CheckResults": left.checks,
        "Volumes": left.volumes.keys().collect::<Vec<_>>(),
        "AcknowledgedStatus": left.acknowledged.as_ref().map(|report| report.client_status),
    })
}

#[cfg(test)]
mod tests {
    use songline_model::{AllocId, Allocation, Str};

    use super::super::StateDb;
    use super::*;
    use crate::core::TaskRecord;

    #[tokio::test]
    async fn state_is_shown_without_secrets_once_the_agent_has_ended() {
        let dir = tempfile::tempdir().expect("a directory");
        let (state, _, thread) = StateDb::open(&dir.path().join("client.db")).expect("it opens");
        state.put_identity("the-id\nthe-secret".to_owned()).await;
        let id = AllocId::from_bytes([7; 16]);
        state.put_alloc(&Allocation { id, name: "web.g[0]".into(), ..Allocation::default() });
        state.put_tasks(&id, vec![(Str::from("web"), TaskRecord::default())], true).await.expect("it is written");

        let refused = read_state(dir.path()).expect_err("it is open");
        assert!(matches!(refused, StateError::InUse { .. }), "{refused}");

        state.close();
        thread.join().expect("it ends");
        drop(state);
        let before = files(dir.path());
        let shown = read_state(dir.path()).expect("it is readable");
        assert_eq!(shown["Node"]["ID"], "the-id");
        let alloc = &shown["Allocations"][&id.to_string()];
        assert_eq!(
            (&alloc["Alloc"]["Name"], &alloc["Tasks"]["web"]["LocalState"]["Run"]),
            (&json!("web.g[0]"), &json!(0))
        );
        assert!(!shown.to_string().contains("the-secret"), "{shown}");
        assert_eq!(files(dir.path()), before, "reading writes nothing");
    }

    /// Names, lengths and times of all files below a directory.
    fn files(dir: &Path) -> Vec<(std::path::PathBuf, u64, std::time::SystemTime)> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(dir).expect("it is listed") {
            let entry = entry.expect("it is listed");
            let about = entry.metadata().expect("it is there");
            if about.is_dir() {
                found.extend(files(&entry.path()));
            } else {
                found.push((entry.path(), about.len(), about.modified().expect("files have times")));
            }
        }
        found.sort();
        found
    }
}
