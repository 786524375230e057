//! Random commands about quotas. What quotas use equals a recount, and no plan or variable makes it grow above a
//! limit.

use std::sync::Arc;

use songline_commands::{
    Actor, Command, DeleteQuotaSpecs, Envelope, Kind, RegisterJob, UpsertNamespaces, UpsertQuotaSpecs,
};
use songline_model::{
    AllocatedDeviceResource, AllocatedResources, AllocatedTaskResources, Namespace, QuotaLimit, QuotaSpec,
    RequestedDevice, Resources, TaskLifecycleConfig, Time,
};

use super::{Dice, ENTRIES, SEEDS};
use crate::{State, apply};

impl Dice {
    pub(super) fn about_quotas(&mut self, state: &State) -> Command {
        let name = self.pick(&["gold", "iron"]);
        match self.below(6) {
            0 => DeleteQuotaSpecs { names: vec![name.into()] }.into(),
            1..=3 => self.quota(name).into(),
            _ => {
                let quota = if self.chance(60) && state.quota_spec(name).is_some() { name } else { "" };
                let name = self.pick(&["default", "dev"]).into();
                UpsertNamespaces { namespaces: vec![Namespace { name, quota: quota.into(), ..Namespace::default() }] }
                    .into()
            }
        }
    }

    /// Mostly jobs, plans, reports of nodes and variables, under quotas.
    fn with_quotas(&mut self, state: &State) -> Command {
        match self.below(12) {
            0 => self.about_quotas(state),
            1 => {
                let key = self.key();
                RegisterJob { job: Arc::new(self.job(&key)), versions_max: 3, ..RegisterJob::default() }.into()
            }
            2 => self.client(state).into(),
            3 | 4 => self.about_secrets(state),
            5 => self.command(state),
            _ => self.plan(state).into(),
        }
    }

    fn quota(&mut self, name: &str) -> UpsertQuotaSpecs {
        let mut bound = |sides| self.below(sides).cast_signed() - 1;
        let resources = Resources {
            cpu: bound(12) * 100,
            cores: bound(5),
            memory_mb: bound(12) * 100,
            memory_max_mb: bound(16) * 100,
            ..Resources::default()
        };
        let (allocations_limit, variables_limit) = (Some(bound(9)), Some(bound(3)));
        let device = RequestedDevice {
            name: self.pick(&["gpu", "nvidia/gpu", "nvidia/gpu/t4"]).into(),
            count: self.below(4),
            ..RequestedDevice::default()
        };
        let devices = self.chance(50).then(|| vec![device]);
        let limit = QuotaLimit {
            region: self.pick(&["global", "global", "eu"]).into(),
            region_limit: Some(Resources { devices, ..resources }),
            variables_limit,
            allocations_limit,
            hash: None,
        };
        let quota = QuotaSpec { name: name.into(), limits: Some(vec![limit]), ..QuotaSpec::default() };
        UpsertQuotaSpecs { quotas: vec![quota], region: "global".into() }
    }

    pub(super) fn resources(&mut self) -> Arc<AllocatedResources> {
        let mut resources = AllocatedResources::default();
        for name in ["a", "b"] {
            let mut task = AllocatedTaskResources::default();
            task.cpu.cpu_shares = self.pick(&[100, 200]);
            task.cpu.reserved_cores = self.chance(30).then(|| (0..self.below(3)).collect());
            task.memory.memory_mb = self.pick(&[50, 100]);
            task.memory.memory_max_mb = self.pick(&[0, 150]);
            task.devices = self.chance(30).then(|| {
                vec![AllocatedDeviceResource {
                    vendor: self.pick(&["nvidia", "amd"]).into(),
                    kind: "gpu".into(),
                    name: self.pick(&["t4", "h100"]).into(),
                    device_ids: Some(vec!["1".into()]),
                }]
            });
            resources.tasks.get_or_insert_default().insert(name.into(), task);
            let hook = self.pick(&["", "prestart", "poststop"]);
            let lifecycle =
                (!hook.is_empty()).then(|| TaskLifecycleConfig { hook: hook.into(), sidecar: self.chance(50) });
            resources.task_lifecycles.get_or_insert_default().insert(name.into(), lifecycle);
        }
        Arc::new(resources)
    }
}

#[test]
fn used_amounts_equal_a_recount_and_no_plan_or_variable_exceeds_a_limit() {
    let (mut limited, mut refused) = (0, 0);
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed + 7000);
        let mut state = State::new();
        for raft_index in 2..2 + ENTRIES {
            let envelope = Envelope::new(Time::default(), Actor::Anonymous, dice.with_quotas(&state));
            let before = state.clone();
            let applied = apply(&mut state, raft_index, &envelope);
            crate::quota::check::consistent(&state);
            if !matches!(envelope.command.kind(), Kind::ApplyPlanResults | Kind::VarApplyState) {
                continue;
            }
            refused += u64::from(applied.result.is_err_and(|why| why.to_string().contains("exceeded")));
            for spec in state.quota_specs() {
                let Some(limit) = spec.limit("global") else { continue };
                let used = |state: &State| state.quota_usage(&spec.name).expect("a quota has a row").used.clone();
                let exceeded = limit.exceeded(&used(&before), &used(&state));
                assert!(exceeded.is_empty(), "seed {}, entry {raft_index}: {exceeded:?}", seed + 7000);
                limited += u64::from(!used(&state).is_zero());
            }
        }
    }
    assert!(limited > 100 && refused > 100, "limits are met: {limited} writes, {refused} refused");
}
