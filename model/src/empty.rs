//! Rules for empty fields, which allocations and evaluations leave out of every encoding.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::*;

/// Emptiness as the wire defines it: shallow, so that a map with entries or a present object is kept.
pub trait IsEmpty {
    /// Whether the field is left out.
    fn is_empty_field(&self) -> bool;
}

/// `skip_serializing_if` for fields of structs that leave empty fields out.
pub(crate) fn is_empty<T: IsEmpty>(field: &T) -> bool {
    field.is_empty_field()
}

macro_rules! empty_when_default {
    ($($t:ty),* $(,)?) => { $(impl IsEmpty for $t {
        fn is_empty_field(&self) -> bool { *self == <$t>::default() }
    })* };
}

macro_rules! empty_when_none {
    ($($t:ty),* $(,)?) => { $(impl IsEmpty for Option<$t> {
        fn is_empty_field(&self) -> bool { self.is_none() }
    })* };
}

macro_rules! never_empty {
    ($($t:ty),* $(,)?) => { $(impl IsEmpty for $t {
        fn is_empty_field(&self) -> bool { false }
    })* };
}

empty_when_default!(
    bool,
    u64,
    i64,
    Time,
    Str,
    JobId,
    NamespaceName,
    NodePoolName,
    NodeId,
    AllocId,
    EvalId,
    DeploymentId,
    Dur,
    Secret,
    DesiredTransition,
    EvalTrigger,
    PartitionKey,
);
empty_when_none!(
    NodeId,
    AllocId,
    EvalId,
    DeploymentId,
    RootKeyId,
    Arc<[TaskIdentity]>,
    Time,
    Arc<Job>,
    Arc<AllocatedResources>,
    Arc<AllocMetric>,
    Arc<AllocDeploymentStatus>,
    Arc<RescheduleTracker>,
    Arc<AllocNetworkStatus>,
    CsiControllerInfo,
    CsiNodeInfo,
);
never_empty!(AllocDesiredStatus, AllocClientStatus, EvalStatus, JobType);

impl<T> IsEmpty for Option<Vec<T>> {
    fn is_empty_field(&self) -> bool {
        self.as_ref().is_none_or(Vec::is_empty)
    }
}

impl<K, V> IsEmpty for Option<BTreeMap<K, V>> {
    fn is_empty_field(&self) -> bool {
        self.as_ref().is_none_or(BTreeMap::is_empty)
    }
}

impl<K, V> IsEmpty for Option<Arc<BTreeMap<K, V>>> {
    fn is_empty_field(&self) -> bool {
        self.as_ref().is_none_or(|map| map.is_empty())
    }
}

impl<K, V> IsEmpty for Option<Arc<FlatMap<K, V>>> {
    fn is_empty_field(&self) -> bool {
        self.as_ref().is_none_or(|map| map.is_empty())
    }
}
