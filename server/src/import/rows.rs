//! Records as rows: what each type byte is, and what a row of 1.6 becomes here.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use songline_model::*;
use songline_projections::{AclBootstrap, ClusterMetadata, Importer, Noun, Table, tables};
use songline_rpc::message::WireAlloc;
use songline_rpc::msgpack;

use super::carried::Losses;
use super::forms::{FlatVariable, TableIndex};
use super::records::Record;
use super::{ImportError, Imported, Options, RootKeys, payload};

const NODE: u8 = 0;
const JOB: u8 = 1;
const INDEX: u8 = 2;
const EVAL: u8 = 3;
const ALLOC: u8 = 4;
const TIME_TABLE: u8 = 5;
const PERIODIC_LAUNCH: u8 = 6;
const JOB_SUMMARY: u8 = 7;
const VAULT_ACCESSOR: u8 = 8;
const JOB_VERSION: u8 = 9;
const DEPLOYMENT: u8 = 10;
const ACL_POLICY: u8 = 11;
const ACL_TOKEN: u8 = 12;
const SCHEDULER_CONFIG: u8 = 13;
const CLUSTER_METADATA: u8 = 14;
const CONSUL_ACCESSOR: u8 = 15;
const SCALING_POLICY: u8 = 16;
const CSI_PLUGIN: u8 = 17;
const CSI_VOLUME: u8 = 18;
const SCALING_EVENTS: u8 = 19;
const SERVICE_REGISTRATION: u8 = 21;
const VARIABLE: u8 = 22;
const VARIABLES_QUOTA: u8 = 23;
const ROOT_KEY_META: u8 = 24;
const ACL_ROLE: u8 = 25;
const ACL_AUTH_METHOD: u8 = 26;
const ACL_BINDING_RULE: u8 = 27;
const NODE_POOL: u8 = 28;
const NAMESPACE: u8 = 64;

/// Name of a record type for users.
pub(super) fn name(kind: u8) -> &'static str {
    match kind {
        NODE => "node",
        JOB => "job",
        INDEX => "index",
        EVAL => "evaluation",
        ALLOC => "allocation",
        TIME_TABLE => "time table",
        PERIODIC_LAUNCH => "periodic launch",
        JOB_SUMMARY => "job summary",
        VAULT_ACCESSOR => "Vault accessor",
        JOB_VERSION => "job version",
        DEPLOYMENT => "deployment",
        ACL_POLICY => "ACL policy",
        ACL_TOKEN => "ACL token",
        SCHEDULER_CONFIG => "scheduler configuration",
        CLUSTER_METADATA => "cluster metadata",
        CONSUL_ACCESSOR => "Consul accessor",
        SCALING_POLICY => "scaling policy",
        CSI_PLUGIN => "CSI plugin",
        CSI_VOLUME => "CSI volume",
        SCALING_EVENTS => "scaling events",
        SERVICE_REGISTRATION => "service registration",
        VARIABLE => "variable",
        VARIABLES_QUOTA => "size of variables",
        ROOT_KEY_META => "root key",
        ACL_ROLE => "ACL role",
        ACL_AUTH_METHOD => "ACL auth method",
        ACL_BINDING_RULE => "ACL binding rule",
        NODE_POOL => "node pool",
        NAMESPACE => "namespace",
        _ => "unknown",
    }
}

/// Reason why a record is no row.
type Reason = String;

/// The rows read so far.
pub(super) struct Rows<'a> {
    importer: Importer,
    keys: &'a dyn RootKeys,
    options: Options,
    losses: Losses,
    /// Index of the scheduler configuration, whose table has no index record.
    scheduler_index: u64,
}

impl<'a> Rows<'a> {
    pub(super) fn new(index: u64, keys: &'a dyn RootKeys, options: Options) -> Self {
        Self { importer: Importer::new(index), keys, options, losses: Losses::default(), scheduler_index: 0 }
    }

    /// Takes every record except allocations.
    pub(super) fn first_pass(&mut self, record: &Record<'_>) -> Result<(), ImportError> {
        let value = record.value;
        let taken = match record.kind {
            NODE => self.put::<tables::Nodes>(value, upgrade_node),
            JOB => self.put::<tables::Jobs>(value, upgrade_job),
            INDEX => self.index(value),
            EVAL => self.put::<tables::Evals>(value, |_| Ok(())),
            // Allocations share job versions, so they have to wait for them.
            ALLOC => Ok(()),
            // A hint for garbage collection: ages of indexes. Collection here goes by the times of the rows.
            TIME_TABLE => Ok(()),
            PERIODIC_LAUNCH => self.put::<tables::PeriodicLaunch>(value, |_| Ok(())),
            JOB_SUMMARY => self.put::<tables::JobSummary>(value, |_| Ok(())),
            VAULT_ACCESSOR => {
                self.losses.vault_accessors += 1;
                Ok(())
            }
            JOB_VERSION => {
                self.losses.job_versions += 1;
                self.put::<tables::JobVersion>(value, inflate_payload)
            }
            DEPLOYMENT => self.put::<tables::Deployment>(value, |_| Ok(())),
            ACL_POLICY => self.put::<tables::AclPolicy>(value, |_| Ok(())),
            ACL_TOKEN => self.put::<tables::AclToken>(value, |_| Ok(())),
            SCHEDULER_CONFIG => self.scheduler_config(value),
            CLUSTER_METADATA => self.put::<tables::ClusterMeta>(value, |_: &mut ClusterMetadata| Ok(())),
            CONSUL_ACCESSOR => {
                self.losses.consul_accessors += 1;
                Ok(())
            }
            SCALING_POLICY => self.put::<tables::ScalingPolicy>(value, upgrade_scaling_policy),
            CSI_PLUGIN => self.put::<tables::CsiPlugins>(value, |_| Ok(())),
            CSI_VOLUME => self.put::<tables::CsiVolumes>(value, |_| Ok(())),
            SCALING_EVENTS => self.put::<tables::ScalingEvent>(value, |_| Ok(())),
            SERVICE_REGISTRATION => self.put::<tables::ServiceRegistrations>(value, |_| Ok(())),
            VARIABLE => self.variable(value),
            VARIABLES_QUOTA => self.put::<tables::VariablesQuota>(value, |_| Ok(())),
            ROOT_KEY_META => return self.root_key(record),
            ACL_ROLE => self.put::<tables::AclRoles>(value, |_| Ok(())),
            ACL_AUTH_METHOD => self.put::<tables::AclAuthMethods>(value, |_| Ok(())),
            ACL_BINDING_RULE => self.put::<tables::AclBindingRules>(value, |_| Ok(())),
            NODE_POOL => self.put::<tables::NodePools>(value, |_| Ok(())),
            NAMESPACE => self.put::<tables::Namespaces>(value, |_| Ok(())),
            kind if self.options.skip_unknown => {
                *self.losses.unknown.entry(kind).or_default() += 1;
                Ok(())
            }
            kind => return Err(ImportError::UnknownType { number: record.number, kind, offset: record.offset }),
        };
        taken.map_err(|reason| refused(record, reason))
    }

    /// Takes allocations.
    pub(super) fn second_pass(&mut self, record: &Record<'_>) -> Result<(), ImportError> {
        if record.kind == ALLOC { self.alloc(record.value).map_err(|reason| refused(record, reason)) } else { Ok(()) }
    }

    pub(super) fn finish(mut self) -> Imported {
        self.importer.set_table_index(Table::SchedulerConfig, self.scheduler_index);
        Imported { state: self.importer.finish(), not_carried: self.losses.list() }
    }

    fn put<T: Noun>(
        &mut self,
        value: &[u8],
        upgrade: impl FnOnce(&mut T::Row) -> Result<(), Reason>,
    ) -> Result<(), Reason> {
        let mut row: T::Row = decode(value)?;
        upgrade(&mut row)?;
        self.importer.put::<T>(row);
        Ok(())
    }

    fn index(&mut self, value: &[u8]) -> Result<(), Reason> {
        let TableIndex { key, value } = decode(value)?;
        if key == Table::AclTokenBootstrap.name() {
            self.importer.put::<tables::AclTokenBootstrap>(AclBootstrap { index: value });
        }
        // Tables that are not here have no readers either.
        if let Some(table) = Table::from_name(&key) {
            self.importer.set_table_index(table, value);
        }
        Ok(())
    }

    fn scheduler_config(&mut self, value: &[u8]) -> Result<(), Reason> {
        let row: SchedulerConfiguration = decode(value)?;
        self.scheduler_index = row.modify_index;
        self.importer.put::<tables::SchedulerConfig>(row);
        Ok(())
    }

    fn variable(&mut self, value: &[u8]) -> Result<(), Reason> {
        let row = Variable::from(decode::<FlatVariable>(value)?);
        *self.losses.variables_of_key.entry(row.encrypted.key_id).or_default() += 1;
        self.importer.put::<tables::Variables>(row);
        Ok(())
    }

    fn alloc(&mut self, value: &[u8]) -> Result<(), Reason> {
        let WireAlloc(row) = decode(value)?;
        let mut row = Arc::unwrap_or_clone(row);
        if let Some(job) = &mut row.job {
            upgrade_job_of_alloc(Arc::make_mut(job))?;
        }
        if let Some(key) = row.signing_key_id {
            *self.losses.allocs_of_key.entry(key).or_default() += 1;
        }
        self.importer.put::<tables::Allocs>(row);
        Ok(())
    }

    fn root_key(&mut self, record: &Record<'_>) -> Result<(), ImportError> {
        let mut meta: RootKeyMeta = decode(record.value).map_err(|reason| refused(record, reason))?;
        let wrapped =
            self.keys.wrapped(&meta).map_err(|reason| ImportError::Key { key: meta.key_id.to_string(), reason })?;
        if wrapped.is_none() {
            self.losses.keys_missing.insert(meta.key_id);
            // Without its material no key can encrypt or sign, so the leader makes another one.
            if meta.is_active() {
                meta.state = RootKeyState::Inactive;
            }
        }
        self.importer.put::<tables::RootKeys>(RootKey { meta, wrapped: wrapped.unwrap_or_default() });
        Ok(())
    }
}

fn decode<T: DeserializeOwned>(value: &[u8]) -> Result<T, Reason> {
    msgpack::from_slice(value).map_err(|error| format!("{} (byte {} of the record)", error.text, error.at + 1))
}

fn refused(record: &Record<'_>, reason: Reason) -> ImportError {
    let Record { number, offset, kind, .. } = *record;
    ImportError::Record { number, kind, name: name(kind), offset, reason }
}

fn upgrade_node(node: &mut Node) -> Result<(), Reason> {
    if node.node_pool.is_empty() {
        node.node_pool = DEFAULT_NODE_POOL.into();
    }
    if node.drain_strategy.is_some() {
        node.scheduling_eligibility = Eligibility::Ineligible;
    }
    Ok(())
}

fn upgrade_job(job: &mut Job) -> Result<(), Reason> {
    if job.node_pool.is_empty() {
        job.node_pool = DEFAULT_NODE_POOL.into();
    }
    upgrade_job_of_alloc(job)
}

fn upgrade_job_of_alloc(job: &mut Job) -> Result<(), Reason> {
    if job.namespace.is_empty() {
        job.namespace = DEFAULT_NAMESPACE.into();
    }
    if job.datacenters.as_ref().is_none_or(Vec::is_empty) {
        job.datacenters = Some(vec!["*".into()]);
    }
    inflate_payload(job)
}

/// Decompresses the payload. A dispatch without payload has a block of zero bytes, and HTTP shows null.
fn inflate_payload(job: &mut Job) -> Result<(), Reason> {
    if let Some(Blob(block)) = job.payload.take() {
        let bytes = payload::decompress(&block).ok_or("the payload cannot be decompressed")?;
        job.payload = Some(Blob(bytes)).filter(|payload| !payload.0.is_empty());
    }
    Ok(())
}

fn upgrade_scaling_policy(policy: &mut ScalingPolicy) -> Result<(), Reason> {
    if policy.kind.is_empty() {
        policy.kind = "horizontal".into();
    }
    Ok(())
}
