//! Task groups as submitted, and the policies that are merged from their job.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Affinity, NetworkResource, Service, Spread, Surroundings, Task, affinity_rows, canonicalize_affinities,
    canonicalize_spreads, non_empty, non_empty_map, nullable, rows, secs, spread_rows,
};
use crate::{Constraint, Consul, Dur, JobType, Str, VolumeRequest};

/// `TaskGroup` as submitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskGroup {
    pub name: Option<Str>,
    pub count: Option<i64>,
    pub constraints: Option<Vec<Constraint>>,
    pub affinities: Option<Vec<Affinity>>,
    pub tasks: Option<Vec<Task>>,
    pub spreads: Option<Vec<Spread>>,
    pub volumes: Option<BTreeMap<Str, VolumeRequest>>,
    pub restart_policy: Option<RestartPolicy>,
    pub reschedule_policy: Option<ReschedulePolicy>,
    pub ephemeral_disk: Option<EphemeralDisk>,
    pub update: Option<UpdateStrategy>,
    pub migrate: Option<MigrateStrategy>,
    pub networks: Option<Vec<NetworkResource>>,
    pub meta: Option<BTreeMap<Str, Str>>,
    pub services: Option<Vec<Service>>,
    pub shutdown_delay: Option<Dur>,
    pub stop_after_client_disconnect: Option<Dur>,
    pub max_client_disconnect: Option<Dur>,
    pub scaling: Option<ScalingPolicy>,
    pub consul: Option<Consul>,
}

nullable!(
    /// `UpdateStrategy` as submitted.
    UpdateStrategy => UpdateStrategy {
        stagger: Dur, max_parallel: i64, health_check: Str, min_healthy_time: Dur, healthy_deadline: Dur, progress_deadline: Dur,
        auto_revert: bool, auto_promote: bool, canary: i64,
    }
);
nullable!(
    /// `MigrateStrategy` as submitted.
    MigrateStrategy => MigrateStrategy { max_parallel: i64, health_check: Str, min_healthy_time: Dur, healthy_deadline: Dur }
);
nullable!(
    /// `RestartPolicy` as submitted.
    RestartPolicy => RestartPolicy { attempts: i64, interval: Dur, delay: Dur, mode: Str, render_templates: bool }
);
nullable!(
    /// `ReschedulePolicy` as submitted.
    ReschedulePolicy => ReschedulePolicy {
        attempts: i64, interval: Dur, delay: Dur, delay_function: Str, max_delay: Dur, unlimited: bool,
    }
);
nullable!(
    /// `EphemeralDisk` as submitted.
    EphemeralDisk => EphemeralDisk { sticky: bool, #[serde(rename = "SizeMB")] size_mb: i64, migrate: bool }
);

/// `ScalingPolicy` as submitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ScalingPolicy {
    #[serde(rename = "ID")]
    pub id: Str,
    pub namespace: Str,
    #[serde(rename = "Type")]
    pub kind: Str,
    pub target: Option<BTreeMap<Str, Str>>,
    pub policy: Option<BTreeMap<Str, Value>>,
    pub min: Option<i64>,
    pub max: Option<i64>,
    pub enabled: Option<bool>,
    pub create_index: u64,
    pub modify_index: u64,
}

impl TaskGroup {
    pub(crate) fn canonicalize(&mut self, job: &Surroundings) {
        self.name.get_or_insert_default();
        let least = self.scaling.as_ref().and_then(|scaling| scaling.min);
        let count = *self.count.get_or_insert(least.unwrap_or(DEFAULT_COUNT));
        if let Some(scaling) = &mut self.scaling {
            scaling.canonicalize(count);
        }
        self.ephemeral_disk = Some(self.ephemeral_disk.take().unwrap_or_default().or(EphemeralDisk::defaults()));
        let consul = self.consul.get_or_insert_default();
        if consul.namespace.is_empty() {
            consul.namespace = job.consul_namespace.clone();
        }
        self.canonicalize_policies(job);
        canonicalize_affinities(&mut self.affinities);
        canonicalize_spreads(&mut self.spreads);
        let default_name = format!("{}-{}", job.job_name, self.name.as_deref().unwrap_or_default());
        for service in self.services.iter_mut().flatten() {
            service.canonicalize(&default_name);
        }
        let restart = self.restart_policy.clone().unwrap_or_default();
        for task in self.tasks.iter_mut().flatten() {
            task.canonicalize(&default_name, &restart);
        }
    }

    /// The group's settings override the job's, and those the defaults of the job's type.
    fn canonicalize_policies(&mut self, job: &Surroundings) {
        self.update = match (self.update.take(), job.update.clone()) {
            (Some(own), Some(given)) => Some(own.or(given)),
            (own, given) => own.or(given.filter(|given| !given.is_empty())),
        }
        .map(|update| update.or(UpdateStrategy::defaults()));
        self.reschedule_policy = match (self.reschedule_policy.take(), job.reschedule.clone()) {
            (Some(own), Some(given)) => Some(own.or(given)),
            (own, given) => own.or(given),
        };
        if self.reschedule_policy.is_some() || job.kind != JobType::System {
            let own = self.reschedule_policy.take().unwrap_or_default();
            self.reschedule_policy = Some(own.or(ReschedulePolicy::defaults(&job.kind)));
        }
        self.migrate = match (self.migrate.take(), job.migrate.clone()) {
            (Some(own), Some(given)) => Some(own.or(given)),
            (own, given) => own.or(given),
        };
        if self.migrate.is_some() || job.kind == JobType::Service {
            self.migrate = Some(self.migrate.take().unwrap_or_default().or(MigrateStrategy::defaults()));
        }
        self.restart_policy =
            Some(self.restart_policy.take().unwrap_or_default().or(RestartPolicy::defaults(&job.kind)));
    }

    pub(crate) fn into_row(self, vault_namespace: &str) -> crate::TaskGroup {
        crate::TaskGroup {
            name: self.name.unwrap_or_default(),
            count: self.count.unwrap_or_default(),
            update: self.update.map(UpdateStrategy::into_row),
            migrate: self.migrate.map(MigrateStrategy::into_row),
            constraints: non_empty(self.constraints),
            scaling: self.scaling.map(ScalingPolicy::into_row),
            restart_policy: self.restart_policy.map(RestartPolicy::into_row),
            tasks: rows(self.tasks, |task| task.into_row(vault_namespace)),
            ephemeral_disk: self.ephemeral_disk.map(EphemeralDisk::into_row),
            meta: self.meta,
            reschedule_policy: self.reschedule_policy.map(ReschedulePolicy::into_row),
            affinities: affinity_rows(self.affinities),
            spreads: spread_rows(self.spreads),
            networks: rows(self.networks, NetworkResource::into_row),
            consul: self.consul,
            services: rows(self.services, Service::into_row),
            // Requests of any other type are dropped silently, as clients expect.
            volumes: non_empty_map(self.volumes.map(|volumes| {
                volumes.into_iter().filter(|(_, volume)| volume.kind == "host" || volume.kind == "csi").collect()
            })),
            shutdown_delay: self.shutdown_delay,
            stop_after_client_disconnect: self.stop_after_client_disconnect,
            max_client_disconnect: self.max_client_disconnect,
        }
    }
}

impl UpdateStrategy {
    /// Whether every field is zero or absent. Stored jobs without a strategy are shown with such a one, and clients
    /// send it back.
    fn is_empty(&self) -> bool {
        self.clone().into_row() == crate::UpdateStrategy::default()
    }

    pub(crate) fn defaults() -> Self {
        Self {
            stagger: secs(30),
            max_parallel: Some(1),
            health_check: Some("checks".into()),
            min_healthy_time: secs(10),
            healthy_deadline: secs(300),
            progress_deadline: secs(600),
            auto_revert: Some(false),
            auto_promote: Some(false),
            canary: Some(0),
        }
    }
}

impl MigrateStrategy {
    fn defaults() -> Self {
        Self {
            max_parallel: Some(1),
            health_check: Some("checks".into()),
            min_healthy_time: secs(10),
            healthy_deadline: secs(300),
        }
    }
}

impl RestartPolicy {
    fn defaults(kind: &JobType) -> Self {
        let (attempts, interval) = match kind {
            JobType::Service | JobType::System => (2, secs(1800)),
            JobType::Batch | JobType::SysBatch | JobType::Other(_) => (3, secs(86_400)),
        };
        Self {
            attempts: Some(attempts),
            interval,
            delay: secs(15),
            mode: Some("fail".into()),
            render_templates: Some(false),
        }
    }
}

impl ReschedulePolicy {
    fn defaults(kind: &JobType) -> Self {
        let (attempts, interval, delay, function, max_delay, unlimited) = match kind {
            JobType::Service => (0, 0, 30, "exponential", 3600, true),
            JobType::Batch => (1, 86_400, 5, "constant", 0, false),
            JobType::System | JobType::SysBatch | JobType::Other(_) => (0, 0, 0, "", 0, false),
        };
        Self {
            attempts: Some(attempts),
            interval: secs(interval),
            delay: secs(delay),
            delay_function: Some(function.into()),
            max_delay: secs(max_delay),
            unlimited: Some(unlimited),
        }
    }
}

impl EphemeralDisk {
    fn defaults() -> Self {
        Self { sticky: Some(false), size_mb: Some(300), migrate: Some(false) }
    }
}

/// Count of a group without one, unless its scaling policy has a minimum.
pub const DEFAULT_COUNT: i64 = 1;
/// Type of a group's scaling policy, the only one there is.
pub const GROUP_SCALING_TYPE: &str = "horizontal";
/// Maximum count of a policy without one; validation refuses it.
const MAX_ABSENT: i64 = -1;

impl ScalingPolicy {
    pub(crate) fn canonicalize(&mut self, count: i64) {
        self.enabled.get_or_insert(true);
        self.min.get_or_insert(count);
        if self.kind.is_empty() {
            self.kind = GROUP_SCALING_TYPE.into();
        }
    }

    pub(crate) fn into_row(self) -> crate::ScalingPolicy {
        crate::ScalingPolicy {
            id: self.id,
            kind: self.kind,
            target: self.target,
            policy: self.policy,
            min: self.min.unwrap_or_default(),
            max: self.max.unwrap_or(MAX_ABSENT),
            enabled: self.enabled.unwrap_or(true),
            create_index: 0,
            modify_index: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::spec::Job;

    #[test]
    fn a_stored_job_without_a_strategy_can_be_sent_back() {
        for kind in ["batch", "system", "sysbatch"] {
            let text = format!(r#"{{"ID": "a", "Type": {kind:?}, "TaskGroups": [{{"Name": "g"}}]}}"#);
            let mut job: Job = serde_json::from_str(&text).expect("a job");
            job.canonicalize();
            let stored = serde_json::to_string(&job.clone().into_row()).expect("a row");
            let mut again: Job = serde_json::from_str(&stored).expect("a job");
            again.canonicalize();
            assert_eq!(again.into_row(), job.into_row(), "{stored}");
        }
    }
}
