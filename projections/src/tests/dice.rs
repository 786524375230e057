//! Random rows and commands from a seed.

use super::*;

/// Pseudo-random numbers by xorshift64*.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize].clone()
    }

    pub(super) fn bytes(&mut self, kind: char, count: u64) -> [u8; 16] {
        id(&format!("{kind}{}", self.below(count)))
    }

    pub(super) fn node(&mut self) -> NodeId {
        NodeId::from_bytes(self.bytes('n', 4))
    }

    pub(super) fn alloc(&mut self) -> AllocId {
        AllocId::from_bytes(self.bytes('a', 40))
    }

    pub(super) fn eval_id(&mut self) -> EvalId {
        EvalId::from_bytes(self.bytes('e', 30))
    }

    pub(super) fn deployment(&mut self) -> DeploymentId {
        DeploymentId::from_bytes(self.bytes('d', 8))
    }

    pub(super) fn key(&mut self) -> JobKey {
        JobKey::new(self.pick(&["default", "dev"]), format!("j{}", self.below(5)))
    }

    pub(super) fn job(&mut self, key: &JobKey) -> Job {
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

    pub(super) fn service(&mut self) -> ServiceRegistration {
        ServiceRegistration {
            id: format!("s{}", self.below(6)).into(),
            namespace: self.pick(&["default", "dev"]).into(),
            service_name: self.pick(&["db", "web"]).into(),
            node_id: self.node(),
            alloc_id: self.alloc(),
            ..ServiceRegistration::default()
        }
    }

    pub(super) fn eval(&mut self) -> Evaluation {
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

    pub(super) fn plan(&mut self, state: &State) -> ApplyPlan {
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
        let preempted = (0..self.below(2))
            .map(|_| PreemptAlloc { id: some(self), preempted_by: self.alloc(), modify_time: Time::from_nanos(3) })
            .collect();
        let deployment = self.chance(25).then(|| Deployment {
            id: self.deployment(),
            namespace: key.namespace.clone(),
            job_id: key.id.clone(),
            job_version: self.below(3),
            task_groups: Some(
                [(
                    Str::new("a"),
                    DeploymentState { progress_deadline: Dur::from_secs(9), ..DeploymentState::default() },
                )]
                .into(),
            ),
            ..Deployment::default()
        });
        let deployment_updates = (0..self.below(2)).map(|_| self.deployment_update()).collect();
        let job = if self.chance(90) { state.job_by_key(&key).cloned() } else { None };
        ApplyPlan {
            job,
            stopped,
            updated: placed,
            preempted,
            deployment,
            deployment_updates,
            updated_at: Time::from_nanos(4),
            ..ApplyPlan::default()
        }
    }

    pub(super) fn placed(&mut self, state: &State, key: &JobKey) -> Arc<Allocation> {
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
            allocated_resources: self.chance(70).then(|| self.resources()),
            previous_allocation: self.chance(20).then(|| self.alloc()),
            modify_time: Time::from_secs(1),
            ..Allocation::default()
        })
    }

    pub(super) fn deployment_update(&mut self) -> DeploymentStatusUpdate {
        let status = self.pick(DeploymentStatus::ALL);
        DeploymentStatusUpdate { deployment_id: self.deployment(), status, status_description: Str::default() }
    }

    pub(super) fn client(&mut self, state: &State) -> UpdateAllocsFromClient {
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

    pub(super) fn command(&mut self, state: &State) -> Command {
        if self.chance(20) {
            return self.acl_command(state);
        }
        if self.chance(12) {
            return self.about_secrets(state);
        }
        if self.chance(5) {
            return self.about_quotas(state);
        }
        if self.chance(3) {
            return self.about_event_sinks(state);
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
            4 | 5 => UpdateNodeStatus {
                node_id: self.node(),
                status: self.pick(NodeStatus::ALL),
                event,
                updated_at: UnixSecs(6),
            }
            .into(),
            6 => UpdateNodeDrain {
                node_id: self.node(),
                drain_strategy: self.chance(60).then(DrainStrategy::default),
                mark_eligible: self.chance(50),
                event,
                ..UpdateNodeDrain::default()
            }
            .into(),
            7 => FinishNodeDrains { node_ids: vec![self.node()], event, updated_at: UnixSecs(6) }.into(),
            8 => UpdateNodeEligibility {
                node_id: self.node(),
                eligibility: self.pick(Eligibility::ALL),
                event,
                updated_at: UnixSecs(6),
            }
            .into(),
            9 => AddNodeEvents { events: [(self.node(), vec![NodeEvent::default(); 3])].into() }.into(),
            10..=14 => {
                let key = self.key();
                RegisterJob {
                    job: Arc::new(self.job(&key)),
                    submission: self
                        .chance(30)
                        .then(|| JobSubmission { source: "job".into(), ..JobSubmission::default() }),
                    enforce_index: self.chance(10),
                    preserve_counts: self.chance(20),
                    eval: self.chance(70).then(|| Evaluation {
                        namespace: key.namespace,
                        job_id: key.id,
                        ..self.eval()
                    }),
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
            17 => DeregisterJobs {
                jobs: [(self.key(), self.chance(50)), (self.key(), false)].into(),
                ..DeregisterJobs::default()
            }
            .into(),
            18 => SetJobStability { job: self.key(), version: self.below(4), stable: self.chance(70) }.into(),
            19..=21 => UpdateEvals { evals: vec![self.eval(), self.eval()] }.into(),
            22 => ReapEvals {
                evals: vec![self.eval_id(), self.eval_id()],
                allocs: vec![self.alloc(), self.alloc()],
                user_initiated: self.chance(30),
            }
            .into(),
            23..=27 if self.chance(40) => self.work(state),
            23..=27 => self.plan(state).into(),
            28..=30 => self.client(state).into(),
            31 => SetDesiredTransitions {
                allocs: [(self.alloc(), DesiredTransition { migrate: Some(true), ..DesiredTransition::default() })]
                    .into(),
                evals: vec![self.eval()],
            }
            .into(),
            32 => UpdateDeploymentStatus {
                update: self.deployment_update(),
                versions_max: 3,
                ..UpdateDeploymentStatus::default()
            }
            .into(),
            33 => {
                let deployment_id = self.deployment();
                let allocs: Vec<AllocId> = state.allocs_of_deployment(deployment_id).map(|alloc| alloc.id).collect();
                let (healthy, unhealthy) = allocs.split_at(allocs.len() / 2);
                let (healthy, unhealthy) = (healthy.to_vec(), unhealthy.to_vec());
                SetDeploymentAllocHealth {
                    deployment_id,
                    healthy,
                    unhealthy,
                    timestamp: Time::from_nanos(8),
                    ..SetDeploymentAllocHealth::default()
                }
                .into()
            }
            38 => match self.below(5) {
                0 => AddScalingEvent { job: self.key(), group: "a".into(), event: ScalingEvent::default() }.into(),
                1 => {
                    DeleteServiceRegistration { namespace: "default".into(), id: format!("s{}", self.below(6)).into() }
                        .into()
                }
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
                1 => SetSchedulerConfig {
                    cas: self.chance(50).then(|| self.below(100)),
                    ..SetSchedulerConfig::default()
                }
                .into(),
                2 => SetClusterMetadata { cluster_id: self.pick(&["x", "y"]).into(), create_time: Time::from_nanos(2) }
                    .into(),
                3 => KeepAnswer { index: Some(0), body: "{}".into() }.into(),
                _ => ReconcileSummaries { queued: [(self.key(), [(Str::new("a"), 3)].into())].into() }.into(),
            },
            35..=37 => csi::command(self, state),
            _ => match self.below(4) {
                0 => {
                    UpsertNodePools { node_pools: vec![NodePool { name: "gpu".into(), ..NodePool::default() }] }.into()
                }
                1 => DeleteNodePools { names: vec!["gpu".into()] }.into(),
                2 => DeleteNamespaces { names: vec!["dev".into()] }.into(),
                _ => UpsertNamespaces { namespaces: vec![Namespace { name: "dev".into(), ..Namespace::default() }] }
                    .into(),
            },
        }
    }

    /// Deletes evaluations on a user's request, with the broker paused often enough.
    pub(super) fn work(&mut self, state: &State) -> Command {
        let slice = Slice { rows_max: 1 + self.below(3) as u32, looks_max: 1 + self.below(9) as u32 };
        match (self.below(9), state.work_under_way().next()) {
            (0..2, _) => {
                let pause_eval_broker = self.chance(80);
                let config = SchedulerConfiguration { pause_eval_broker, ..SchedulerConfiguration::default() };
                SetSchedulerConfig { config, cas: None }.into()
            }
            (2, Some(work)) => StopWork { work: work.id }.into(),
            (3.., Some(work)) => ContinueWork { work: work.id, slice }.into(),
            (_, _) if self.chance(50) => {
                DeleteEvals { choice: EvalChoice::Ids(vec![self.eval_id(), self.eval_id()]), slice }.into()
            }
            (_, _) => DeleteEvals { choice: EvalChoice::Filter("Priority != 7 or JobID == j1".into()), slice }.into(),
        }
    }

    pub(super) fn envelope(&mut self, state: &State, raft_index: u64) -> Envelope {
        let at = Time::from_secs((raft_index * 60 + self.below(300)).cast_signed());
        let mut envelope = Envelope::new(at, Actor::Leader("test".into()), self.command(state));
        if self.chance(15) {
            let key = format!("k{}", self.below(9)).into();
            envelope.idempotency =
                Some(Idempotency { key, body_hash: [self.below(2) as u8; 16], forwarded: self.chance(30) });
        }
        envelope
    }
}
