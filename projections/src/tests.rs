//! Random entries give the same rows, changes and digests on two states, through checkpoints in between, and on forks;
//! in every state the indexes, counts and invariants agree with the rows. A failure prints the seed.

mod csi;
mod recorded;
mod secrets;

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_commands::*;
use songline_model::*;

use crate::check::consistent;
use crate::job::summary;
use crate::story::{group, id, show_change};
use crate::{Applied, Change, Outcome, Rejected, State, Table, apply, apply_optimistically, pass};

mod acl;

const SEEDS: u64 = 24;
const ENTRIES: u64 = 400;

/// Pseudo-random numbers by xorshift64*.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize].clone()
    }

    fn bytes(&mut self, kind: char, count: u64) -> [u8; 16] {
        id(&format!("{kind}{}", self.below(count)))
    }

    fn node(&mut self) -> NodeId {
        NodeId::from_bytes(self.bytes('n', 4))
    }

    fn alloc(&mut self) -> AllocId {
        AllocId::from_bytes(self.bytes('a', 40))
    }

    fn eval_id(&mut self) -> EvalId {
        EvalId::from_bytes(self.bytes('e', 30))
    }

    fn deployment(&mut self) -> DeploymentId {
        DeploymentId::from_bytes(self.bytes('d', 8))
    }

    fn key(&mut self) -> JobKey {
        JobKey::new(self.pick(&["default", "dev"]), format!("j{}", self.below(5)))
    }

    fn job(&mut self, key: &JobKey) -> Job {
        let mut groups = [group("a", 2), group("b", 1), group("c", 0)];
        if self.chance(50) {
            let target = [("Namespace", &*key.namespace), ("Job", &*key.id), ("Group", "a")];
            groups[0].scaling = Some(ScalingPolicy {
                id: format!("p{}", self.below(6)).into(),
                max: self.below(3).cast_signed(),
                target: Some(target.iter().map(|(name, value)| (Str::new(name), Str::new(value))).collect()),
                ..ScalingPolicy::default()
            });
        }
        let count = 1 + self.below(3) as usize;
        Job {
            namespace: key.namespace.clone(),
            id: key.id.clone(),
            kind: self.pick(&[JobType::Service, JobType::Batch, JobType::System]),
            parent_id: if self.chance(20) { "j0".into() } else { JobId::default() },
            periodic: self.chance(10).then(PeriodicConfig::default),
            version: self.below(4),
            task_groups: Some(groups[..count].iter().map(|one| csi::group(self, one.clone())).collect()),
            ..Job::default()
        }
    }

    fn service(&mut self) -> ServiceRegistration {
        ServiceRegistration {
            id: format!("s{}", self.below(6)).into(),
            namespace: self.pick(&["default", "dev"]).into(),
            service_name: self.pick(&["db", "web"]).into(),
            node_id: self.node(),
            alloc_id: self.alloc(),
            ..ServiceRegistration::default()
        }
    }

    fn eval(&mut self) -> Evaluation {
        let key = self.key();
        Evaluation {
            id: self.eval_id(),
            namespace: key.namespace,
            job_id: key.id,
            status: self.pick(EvalStatus::ALL),
            queued_allocations: self.chance(30).then(|| Arc::new([(Str::new("a"), 2)].into())),
            failed_tg_allocs: self.chance(20).then(|| Arc::new([(Str::new("a"), AllocMetric::default())].into())),
            ..Evaluation::default()
        }
    }

    fn plan(&mut self, state: &State) -> ApplyPlan {
        let key = self.key();
        let placed = (0..self.below(4)).map(|_| self.placed(state, &key)).collect();
        let known: Vec<AllocId> = state.allocs_of_job(&key.namespace, &key.id).map(|alloc| alloc.id).collect();
        let some = |dice: &mut Self| if known.is_empty() || dice.chance(5) { dice.alloc() } else { dice.pick(&known) };
        let stopped = (0..self.below(3))
            .map(|_| StopAlloc {
                id: some(self),
                client_status: self.chance(40).then_some(AllocClientStatus::Lost),
                append_state: self.chance(40).then(AllocState::default),
                ..StopAlloc::default()
            })
            .collect();
        let preempted = (0..self.below(2)).map(|_| PreemptAlloc { id: some(self), preempted_by: self.alloc(), modify_time: 3 }).collect();
        let deployment = self.chance(25).then(|| Deployment {
            id: self.deployment(),
            namespace: key.namespace.clone(),
            job_id: key.id.clone(),
            job_version: self.below(3),
            task_groups: Some(
                [(Str::new("a"), DeploymentState { progress_deadline: Dur::from_secs(9), ..DeploymentState::default() })].into(),
            ),
            ..Deployment::default()
        });
        let deployment_updates = (0..self.below(2)).map(|_| self.deployment_update()).collect();
        let job = if self.chance(90) { state.job_by_key(&key).cloned() } else { None };
        ApplyPlan { job, stopped, updated: placed, preempted, deployment, deployment_updates, updated_at: 4, ..ApplyPlan::default() }
    }

    fn placed(&mut self, state: &State, key: &JobKey) -> Arc<Allocation> {
        let id = self.alloc();
        // An alloc keeps its node and its job.
        if let Some(stored) = state.alloc(id) {
            let client_status = self.pick(AllocClientStatus::ALL);
            return Arc::new(Allocation {
                client_status,
                deployment_id: self.chance(50).then(|| self.deployment()),
                ..Allocation::clone(stored)
            });
        }
        Arc::new(Allocation {
            id,
            namespace: key.namespace.clone(),
            job_id: key.id.clone(),
            node_id: Some(self.node()),
            eval_id: Some(self.eval_id()),
            task_group: "a".into(),
            deployment_id: self.chance(50).then(|| self.deployment()),
            signing_key_id: self.chance(50).then(|| RootKeyId::from_bytes(self.bytes('k', 4))),
            previous_allocation: self.chance(20).then(|| self.alloc()),
            modify_time: 1_000_000_000,
            ..Allocation::default()
        })
    }

    fn deployment_update(&mut self) -> DeploymentStatusUpdate {
        let status = self.pick(DeploymentStatus::ALL);
        DeploymentStatusUpdate { deployment_id: self.deployment(), status, status_description: Str::default() }
    }

    fn client(&mut self, state: &State) -> UpdateAllocsFromClient {
        let known: Vec<Arc<Allocation>> = state.allocs().cloned().collect();
        let update = |dice: &mut Self| {
            let alloc = if known.is_empty() { Arc::default() } else { dice.pick(&known) };
            ClientAlloc {
                id: alloc.id,
                node_id: if dice.chance(95) { alloc.node_id.unwrap_or_default() } else { dice.node() },
                client_status: dice.pick(AllocClientStatus::ALL),
                deployment_status: dice.chance(50).then(|| AllocDeploymentStatus {
                    healthy: dice.pick(&[None, Some(true), Some(false)]),
                    timestamp: Some(Time::from_secs(7)),
                    ..AllocDeploymentStatus::default()
                }),
                ..ClientAlloc::default()
            }
        };
        let allocs = (0..1 + self.below(3)).map(|_| update(self)).collect();
        let evals = (0..self.below(2)).map(|_| self.eval()).collect();
        UpdateAllocsFromClient { allocs, evals }
    }

    fn command(&mut self, state: &State) -> Command {
        if self.chance(20) {
            return self.acl_command(state);
        }
        if self.chance(12) {
            return self.about_secrets(state);
        }
        let event = self.chance(50).then(NodeEvent::default);
        match self.below(41) {
            0 | 1 => RegisterNode {
                node: Node {
                    id: self.node(),
                    node_pool: self.pick(&["", "gpu", "tpu"]).into(),
                    csi_controller_plugins: csi::instances(self),
                    csi_node_plugins: csi::instances(self),
                    ..Node::default()
                },
                create_node_pool: self.chance(50),
            }
            .into(),
            2 => DeregisterNode { node_id: self.node() }.into(),
            3 => DeregisterNodes { node_ids: vec![self.node(), self.node()] }.into(),
            4 | 5 => UpdateNodeStatus { node_id: self.node(), status: self.pick(NodeStatus::ALL), event, updated_at: 6 }.into(),
            6 => UpdateNodeDrain {
                node_id: self.node(),
                drain_strategy: self.chance(60).then(DrainStrategy::default),
                mark_eligible: self.chance(50),
                event,
                ..UpdateNodeDrain::default()
            }
            .into(),
            7 => FinishNodeDrains { node_ids: vec![self.node()], event, updated_at: 6 }.into(),
            8 => UpdateNodeEligibility { node_id: self.node(), eligibility: self.pick(Eligibility::ALL), event, updated_at: 6 }.into(),
            9 => AddNodeEvents { events: [(self.node(), vec![NodeEvent::default(); 3])].into() }.into(),
            10..=14 => {
                let key = self.key();
                RegisterJob {
                    job: Arc::new(self.job(&key)),
                    submission: self.chance(30).then(|| JobSubmission { source: "job".into(), ..JobSubmission::default() }),
                    enforce_index: self.chance(10),
                    preserve_counts: self.chance(20),
                    eval: self.chance(70).then(|| Evaluation { namespace: key.namespace, job_id: key.id, ..self.eval() }),
                    versions_max: 3,
                    ..RegisterJob::default()
                }
                .into()
            }
            15 | 16 => DeregisterJob {
                job: self.key(),
                purge: self.chance(50),
                no_shutdown_delay: self.chance(50),
                eval: self.chance(70).then(|| self.eval()),
                versions_max: 3,
                ..DeregisterJob::default()
            }
            .into(),
            17 => DeregisterJobs { jobs: [(self.key(), self.chance(50)), (self.key(), false)].into(), ..DeregisterJobs::default() }.into(),
            18 => SetJobStability { job: self.key(), version: self.below(4), stable: self.chance(70) }.into(),
            19..=21 => UpdateEvals { evals: vec![self.eval(), self.eval()] }.into(),
            22 => ReapEvals {
                evals: vec![self.eval_id(), self.eval_id()],
                allocs: vec![self.alloc(), self.alloc()],
                user_initiated: self.chance(30),
            }
            .into(),
            23..=27 if self.chance(20) => self.work(state),
            23..=27 => self.plan(state).into(),
            28..=30 => self.client(state).into(),
            31 => SetDesiredTransitions {
                allocs: [(self.alloc(), DesiredTransition { migrate: Some(true), ..DesiredTransition::default() })].into(),
                evals: vec![self.eval()],
            }
            .into(),
            32 => UpdateDeploymentStatus { update: self.deployment_update(), versions_max: 3, ..UpdateDeploymentStatus::default() }.into(),
            33 => {
                let deployment_id = self.deployment();
                let allocs: Vec<AllocId> = state.allocs_of_deployment(deployment_id).map(|alloc| alloc.id).collect();
                let (healthy, unhealthy) = allocs.split_at(allocs.len() / 2);
                let (healthy, unhealthy) = (healthy.to_vec(), unhealthy.to_vec());
                SetDeploymentAllocHealth { deployment_id, healthy, unhealthy, timestamp: 8, ..SetDeploymentAllocHealth::default() }.into()
            }
            38 => match self.below(5) {
                0 => AddScalingEvent { job: self.key(), group: "a".into(), event: ScalingEvent::default() }.into(),
                1 => DeleteServiceRegistration { namespace: "default".into(), id: format!("s{}", self.below(6)).into() }.into(),
                2 => DeleteServiceRegistrationsOfNode { node_id: self.node() }.into(),
                _ => UpsertServiceRegistrations { services: vec![self.service(), self.service()] }.into(),
            },
            39 => PromoteDeployment {
                deployment_id: self.deployment(),
                all: self.chance(50),
                groups: vec!["a".into()],
                eval: self.chance(50).then(|| self.eval()),
            }
            .into(),
            34 => match self.below(5) {
                0 => DeleteDeployments { ids: vec![self.deployment()] }.into(),
                1 => SetSchedulerConfig { cas: self.chance(50).then(|| self.below(100)), ..SetSchedulerConfig::default() }.into(),
                2 => SetClusterMetadata { cluster_id: self.pick(&["x", "y"]).into(), create_time: 2 }.into(),
                3 => KeepAnswer { index: Some(0), body: "{}".into() }.into(),
                _ => ReconcileSummaries { queued: [(self.key(), [(Str::new("a"), 3)].into())].into() }.into(),
            },
            35..=37 => csi::command(self, state),
            _ => match self.below(4) {
                0 => UpsertNodePools { node_pools: vec![NodePool { name: "gpu".into(), ..NodePool::default() }] }.into(),
                1 => DeleteNodePools { names: vec!["gpu".into()] }.into(),
                2 => DeleteNamespaces { names: vec!["dev".into()] }.into(),
                _ => UpsertNamespaces { namespaces: vec![Namespace { name: "dev".into(), ..Namespace::default() }] }.into(),
            },
        }
    }

    /// Deletes evaluations on a user's request, with the broker paused often enough.
    fn work(&mut self, state: &State) -> Command {
        let slice = Slice { rows_max: 1 + self.below(3) as u32, looks_max: 1 + self.below(9) as u32 };
        match (self.below(9), state.work_under_way().next()) {
            (0..2, _) => {
                let pause_eval_broker = self.chance(80);
                let config = SchedulerConfiguration { pause_eval_broker, ..SchedulerConfiguration::default() };
                SetSchedulerConfig { config, cas: None }.into()
            }
            (2, Some(work)) => StopWork { work: work.id }.into(),
            (3.., Some(work)) => ContinueWork { work: work.id, slice }.into(),
            (_, _) if self.chance(50) => DeleteEvals { choice: EvalChoice::Ids(vec![self.eval_id(), self.eval_id()]), slice }.into(),
            (_, _) => DeleteEvals { choice: EvalChoice::Filter("Priority != 7 or JobID == j1".into()), slice }.into(),
        }
    }

    fn envelope(&mut self, state: &State, raft_index: u64) -> Envelope {
        let at = Time::from_secs((raft_index * 60 + self.below(300)).cast_signed());
        let mut envelope = Envelope::new(at, Actor::Leader("test".into()), self.command(state));
        if self.chance(15) {
            let key = format!("k{}", self.below(9)).into();
            envelope.idempotency = Some(Idempotency { key, body_hash: [self.below(2) as u8; 16], forwarded: self.chance(30) });
        }
        envelope
    }
}

fn through_a_checkpoint(state: &State) -> State {
    let mut bytes = Vec::new();
    let summary = state.write_checkpoint(&mut bytes).expect("writes");
    assert_eq!(summary.bytes, bytes.len() as u64);
    State::read_checkpoint(&mut bytes.as_slice()).expect("reads")
}

fn assert_equal(a: &State, b: &State, what: &str) {
    assert_eq!(a.table_digests(), b.table_digests(), "{what}: digests");
    assert_eq!(a.table_index, b.table_index, "{what}: indexes of tables");
    assert_eq!((a.applied_index(), a.base(), a.applied_at()), (b.applied_index(), b.base(), b.applied_at()), "{what}: position");
    assert!(a.evals().eq(b.evals()) && a.allocs().eq(b.allocs()) && a.jobs().eq(b.jobs()), "{what}: rows");
}

fn shown(applied: &Applied) -> Vec<String> {
    applied.changes.iter().map(show_change).collect()
}

#[test]
fn the_same_entries_give_the_same_state_with_checkpoints_in_between() {
    let mut kinds: BTreeMap<Kind, (u64, u64)> = BTreeMap::new();
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed);
        let (mut one, mut two) = (State::new(), State::new());
        for raft_index in 2..2 + ENTRIES {
            let what = format!("seed {seed}, entry {raft_index}");
            let envelope = dice.envelope(&one, raft_index);
            let before = one.clone();
            // The second state applies the encoded entries, as a replay does.
            let bytes = envelope.encode().expect("encodes");
            let replayed = Envelope::decode(&bytes).expect("decodes");
            let first = apply(&mut one, raft_index, &envelope);
            let second = apply(&mut two, raft_index, &replayed);
            assert_eq!(shown(&first), shown(&second), "{what}: changes");
            assert_eq!(first, second, "{what}");
            if first.changes.is_empty() {
                assert_eq!(before.table_digests(), one.table_digests(), "{what}: what has no change changed nothing");
            }
            let (done, refused) = kinds.entry(envelope.command.kind()).or_default();
            *if first.result.is_ok() { done } else { refused } += 1;
            if dice.chance(3) {
                two = through_a_checkpoint(&two);
                assert_equal(&one, &two, &what);
            }
            if dice.chance(5) {
                consistent(&one);
            }
        }
        consistent(&one);
        consistent(&two);
        assert_equal(&one, &two, &format!("seed {seed}"));
    }
    let missing: Vec<Kind> = Kind::ALL.iter().copied().filter(|kind| kinds.get(kind).is_none_or(|(done, _)| *done == 0)).collect();
    assert_eq!(missing, [Kind::Restore, Kind::Digest], "every kind of entry was applied: {kinds:?}");
}

#[test]
fn counts_of_allocs_that_still_live_equal_a_recount() {
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed + 1000);
        let mut state = State::new();
        for raft_index in 2..2 + ENTRIES {
            let envelope = dice.envelope(&state, raft_index);
            // After a reconciliation or a collection, collected allocs can not be recounted.
            if !matches!(envelope.command.kind(), Kind::EvalReap | Kind::ReconcileJobSummaries) {
                apply(&mut state, raft_index, &envelope);
            }
        }
        for job in state.jobs() {
            let kept = state.job_summary(&job.namespace, &job.id).and_then(|row| row.summary.clone()).expect("a job has a summary");
            for (group, again) in summary::recount(&state, job, None) {
                let kept = kept.get(&group).expect("groups stay");
                let alive = |counts: &TaskGroupSummary| [counts.starting, counts.running, counts.unknown, counts.lost];
                assert_eq!(alive(kept), alive(&again), "seed {seed}, job {} group {group}", job.id);
                assert!(kept.failed >= again.failed && kept.complete >= again.complete, "seed {seed}, job {}: these only grow", job.id);
            }
        }
    }
}

#[test]
fn a_fork_goes_its_own_way() {
    let mut dice = Dice::new(7);
    let mut state = State::new();
    for raft_index in 2..200 {
        let envelope = dice.envelope(&state, raft_index);
        apply(&mut state, raft_index, &envelope);
        let (view, mut fork) = (state.clone(), state.clone());
        let plan = dice.plan(&state);
        let forked = apply_optimistically(&mut fork, &plan, Time::from_secs(1));
        assert_equal(&view, &state, "the fork's source");
        let mut committed = state.clone();
        let entry = Envelope { at: Time::from_secs(1), idempotency: None, ..Envelope::new(Time::from_secs(1), Actor::Anonymous, plan) };
        let applied = apply(&mut committed, raft_index + 1, &entry);
        assert_eq!(forked, applied.result.map(|_| ()), "entry {raft_index}");
        assert!(fork.allocs().eq(committed.allocs()) && fork.jobs().eq(committed.jobs()), "entry {raft_index}");
        assert!(fork.deployments().eq(committed.deployments()) && fork.job_summaries().eq(committed.job_summaries()), "entry {raft_index}");
    }
}

fn namespace(name: &str) -> Envelope {
    let namespaces = vec![Namespace { name: name.into(), ..Namespace::default() }];
    Envelope::new(Time::from_secs(1), Actor::Anonymous, UpsertNamespaces { namespaces })
}

fn restore(state: &State) -> Envelope {
    let mut bytes = Vec::new();
    state.write_checkpoint(&mut bytes).expect("writes");
    let digest = blake3::hash(&bytes).to_hex().as_str().into();
    Envelope::new(Time::from_secs(2), Actor::Anonymous, RestoreArchive { archive: Blob(bytes), digest })
}

#[test]
fn restoring_never_takes_the_index_back() {
    let mut dice = Dice::new(3);
    let mut old = State::new();
    for raft_index in 2..300 {
        let envelope = dice.envelope(&old, raft_index);
        apply(&mut old, raft_index, &envelope);
    }
    let mut young = State::new();
    apply(&mut young, 2, &namespace("mine"));
    let applied = apply(&mut young, 3, &restore(&old));
    assert_eq!(applied.result, Ok(Outcome::Restored { archive_index: 299 }));
    assert_eq!(applied.changes, [Change::Restored]);
    assert_eq!((applied.index, young.applied_index(), young.base(), young.raft_index()), (300, 300, 297, 3));
    // All rows except those that a restore changes: deployments without a job end, and one-time tokens are dropped.
    let is_lasting = |table: Table| !matches!(table, Table::Deployment | Table::OneTimeToken);
    let lasting = |state: &State| state.table_digests().into_iter().filter(|(table, _)| is_lasting(*table)).collect::<Vec<_>>();
    assert_eq!(lasting(&young), lasting(&old));
    assert!(old.one_time_tokens().count() > 0 && young.one_time_tokens().count() == 0);
    assert!(Table::ALL.iter().all(|table| young.table_index(*table) == 300));
    consistent(&young);
    assert_eq!(apply(&mut young, 4, &namespace("next")).index, 301);
    assert_eq!(young.namespace("next").map(|row| row.modify_index), Some(301));

    // A log that is further on than the archive.
    let mut far = State::new();
    pass(&mut far, 5000);
    let applied = apply(&mut far, 5001, &restore(&old));
    assert_eq!((applied.index, far.applied_index(), far.base()), (5001, 5001, 0));
}

#[test]
fn a_damaged_archive_is_refused_and_changes_nothing() {
    let mut state = State::new();
    apply(&mut state, 2, &namespace("mine"));
    let digest = state.digest();
    let Command::Restore(archive) = restore(&state).command else { panic!("it is one") };
    for at in [0, 17, archive.archive.0.len() / 2, archive.archive.0.len() - 1] {
        let mut bytes = archive.archive.0.clone();
        bytes[at] ^= 1;
        for honest in [false, true] {
            let digest = if honest { blake3::hash(&bytes).to_hex().as_str().into() } else { archive.digest.clone() };
            let entry = Envelope::new(Time::from_secs(3), Actor::Anonymous, RestoreArchive { archive: Blob(bytes.clone()), digest });
            let raft_index = state.raft_index() + 1;
            let applied = apply(&mut state, raft_index, &entry);
            assert!(matches!(applied.result, Err(Rejected::ArchiveUnreadable(_))), "byte {at}: {:?}", applied.result);
        }
    }
    assert_eq!((state.digest(), state.applied_index()), (digest, 10));
}

#[test]
fn deployments_of_jobs_that_are_gone_end_with_the_restore() {
    let mut state = State::new();
    let deployment = Deployment { id: DeploymentId::from_bytes(id("d1")), job_id: "gone".into(), ..Deployment::default() };
    let plan = ApplyPlan { deployment: Some(deployment), ..ApplyPlan::default() };
    apply(&mut state, 2, &Envelope::new(Time::from_secs(1), Actor::Anonymous, plan));
    let entry = restore(&state);
    apply(&mut state, 3, &entry);
    let row = state.deployment(DeploymentId::from_bytes(id("d1"))).expect("is there");
    assert_eq!((row.status, row.modify_index), (DeploymentStatus::Cancelled, 3));
}

#[test]
fn a_restore_that_was_refused_stays_refused_under_its_key() {
    let mut state = State::new();
    let mut entry = restore(&State::new());
    let Command::Restore(cmd) = &mut entry.command else { panic!("it restores") };
    cmd.archive = Blob(vec![1, 2, 3]);
    entry.idempotency = Some(Idempotency { key: "k".into(), ..Idempotency::default() });
    let first = apply(&mut state, 2, &entry);
    let again = apply(&mut state, 3, &entry);
    let texts = [&first, &again].map(|applied| applied.result.as_ref().expect_err("is refused").to_string());
    assert_eq!(texts[0], texts[1]);
    assert_eq!((first.repeated, again.repeated, again.index), (false, true, 2));
    assert_eq!((first.changes.len(), again.changes.len()), (1, 0));
}

#[test]
fn digests_are_compared_at_the_index_they_were_taken() {
    let mut state = State::new();
    apply(&mut state, 2, &namespace("a"));
    let total = Blob(state.digest().as_bytes().to_vec());
    apply(&mut state, 3, &namespace("b"));
    let mut ask = |schema, index, total: &Blob| {
        let raft_index = state.raft_index() + 1;
        let entry = Envelope::new(
            Time::from_secs(1),
            Actor::Anonymous,
            CheckDigest { schema, through: index, total: total.clone(), ..CheckDigest::default() },
        );
        apply(&mut state, raft_index, &entry).result.expect("is never refused")
    };
    assert_eq!(ask(crate::SCHEMA, 2, &total), Outcome::DigestMatches);
    assert!(matches!(ask(crate::SCHEMA, 3, &total), Outcome::DigestDiffers { index: 3, .. }));
    assert_eq!(ask(crate::SCHEMA + 1, 2, &total), Outcome::DigestNotCompared);
    assert_eq!(ask(crate::SCHEMA, 1, &total), Outcome::DigestNotCompared);
}

#[test]
fn a_view_keeps_what_it_saw() {
    let mut state = State::new();
    apply(&mut state, 2, &namespace("a"));
    let view = state.clone();
    apply(&mut state, 3, &namespace("b"));
    assert_eq!((view.applied_index(), view.namespaces().count()), (2, 2));
    assert_eq!((state.applied_index(), state.namespaces().count()), (3, 3));
}

#[test]
fn pools_and_prefixes_find_their_rows() {
    let mut state = State::new();
    for (raft_index, (name, pool)) in (2..).zip([("n1", "gpu"), ("n2", "default"), ("o1", "gpu")]) {
        let node = Node { id: NodeId::from_bytes(id(name)), node_pool: pool.into(), ..Node::default() };
        apply(&mut state, raft_index, &Envelope::new(Time::from_secs(1), Actor::Anonymous, RegisterNode { node, create_node_pool: true }));
    }
    let names = |nodes: Vec<&Arc<Node>>| nodes.iter().map(|node| crate::story::name(node.id.as_bytes())).collect::<Vec<_>>();
    assert_eq!(names(state.nodes_in_pool("gpu").collect()), ["n1", "o1"]);
    assert_eq!(names(state.nodes_in_pool("all").rev().collect()), ["o1", "n2", "n1"]);
    let prefix = |text| crate::IdPrefix::parse(text).expect("is a prefix");
    assert_eq!(names(state.nodes_with_prefix(&prefix("6e")).collect()), ["n1", "n2"]);
    assert_eq!(names(state.nodes_with_prefix(&prefix("6e32")).collect()), ["n2"]);
    assert_eq!(names(state.nodes_with_prefix(&prefix("6")).collect()), ["n1", "n2", "o1"]);
}

#[test]
#[should_panic(expected = "entries apply in order, once")]
fn an_entry_does_not_apply_twice() {
    let mut state = State::new();
    apply(&mut state, 2, &namespace("a"));
    apply(&mut state, 2, &namespace("a"));
}

/// Checks the memory of a row without its shared parts. Names of up to 23 bytes need no extra memory.
#[test]
fn rows_stay_within_their_memory() {
    // A leaf of an ordered map holds 16 entries and is on average two thirds full.
    let indexed = |bytes: usize| bytes * 3 / 2;
    let arc = 16;
    let alloc = size_of::<Allocation>() + arc + indexed(16 + 24) + 2 * indexed(16 + 8) + indexed(24) + 2 * indexed(32);
    assert!(alloc <= 1500, "an alloc costs {alloc} bytes, {} of them its row", size_of::<Allocation>());
    // The packed row, the rest of a usual evaluation, and its entries in the table and in two indexes.
    let packed = crate::eval::PACKED_BYTES;
    let eval = packed + arc + 48 + indexed(16 + 24) + 2 * indexed(24);
    assert!(eval <= 350, "an eval costs {eval} bytes, {packed} of them its row");
}
