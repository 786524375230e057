//! Authorization on a node whose servers are in other processes: the caller's policies are fetched from a server.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use songline_client::reverse::{Asked, Guard, Right};
use songline_client::{Client, NetServers};
use songline_lang::acl::{self, Access, Acl, NamespaceCapability};
use songline_model::{AclTokenKind, Allocation, Secret, Str};
use songline_rpc::RpcError;
use songline_rpc::message::{
    AclGetClaimPolicies, AclGetPolicies, AclGetRolesById, AclPolicies, AclWhoAmI, Caller, Signed, WireToken,
};

/// Time for which a token's policies are cached.
const KNOWN_FOR: Duration = Duration::from_secs(30);
/// Largest number of tokens in the cache.
const KNOWN_MAX: usize = 512;

/// Authorizes callers by policies that are fetched from servers.
pub(super) struct ByPolicies {
    servers: Arc<NetServers>,
    region: Str,
    client: OnceLock<Weak<Client<NetServers>>>,
    known: Mutex<Known>,
}

/// Cached capabilities and the time of their fetch, by the token's hash.
type Known = BTreeMap<[u8; 32], (Instant, Arc<Acl>)>;

fn denied() -> RpcError {
    RpcError::remote("Permission denied")
}

impl ByPolicies {
    pub(super) fn new(servers: Arc<NetServers>, region: Str) -> Self {
        Self { servers, region, client: OnceLock::new(), known: Mutex::default() }
    }

    /// Sets the client whose allocations callers are authorized for.
    pub(super) fn set(&self, client: &Arc<Client<NetServers>>) {
        self.client.get_or_init(|| Arc::downgrade(client));
    }

    async fn acl(&self, token: &Secret) -> Result<Arc<Acl>, RpcError> {
        let hash = *blake3::hash(token.reveal().as_bytes()).as_bytes();
        let now = Instant::now();
        let known = || self.known.lock();
        if let Some((at, acl)) = known().get(&hash)
            && now.duration_since(*at) < KNOWN_FOR
        {
            return Ok(Arc::clone(acl));
        }
        let acl = Arc::new(self.resolve(token).await?);
        let mut known = known();
        if known.len() >= KNOWN_MAX {
            known.retain(|_, (at, _)| now.duration_since(*at) < KNOWN_FOR);
        }
        // When the cache is full of fresh tokens, new ones are not cached; that costs a request to a server at each
        // use.
        if known.len() < KNOWN_MAX {
            known.insert(hash, (now, Arc::clone(&acl)));
        }
        Ok(acl)
    }

    async fn resolve(&self, token: &Secret) -> Result<Acl, RpcError> {
        let caller = Caller { region: self.region.clone(), auth_token: token.clone(), ..Caller::default() };
        let who = self.servers.ask(&AclWhoAmI::default().signed(&caller)).await.map_err(|error| match error {
            RpcError::Remote(_) | RpcError::Coded { .. } => denied(),
            RpcError::NoLeader | RpcError::Lost(_) => error,
        })?;
        let who = who.identity.unwrap_or_default();
        match (who.acl_token, who.claims) {
            (Some(WireToken { kind: AclTokenKind::Management, .. }), _) => Ok(Acl::management()),
            (Some(token), _) => {
                let names = self.policies_of(&token, &caller).await?;
                let ask = AclGetPolicies { names: Some(names), ..AclGetPolicies::default() };
                Ok(compiled(self.servers.ask(&ask.signed(&caller)).await?))
            }
            (None, Some(_)) => Ok(compiled(self.servers.ask(&AclGetClaimPolicies::default().signed(&caller)).await?)),
            // Nodes have no rights on this interface.
            (None, None) => Ok(Acl::nothing()),
        }
    }

    /// Names of the policies that a token has directly and through its roles.
    async fn policies_of(&self, token: &WireToken, caller: &Caller) -> Result<Vec<Str>, RpcError> {
        let mut names = token.policies.clone().unwrap_or_default();
        let roles: Vec<_> = token.roles.iter().flatten().map(|link| link.id).collect();
        if !roles.is_empty() {
            let ask = AclGetRolesById { acl_role_ids: Some(roles), ..AclGetRolesById::default() };
            let roles = self.servers.ask(&ask.signed(caller)).await?.acl_roles.unwrap_or_default();
            names.extend(roles.into_values().flat_map(|role| role.policies.unwrap_or_default()).map(|link| link.name));
        }
        Ok(names)
    }

    fn alloc(&self, asked: &Asked) -> Option<Arc<Allocation>> {
        self.client.get().and_then(Weak::upgrade)?.alloc(asked.alloc_id)
    }

    async fn decide(&self, right: Right, asked: Asked) -> Result<(), RpcError> {
        if right == Right::Move {
            let client = self.client.get().and_then(Weak::upgrade);
            let may = client.is_some_and(|client| client.is_migrate_token(asked.auth_token.reveal(), asked.alloc_id));
            return if may { Ok(()) } else { Err(denied()) };
        }
        let acl = self.acl(&asked.auth_token).await?;
        let in_namespace = |capabilities: &[NamespaceCapability]| match self.alloc(&asked) {
            Some(alloc) => capabilities.iter().any(|capability| acl.namespace(&alloc.namespace, *capability)),
            // The code that looks the allocation up reports that it is missing.
            None => true,
        };
        let may = match right {
            Right::Lifecycle => in_namespace(&[NamespaceCapability::AllocLifecycle]),
            Right::Exec => {
                let apart = self.alloc(&asked).is_none_or(|alloc| songline_api::is_kept_apart(&alloc, &asked.task));
                in_namespace(&[NamespaceCapability::AllocExec])
                    && (apart || in_namespace(&[NamespaceCapability::AllocNodeExec]))
            }
            Right::ReadFs => in_namespace(&[NamespaceCapability::ReadFs]),
            Right::ReadLogs => in_namespace(&[NamespaceCapability::ReadLogs, NamespaceCapability::ReadFs]),
            Right::ReadJob => in_namespace(&[NamespaceCapability::ReadJob]),
            Right::SubmitJob => in_namespace(&[NamespaceCapability::SubmitJob]),
            Right::NodeRead => acl.node(Access::Read),
            Right::NodeWrite => acl.node(Access::Write),
            Right::AgentRead => acl.agent(Access::Read),
            Right::AgentWrite => acl.agent(Access::Write),
            Right::Move => false,
        };
        if may { Ok(()) } else { Err(denied()) }
    }
}

/// Compiles policies to capabilities. A policy that cannot be parsed gives no rights.
fn compiled(found: AclPolicies) -> Acl {
    let policies = found.policies.unwrap_or_default();
    let rules: Vec<_> = policies.values().filter_map(|policy| acl::parse(&policy.rules).ok()).collect();
    Acl::of(&rules)
}

impl Guard for ByPolicies {
    fn may(&self, right: Right, asked: Asked) -> BoxFuture<'_, Result<(), RpcError>> {
        self.decide(right, asked).boxed()
    }
}
