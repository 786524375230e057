//! `Alloc`: whole allocations as nodes fetch them. On the wire identities are tokens; rows have only their signatures.

mod legacy;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use songline_model::{AllocId, Allocation, Secret, Signature, Str, TaskIdentity, Time};

use super::message;
use crate::msgpack::{self, RawValue};
use legacy::Legacy;

message! {
    /// Asks for whole allocations.
    read AllocGetAllocs ("Alloc.GetAllocs" -> AllocGetAllocsAnswer) {
        #[serde(rename = "AllocIDs")]
        alloc_ids: Option<Vec<AllocId>>,
    }
}
message! {
    /// The allocations, all of them or none.
    answer AllocGetAllocsAnswer {
        allocs: Option<Vec<WireAlloc>>,
    }
}
message! {
    /// Asks for one allocation.
    read AllocGetAlloc ("Alloc.GetAlloc" -> AllocGetAllocAnswer) {
        #[serde(rename = "AllocID")]
        alloc_id: AllocId,
    }
}
message! {
    /// The allocation, if it exists.
    answer AllocGetAllocAnswer {
        alloc: Option<WireAlloc>,
    }
}
message! {
    /// Asks for identities beyond those that came with the allocation.
    read AllocSignIdentities ("Alloc.SignIdentities" -> AllocSignIdentitiesAnswer) {
        identities: Option<Vec<WorkloadIdentityRequest>>,
    }
}
message! {
    /// Request for one identity.
    plain WorkloadIdentityRequest {
        #[serde(rename = "AllocID")]
        alloc_id: AllocId,
        identity_name: Str,
        interpolated_workload_identifier: Str,
        /// Name of a task or a service.
        workload_identifier: Str,
        workload_type: i64,
    }
}
message! {
    /// Signed identities and refused ones.
    answer AllocSignIdentitiesAnswer {
        signed_identities: Option<Vec<SignedWorkloadIdentity>>,
        rejections: Option<Vec<WorkloadIdentityRejection>>,
    }
}
message! {
    /// A signed identity: the request with the token.
    plain SignedWorkloadIdentity {
        #[serde(rename = "AllocID")]
        alloc_id: AllocId,
        identity_name: Str,
        interpolated_workload_identifier: Str,
        workload_identifier: Str,
        workload_type: i64,
        #[serde(rename = "JWT")]
        jwt: Secret,
        expiration: Option<Time>,
    }
}
message! {
    /// A refused identity.
    plain WorkloadIdentityRejection {
        #[serde(rename = "AllocID")]
        alloc_id: AllocId,
        identity_name: Str,
        workload_identifier: Str,
        workload_type: i64,
        reason: Str,
    }
}

/// An allocation as nodes get it, with the tokens of its tasks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WireAlloc(pub Arc<Allocation>);

/// Fields of an allocation with another shape on the wire.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Identities {
    signed_identities: Option<BTreeMap<Str, Secret>>,
}

/// Fields of an allocation on the wire beside those of the row.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Tokens {
    #[serde(skip_serializing_if = "Option::is_none")]
    signed_identities: Option<BTreeMap<Str, Secret>>,
}

impl Serialize for WireAlloc {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let row = &self.0;
        let token = |of: &TaskIdentity| Some((of.task.clone(), row.identity_token(&of.task)?));
        let tokens = row.signed_identities.as_ref().map(|all| all.iter().filter_map(token).collect());
        let bare = Allocation { signed_identities: None, ..Allocation::clone(row) };
        let legacy = Legacy::of(row.allocated_resources.as_deref());
        let whole = msgpack::merged(&bare, &Tokens { signed_identities: tokens })
            .and_then(|row| msgpack::merged(&row, &legacy));
        whole.map_err(serde::ser::Error::custom)?.serialize(s)
    }
}

impl<'de> Deserialize<'de> for WireAlloc {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let value = RawValue::deserialize(d)?;
        let mut row: Allocation = value.read().map_err(serde::de::Error::custom)?;
        let identities: Identities = value.read().map_err(serde::de::Error::custom)?;
        let signed =
            |(task, token): (Str, Secret)| Some(TaskIdentity { task, signature: Signature::of_token(token.reveal())? });
        // Tokens with other signatures cannot be rebuilt from a row, so they are dropped.
        row.signed_identities = identities.signed_identities.map(|all| all.into_iter().filter_map(signed).collect());
        Ok(Self(Arc::new(row)))
    }
}

impl From<Arc<Allocation>> for WireAlloc {
    fn from(row: Arc<Allocation>) -> Self {
        Self(row)
    }
}
