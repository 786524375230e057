//! Content of a disk after its machine's death.

mod power_cuts;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use songline_log::{Disk, DiskFile, Open};
use tokio::time::Instant;

use super::{Clock, Platter, SECTOR_BYTES, SharedPlatter, SimDisk, Troubles};

fn machine(seed: u64) -> (SharedPlatter, SimDisk) {
    let platter = Platter::new(seed);
    let disk = boot(&platter);
    (platter, disk)
}

fn boot(platter: &SharedPlatter) -> SimDisk {
    SimDisk::new(platter, Clock::new(Instant::now(), 0, 1000), Duration::ZERO)
}

fn create(disk: &SimDisk, name: &str, bytes: &[u8]) -> Arc<dyn DiskFile> {
    let file = disk.open(Path::new(name), Open::Create).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

fn content(disk: &SimDisk, name: &str) -> Option<Vec<u8>> {
    let file = disk.open(Path::new(name), Open::Read).ok()?;
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    Some(bytes)
}

#[test]
fn synced_file_with_a_synced_name_survives_every_crash() {
    for seed in 0..50 {
        let (platter, disk) = machine(seed);
        create(&disk, "/d/a", b"kept").sync_data().unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        platter.lock().crash();
        assert_eq!(content(&boot(&platter), "/d/a").as_deref(), Some(&b"kept"[..]));
    }
}

#[test]
fn unsynced_write_survives_whole_in_part_or_not_at_all() {
    let (mut whole, mut torn, mut lost) = (0, 0, 0);
    for seed in 0..100 {
        let (platter, disk) = machine(seed);
        let file = create(&disk, "/d/a", &[1; 4 * SECTOR_BYTES]);
        file.sync_data().unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        file.write_all_at(&[2; 4 * SECTOR_BYTES], 0).unwrap();
        platter.lock().crash();
        let found = content(&boot(&platter), "/d/a").unwrap();
        match found.iter().filter(|byte| **byte == 2).count() / SECTOR_BYTES {
            0 => lost += 1,
            4 => whole += 1,
            _ => torn += 1,
        }
    }
    assert!(whole > 10 && torn > 10 && lost > 10, "{whole} {torn} {lost}");
}

#[test]
fn unsynced_file_names_are_lost_newest_first() {
    for seed in 0..50 {
        let (platter, disk) = machine(seed);
        create(&disk, "/d/a", b"").sync_data().unwrap();
        create(&disk, "/d/b", b"").sync_data().unwrap();
        platter.lock().crash();
        let after = boot(&platter);
        assert!(after.exists(Path::new("/d/a")) || !after.exists(Path::new("/d/b")));
    }
}

#[test]
fn dead_machine_writes_nothing_and_a_full_disk_does_not_grow() {
    let (platter, disk) = machine(1);
    let file = create(&disk, "/d/a", b"four");
    platter.lock().trouble(Troubles { full: true, failing: false });
    assert_eq!(file.write_all_at(b"longer", 0).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    file.write_all_at(b"FOUR", 0).unwrap();
    platter.lock().die_after(2);
    file.write_all_at(b"last", 0).unwrap();
    assert!(!disk.is_dead());
    file.write_all_at(b"lost", 0).unwrap();
    assert!(disk.is_dead());
    file.sync_data().unwrap_err();
    platter.lock().end(&disk);
    assert!(!boot(&platter).is_dead());
}

/// Positions at which two contents differ, in bytes.
fn differences(before: &[u8], after: &[u8]) -> Vec<usize> {
    before.iter().zip(after).enumerate().filter(|(_, (before, after))| before != after).map(|(at, _)| at).collect()
}

#[test]
fn bit_flip_changes_one_synced_bit_and_survives_a_crash() {
    for seed in 0..50 {
        let (platter, disk) = machine(seed);
        create(&disk, "/d/a", &[0; 700]).sync_data().unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        platter.lock().crash();
        assert_eq!(platter.lock().flip(3).len(), 1, "one file, one bit");
        platter.lock().crash();
        let flipped: u32 = content(&boot(&platter), "/d/a").unwrap().iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(flipped, 1);
    }
}

#[test]
fn bit_flips_spare_the_newest_groups_of_the_log() {
    for seed in 0..50 {
        let (platter, disk) = machine(seed);
        let mut log = vec![0; 300];
        for at in [100, 180, 240] {
            log[at..at + 8].copy_from_slice(b"SLGROUP1");
        }
        create(&disk, "/d/1.seg", &log).sync_data().unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        platter.lock().crash();
        platter.lock().flip(1);
        let places = differences(&log, &content(&boot(&platter), "/d/1.seg").unwrap());
        assert!(places.len() == 1 && places[0] < 180 - 25, "{places:?}");
    }
}

#[test]
fn a_new_disk_is_empty_and_the_old_one_gone() {
    let (platter, disk) = machine(1);
    create(&disk, "/d/a", b"kept").sync_data().unwrap();
    disk.sync_dir(Path::new("/d")).unwrap();
    platter.lock().renew();
    assert!(disk.is_dead());
    assert_eq!(content(&boot(&platter), "/d/a"), None);
}
