//! What is to happen in a simulation: everything that a seed decides before it begins, as data, so that a story can be made smaller.

use std::fmt;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// One misfortune.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// When, from the beginning.
    pub at: Duration,
    /// How long it lasts, where it lasts.
    pub lasts: Duration,
    /// What happens.
    pub what: What,
}

/// Whom a fault meets: a server by its place in the list, or whoever leads then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whom {
    /// By number, from 0.
    Server(usize),
    /// The leader; the first, if nobody leads.
    Leader,
}

/// Kinds of misfortune.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A machine dies and is started again.
    Crash(Whom),
    /// A machine dies in the middle of its writing, after so many changes of its disk.
    CrashWriting(Whom, u64),
    /// All machines die at once.
    Blackout,
    /// A server and the others cannot reach each other.
    Isolate(Whom),
    /// A server is heard by nobody, but hears.
    Mute(Whom),
    /// A server hears nobody, but is heard.
    Deaf(Whom),
    /// One direction between two servers is cut.
    OneWay(usize, usize),
    /// The network is slow, and loses and doubles messages.
    Storm {
        /// Longest way of a message, in milliseconds.
        delay_ms: u64,
        /// Of a thousand messages.
        lost_of_1000: u32,
        /// Of a thousand messages.
        doubled_of_1000: u32,
    },
    /// A disk is full.
    Full(Whom),
    /// Writing to a disk fails.
    Failing(Whom),
    /// The leader is asked to let another lead.
    Transfer,
    /// A clock is set, wrong by so many milliseconds.
    Clock(Whom, i64),
    /// A server loses its vote and gets it back.
    Demote(usize),
}

/// Everything that a seed decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The seed, from which all chance within the simulation comes too.
    pub seed: u64,
    /// How long faults and clients go on.
    pub length: Duration,
    /// How many servers.
    pub servers: usize,
    /// How many clients.
    pub clients: u64,
    /// In the order of time.
    pub faults: Vec<Fault>,
}

/// Nothing happens before there is a cluster.
const QUIET_AT_FIRST: Duration = Duration::from_secs(8);

impl Plan {
    /// What a seed means.
    pub fn of_seed(seed: u64, length: Duration) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let servers = if rng.random_range(0..4) == 0 { 5 } else { 3 };
        let clients = rng.random_range(3..8);
        let mut faults = Vec::new();
        // Some runs are calm and long undisturbed, some are never at peace.
        let pause_ms = rng.random_range(3_000..40_000);
        let mut at = QUIET_AT_FIRST;
        loop {
            at += Duration::from_millis(rng.random_range(500..pause_ms));
            if at >= length {
                break;
            }
            let lasts = Duration::from_millis(rng.random_range(200..20_000));
            faults.push(Fault { at, lasts, what: What::any(&mut rng, servers) });
        }
        Self { seed, length, servers, clients, faults }
    }
}

impl What {
    fn any(rng: &mut SmallRng, servers: usize) -> Self {
        let whom = if rng.random_bool(0.4) { Whom::Leader } else { Whom::Server(rng.random_range(0..servers)) };
        match rng.random_range(0..26) {
            0..4 => Self::Crash(whom),
            4..8 => Self::CrashWriting(whom, rng.random_range(1..30)),
            8 => Self::Blackout,
            9..12 => Self::Isolate(whom),
            12 => Self::Mute(whom),
            13 => Self::Deaf(whom),
            14 => {
                let from = rng.random_range(0..servers);
                Self::OneWay(from, (from + rng.random_range(1..servers)) % servers)
            }
            15..18 => Self::Storm {
                delay_ms: rng.random_range(5..400),
                lost_of_1000: rng.random_range(0..300),
                doubled_of_1000: rng.random_range(0..200),
            },
            18 => Self::Full(whom),
            19 => Self::Failing(whom),
            20..22 => Self::Transfer,
            22..24 => Self::Clock(whom, rng.random_range(-60_000..60_000)),
            _ => Self::Demote(rng.random_range(0..servers)),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10.3} for {:.3} s: {:?}", self.at.as_secs_f64(), self.lasts.as_secs_f64(), self.what)
    }
}
