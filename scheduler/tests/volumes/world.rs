//! A volume, its storage, two nodes and the leader. A controller attaches the volume to nodes; a node mounts it for an
//! alloc. What a node that is cut off has mounted counts until the controller has detached the volume from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_commands::{
    Actor, ApplyPlan, ClaimCsiVolume, ClientAlloc, Command, Envelope, ReapEvals, RegisterCsiVolumes, RegisterJob,
    RegisterNode, UpdateAllocsFromClient, UpdateNodeStatus,
};
use songline_model::*;
use songline_projections::{State, apply};
use songline_scheduler::csi::{self, Detach};
use songline_scheduler::leader::volumes::{Release, Volumes};

const A: NodeId = NodeId::from_bytes([0xa; 16]);
const B: NodeId = NodeId::from_bytes([0xb; 16]);
/// More rounds than any world here needs.
const ROUNDS_MAX: usize = 40;

/// The steps of the model. Allocs 1 and 3 are on node `a`, alloc 2 on node `b`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The alloc's node claims the volume, has it attached, and mounts it.
    Claim(u8),
    /// The alloc ends; its node has not unmounted the volume yet.
    End(u8),
    /// The alloc's node unmounts the volume and says so. Repeated, it is a late or lost request.
    Unpublish(u8),
    /// The alloc is garbage.
    Collect(u8),
    /// Another alloc takes the place of one that is over and has no claim.
    Replace(u8),
    /// Node `a` misses its heartbeats, and its allocs are lost, though they may still run.
    Down,
    /// Node `a` is back.
    Up,
    /// The watcher looks at all volumes, and starts releases.
    Watch,
    /// The call of the release's next step succeeds.
    Call(u8),
    /// The progress of the call is recorded.
    Record(u8),
    /// The call of the release's next step fails.
    Fail(u8),
    /// Another server leads: what was under way is forgotten.
    Lead,
}

use Step::{Call, Claim, Collect, Down, End, Fail, Lead, Record, Replace, Unpublish, Up, Watch};

impl Step {
    /// Two allocs on two nodes, while leaders change, calls fail, and node `a` comes and goes.
    pub(crate) const TWO: &[Step] = &[
        Claim(1),
        Claim(2),
        End(1),
        End(2),
        Unpublish(1),
        Unpublish(2),
        Collect(1),
        Replace(1),
        Replace(2),
        Down,
        Up,
        Watch,
        Call(1),
        Call(2),
        Record(1),
        Record(2),
        Fail(1),
        Lead,
    ];
    /// Two allocs on one node, and a third elsewhere.
    pub(crate) const THREE: &[Step] = &[
        Claim(1),
        Claim(2),
        Claim(3),
        End(1),
        End(3),
        Unpublish(1),
        Unpublish(3),
        Replace(1),
        Watch,
        Call(1),
        Record(1),
        Call(3),
        Record(3),
        Lead,
    ];
}

/// A release that is under way.
#[derive(Debug, Clone, PartialEq)]
enum Running {
    /// Its next call is not made yet.
    Begun,
    /// A call was made; the record is not written yet.
    Called(ClaimCsiVolume),
}

#[derive(Clone)]
pub(crate) struct World {
    careless: bool,
    state: State,
    watcher: Volumes,
    /// Allocs whose node has the volume mounted for them.
    mounted: BTreeSet<u8>,
    /// Nodes that the storage lets at the volume.
    attached: BTreeSet<NodeId>,
    running: BTreeMap<u8, Running>,
    /// Allocs that the watcher has released now.
    watched: BTreeSet<u8>,
    now: Time,
}

fn alloc_id(n: u8) -> AllocId {
    AllocId::from_bytes([n; 16])
}

fn node_of(n: u8) -> NodeId {
    if n == 2 { B } else { A }
}

fn alloc(n: u8) -> Allocation {
    Allocation {
        id: alloc_id(n),
        namespace: "default".into(),
        job_id: "j".into(),
        task_group: "g".into(),
        node_id: Some(node_of(n)),
        ..Allocation::default()
    }
}

fn volume() -> CsiVolumeKey {
    CsiVolumeKey::new("default", "v")
}

impl World {
    /// `careless`: claims are freed without asking the controller to detach the volume, to see that this is found.
    pub(crate) fn new(careless: bool) -> Self {
        let mut world = Self {
            careless,
            state: State::new(),
            watcher: Volumes::new(),
            mounted: BTreeSet::new(),
            attached: BTreeSet::new(),
            running: BTreeMap::new(),
            watched: BTreeSet::new(),
            now: Time::from_secs(1_000_000),
        };
        for node in [A, B] {
            world.register(node);
        }
        let capability = CsiVolumeCapability {
            access_mode: CsiAccessMode::SingleNodeWriter,
            attachment_mode: CsiAttachmentMode::FileSystem,
        };
        let row = CsiVolume {
            id: volume().id,
            namespace: "default".into(),
            plugin_id: "p".into(),
            requested_capabilities: Some(vec![capability]),
            ..CsiVolume::default()
        };
        world.run(RegisterCsiVolumes { volumes: vec![row] }).expect("is registered");
        let group = TaskGroup { name: "g".into(), count: 3, ..TaskGroup::default() };
        let job = Job { id: "j".into(), namespace: "default".into(), task_groups: Some(vec![group]), ..Job::default() };
        world.run(RegisterJob { job: Arc::new(job), ..RegisterJob::default() }).expect("is registered");
        for n in 1..=3 {
            world.place(alloc(n));
        }
        world
    }

    fn register(&mut self, id: NodeId) {
        let info =
            CsiInfo { plugin_id: "p".into(), healthy: true, requires_controller_plugin: true, ..CsiInfo::default() };
        let mounts = CsiNodeInfo { id: format!("ext-{id}").into(), ..CsiNodeInfo::default() };
        let can = CsiControllerInfo { supports_attach_detach: true, ..CsiControllerInfo::default() };
        let node = Node {
            id,
            csi_node_plugins: Some([("p".into(), CsiInfo { node_info: Some(mounts), ..info.clone() })].into()),
            csi_controller_plugins: Some([("p".into(), CsiInfo { controller_info: Some(can), ..info })].into()),
            ..Node::default()
        };
        self.run(RegisterNode { node, create_node_pool: true }).expect("is registered");
        self.status(id, NodeStatus::Ready);
    }

    fn status(&mut self, node_id: NodeId, status: NodeStatus) {
        self.run(UpdateNodeStatus { node_id, status, event: None, updated_at: UnixSecs(1) }).expect("is written");
    }

    fn place(&mut self, alloc: Allocation) {
        let job = self.state.job("default", "j").cloned();
        self.run(ApplyPlan { job, updated: vec![Arc::new(alloc)], ..ApplyPlan::default() }).expect("is placed");
    }

    fn run(&mut self, command: impl Into<Command>) -> Result<(), String> {
        let index = self.state.raft_index() + 1;
        let applied = apply(&mut self.state, index, &Envelope::new(self.now, Actor::Anonymous, command.into()));
        self.watcher.on_changes(&applied.changes);
        applied.result.map(drop).map_err(|refused| refused.to_string())
    }

    fn row(&self) -> &CsiVolume {
        self.state.csi_volume_by_key(&volume()).expect("the volume stays registered")
    }

    fn is_down(&self, node: NodeId) -> bool {
        self.state.node(node).is_none_or(|node| node.status == NodeStatus::Down)
    }

    fn is_live(&self, n: u8) -> bool {
        self.state.alloc(alloc_id(n)).is_some_and(|alloc| !alloc.terminal())
    }

    /// Makes a step. False if it cannot be made here.
    pub(crate) fn make(&mut self, step: Step) -> bool {
        match step {
            Claim(n) => self.claim(n),
            End(n) => self.is_live(n) && !self.is_down(node_of(n)) && self.end(n),
            Unpublish(n) => self.unpublish(n),
            Collect(n) => {
                let over = self.state.alloc(alloc_id(n)).is_some_and(|alloc| alloc.terminal());
                over && self.run(ReapEvals { allocs: vec![alloc_id(n)], ..ReapEvals::default() }).is_ok()
            }
            Replace(n) => self.replace(n),
            Down => !self.is_down(A) && self.miss(),
            Up => self.is_down(A) && self.come_back(),
            Watch => self.watch(),
            Call(n) => self.call(n),
            Record(n) => self.record(n),
            Fail(n) => matches!(self.running.get(&n), Some(Running::Begun)) && self.over(n, false),
            Lead => {
                self.running.clear();
                self.watched.clear();
                self.watcher.restore(&self.state);
                true
            }
        }
    }

    /// A node claims for an alloc that it runs. Taking and releasing the claim of one alloc exclude each other.
    fn claim(&mut self, n: u8) -> bool {
        let busy = self.running.contains_key(&n) || self.row().past_claims.contains_key(&alloc_id(n));
        if busy || !self.is_live(n) || self.is_down(node_of(n)) {
            return false;
        }
        let node_id = node_of(n);
        let claim = CsiVolumeClaim {
            allocation_id: alloc_id(n),
            node_id,
            external_node_id: csi::external_node(&self.state, self.row(), node_id).expect("the node has a plugin"),
            mode: CsiClaimMode::Write,
            access_mode: CsiAccessMode::SingleNodeWriter,
            attachment_mode: CsiAttachmentMode::FileSystem,
            ..CsiVolumeClaim::default()
        };
        if self.run(ClaimCsiVolume { volume: volume(), claim }).is_err() {
            return false;
        }
        self.attached.insert(node_id);
        self.mounted.insert(n);
        true
    }

    fn end(&mut self, n: u8) -> bool {
        let said = ClientAlloc {
            id: alloc_id(n),
            node_id: node_of(n),
            client_status: AllocClientStatus::Complete,
            ..ClientAlloc::default()
        };
        self.run(UpdateAllocsFromClient { allocs: vec![said], evals: Vec::new() }).is_ok()
    }

    fn replace(&mut self, n: u8) -> bool {
        let row = self.row();
        let held = row.holders().any(|(alloc, _)| *alloc == alloc_id(n)) || row.past_claims.contains_key(&alloc_id(n));
        if held || self.is_live(n) || self.mounted.contains(&n) || self.running.contains_key(&n) {
            return false;
        }
        self.run(ReapEvals { allocs: vec![alloc_id(n)], ..ReapEvals::default() }).expect("is collected");
        self.place(alloc(n));
        true
    }

    fn unpublish(&mut self, n: u8) -> bool {
        let runs = self.is_live(n) && self.mounted.contains(&n);
        if runs || self.is_down(node_of(n)) || self.running.contains_key(&n) {
            return false;
        }
        self.mounted.remove(&n);
        let said = CsiVolumeClaim {
            allocation_id: alloc_id(n),
            node_id: node_of(n),
            state: CsiClaimState::Unpublishing,
            ..CsiVolumeClaim::default()
        };
        let Some(command) = csi::begin(&self.state, &volume(), &said) else { return false };
        self.running.insert(n, Running::Begun);
        self.run(command).is_ok()
    }

    fn miss(&mut self) -> bool {
        self.status(A, NodeStatus::Down);
        for n in [1, 3] {
            if let Some(alloc) = self.state.alloc(alloc_id(n)).filter(|alloc| !alloc.terminal()).cloned() {
                self.place(Allocation {
                    desired_status: AllocDesiredStatus::Stop,
                    client_status: AllocClientStatus::Lost,
                    ..Allocation::clone(&alloc)
                });
            }
        }
        true
    }

    /// The node stops its lost allocs, but has yet to unmount the volume.
    fn come_back(&mut self) -> bool {
        self.status(A, NodeStatus::Initializing);
        self.status(A, NodeStatus::Ready);
        true
    }

    fn watch(&mut self) -> bool {
        self.now = self.now.plus(Dur::from_mins(5));
        self.watcher.look_at_all(&self.state, u64::MAX);
        let releases = self.watcher.on_time(&self.state, self.now);
        for Release { alloc, .. } in &releases {
            let n = alloc.as_bytes()[0];
            self.watched.insert(n);
            // One that is under way for its node is waited for.
            self.running.entry(n).or_insert(Running::Begun);
        }
        !releases.is_empty()
    }

    /// Makes the call of the next step, if there is one to make.
    fn call(&mut self, n: u8) -> bool {
        if self.running.get(&n) != Some(&Running::Begun) {
            return false;
        }
        let (claim, state) = match csi::next(&self.state, &volume(), alloc_id(n)) {
            Err(_) => return self.over(n, false),
            Ok(csi::Step::Done) => return self.over(n, true),
            Ok(csi::Step::DetachNode(Detach { claim, .. })) => {
                self.mounted.remove(&n);
                (claim, CsiClaimState::NodeDetached)
            }
            Ok(csi::Step::DetachController(Detach { claim, .. }, _)) if self.careless => {
                (claim, CsiClaimState::ReadyToFree)
            }
            Ok(csi::Step::DetachController(Detach { claim, .. }, _)) => {
                self.attached.remove(&claim.node_id);
                // Nothing that was mounted there works any more.
                self.mounted.retain(|n| node_of(*n) != claim.node_id);
                (claim, CsiClaimState::ReadyToFree)
            }
            Ok(csi::Step::Record(claim, state)) => (claim, state),
        };
        self.running.insert(n, Running::Called(csi::reached(&volume(), claim, state)));
        true
    }

    fn record(&mut self, n: u8) -> bool {
        let Some(Running::Called(command)) = self.running.get(&n).cloned() else { return false };
        self.running.insert(n, Running::Begun);
        self.run(command).is_ok()
    }

    fn over(&mut self, n: u8, is_freed: bool) -> bool {
        self.running.remove(&n);
        if self.watched.remove(&n) {
            let release = Release { volume: volume(), alloc: alloc_id(n) };
            self.watcher.on_outcome(&release, is_freed, self.now);
        }
        true
    }

    /// Rules at any time: one writer at most, and none without a claim.
    pub(crate) fn fault(&self) -> Option<String> {
        let writing: Vec<u8> = self.mounted.iter().copied().filter(|n| self.attached.contains(&node_of(*n))).collect();
        if writing.len() > 1 {
            return Some(format!("allocs {writing:?} write at a time: {:?}", self.row()));
        }
        let unclaimed = writing.into_iter().find(|n| !self.row().write_claims.contains_key(&alloc_id(*n)));
        unclaimed.map(|n| format!("alloc {n} writes without a claim: {:?}", self.row()))
    }

    /// Rules at rest, when every alloc has ended and all releases are through: nothing is claimed, and nothing attached.
    pub(crate) fn fault_at_rest(mut self) -> Option<String> {
        if self.is_down(A) {
            self.come_back();
        }
        for n in 1..=3 {
            self.make(End(n));
        }
        for _ in 0..ROUNDS_MAX {
            self.make(Watch);
            for n in 1..=3 {
                while self.make(Call(n)) || self.make(Record(n)) {
                    if let Some(what) = self.fault() {
                        return Some(what);
                    }
                }
            }
            if self.watcher.is_empty() && self.running.is_empty() {
                break;
            }
        }
        let row = self.row();
        let free = !row.in_use() && row.past_claims.is_empty() && row.access_mode == CsiAccessMode::Unknown;
        let clean = self.attached.is_empty() && self.watcher.is_empty();
        (!free || !clean).then(|| format!("not freed: {row:?}, attached to {:?}, {:?}", self.attached, self.watcher))
    }

    /// Equal for worlds that are the same for all that can come.
    pub(crate) fn key(&self) -> String {
        let allocs: Vec<_> = self.state.allocs().map(|alloc| (alloc.id, alloc.terminal())).collect();
        let row = CsiVolume { modify_index: 0, ..self.row().clone() };
        let (down, running) = (self.is_down(A), self.running.keys().collect::<Vec<_>>());
        let called: Vec<_> = self.running.values().map(|running| *running == Running::Begun).collect();
        let watched = self.watcher.next_deadline().is_some();
        format!(
            "{allocs:?} {row:?} {down} {running:?} {called:?} {:?} {:?} {:?} {watched}",
            self.mounted, self.attached, self.watched
        )
    }
}
