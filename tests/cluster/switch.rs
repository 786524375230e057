//! The network between the servers: a switch in this process that forwards every packet, with configurable faults. A
//! cut has a direction, so that faults range from a pulled cable to a server that can only send. Not here: cards and
//! namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, poll};

use crate::chance::Chance;

/// Largest packet, in bytes, and more than any card here sends.
const PACKET_BYTES_MAX: usize = 64 * 1024;

/// Faults of the network.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// Directions (from port, to port) in which packets are lost.
    pub cut: BTreeSet<(usize, usize)>,
    /// Lost packets in a thousand.
    pub lost_per_thousand: u64,
    /// Delay of every packet.
    pub delay: Duration,
    /// Largest additional random delay; packets may overtake each other.
    pub jitter: Duration,
}

/// A running switch. Dropping it stops forwarding.
pub struct Switch {
    faults: Arc<Mutex<Faults>>,
    /// Closing this pipe ends the threads.
    _stop: PipeWriter,
    threads: Vec<JoinHandle<()>>,
}

struct Late {
    due: Instant,
    to: usize,
    packet: Vec<u8>,
}

impl Switch {
    /// Forwards packets between `cards`. The owner of card `n` has an address that ends in `n + 1`.
    pub fn start(cards: Vec<File>, seed: u64) -> Result<Switch> {
        let faults: Arc<Mutex<Faults>> = Arc::default();
        let cards = Arc::new(cards);
        let (hold, stop) = std::io::pipe().context("making a pipe")?;
        let (late, waiting) = mpsc::channel();
        let mut threads = Vec::new();
        for port in 0..cards.len() {
            let (cards, faults, late) = (Arc::clone(&cards), Arc::clone(&faults), late.clone());
            let hold = hold.try_clone().context("sharing a pipe")?;
            let chance = Chance::new(seed ^ (port as u64 + 1));
            threads.push(thread::spawn(move || pass(port, &cards, &faults, &hold, &late, chance)));
        }
        threads.push(thread::spawn(move || pass_late(&cards, &waiting)));
        Ok(Switch { faults, _stop: stop, threads })
    }

    /// Replaces the faults of the network.
    pub fn set(&self, faults: Faults) {
        *self.faults.lock() = faults;
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let (_, other) = match std::io::pipe() {
            Ok(pipe) => pipe,
            // Without a replacement pipe the threads end with the process.
            Err(_) => return,
        };
        drop(std::mem::replace(&mut self._stop, other));
        for thread in self.threads.drain(..) {
            let _ended = thread.join();
        }
    }
}

/// Forwards the packets of one card, until the switch ends.
fn pass(
    port: usize,
    cards: &[File],
    faults: &Mutex<Faults>,
    stop: &PipeReader,
    late: &Sender<Late>,
    mut chance: Chance,
) {
    let mut card = &cards[port];
    let mut space = vec![0; PACKET_BYTES_MAX];
    loop {
        let mut waits = [PollFd::new(card, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        if poll(&mut waits, None).is_err() || !waits[1].revents().is_empty() {
            return;
        }
        loop {
            let size = match card.read(&mut space) {
                Ok(size) => size,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // The card was removed with its namespace.
                Err(_) => return,
            };
            let packet = &space[..size];
            let Some(to) = destination(packet).filter(|to| *to < cards.len()) else { continue };
            let (lost, delay) = {
                let faults = faults.lock();
                let lost = faults.cut.contains(&(port, to)) || faults.lost_per_thousand > chance.below(1000);
                let jitter = u64::try_from(faults.jitter.as_micros()).unwrap_or(u64::MAX);
                (lost, faults.delay + Duration::from_micros(if jitter == 0 { 0 } else { chance.below(jitter) }))
            };
            if lost {
                continue;
            }
            if delay.is_zero() {
                // A receiver that is gone or full loses the packet, as on any network.
                let _lost = (&cards[to]).write(packet);
            } else {
                let _ended = late.send(Late { due: Instant::now() + delay, to, packet: packet.to_vec() });
            }
        }
    }
}

/// Forwards delayed packets when they are due, until all senders are gone.
fn pass_late(cards: &[File], waiting: &Receiver<Late>) {
    let mut held: BTreeMap<(Instant, u64), Late> = BTreeMap::new();
    let mut count = 0;
    loop {
        let next = held.first_key_value().map(|((due, _), _)| *due);
        let came = match next {
            None => waiting.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => waiting.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        match came {
            Ok(late) => {
                count += 1;
                held.insert((late.due, count), late);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = Instant::now();
        while let Some(entry) = held.first_entry().filter(|entry| entry.key().0 <= now) {
            let late = entry.remove();
            let _lost = (&cards[late.to]).write(&late.packet);
        }
    }
}

/// Destination port of an IPv4 packet.
fn destination(packet: &[u8]) -> Option<usize> {
    let version = packet.first()? >> 4;
    let last = usize::from(*packet.get(19)?);
    (version == 4 && last > 0).then(|| last - 1)
}
