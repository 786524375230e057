//! Archives stay for as long as the log has an entry that names them.

use songline_api::{RestoreChoices, Upkeep as _};
use songline_commands::Actor;

use super::*;
use crate::testing::{Settings, TestServer};

async fn start(dir: &Path) -> anyhow::Result<TestServer> {
    TestServer::start(Settings { data_dir: Some(dir.to_owned()), ..Settings::default() }).await
}

/// Saves the state and restores it: the log has an entry that names an archive.
async fn restore(server: &TestServer) -> anyhow::Result<()> {
    let archive = server.core.snapshot_save().await?;
    server.core.snapshot_restore(archive.file, Actor::Anonymous, None, RestoreChoices::default()).await?;
    Ok(())
}

/// Gives a file an age.
fn age(path: &Path, age: Duration) {
    let file = File::open(path).expect("is there");
    file.set_modified(SystemTime::now() - age).expect("is ours");
}

/// Names of the files in the directory.
fn kept(dir: &Path) -> Vec<String> {
    let files = std::fs::read_dir(dir).expect("is there");
    let mut names: Vec<String> =
        files.map(|file| file.expect("is read").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archives_are_removed_once_no_entry_of_the_log_names_them() -> anyhow::Result<()> {
    let data_dir = tempfile::tempdir()?;
    let dir = data_dir.path().join("server/archives");
    let server = start(data_dir.path()).await?;
    restore(&server).await?;
    let named = kept(&dir).pop().expect("an archive was restored");
    let (of_nothing, coming) = ("00ff.state".to_owned(), "11ff.state".to_owned());
    for name in [&of_nothing, &coming] {
        std::fs::write(dir.join(name), b"content")?;
    }
    let old = YOUNG + Duration::from_secs(3600);
    for name in [&named, &of_nothing] {
        age(&dir.join(name), old);
    }
    let oldest = server.core.log().oldest_index();
    assert_eq!(server.core.remove_unneeded_archives(oldest)?, 1);
    assert_eq!(kept(&dir).len(), 2, "the archive of nothing is gone: {:?}", kept(&dir));
    assert!(!dir.join(&of_nothing).exists());
    // A start that does not apply the entry again finds it in the log.
    server.core.log().checkpoint_now().await?;
    server.stop().await;

    let server = start(data_dir.path()).await?;
    assert_eq!(server.core.remove_unneeded_archives(server.core.log().oldest_index())?, 0);
    assert!(dir.join(&named).exists() && dir.join(&coming).exists());
    // As after a purge of all entries so far.
    let applied = server.core.log().applied().map_or(0, |position| position.index);
    assert_eq!(server.core.remove_unneeded_archives(applied + 1)?, 1);
    assert_eq!(kept(&dir), [coming], "only the young one is left");
    server.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archive_that_is_expected_again_is_not_removed() -> anyhow::Result<()> {
    let data_dir = tempfile::tempdir()?;
    let dir = data_dir.path().join("server/archives");
    let server = start(data_dir.path()).await?;
    std::fs::create_dir_all(&dir)?;
    let path = dir.join("22ff.state");
    std::fs::write(&path, b"content")?;
    age(&path, YOUNG * 2);
    server.core.stores.named_archives.expect("22ff");
    assert_eq!(server.core.remove_unneeded_archives(0)?, 0);
    touch(&path, server.core.world().wall())?;
    let modified = std::fs::metadata(&path)?.modified()?;
    assert!(modified.elapsed().is_ok_and(|age| age < YOUNG), "{modified:?}");
    server.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_an_interrupted_restore_has_left_are_removed_at_the_start() -> anyhow::Result<()> {
    let data_dir = tempfile::tempdir()?;
    let dir = data_dir.path().join("server/archives");
    std::fs::create_dir_all(&dir)?;
    for name in [".tmpXYZ.tmp", "33ff.state"] {
        std::fs::write(dir.join(name), b"content")?;
    }
    let server = start(data_dir.path()).await?;
    assert_eq!(kept(&dir), ["33ff.state"]);
    server.stop().await;
    Ok(())
}
