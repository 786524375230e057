//! Flips single bits of a cleanly closed log, one at a time: each flip must be detected, or change nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use songline_log::{Committed, Log, NoTransport, Reader};

use crate::machine::{Diary, config, open, propose};

const FLIPS: usize = 2000;
/// Number of flips that also go through a whole start.
const STARTS: usize = 40;

/// Result of one flip.
enum Outcome {
    /// Damage was found in the log, in a checkpoint, or in one of two copies.
    Noticed,
    /// No damage was found, and all that can be read is as written.
    Harmless,
    Unseen,
}

fn read_all(dir: &Path) -> Option<(Vec<Committed>, bool)> {
    let reader = Reader::open(dir).ok()?;
    let report = reader.report().ok()?;
    let entries = reader.entries(reader.oldest_index()..u64::MAX).ok()?.collect::<Result<Vec<_>, _>>().ok()?;
    let complaints = !report.single_copies.is_empty()
        || report.torn.is_some()
        || !report.leftovers.is_empty()
        || report.checkpoints.iter().any(|checkpoint| checkpoint.position.is_err());
    Some((entries, complaints))
}

fn judge(dir: &Path, sound: &[Committed]) -> Outcome {
    match read_all(dir) {
        None => Outcome::Noticed,
        Some((entries, _)) if entries != sound => Outcome::Unseen,
        Some((_, true)) => Outcome::Noticed,
        Some((_, false)) => Outcome::Harmless,
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for sub in ["log", "checkpoints"] {
        for entry in fs::read_dir(dir.join(sub)).unwrap() {
            let path = entry.unwrap().path();
            if fs::metadata(&path).unwrap().len() > 0 {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn no_bit_flip_passes_unseen() {
    let seed: u64 = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let (log, diary) = open(dir).await;
    propose(&log, 0..200).await;
    log.checkpoint_now().await.unwrap();
    propose(&log, 200..400).await;
    log.checkpoint_now().await.unwrap();
    propose(&log, 400..700).await;
    log.shutdown().await;
    drop(log);

    let commands = diary.commands();
    let (sound, complaints) = read_all(dir).unwrap();
    assert!(!complaints, "a clean close leaves nothing to complain of");
    let files = files(dir);
    let total: u64 = files.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    let (mut noticed, mut harmless, mut refused, mut started) = (0, 0, 0, 0);
    for flip in 0..FLIPS {
        // Every byte of every file is equally likely.
        let mut at = usize::try_from(random.random_range(0..total)).unwrap();
        let mut chosen = files.iter();
        let (path, bytes) = loop {
            let path = chosen.next().unwrap();
            let bytes = fs::read(path).unwrap();
            if at < bytes.len() {
                break (path, bytes);
            }
            at -= bytes.len();
        };
        let bit = random.random_range(0..8);
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << bit;
        fs::write(path, &flipped).unwrap();
        match judge(dir, &sound) {
            Outcome::Noticed => noticed += 1,
            Outcome::Harmless => harmless += 1,
            Outcome::Unseen => panic!("unseen: bit {bit} of byte {at} of {}, seed {seed}", path.display()),
        }
        if flip % (FLIPS / STARTS) == 0 {
            let copy = tempfile::tempdir().unwrap();
            copy_tree(dir, copy.path());
            let diary = Diary::default();
            match Log::open(config(copy.path()), diary.clone(), Arc::new(NoTransport)).await {
                Err(_) => refused += 1,
                Ok(log) => {
                    assert_eq!(diary.commands(), commands, "bit {bit} of byte {at} of {}", path.display());
                    log.shutdown().await;
                    started += 1;
                }
            }
        }
        fs::write(path, bytes).unwrap();
    }
    println!("{FLIPS} flips: {noticed} noticed, {harmless} harmless, 0 unseen");
    println!("{STARTS} of them started: {refused} refused, {started} started with every command there");
    assert_eq!(noticed + harmless, FLIPS);
}

fn copy_tree(from: &Path, to: &Path) {
    for sub in ["log", "checkpoints"] {
        fs::create_dir_all(to.join(sub)).unwrap();
        for entry in fs::read_dir(from.join(sub)).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, to.join(sub).join(path.file_name().unwrap())).unwrap();
        }
    }
}
