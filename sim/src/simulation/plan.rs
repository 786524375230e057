//! The plan of a simulation: everything that a seed decides before it begins, as data, so that a failing plan can be
//! shrunk.

use std::fmt;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Place of the region in which it happens, from 0.
    pub region: usize,
    /// Start, relative to the beginning.
    pub at: Duration,
    /// Duration, for faults that have one.
    pub lasts: Duration,
    /// Kind of the fault.
    pub what: What,
}

/// Target of a fault: a server by its place in the list, or the leader at that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whom {
    /// Server number, from 0.
    Server(usize),
    /// The leader; the first server when there is no leader.
    Leader,
}

/// Kinds of faults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A machine dies and is started again.
    Crash(Whom),
    /// A machine dies in the middle of writing, after so many changes of its disk.
    CrashWriting(Whom, u64),
    /// All machines die at once.
    Blackout,
    /// A server and the others cannot reach each other.
    Isolate(Whom),
    /// Other servers receive nothing from a server, which still receives.
    Mute(Whom),
    /// A server receives nothing from the others, but can send.
    Deaf(Whom),
    /// One direction between two servers is cut.
    OneWay(usize, usize),
    /// The network is slow, and loses and duplicates messages.
    Storm {
        /// Longest delay of a message, in milliseconds.
        delay_ms: u64,
        /// Lost messages in a thousand.
        lost_of_1000: u32,
        /// Duplicated messages in a thousand.
        doubled_of_1000: u32,
    },
    /// A disk is full.
    Full(Whom),
    /// Writes and syncs of a disk fail.
    Failing(Whom),
    /// The leader is asked to transfer leadership.
    Transfer,
    /// A wall clock is set to an offset in milliseconds.
    Clock(Whom, i64),
    /// A server loses its vote and gets it back.
    Demote(usize),
    /// A machine dies, and so many bits on its disk are flipped.
    Flip(Whom, u32),
    /// A machine's disk is lost.
    Lose(Whom),
    /// A server joins, and another one leaves after some time.
    Exchange(Whom),
    /// A node and the servers cannot reach each other.
    CutNode(usize),
    /// A node and one server cannot reach each other.
    CutNodeFrom(usize, Whom),
    /// All nodes and one server cannot reach each other.
    CutNodesFrom(Whom),
    /// The agent of a node dies, and its processes keep running.
    StopAgent(usize),
    /// A node dies with all its processes.
    KillNode(usize),
    /// The region and this one cannot reach each other.
    CutRegions(usize),
    /// Nothing of the region arrives in this one.
    MuteRegion(usize),
    /// The region and all others cannot reach each other.
    IsolateRegion,
}

/// An injected defect, which the checkers have to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// Servers answer reads from their own state, whether or not they lead.
    ReadsWithoutBarrier,
    /// The second server drops one of a hundred entries.
    DroppedEntries,
    /// Streams skip one of a hundred entries.
    SkippedFrames,
    /// Processes of nodes keep running after they were stopped.
    ProcessesThatStay,
    /// Periodic jobs are launched for each minute again and again.
    LaunchesTwice,
    /// Every second launch of a periodic job is refused.
    LaunchesLeftOut,
    /// Allocations are preempted and nothing is placed.
    VictimsInVain,
    /// Allocations of near priority are preempted, too.
    VictimsOfNearPriority,
    /// Deployments replace all allocations at once.
    HastyRollouts,
    /// Deployments do not end.
    EndlessDeployments,
    /// Blocked evaluations count every class of nodes as unsuitable.
    LostWakeUps,
    /// Some evaluations stay pending.
    OpenEvals,
    /// Tokens are not deleted.
    TokensThatStay,
    /// Jobs are registered without an evaluation.
    ForgottenJobs,
    /// Deletions are not replicated.
    SurplusReplicas,
    /// Replicated policies have another content.
    OtherReplicas,
    /// Replication deletes local tokens.
    LostLocalTokens,
    /// The last region of a job refuses every second registration, and the others do not give it up.
    TornRegistrations,
    /// The last region of a job registers something else.
    OtherParts,
    /// Deployments of several regions start without the other regions.
    HastyRegions,
    /// Complete deployments of several regions do not wait for the other regions.
    EarlyRegions,
    /// Regions do not fail with others.
    RegionsThatGoOn,
    /// Complete regions fail when they should finish.
    RegionsThatGiveUp,
    /// Complete regions say that another lacks the version.
    RegionsThatLoseHeart,
    /// Complete regions do not finish.
    RegionsThatWait,
}

/// Everything that a seed decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The seed, which also determines all randomness within the simulation.
    pub seed: u64,
    /// Duration of faults and clients.
    pub length: Duration,
    /// Number of regions. One is a cluster with clients; several are a federation.
    pub regions: usize,
    /// Number of servers of each region.
    pub servers: usize,
    /// Number of clients; several regions have none.
    pub clients: u64,
    /// Number of nodes of each region, which run jobs.
    pub nodes: usize,
    /// Faults in the order of their start.
    pub faults: Vec<Fault>,
    /// Injected defect, which no seed decides.
    pub sabotage: Option<Sabotage>,
}

/// Largest number of regions.
pub const REGIONS_MAX: usize = 3;
/// Time without faults at the beginning, in which the cluster forms.
const QUIET_AT_FIRST: Duration = Duration::from_secs(8);

impl Plan {
    /// The plan of a seed.
    pub fn of_seed(seed: u64, length: Duration) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let servers = if rng.random_range(0..4) == 0 { 5 } else { 3 };
        let clients = rng.random_range(3..8);
        let nodes = rng.random_range(3..7);
        let mut faults = Vec::new();
        // Some runs have long pauses between faults, some have hardly any.
        let pause_ms = rng.random_range(3_000..40_000);
        let mut at = QUIET_AT_FIRST;
        loop {
            at += Duration::from_millis(rng.random_range(500..pause_ms));
            if at >= length {
                break;
            }
            let what = What::any(&mut rng, servers, nodes);
            // A node's absence is noticed only after some time.
            let most_ms = if what.is_of_nodes() { 90_000 } else { 20_000 };
            let lasts = Duration::from_millis(rng.random_range(200..most_ms));
            faults.push(Fault { region: 0, at, lasts, what });
        }
        Self { seed, length, regions: 1, servers, clients, nodes, faults, sabotage: None }
    }

    /// The plan of a seed with several regions.
    pub fn of_regions(seed: u64, length: Duration) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed ^ 0x7265_6769_6f6e_7300);
        let regions = rng.random_range(2..=REGIONS_MAX);
        // Nine servers take long.
        let servers = if rng.random_bool(if regions == REGIONS_MAX { 0.2 } else { 0.6 }) { 3 } else { 1 };
        let nodes = rng.random_range(1..3);
        let mut faults = Vec::new();
        let pause_ms = rng.random_range(6_000..40_000);
        let mut at = QUIET_AT_FIRST;
        loop {
            at += Duration::from_millis(rng.random_range(500..pause_ms));
            if at >= length {
                break;
            }
            let region = rng.random_range(0..regions);
            let what = What::any_of_regions(&mut rng, (regions, region), servers, nodes);
            let most_ms = if what.is_of_nodes() { 60_000 } else { 20_000 };
            let lasts = Duration::from_millis(rng.random_range(200..most_ms));
            faults.push(Fault { region, at, lasts, what });
        }
        Self { seed, length, regions, servers, clients: 0, nodes, faults, sabotage: None }
    }
}

impl What {
    fn is_of_nodes(&self) -> bool {
        match self {
            Self::CutNode(_)
            | Self::CutNodeFrom(..)
            | Self::CutNodesFrom(_)
            | Self::StopAgent(_)
            | Self::KillNode(_) => true,
            Self::Crash(_)
            | Self::CrashWriting(..)
            | Self::Blackout
            | Self::Isolate(_)
            | Self::Mute(_)
            | Self::Deaf(_)
            | Self::OneWay(..)
            | Self::Storm { .. }
            | Self::Full(_)
            | Self::Failing(_)
            | Self::Transfer
            | Self::Clock(..)
            | Self::Demote(_)
            | Self::Flip(..)
            | Self::Lose(_)
            | Self::Exchange(_)
            | Self::CutRegions(_)
            | Self::MuteRegion(_)
            | Self::IsolateRegion => false,
        }
    }

    /// A fault in a region of several. Faults of disks and of the membership are left to clusters of one region.
    fn any_of_regions(rng: &mut SmallRng, (regions, region): (usize, usize), servers: usize, nodes: usize) -> Self {
        let whom = if rng.random_bool(0.6) { Whom::Leader } else { Whom::Server(rng.random_range(0..servers)) };
        let other = (region + rng.random_range(1..regions)) % regions;
        let node = rng.random_range(0..nodes);
        match rng.random_range(0..30) {
            0..5 => Self::Crash(whom),
            5..8 => Self::CrashWriting(whom, rng.random_range(1..30)),
            8 => Self::Blackout,
            9..12 => Self::Isolate(whom),
            12 => Self::Deaf(whom),
            13..16 => Self::Storm {
                delay_ms: rng.random_range(5..400),
                lost_of_1000: rng.random_range(0..300),
                doubled_of_1000: rng.random_range(0..200),
            },
            16..19 => Self::Transfer,
            19 => Self::Clock(whom, rng.random_range(-60_000..60_000)),
            20..23 => Self::CutRegions(other),
            23 => Self::MuteRegion(other),
            24..26 => Self::IsolateRegion,
            26 => Self::CutNode(node),
            27 => Self::StopAgent(node),
            _ => Self::KillNode(node),
        }
    }

    fn any(rng: &mut SmallRng, servers: usize, nodes: usize) -> Self {
        let whom = if rng.random_bool(0.4) { Whom::Leader } else { Whom::Server(rng.random_range(0..servers)) };
        let node = rng.random_range(0..nodes);
        match rng.random_range(0..43) {
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
            24..26 => Self::Demote(rng.random_range(0..servers)),
            26..29 => Self::Flip(whom, rng.random_range(1..4)),
            29 => Self::Lose(whom),
            30..32 => Self::Exchange(whom),
            32..35 => Self::CutNode(node),
            35..37 => Self::CutNodeFrom(node, whom),
            37 => Self::CutNodesFrom(whom),
            38..40 => Self::StopAgent(node),
            _ => Self::KillNode(node),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { region, at, lasts, what } = self;
        write!(f, "{:>10.3} for {:.3} s: {what:?}", at.as_secs_f64(), lasts.as_secs_f64())?;
        if *region > 0 { write!(f, " in region {region}") } else { Ok(()) }
    }
}
