//! Volume checks of a node: filter texts for groups that ask for volumes.

use std::sync::Arc;

use expect_test::{Expect, expect};
use songline_commands::{
    Actor, ApplyPlan, ClaimCsiVolume, Command, Envelope, ReapEvals, RegisterCsiVolumes, RegisterJob, RegisterNode,
};
use songline_model::*;
use songline_projections::{State, apply};

use super::check;

const NODE: NodeId = NodeId::from_bytes([1; 16]);
const WRITER: AllocId = AllocId::from_bytes([2; 16]);

/// A cluster of one node. Its plugin `p` serves volume `v`; its host volumes are `data` and, read-only, `lib[1]`.
struct Cluster {
    state: State,
}

impl Cluster {
    fn new(change: impl FnOnce(&mut CsiInfo)) -> Self {
        let mut info = CsiInfo {
            plugin_id: "p".into(),
            healthy: true,
            node_info: Some(CsiNodeInfo::default()),
            ..CsiInfo::default()
        };
        change(&mut info);
        let host = |name: &str, read_only| {
            (Str::new(name), ClientHostVolumeConfig { name: name.into(), read_only, ..Default::default() })
        };
        let node = Node {
            id: NODE,
            host_volumes: Some([host("data", false), host("lib[1]", true)].into()),
            csi_node_plugins: Some([(Str::new("p"), info)].into()),
            ..Node::default()
        };
        let mut cluster = Self { state: State::new() };
        cluster.run(RegisterNode { node, create_node_pool: false });
        cluster
    }

    fn run(&mut self, command: impl Into<Command>) {
        let index = self.state.raft_index() + 1;
        let envelope = Envelope::new(Time::from_secs(index.cast_signed()), Actor::Anonymous, command.into());
        apply(&mut self.state, index, &envelope).result.expect("is applied");
    }

    fn volume(mut self, access: &str, change: impl FnOnce(&mut CsiVolume)) -> Self {
        let offered =
            CsiVolumeCapability { access_mode: access.into(), attachment_mode: CsiAttachmentMode::FileSystem };
        let mut volume = CsiVolume {
            id: "v".into(),
            namespace: "default".into(),
            plugin_id: "p".into(),
            requested_capabilities: Some(vec![offered]),
            ..CsiVolume::default()
        };
        change(&mut volume);
        self.run(RegisterCsiVolumes { volumes: vec![volume] });
        self
    }

    /// An alloc of job `holder` writes to the volume.
    fn held(mut self) -> Self {
        let group = TaskGroup { name: "g".into(), count: 1, ..TaskGroup::default() };
        let job =
            Job { id: "holder".into(), namespace: "default".into(), task_groups: Some(vec![group]), ..Job::default() };
        self.run(RegisterJob { job: Arc::new(job), ..RegisterJob::default() });
        let alloc = Allocation {
            id: WRITER,
            namespace: "default".into(),
            job_id: "holder".into(),
            task_group: "g".into(),
            node_id: Some(NODE),
            ..Allocation::default()
        };
        let job = self.state.job("default", "holder").cloned();
        self.run(ApplyPlan { job, updated: vec![Arc::new(alloc)], ..ApplyPlan::default() });
        let claim = CsiVolumeClaim {
            allocation_id: WRITER,
            node_id: NODE,
            mode: CsiClaimMode::Write,
            access_mode: CsiAccessMode::SingleNodeWriter,
            ..CsiVolumeClaim::default()
        };
        self.run(ClaimCsiVolume { volume: CsiVolumeKey::new("default", "v"), claim });
        self
    }

    fn says(&self, job: &str, request: &VolumeRequest, expected: Expect) {
        let job = Job { id: job.into(), namespace: "default".into(), ..Job::default() };
        let node = self.state.node(NODE).expect("is registered");
        let said = check(&self.state, &job, std::slice::from_ref(request), "j.g[1]", node);
        expected.assert_eq(said.as_ref().map_or_else(Str::as_str, |()| "feasible"));
    }
}

fn csi(source: &str, access: &str) -> VolumeRequest {
    VolumeRequest {
        kind: "csi".into(),
        source: source.into(),
        access_mode: access.into(),
        attachment_mode: "file-system".into(),
        ..VolumeRequest::default()
    }
}

fn host(source: &str) -> VolumeRequest {
    VolumeRequest { kind: "host".into(), source: source.into(), ..VolumeRequest::default() }
}

const WRITE: &str = "single-node-writer";

#[test]
fn host_volume_must_exist_and_be_writable() {
    let cluster = Cluster::new(|_| ());
    cluster.says("j", &host("data"), expect!["feasible"]);
    cluster.says("j", &host("none"), expect!["missing compatible host volumes"]);
    cluster.says("j", &host("lib"), expect!["missing compatible host volumes"]);
    let own = VolumeRequest { per_alloc: true, ..host("lib") };
    cluster.says("j", &own, expect!["missing compatible host volumes"]);
    cluster.says("j", &VolumeRequest { read_only: true, ..own }, expect!["feasible"]);
    cluster.says("j", &VolumeRequest { per_alloc: true, ..host("data") }, expect!["missing compatible host volumes"]);
}

#[test]
fn host_volume_of_an_alloc_has_its_number() {
    let own = VolumeRequest { per_alloc: true, read_only: true, ..host("lib") };
    let says = |alloc: &str, expected: Expect| {
        let cluster = Cluster::new(|_| ());
        let node = cluster.state.node(NODE).expect("is registered");
        let said = check(&cluster.state, &Job::default(), std::slice::from_ref(&own), alloc, node);
        expected.assert_eq(said.as_ref().map_or_else(Str::as_str, |()| "feasible"));
    };
    says("j.web[1]", expect!["feasible"]);
    says("j.web[2]", expect!["missing compatible host volumes"]);
}

#[test]
fn csi_volume_must_be_registered_and_its_plugin_run_on_the_node() {
    let cluster = Cluster::new(|_| ()).volume(WRITE, |_| ());
    cluster.says("j", &csi("v", WRITE), expect!["feasible"]);
    cluster.says("j", &csi("w", WRITE), expect!["missing CSI Volume w"]);
    cluster.says("j", &VolumeRequest { per_alloc: true, ..csi("v", WRITE) }, expect!["missing CSI Volume v[1]"]);
    let elsewhere = Cluster::new(|_| ()).volume(WRITE, |volume| volume.plugin_id = "q".into());
    elsewhere.says(
        "j",
        &csi("v", WRITE),
        expect!["CSI plugin q is missing from client 01010101-0101-0101-0101-010101010101"],
    );
    let ill = Cluster::new(|info| info.healthy = false).volume(WRITE, |_| ());
    ill.says(
        "j",
        &csi("v", WRITE),
        expect!["CSI plugin p is unhealthy on client 01010101-0101-0101-0101-010101010101"],
    );
}

/// Named like the line in `tests/conformance/defects.txt` that it covers. The checked text is the reason given in the
/// evaluation.
#[test]
fn volumes_csi_wrong_mode() {
    let cluster = Cluster::new(|_| ()).volume(WRITE, |_| ());
    cluster.says(
        "j",
        &csi("v", "multi-node-multi-writer"),
        expect!["CSI volume v does not offer access mode multi-node-multi-writer with attachment mode file-system"],
    );
}

#[test]
fn csi_volume_topology_must_include_the_node() {
    let place = |name: &str| CsiTopology { segments: Some([(Str::new("zone"), Str::new(name))].into()) };
    let on = |at: &str| {
        let topology = Some(place(at));
        Cluster::new(|info| {
            info.node_info = Some(CsiNodeInfo { accessible_topology: topology, ..CsiNodeInfo::default() })
        })
        .volume(WRITE, |volume| volume.topologies = Some(vec![place("a"), place("b")]))
    };
    on("b").says("j", &csi("v", WRITE), expect!["feasible"]);
    on("c").says("j", &csi("v", WRITE), expect!["did not meet topology requirement"]);
    let nowhere = Cluster::new(|_| ()).volume(WRITE, |volume| volume.topologies = Some(vec![place("a")]));
    nowhere.says("j", &csi("v", WRITE), expect!["did not meet topology requirement"]);
}

#[test]
fn writers_wait_for_each_other_but_not_for_their_own_job() {
    let mut cluster = Cluster::new(|_| ()).volume(WRITE, |_| ()).held();
    cluster.says("j", &csi("v", WRITE), expect!["CSI volume v has exhausted its available writer claims"]);
    cluster.says("holder", &csi("v", WRITE), expect!["feasible"]);
    cluster.run(ReapEvals { allocs: vec![WRITER], ..ReapEvals::default() });
    cluster.says("holder", &csi("v", WRITE), expect!["CSI volume v has exhausted its available writer claims and is claimed by a garbage collected allocation 02020202-0202-0202-0202-020202020202; waiting for claim to be released"]);
    let read_only = Cluster::new(|_| ()).volume("multi-node-reader-only", |_| ());
    read_only.says("j", &csi("v", "multi-node-reader-only"), expect!["CSI volume v is unschedulable or is read-only"]);
}

#[test]
fn readers_need_a_schedulable_volume_and_wait_for_no_claim() {
    let read = VolumeRequest { read_only: true, ..csi("v", WRITE) };
    let cluster = Cluster::new(|_| ()).volume(WRITE, |_| ()).held();
    cluster.says("j", &read, expect!["feasible"]);
    cluster.says("holder", &read, expect!["feasible"]);
    // A plugin without a report about its node part counts for none.
    let unschedulable = Cluster::new(|info| info.node_info = None).volume(WRITE, |_| ());
    unschedulable.says(
        "j",
        &read,
        expect!["CSI volume v is unschedulable or has exhausted its available reader claims"],
    );
}

#[test]
fn a_node_takes_as_many_volumes_as_its_plugin_says() {
    let cluster = |max| {
        Cluster::new(|info| info.node_info = Some(CsiNodeInfo { max_volumes: max, ..CsiNodeInfo::default() }))
            .volume(WRITE, |_| ())
            .held()
    };
    cluster(1).says(
        "holder",
        &csi("v", WRITE),
        expect!["CSI plugin p has the maximum number of volumes on client 01010101-0101-0101-0101-010101010101"],
    );
    cluster(2).says("holder", &csi("v", WRITE), expect!["feasible"]);
}
