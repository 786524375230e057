//! Golden bytes: every command has its bytes in `golden/`, and they still decode to the same command.

use songline_model::*;

use crate::*;

mod acl;

fn sample(kind: Kind) -> Command {
    let job = Job { id: "web".into(), namespace: "default".into(), name: "web".into(), priority: 50, ..Job::default() };
    let eval =
        Evaluation { id: EvalId::from_bytes([7; 16]), job_id: "web".into(), priority: 50, ..Evaluation::default() };
    let node_id = NodeId::from_bytes([1; 16]);
    let event = Some(NodeEvent { message: "m".into(), subsystem: "Cluster".into(), ..NodeEvent::default() });
    match kind {
        Kind::NodeRegister => RegisterNode {
            node: Node { id: node_id, secret_id: Secret::new("s3cret"), name: "n1".into(), ..Node::default() },
            create_node_pool: true,
        }
        .into(),
        Kind::NodeDeregister => DeregisterNode { node_id }.into(),
        Kind::NodeUpdateStatus => {
            UpdateNodeStatus { node_id, status: NodeStatus::Ready, event, updated_at: UnixSecs(1_700_000_000) }.into()
        }
        Kind::NodeUpdateDrain => UpdateNodeDrain {
            node_id,
            drain_strategy: Some(DrainStrategy { deadline: Dur::from_hours(1), ..DrainStrategy::default() }),
            event,
            ..UpdateNodeDrain::default()
        }
        .into(),
        Kind::JobRegister => {
            RegisterJob { job: job.into(), eval: Some(eval), versions_max: 6, ..RegisterJob::default() }.into()
        }
        Kind::JobDeregister => {
            DeregisterJob { job: job.key(), purge: true, eval: Some(eval), ..DeregisterJob::default() }.into()
        }
        Kind::EvalUpdate => UpdateEvals { evals: vec![eval] }.into(),
        Kind::EvalReap => {
            ReapEvals { evals: vec![eval.id], allocs: vec![AllocId::from_bytes([2; 16])], user_initiated: true }.into()
        }
        Kind::AllocClientUpdate => UpdateAllocsFromClient {
            allocs: vec![ClientAlloc {
                id: AllocId::from_bytes([2; 16]),
                node_id,
                client_status: AllocClientStatus::Running,
                ..ClientAlloc::default()
            }],
            evals: vec![eval],
        }
        .into(),
        Kind::ReconcileJobSummaries => {
            ReconcileSummaries { queued: [(job.key(), [(Str::new("g"), 3)].into())].into() }.into()
        }
        Kind::ApplyPlanResults => ApplyPlan {
            updated: vec![
                Allocation { id: AllocId::from_bytes([2; 16]), node_id: Some(node_id), ..Allocation::default() }.into(),
            ],
            stopped: vec![StopAlloc {
                id: AllocId::from_bytes([3; 16]),
                desired_description: "gone".into(),
                ..StopAlloc::default()
            }],
            job: Some(job.into()),
            eval_id: eval.id,
            ..ApplyPlan::default()
        }
        .into(),
        Kind::DeploymentStatusUpdate => UpdateDeploymentStatus {
            update: DeploymentStatusUpdate {
                deployment_id: DeploymentId::from_bytes([4; 16]),
                status: DeploymentStatus::Failed,
                status_description: "Deployment marked as failed".into(),
            },
            ..UpdateDeploymentStatus::default()
        }
        .into(),
        Kind::DeploymentAllocHealth => SetDeploymentAllocHealth {
            deployment_id: DeploymentId::from_bytes([4; 16]),
            healthy: vec![AllocId::from_bytes([2; 16])],
            timestamp: Time::from_nanos(5),
            ..SetDeploymentAllocHealth::default()
        }
        .into(),
        Kind::DeploymentDelete => DeleteDeployments { ids: vec![DeploymentId::from_bytes([4; 16])] }.into(),
        Kind::JobStability => SetJobStability { job: job.key(), version: 3, stable: true }.into(),
        Kind::AclPolicyUpsert => UpsertAclPolicies { policies: vec![acl::policy()] }.into(),
        Kind::AclPolicyDelete => DeleteAclPolicies { names: vec!["readers".into()] }.into(),
        Kind::AclTokenUpsert => UpsertAclTokens { tokens: vec![acl::token()] }.into(),
        Kind::AclTokenDelete => DeleteAclTokens { accessor_ids: vec![acl::token().accessor_id] }.into(),
        Kind::AclTokenBootstrap => BootstrapAclToken { token: acl::token(), reset_index: 17 }.into(),
        Kind::Autopilot => SetAutopilotConfig { config: AutopilotConfig::initial(), cas: Some(4) }.into(),
        Kind::OneTimeTokenUpsert => UpsertOneTimeToken { token: acl::one_time_token() }.into(),
        Kind::OneTimeTokenDelete => {
            DeleteOneTimeTokens { accessor_ids: vec![acl::token().accessor_id], exchanged: Some(9) }.into()
        }
        Kind::OneTimeTokenExpire => ExpireOneTimeTokens { timestamp: Time::from_secs(1_700_000_000) }.into(),
        Kind::AclRolesUpsert => UpsertAclRoles { roles: vec![acl::role()], allow_missing_policies: true }.into(),
        Kind::AclRolesDelete => DeleteAclRoles { ids: vec![acl::role().id] }.into(),
        Kind::AclAuthMethodsUpsert => UpsertAclAuthMethods { auth_methods: vec![acl::auth_method()] }.into(),
        Kind::AclAuthMethodsDelete => DeleteAclAuthMethods { names: vec!["corp".into()] }.into(),
        Kind::AclBindingRulesUpsert => {
            UpsertAclBindingRules { binding_rules: vec![acl::binding_rule()], allow_missing_auth_methods: true }.into()
        }
        Kind::AclBindingRulesDelete => DeleteAclBindingRules { ids: vec![acl::binding_rule().id] }.into(),
        Kind::UpsertNodeEvents => AddNodeEvents { events: [(node_id, event.into_iter().collect())].into() }.into(),
        Kind::JobBatchDeregister => {
            DeregisterJobs { jobs: [(job.key(), true)].into(), evals: vec![eval], ..DeregisterJobs::default() }.into()
        }
        Kind::AllocUpdateDesiredTransition => SetDesiredTransitions {
            allocs: [(
                AllocId::from_bytes([2; 16]),
                DesiredTransition { migrate: Some(true), ..DesiredTransition::default() },
            )]
            .into(),
            evals: vec![eval],
        }
        .into(),
        Kind::NodeUpdateEligibility => {
            UpdateNodeEligibility { node_id, eligibility: Eligibility::Ineligible, event, updated_at: UnixSecs(9) }
                .into()
        }
        Kind::BatchNodeUpdateDrain => {
            FinishNodeDrains { node_ids: vec![node_id], event, updated_at: UnixSecs(9) }.into()
        }
        Kind::SchedulerConfig => SetSchedulerConfig { cas: Some(4), ..SetSchedulerConfig::default() }.into(),
        Kind::NodeBatchDeregister => DeregisterNodes { node_ids: vec![node_id] }.into(),
        Kind::ClusterMetadata => SetClusterMetadata { cluster_id: "c".into(), create_time: Time::from_nanos(1) }.into(),
        Kind::CSIVolumeRegister => RegisterCsiVolumes { volumes: vec![csi_volume()] }.into(),
        Kind::CSIVolumeDeregister => {
            DeregisterCsiVolumes { namespace: "default".into(), ids: vec!["disk".into()], force: true }.into()
        }
        Kind::CSIVolumeClaim => csi_claim().into(),
        Kind::CSIVolumeClaimBatch => ClaimCsiVolumes { claims: vec![csi_claim(), ClaimCsiVolume::default()] }.into(),
        Kind::CSIPluginDelete => DeleteCsiPlugin { id: "ebs".into() }.into(),
        Kind::VarApplyState => ApplyVariable {
            op: VariableOp::Cas,
            var: Variable {
                meta: VariableMetadata {
                    namespace: "default".into(),
                    path: "app/db".into(),
                    modify_index: 7,
                    create_time: Time::from_nanos(1),
                    modify_time: Time::from_nanos(1),
                    ..VariableMetadata::default()
                },
                encrypted: VariableData { data: Sealed(vec![1, 2, 3]), key_id: RootKeyId::from_bytes([6; 16]) },
            },
        }
        .into(),
        Kind::RootKeyMetaUpsert => UpsertRootKey {
            meta: RootKeyMeta {
                key_id: RootKeyId::from_bytes([6; 16]),
                algorithm: ROOT_KEY_ALGORITHM.into(),
                create_time: Time::from_nanos(1),
                state: RootKeyState::Active,
                ..RootKeyMeta::default()
            },
            wrapped: WrappedKey { wrapped_by: "0011223344556677".into(), material: Sealed(vec![4, 5, 6]) },
            rekey: true,
        }
        .into(),
        Kind::RootKeyMetaDelete => DeleteRootKey { key_id: RootKeyId::from_bytes([6; 16]), unused_only: true }.into(),
        Kind::DeploymentPromote => PromoteDeployment {
            deployment_id: DeploymentId::from_bytes([4; 16]),
            groups: vec!["g".into()],
            eval: Some(eval),
            ..PromoteDeployment::default()
        }
        .into(),
        Kind::ScalingEventRegister => AddScalingEvent {
            job: job.key(),
            group: "g".into(),
            event: ScalingEvent {
                time: Time::from_nanos(5),
                count: Some(3),
                previous_count: 1,
                message: "more".into(),
                ..ScalingEvent::default()
            },
        }
        .into(),
        Kind::ServiceRegistrationUpsert => UpsertServiceRegistrations {
            services: vec![ServiceRegistration {
                id: "s".into(),
                service_name: "web".into(),
                port: 80,
                ..ServiceRegistration::default()
            }],
        }
        .into(),
        Kind::ServiceRegistrationDeleteById => {
            DeleteServiceRegistration { namespace: "default".into(), id: "s".into() }.into()
        }
        Kind::ServiceRegistrationDeleteByNodeId => DeleteServiceRegistrationsOfNode { node_id }.into(),
        Kind::NodePoolUpsert => {
            UpsertNodePools { node_pools: vec![NodePool { name: "gpu".into(), ..NodePool::default() }] }.into()
        }
        Kind::NodePoolDelete => DeleteNodePools { names: vec!["gpu".into()] }.into(),
        Kind::NamespaceUpsert => {
            UpsertNamespaces { namespaces: vec![Namespace { name: "dev".into(), ..Namespace::default() }] }.into()
        }
        Kind::QuotaSpecUpsert => {
            let resources = Resources { cpu: 500, memory_mb: 256, ..Resources::default() };
            let limit = QuotaLimit {
                region: "global".into(),
                region_limit: Some(resources),
                variables_limit: Some(2),
                allocations_limit: Some(-1),
                hash: Some(Blob(vec![1, 2])),
            };
            let quota = QuotaSpec { name: "gold".into(), limits: Some(vec![limit]), ..QuotaSpec::default() };
            UpsertQuotaSpecs { quotas: vec![quota], region: "global".into() }.into()
        }
        Kind::QuotaSpecDelete => DeleteQuotaSpecs { names: vec!["gold".into()] }.into(),
        Kind::EventSinkUpsert => {
            let sink = EventSink {
                id: "hook".into(),
                address: "https://example.com/events".into(),
                namespace: "*".into(),
                topics: [("Job".into(), vec!["web".into()])].into(),
                filter: "Type != JobDeregistered".into(),
                full: true,
                secret: Secret::new("s3cret"),
                headers: [("Authorization".into(), Secret::new("Bearer s3cret"))].into(),
                batch_size: 100,
                ..EventSink::default()
            };
            UpsertEventSinks { sinks: vec![sink], position: Some(7) }.into()
        }
        Kind::EventSinkDelete => DeleteEventSinks { names: vec!["hook".into()] }.into(),
        Kind::EventSinkProgress => MoveEventSink {
            name: "hook".into(),
            change: EventSinkChange::Delivered { run: 7, position: 9, delivered: 3, gaps: 0 },
        }
        .into(),
        Kind::NamespaceDelete => DeleteNamespaces { names: vec!["dev".into()] }.into(),
        Kind::Restore => {
            RestoreArchive { archive: Blob(vec![1, 2, 3]), digest: "ab".into(), ..RestoreArchive::default() }.into()
        }
        Kind::Digest => {
            CheckDigest { schema: 1, through: 10_000, total: Blob(vec![9; 16]), ..CheckDigest::default() }.into()
        }
        Kind::WorkContinue => ContinueWork { work: WorkId(77), slice: Slice::of_rows(500) }.into(),
        Kind::EvalDelete => {
            DeleteEvals { choice: EvalChoice::Filter("Status == \"complete\"".into()), slice: Slice::of_rows(100) }
                .into()
        }
        Kind::WorkStop => StopWork { work: WorkId(77) }.into(),
        Kind::AnswerKeep => KeepAnswer { index: Some(0), body: "{}".into() }.into(),
    }
}

fn csi_volume() -> CsiVolume {
    let capability = CsiVolumeCapability {
        attachment_mode: CsiAttachmentMode::FileSystem,
        access_mode: CsiAccessMode::SingleNodeWriter,
    };
    CsiVolume {
        id: "disk".into(),
        namespace: "default".into(),
        plugin_id: "ebs".into(),
        secrets: CsiSecrets::new([(Str::new("key"), Str::new("s3cret"))].into()),
        mount_options: Some(CsiVolumeMountOptions {
            fs_type: "ext4".into(),
            mount_flags: CsiMountFlags::new(vec!["noatime".into()]),
        }),
        requested_capabilities: Some(vec![capability]),
        requested_capacity_min: 1 << 30,
        ..CsiVolume::default()
    }
}

fn csi_claim() -> ClaimCsiVolume {
    ClaimCsiVolume {
        volume: CsiVolumeKey::new("default", "disk"),
        claim: CsiVolumeClaim {
            allocation_id: AllocId::from_bytes([2; 16]),
            node_id: NodeId::from_bytes([1; 16]),
            external_node_id: "i-1".into(),
            mode: CsiClaimMode::Write,
            access_mode: CsiAccessMode::SingleNodeWriter,
            attachment_mode: CsiAttachmentMode::FileSystem,
            state: CsiClaimState::NodeDetached,
        },
    }
}

fn envelope(kind: Kind) -> Envelope {
    Envelope {
        schema: kind.schema(),
        at: Time::from_nanos(1_700_000_000_123_456_789),
        actor: Actor::Accessor("3d2a".into()),
        cause: Some(Cause::new(41, Kind::JobRegister)),
        idempotency: Some(Idempotency { key: "once".into(), body_hash: [5; 16], forwarded: false }),
        command: sample(kind),
    }
}

/// Path of the golden bytes of a kind's schema. The file of schema 1 has no schema in its name.
fn golden(kind: Kind, schema: u16) -> String {
    let version = if schema == 1 { String::new() } else { format!("-{schema}") };
    format!("{}/golden/{:04}-{}{version}.msgpack", env!("CARGO_MANIFEST_DIR"), kind.number(), kind.name())
}

#[test]
#[allow(clippy::disallowed_methods, reason = "golden bytes are files, and a test may read them")]
fn every_command_decodes_the_golden_bytes_of_every_released_schema() {
    for &kind in Kind::ALL {
        let newest = golden(kind, kind.schema());
        if !std::path::Path::new(&newest).exists() && std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&newest, envelope(kind).encode().expect("encodes")).expect("writes a new golden file");
        }
        for schema in 1..=kind.schema() {
            let path = golden(kind, schema);
            let bytes =
                std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}; UPDATE_GOLDEN=1 adds the newest one"));
            let expected = Envelope { schema, ..envelope(kind) };
            assert_eq!(
                Envelope::decode(&bytes).expect("decodes"),
                expected,
                "schema {schema} of {} means what it meant",
                kind.name()
            );
        }
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "golden bytes are files, and a test may read them")]
fn restore_that_renews_allocs_has_golden_bytes_of_its_own() {
    let path = format!("{}/golden/1000-Restore-renews-allocs.msgpack", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(&path).expect("is there");
    let Command::Restore(older) = sample(Kind::Restore) else { panic!("it restores") };
    assert!(!older.renews_allocs, "entries of earlier versions change no rows of the archive");
    let newer = RestoreArchive { renews_allocs: true, ..older };
    let expected = Envelope { command: newer.into(), ..envelope(Kind::Restore) };
    assert_eq!(Envelope::decode(&bytes).expect("decodes"), expected);
    assert_eq!(expected.encode().expect("encodes"), bytes);
}

#[test]
fn every_migrated_command_kind_exists() {
    let kinds = songline_migrations::subjects().filter_map(|of| match of {
        songline_migrations::Subject::Command(kind) => Some(kind),
        songline_migrations::Subject::Table(_) => None,
    });
    for kind in kinds {
        assert!(Kind::from_number(kind).is_some(), "command {kind}");
    }
}

#[test]
fn written_commands_are_read_back() {
    for &kind in Kind::ALL {
        let bytes = envelope(kind).encode().expect("encodes");
        assert_eq!(Envelope::decode(&bytes).expect("decodes"), envelope(kind));
        assert_eq!(Envelope::kind_of(&bytes).expect("decodes"), kind);
    }
}

#[test]
fn an_unknown_kind_is_refused() {
    let mut value: std::collections::BTreeMap<String, serde_json::Value> = std::collections::BTreeMap::new();
    for (key, number) in [("schema", 1), ("kind", 999), ("at", 0)] {
        value.insert(key.into(), number.into());
    }
    value.insert("actor".into(), "Anonymous".into());
    value.insert("body".into(), "".into());
    let bytes = rmp_serde::to_vec_named(&value).expect("encodes");
    assert!(matches!(Envelope::decode(&bytes), Err(DecodeError::UnknownKind(999))));
}

#[test]
fn volume_secrets_are_in_the_log_and_hidden_in_debug_and_json() {
    let command = sample(Kind::CSIVolumeRegister);
    let bytes = envelope(Kind::CSIVolumeRegister).encode().expect("encodes");
    assert!(String::from_utf8_lossy(&bytes).contains("s3cret"));
    for hidden in ["s3cret", "noatime"] {
        assert!(!format!("{command:?} {}", command.to_json()).contains(hidden), "{hidden}");
    }
}

#[test]
fn secrets_of_event_sinks_are_in_the_log_and_hidden_in_debug_and_json() {
    let command = sample(Kind::EventSinkUpsert);
    let bytes = envelope(Kind::EventSinkUpsert).encode().expect("encodes");
    assert_eq!(String::from_utf8_lossy(&bytes).matches("s3cret").count(), 2);
    assert!(!format!("{command:?} {}", command.to_json()).contains("s3cret"));
}

#[test]
fn ciphertexts_and_wrapped_keys_are_hidden_in_debug_and_json() {
    for kind in [Kind::VarApplyState, Kind::RootKeyMetaUpsert] {
        let shown = format!("{:?} {}", sample(kind), sample(kind).to_json());
        assert!(
            !shown.contains("AQID")
                && !shown.contains("BAUG")
                && !shown.contains("1, 2, 3")
                && !shown.contains("4, 5, 6"),
            "{shown}"
        );
    }
}
