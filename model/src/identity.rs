//! Workload identities: tokens by which a task proves its identity. The row keeps only the signature; the token is
//! assembled when requested.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{AllocId, Allocation, JobId, NamespaceName, RootKeyId, Secret, Str, Task, UnixSecs};

/// Bytes of an Ed25519 signature.
pub const SIGNATURE_BYTES: usize = 64;

/// Claims of an identity. The order of the fields is the order in the token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityClaims {
    /// The task's namespace.
    #[serde(rename = "nomad_namespace")]
    pub namespace: NamespaceName,
    /// The task's job; the parent's id for a dispatched or periodic child.
    #[serde(rename = "nomad_job_id")]
    pub job_id: JobId,
    /// The task's allocation.
    #[serde(rename = "nomad_allocation_id")]
    pub alloc_id: AllocId,
    /// The task's name.
    #[serde(rename = "nomad_task")]
    pub task: Str,
    /// Start of validity.
    pub nbf: UnixSecs,
    /// Time of issue.
    pub iat: UnixSecs,
}

/// Signature of one task's identity. Signature and allocation together give the token, so the signature is never
/// printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Signature(pub [u8; SIGNATURE_BYTES]);

/// Signed identity of one task of an allocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TaskIdentity {
    /// The task's name.
    pub task: Str,
    /// Signature with the allocation's signing key.
    pub signature: Signature,
}

impl Signature {
    /// Extracts the signature from the end of a token.
    pub fn of_token(token: &str) -> Option<Self> {
        let (_, signature) = token.rsplit_once('.')?;
        URL_SAFE_NO_PAD.decode(signature).ok()?.try_into().ok().map(Self)
    }
}

#[derive(Serialize)]
struct Header {
    alg: &'static str,
    kid: RootKeyId,
    typ: &'static str,
}

impl IdentityClaims {
    /// Text to be signed: header and claims in the form of a compact JWS.
    pub fn signing_input(&self, key: RootKeyId) -> String {
        let header = Header { alg: "EdDSA", kid: key, typ: "JWT" };
        // Serialisation can not fail: both are flat structs of texts and numbers.
        let json = |value: Result<Vec<u8>, serde_json::Error>| value.expect("texts and numbers are always JSON");
        let mut out = String::with_capacity(400);
        URL_SAFE_NO_PAD.encode_string(json(serde_json::to_vec(&header)), &mut out);
        out.push('.');
        URL_SAFE_NO_PAD.encode_string(json(serde_json::to_vec(self)), &mut out);
        out
    }

    /// Assembles the whole token.
    pub fn token(&self, key: RootKeyId, signature: &Signature) -> Secret {
        let mut out = self.signing_input(key);
        out.push('.');
        URL_SAFE_NO_PAD.encode_string(signature.0, &mut out);
        Secret::new(out)
    }
}

impl Allocation {
    /// Claims of the identity of one of the allocation's tasks. Issue and validity start when the allocation was
    /// created.
    pub fn identity_claims(&self, task: &str) -> IdentityClaims {
        let parent = self.job.as_ref().map(|job| &job.parent_id).filter(|parent| !parent.is_empty());
        let at = self.create_time.into();
        IdentityClaims {
            namespace: self.namespace.clone(),
            job_id: parent.unwrap_or(&self.job_id).clone(),
            alloc_id: self.id,
            task: Str::new(task),
            nbf: at,
            iat: at,
        }
    }

    /// The identity token of a task; `None` if it was not signed.
    pub fn identity_token(&self, task: &str) -> Option<Secret> {
        let key = self.signing_key_id?;
        let identity =
            self.signed_identities.iter().flat_map(|all| all.iter()).find(|identity| identity.task == task)?;
        Some(self.identity_claims(task).token(key, &identity.signature))
    }

    /// The tasks of the allocation's group that have no identity yet.
    pub fn unsigned_tasks(&self) -> impl Iterator<Item = &Task> {
        let signed = |name: &Str| {
            self.signed_identities.iter().flat_map(|all| all.iter()).any(|identity| identity.task == *name)
        };
        self.group().into_iter().flat_map(|group| group.tasks.iter().flatten()).filter(move |task| !signed(&task.name))
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signature(..)")
    }
}

impl Serialize for Signature {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() { s.serialize_str("") } else { s.serialize_bytes(&self.0) }
    }
}

impl<'de> Deserialize<'de> for Signature {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let bytes = serde_bytes::ByteBuf::deserialize(d)?;
        let found = bytes.len();
        let bytes = bytes.into_vec().try_into();
        bytes.map(Signature).map_err(|_| serde::de::Error::invalid_length(found, &"the 64 bytes of a signature"))
    }
}
