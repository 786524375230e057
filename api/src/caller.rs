//! Identity and rights of callers. A request's token becomes an identity, and the policies of that identity become
//! one `Acl`.
//!
//! `http::mux` says which capability a route needs; `http::gate` refuses callers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use axum::http::{HeaderMap, StatusCode, header};
use parking_lot::Mutex;
use songline_commands::Actor;
use songline_lang::acl::{self, Acl, Workload};
use songline_model::{AclPolicy, AclToken, Allocation, Blob, IdentityClaims, NodeId, SecretId, Str};
use songline_projections::State;

use crate::error::ApiError;
use crate::keyring;
use crate::server::Reads;

/// Name of the policy of callers without a token, if an operator has created it.
pub const ANONYMOUS_POLICY: &str = "anonymous";
/// Number of compiled policy sets that are kept. All are dropped when it is reached.
const COMPILED_MAX: usize = 512;

/// Identity of a caller. The variants stay distinct: a node is not an anonymous caller, and neither is a caller while
/// ACLs are disabled.
#[derive(Debug, Clone)]
pub enum Identity {
    /// ACLs are disabled: every caller has all rights.
    AclsOff,
    /// The request has no token.
    Anonymous,
    /// The owner of this ACL token.
    Token(Arc<AclToken>),
    /// A task, proven by its signed workload identity.
    Workload(Arc<WorkloadIdentity>),
    /// A node, proven by its secret. Its ACL is empty: it may only use the few routes for nodes.
    Node(NodeId),
}

/// A task that calls the API.
#[derive(Debug)]
pub struct WorkloadIdentity {
    /// Claims of its identity token.
    pub claims: IdentityClaims,
    /// Allocation of the task.
    pub alloc: Arc<Allocation>,
}

/// An authenticated caller.
#[derive(Debug, Clone)]
pub struct Caller {
    identity: Identity,
    acl: Arc<Acl>,
}

/// Failure of authentication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthError {
    /// The token has expired.
    Expired,
    /// The secret belongs to no token and no node.
    Unknown,
    /// The token is neither a secret nor a valid workload identity.
    BadIdentity(String),
    /// A policy cannot be parsed. Policies are checked when they are written, so this is a defect of ours or an old
    /// policy.
    BadPolicy(String),
}

impl fmt::Display for AuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AuthError::Expired => f.write_str("ACL token expired"),
            AuthError::Unknown => f.write_str("Permission denied"),
            AuthError::BadIdentity(text) | AuthError::BadPolicy(text) => f.write_str(text),
        }
    }
}

/// The ACL with all rights. It is made once, because every request with all rights uses it.
fn everything() -> Arc<Acl> {
    static EVERYTHING: LazyLock<Arc<Acl>> = LazyLock::new(|| Arc::new(Acl::management()));
    Arc::clone(&EVERYTHING)
}

impl Caller {
    /// The caller while ACLs are disabled: it has all rights.
    pub fn anybody() -> Self {
        Self { identity: Identity::AclsOff, acl: everything() }
    }

    /// Identity of the caller.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Rights of the caller.
    pub fn acl(&self) -> &Acl {
        &self.acl
    }

    /// Rights of the caller, shared.
    pub fn shared_acl(&self) -> Arc<Acl> {
        Arc::clone(&self.acl)
    }

    /// The caller's ACL token; `None` for other identities.
    pub fn token(&self) -> Option<&Arc<AclToken>> {
        match &self.identity {
            Identity::Token(token) => Some(token),
            Identity::AclsOff | Identity::Anonymous | Identity::Workload(_) | Identity::Node(_) => None,
        }
    }

    /// Whether the caller is a node.
    pub fn is_node(&self) -> bool {
        matches!(self.identity, Identity::Node(_))
    }

    /// Whether the caller is a task.
    pub fn is_workload(&self) -> bool {
        matches!(self.identity, Identity::Workload(_))
    }

    /// The caller as recorded in the log.
    pub fn actor(&self) -> Actor {
        match &self.identity {
            Identity::AclsOff | Identity::Anonymous => Actor::Anonymous,
            Identity::Token(token) => Actor::Accessor(token.accessor_id.to_string().into()),
            Identity::Workload(workload) => {
                Actor::Workload(format!("{}/{}", workload.claims.alloc_id, workload.claims.task).into())
            }
            Identity::Node(node) => Actor::Node(*node),
        }
    }
}

/// The token of a request: `X-Nomad-Token`, else `Authorization: Bearer`. Other headers are ignored.
pub fn token_of(headers: &HeaderMap) -> &str {
    let own = headers.get("x-nomad-token").and_then(|value| value.to_str().ok()).map(str::trim).unwrap_or_default();
    if !own.is_empty() {
        return own;
    }
    let bearer = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '));
    match bearer {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
            token.trim().split(' ').next().unwrap_or_default()
        }
        Some(_) | None => "",
    }
}

/// Key of a compiled ACL: name, index of the last write and content hash of each policy. Name and index alone do not
/// identify a policy: the rows of a restored archive keep their indexes.
type Policies = Vec<(Str, u64, Option<Blob>)>;

/// Authenticates callers and caches their compiled policies.
#[derive(Default)]
pub struct Callers {
    compiled: Mutex<BTreeMap<Policies, Arc<Acl>>>,
}

impl Callers {
    /// Authenticates a token against the server's newest view.
    pub fn authenticate<S: Reads>(&self, server: &S, token: &str) -> Result<Caller, AuthError> {
        if !server.info().acl.enabled {
            return Ok(Caller::anybody());
        }
        let view = server.view();
        if token.is_empty() {
            let policies: Vec<_> = view.acl_policy(ANONYMOUS_POLICY).cloned().into_iter().collect();
            return Ok(Caller { identity: Identity::Anonymous, acl: self.compile(&policies)? });
        }
        let Ok(secret) = token.parse::<SecretId>() else { return self.workload(server, &view, token) };
        match view.acl_token_by_secret(&secret) {
            Some(found) if found.is_expired(server.now()) => Err(AuthError::Expired),
            Some(found) => Ok(Caller { acl: self.of_token(&view, &found)?, identity: Identity::Token(found) }),
            None => {
                let node = view.node_by_secret(token).ok_or(AuthError::Unknown)?;
                Ok(Caller { identity: Identity::Node(node), acl: Arc::new(Acl::nothing()) })
            }
        }
    }

    fn workload<S: Reads>(&self, server: &S, view: &State, token: &str) -> Result<Caller, AuthError> {
        let known = keyring::workload(view, server.keyring(), token);
        let (claims, alloc) = known.map_err(|error| AuthError::BadIdentity(error.to_string()))?;
        let policies =
            view.acl_policies_of_workload(&claims.namespace, &claims.job_id, &alloc.task_group, &claims.task);
        let own = Workload {
            namespace: claims.namespace.to_string(),
            job: claims.job_id.to_string(),
            group: alloc.task_group.to_string(),
            task: claims.task.to_string(),
        };
        let acl = Acl::clone(&*self.compile(&policies)?).with_workload(own);
        Ok(Caller { identity: Identity::Workload(Arc::new(WorkloadIdentity { claims, alloc })), acl: Arc::new(acl) })
    }

    fn of_token(&self, view: &State, token: &AclToken) -> Result<Arc<Acl>, AuthError> {
        if token.is_management() {
            return Ok(everything());
        }
        self.compile(&view.acl_policies_of_token(token))
    }

    fn compile(&self, policies: &[Arc<AclPolicy>]) -> Result<Arc<Acl>, AuthError> {
        let key: Policies =
            policies.iter().map(|policy| (policy.name.clone(), policy.modify_index, policy.hash.clone())).collect();
        if let Some(known) = self.compiled.lock().get(&key) {
            return Ok(Arc::clone(known));
        }
        let parse = |policy: &Arc<AclPolicy>| {
            acl::parse(&policy.rules)
                .map_err(|error| AuthError::BadPolicy(format!("failed to parse {:?}: {error}", policy.name.as_str())))
        };
        let parsed = policies.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let acl = Arc::new(Acl::of(&parsed));
        let mut compiled = self.compiled.lock();
        if compiled.len() >= COMPILED_MAX {
            compiled.clear();
        }
        compiled.insert(key, Arc::clone(&acl));
        Ok(acl)
    }
}

/// Answer of nearly every route to a caller without the needed rights.
pub fn denied() -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, "Permission denied")
}

/// Answer of the agent's own routes to an unknown token.
pub fn token_not_found() -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, "ACL token not found")
}
