//! Jobs as submitted: scalars may be absent, and some blocks (reschedule, migrate, update, check_restart) are given
//! once and merged downwards. [`Job::canonicalize`] fills in absent fields, [`Job::into_row`] makes the stored form.
//! Later additions by the servers, and the decision to accept the job, are in `job/`.

mod gateway;
mod group;
mod resources;
mod service;
mod task;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

pub use gateway::*;
pub use group::*;
pub use resources::*;
pub use service::*;
pub use task::*;

use crate::{Blob, Constraint, Dur, JobType, ParameterizedJobConfig, Secret, SpreadTarget, Str};

/// Defines a struct whose fields may all be absent, the merge of two such structs, and the conversion to the stored
/// row.
macro_rules! nullable {
    ($(#[$doc:meta])* $name:ident => $row:ident { $($(#[$attr:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(default, rename_all = "PascalCase")]
        pub struct $name {
            $($(#[$attr])* pub $field: Option<$type>,)*
        }

        impl $name {
            /// Fills absent fields from `defaults`.
            #[must_use]
            pub fn or(self, defaults: Self) -> Self {
                Self { $($field: self.$field.or(defaults.$field),)* }
            }

            /// The stored form; absent fields are zero.
            pub fn into_row(self) -> $crate::$row {
                $crate::$row { $($field: self.$field.unwrap_or_default(),)* }
            }
        }
    };
}
pub(crate) use nullable;

/// The region of a job without one.
pub const DEFAULT_REGION: &str = "global";
/// The priority of a job without one; 0 becomes it when the job is stored.
pub const DEFAULT_PRIORITY: i64 = 50;

/// `Job` as submitted; its stored form is [`crate::Job`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Job {
    pub region: Option<Str>,
    pub namespace: Option<Str>,
    #[serde(rename = "ID")]
    pub id: Option<Str>,
    pub name: Option<Str>,
    #[serde(rename = "Type")]
    pub kind: Option<Str>,
    pub priority: Option<i64>,
    pub all_at_once: Option<bool>,
    pub datacenters: Option<Vec<Str>>,
    pub node_pool: Option<Str>,
    pub constraints: Option<Vec<Constraint>>,
    pub affinities: Option<Vec<Affinity>>,
    pub task_groups: Option<Vec<TaskGroup>>,
    pub update: Option<UpdateStrategy>,
    pub multiregion: Option<Multiregion>,
    pub spreads: Option<Vec<Spread>>,
    pub periodic: Option<PeriodicConfig>,
    pub parameterized_job: Option<ParameterizedJobConfig>,
    pub reschedule: Option<ReschedulePolicy>,
    pub migrate: Option<MigrateStrategy>,
    pub meta: Option<BTreeMap<Str, Str>>,
    // Kept here, because the response to a parse request repeats the tokens of the job file.
    #[serde(serialize_with = "revealed")]
    pub consul_token: Option<Secret>,
    #[serde(serialize_with = "revealed")]
    pub vault_token: Option<Secret>,
    pub stop: Option<bool>,
    #[serde(rename = "ParentID")]
    pub parent_id: Option<Str>,
    pub dispatched: bool,
    pub dispatch_idempotency_token: Option<Str>,
    pub payload: Option<Blob>,
    pub consul_namespace: Option<Str>,
    pub vault_namespace: Option<Str>,
    #[serde(rename = "NomadTokenID")]
    pub nomad_token_id: Option<Str>,
    pub status: Option<Str>,
    pub status_description: Option<Str>,
    pub stable: Option<bool>,
    pub version: Option<u64>,
    pub submit_time: Option<i64>,
    pub create_index: Option<u64>,
    pub modify_index: Option<u64>,
    pub job_modify_index: Option<u64>,
}

nullable!(
    /// `PeriodicConfig` as submitted.
    PeriodicConfig => PeriodicConfig {
        enabled: bool, spec: Str, specs: PeriodicSpecs, spec_type: Str, prohibit_overlap: bool, time_zone: Str,
    }
);

type PeriodicSpecs = Option<Vec<Str>>;

/// `Multiregion` as submitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Multiregion {
    pub strategy: Option<MultiregionStrategy>,
    pub regions: Option<Vec<MultiregionRegion>>,
}

nullable!(
    /// `MultiregionStrategy` as submitted.
    MultiregionStrategy => MultiregionStrategy { max_parallel: i64, on_failure: Str }
);

/// `MultiregionRegion` as submitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct MultiregionRegion {
    pub name: Str,
    pub count: Option<i64>,
    pub datacenters: Option<Vec<Str>>,
    pub node_pool: Str,
    pub meta: Option<BTreeMap<Str, Str>>,
}

/// `Affinity` as submitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Affinity {
    pub l_target: Str,
    pub r_target: Str,
    pub operand: Str,
    pub weight: Option<i8>,
}

/// `Spread` as submitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Spread {
    pub attribute: Str,
    pub weight: Option<i8>,
    pub spread_target: Option<Vec<SpreadTarget>>,
}

impl Job {
    /// The scheduler type, with the default for an absent one.
    pub fn job_type(&self) -> JobType {
        self.kind.as_deref().map_or(JobType::Service, JobType::from)
    }

    /// Fills in absent fields. Idempotent.
    pub fn canonicalize(&mut self) {
        let id = self.id.get_or_insert_default().clone();
        self.name.get_or_insert(id);
        for text in [&mut self.parent_id, &mut self.node_pool, &mut self.consul_namespace, &mut self.vault_namespace] {
            text.get_or_insert_default();
        }
        for text in [&mut self.nomad_token_id, &mut self.status, &mut self.status_description] {
            text.get_or_insert_default();
        }
        self.namespace.get_or_insert_with(|| crate::DEFAULT_NAMESPACE.into());
        self.priority.get_or_insert(DEFAULT_PRIORITY);
        self.stop.get_or_insert_default();
        self.region.get_or_insert_with(|| DEFAULT_REGION.into());
        self.kind.get_or_insert_with(|| "service".into());
        self.all_at_once.get_or_insert_default();
        self.consul_token.get_or_insert_default();
        self.vault_token.get_or_insert_default();
        self.stable.get_or_insert_default();
        self.version.get_or_insert_default();
        self.create_index.get_or_insert_default();
        self.modify_index.get_or_insert_default();
        self.job_modify_index.get_or_insert_default();
        if let Some(periodic) = &mut self.periodic {
            *periodic = std::mem::take(periodic).or(PeriodicConfig::defaults());
        }
        let kind = self.job_type();
        self.update = match self.update.take() {
            Some(update) => Some(update.or(UpdateStrategy::defaults())),
            None => (kind == JobType::Service).then(UpdateStrategy::defaults),
        };
        if let Some(multiregion) = &mut self.multiregion {
            multiregion.canonicalize();
        }
        canonicalize_affinities(&mut self.affinities);
        canonicalize_spreads(&mut self.spreads);
        let around = Surroundings {
            job_name: self.name.clone().unwrap_or_default(),
            kind,
            update: self.update.clone(),
            reschedule: self.reschedule.clone(),
            migrate: self.migrate.clone(),
            consul_namespace: self.consul_namespace.clone().unwrap_or_default(),
        };
        for group in self.task_groups.iter_mut().flatten() {
            group.canonicalize(&around);
        }
    }

    /// The stored form. Fields that only servers may set are dropped: status, version, times, indexes, parent, owner.
    pub fn into_row(self) -> crate::Job {
        let kind = self.job_type();
        let vault_namespace = self.vault_namespace.unwrap_or_default();
        crate::Job {
            stop: self.stop.unwrap_or_default(),
            region: self.region.unwrap_or_default(),
            namespace: self.namespace.unwrap_or_default().into(),
            id: self.id.unwrap_or_default().into(),
            name: self.name.unwrap_or_default(),
            kind,
            priority: self.priority.filter(|priority| *priority != 0).unwrap_or(DEFAULT_PRIORITY),
            all_at_once: self.all_at_once.unwrap_or_default(),
            datacenters: self.datacenters,
            node_pool: self.node_pool.unwrap_or_default().into(),
            constraints: non_empty(self.constraints),
            affinities: affinity_rows(self.affinities),
            spreads: spread_rows(self.spreads),
            task_groups: rows(self.task_groups, |group| group.into_row(&vault_namespace)),
            // The rest of the strategy was merged into the groups.
            update: self
                .update
                .filter(|update| update.max_parallel.is_some_and(|max| max > 0))
                .map(|update| crate::UpdateStrategy {
                    stagger: update.stagger.unwrap_or_default(),
                    max_parallel: update.max_parallel.unwrap_or_default(),
                    ..Default::default()
                })
                .unwrap_or_default(),
            multiregion: self.multiregion.map(Multiregion::into_row),
            periodic: self.periodic.map(PeriodicConfig::into_row),
            parameterized_job: self.parameterized_job,
            payload: self.payload,
            meta: self.meta,
            consul_token: self.consul_token.unwrap_or_default(),
            vault_token: self.vault_token.unwrap_or_default(),
            vault_namespace,
            ..Default::default()
        }
    }
}

/// Values that a group and its tasks take from their job.
pub(crate) struct Surroundings {
    pub(crate) job_name: Str,
    pub(crate) kind: JobType,
    pub(crate) update: Option<UpdateStrategy>,
    pub(crate) reschedule: Option<ReschedulePolicy>,
    pub(crate) migrate: Option<MigrateStrategy>,
    pub(crate) consul_namespace: Str,
}

impl PeriodicConfig {
    fn defaults() -> Self {
        Self {
            enabled: Some(true),
            spec: Some(Str::default()),
            specs: Some(Some(Vec::new())),
            spec_type: Some("cron".into()),
            prohibit_overlap: Some(false),
            time_zone: Some("UTC".into()),
        }
    }
}

impl Multiregion {
    fn canonicalize(&mut self) {
        let zero = MultiregionStrategy { max_parallel: Some(0), on_failure: Some(Str::default()) };
        self.strategy = Some(self.strategy.take().unwrap_or_default().or(zero));
        for region in self.regions.get_or_insert_default() {
            region.count.get_or_insert(1);
            region.datacenters.get_or_insert_default();
            region.meta.get_or_insert_default();
        }
    }

    fn into_row(self) -> crate::Multiregion {
        crate::Multiregion {
            strategy: self.strategy.map(MultiregionStrategy::into_row),
            regions: self.regions.map(|regions| {
                regions
                    .into_iter()
                    .map(|region| crate::MultiregionRegion {
                        name: region.name,
                        count: region.count.unwrap_or_default(),
                        datacenters: region.datacenters,
                        node_pool: region.node_pool,
                        meta: region.meta,
                    })
                    .collect()
            }),
        }
    }
}

/// The weight of affinities and spreads without one.
const DEFAULT_WEIGHT: i8 = 50;

pub(crate) fn canonicalize_affinities(affinities: &mut Option<Vec<Affinity>>) {
    for affinity in affinities.iter_mut().flatten() {
        affinity.weight.get_or_insert(DEFAULT_WEIGHT);
    }
}

pub(crate) fn canonicalize_spreads(spreads: &mut Option<Vec<Spread>>) {
    for spread in spreads.iter_mut().flatten() {
        spread.weight.get_or_insert(DEFAULT_WEIGHT);
    }
}

pub(crate) fn affinity_rows(affinities: Option<Vec<Affinity>>) -> Option<Vec<crate::Affinity>> {
    rows(affinities, |affinity| crate::Affinity {
        l_target: affinity.l_target,
        r_target: affinity.r_target,
        operand: affinity.operand,
        weight: affinity.weight.unwrap_or_default().into(),
    })
}

pub(crate) fn spread_rows(spreads: Option<Vec<Spread>>) -> Option<Vec<crate::Spread>> {
    rows(spreads, |spread| crate::Spread {
        attribute: spread.attribute,
        weight: spread.weight.unwrap_or_default().into(),
        spread_target: non_empty(spread.spread_target),
    })
}

/// The stored rows of a list; an empty list becomes `None`.
pub(crate) fn rows<T, R>(list: Option<Vec<T>>, row: impl FnMut(T) -> R) -> Option<Vec<R>> {
    non_empty(list).map(|list| list.into_iter().map(row).collect())
}

/// The list; `None` if it is empty.
pub(crate) fn non_empty<T>(list: Option<Vec<T>>) -> Option<Vec<T>> {
    list.filter(|list| !list.is_empty())
}

/// The map; `None` if it is empty.
pub(crate) fn non_empty_map<K, V>(map: Option<BTreeMap<K, V>>) -> Option<BTreeMap<K, V>> {
    map.filter(|map| !map.is_empty())
}

fn revealed<S: Serializer>(secret: &Option<Secret>, s: S) -> Result<S::Ok, S::Error> {
    secret.as_ref().map(Secret::reveal).serialize(s)
}

/// A duration of `n` seconds, for defaults.
pub(crate) const fn secs(n: i64) -> Option<Dur> {
    Some(Dur::from_secs(n))
}
