//! Servers whose disk is full for some time: the others continue, and the server recovers.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::json;

use crate::cluster::{Cluster, WITHIN};
use crate::filler::Filler;
use crate::http::Request;
use crate::progress::Times;
use crate::trial::Trial;
use crate::wait::until;
use crate::{Run, say};

const WRITERS: usize = 8;
/// Size of each server's disk. Two segments of the log, and the stores derived from it, must fit with much to spare.
const DISK: &str = "size=768m";
/// File that takes up the free space of a disk.
const BALLAST: &str = "ballast";
/// Amount that is written while a disk is full, in bytes.
const WRITTEN: u64 = 4 << 20;
/// Time for which a disk stays full after the other servers have continued.
const FULL: Duration = Duration::from_secs(1);

/// A file system in memory, for one server. Unmounted on drop.
struct Disk {
    dir: PathBuf,
}

impl Disk {
    fn mount(dir: &Path) -> Result<Disk> {
        fs::create_dir_all(dir).context("making a folder for a disk")?;
        let options = std::ffi::CString::new(DISK)?;
        mount("songline-test", dir, "tmpfs", MountFlags::empty(), options.as_c_str()).context("mounting a tmpfs")?;
        Ok(Disk { dir: dir.to_owned() })
    }

    /// Takes up all free space.
    fn fill(&self) -> Result<()> {
        let mut file = File::create(self.dir.join(BALLAST)).context("creating the ballast")?;
        // Large pieces first, then small ones.
        for size in [1 << 20, 4096] {
            let piece = vec![0; size];
            loop {
                match file.write_all(&piece) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => return Err(error).context("writing the ballast"),
                }
            }
        }
        Ok(())
    }

    fn empty(&self) -> Result<()> {
        fs::remove_file(self.dir.join(BALLAST)).context("removing the ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _gone = unmount(&self.dir, UnmountFlags::DETACH);
    }
}

#[test]
fn cluster_continues_without_a_server_with_a_full_disk_until_it_recovers() -> Result<()> {
    let Some(run) = Run::begin("full disks") else { return Ok(()) };
    let rounds = run.count("DISKS", 2, 20);
    fill_disks(3, rounds, run.seed)
}

#[test]
fn single_server_writes_again_when_its_disk_has_space() -> Result<()> {
    let Some(run) = Run::begin("a full disk of one") else { return Ok(()) };
    fill_disks(1, 1, run.seed)
}

#[test]
fn cluster_continues_without_a_server_with_a_failing_disk_until_it_recovers() -> Result<()> {
    let Some(run) = Run::begin("failing disks") else { return Ok(()) };
    fail_disks(3, run.count("DISKS", 2, 20), run.seed)
}

#[test]
fn single_server_survives_failing_disk_writes() -> Result<()> {
    let Some(run) = Run::begin("a failing disk of one") else { return Ok(()) };
    fail_disks(1, 1, run.seed)
}

/// File offset in bytes beyond which writes fail while a disk fails: this concerns the log and the derived stores,
/// but not the server's log output.
const WRITABLE: u64 = 128 << 10;

fn fail_disks(count: usize, rounds: u64, seed: u64) -> Result<()> {
    let trial = Trial::start(Cluster::start(count, seed, &json!({}))?, WRITERS, seed)?;
    let mut gaps = Times::default();
    // The log has to be longer than the writable part of a file.
    let filler = Filler::start(&trial.cluster.addresses())?;
    filler.written(4 * WRITABLE)?;
    filler.finish()?;
    for round in 0..rounds {
        let leader = trial.cluster.leader()?;
        // The leader first, then a follower.
        let victim = trial.cluster.others(leader).first().copied().filter(|_| round % 2 == 1).unwrap_or(leader);
        let server = &trial.cluster.servers[victim];
        let process = server.pid()?;
        trial.progress().mark();
        server.limit_files(Some(WRITABLE))?;
        let unwell =
            || server.call(&Request::new("GET", "/v1/agent/health")).is_ok_and(|answer| answer.head.status == 500);
        ensure!(until(Instant::now() + WITHIN, unwell), "{} has not noticed: {}", server.name, server.last_lines());
        if count > 1 {
            gaps.add(trial.back(30)?);
            trial.progress().over(FULL);
        }
        let answer = server.call(&Request::new("GET", "/v1/namespaces?stale"))?;
        ensure!(answer.head.status == 200, "a stale read of {}: {} {}", server.name, answer.head.status, answer.text());
        server.limit_files(None)?;
        trial
            .all_serve()
            .with_context(|| format!("after the disk of {} failed: {}", server.name, server.last_lines()))?;
        let well =
            || server.call(&Request::new("GET", "/v1/agent/health")).is_ok_and(|answer| answer.head.status == 200);
        ensure!(until(Instant::now() + WITHIN, well), "{} is not well: {}", server.name, server.last_lines());
        ensure!(server.pid()? == process, "{} was started again", server.name);
    }
    trial.finish(&format!("{rounds} failed disks of {count} servers"))?;
    say(&format!("without writes while a disk failed: {gaps}"));
    Ok(())
}

fn fill_disks(count: usize, rounds: u64, seed: u64) -> Result<()> {
    let mut disks = Vec::new();
    let cluster = Cluster::start_with(count, 0, seed, &json!({}), |servers| {
        for server in servers {
            disks.push(Disk::mount(&server.data)?);
        }
        Ok(())
    })?;
    let mut trial = Trial::start(cluster, WRITERS, seed)?;
    let mut gaps = Times::default();
    for round in 0..rounds {
        let leader = trial.cluster.leader()?;
        // The leader first, then a follower.
        let victim = trial.cluster.others(leader).first().copied().filter(|_| round % 2 == 1).unwrap_or(leader);
        let name = trial.cluster.servers[victim].name.clone();
        trial.progress().mark();
        disks[victim].fill()?;
        let filler = Filler::start(&trial.cluster.addresses())?;
        if count > 1 {
            filler
                .written(WRITTEN)
                .with_context(|| format!("with the disk of {name} full: {}", trial.cluster.last_words()))?;
            gaps.add(trial.back(30)?);
            trial.progress().over(FULL);
        } else {
            // Once nothing is acknowledged any more, the preallocated space is used up.
            ensure!(until(Instant::now() + WITHIN, || trial.progress().over(FULL) == 0), "a full disk never was full");
        }
        filler.finish()?;
        disks[victim].empty()?;
        let server = &mut trial.cluster.servers[victim];
        ensure!(server.is_running(), "{name} ended when its disk was full: {}", server.last_lines());
        trial.all_serve().with_context(|| format!("after the disk of {name} was full"))?;
    }
    trial.finish(&format!("{rounds} full disks of {count} servers"))?;
    say(&format!("without writes while a disk was full: {gaps}"));
    Ok(())
}
