//! Access check before every handler: does the caller have the route's capability? A capability that depends on an
//! object is checked by the handler.

use songline_lang::acl::{Acl, NamespaceCapability};
use songline_model::Secret;

use crate::caller::{AuthError, Caller, denied, token_not_found, token_of};
use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::capability::Capability;
use crate::http::params::namespace;
use crate::http::rates;
use crate::http::std_params::StdParams;
use crate::server::{Agent, Reads, Status};

/// Routes of the agent whose errors say that resolving the token failed.
const RESOLVED: [&str; 3] = ["/v1/agent/self", "/v1/agent/host", "/v1/jobs/parse"];

/// Error of the agent's own routes for a token that is no UUID. The reference's agent looks every token up by its
/// secret id, so a workload identity gets this error, too, whatever its policies grant.
pub(super) const NOT_A_SECRET_ID: &str = "acl token lookup failed: index error: UUID must be 36 characters";

/// Authenticates the caller, then lets the request through or refuses it. Invalid parameters, and another region, are
/// told first: the reference's agent looks at them before it asks a server, which checks the caller. A handler whose
/// capability is checked late looks at them itself.
pub(super) fn check<S: Reads + Status>(call: &Call<S>, std_params: StdParams) -> Result<(), ApiError> {
    let caller = call.credentials.authenticate(&*call.server, token_of(&call.headers));
    rates::count(call, &caller);
    if matches!(call.credentials.capability(), Capability::Late(_)) {
        call.credentials.set_caller(caller);
        return Ok(());
    }
    std_params.check(call)?;
    admit(call, caller)
}

fn admit<S: Agent>(call: &Call<S>, caller: Result<Caller, AuthError>) -> Result<(), ApiError> {
    call.credentials.set_caller(caller.clone());
    may_pass(call, caller)?;
    call.credentials.set_admitted();
    Ok(())
}

fn may_pass<S: Agent>(call: &Call<S>, caller: Result<Caller, AuthError>) -> Result<(), ApiError> {
    if !call.server.info().acl.enabled {
        // Handlers of ACLs refuse the request after they looked at its path and body ([`Call::with_acls`]).
        return Ok(());
    }
    let capability = call.credentials.capability().demanded();
    let caller = match (capability, caller) {
        // The handlers refuse an invalid token, where they do not ignore it.
        (
            Capability::Anyone
            | Capability::Possession
            | Capability::AgentLate(_)
            | Capability::Variables(_)
            | Capability::Topics,
            _,
        ) => return Ok(()),
        (Capability::Agent(_) | Capability::AgentNamespace(_), Err(AuthError::Unknown)) => {
            return Err(token_not_found());
        }
        (Capability::Agent(_) | Capability::AgentNamespace(_), Err(AuthError::BadIdentity(_))) => {
            return Err(unresolved(call, NOT_A_SECRET_ID));
        }
        (Capability::Agent(_) | Capability::AgentNamespace(_), Err(error)) => return Err(unresolved(call, error)),
        (Capability::Agent(_) | Capability::AgentNamespace(_), Ok(caller)) if caller.is_workload() => {
            return Err(unresolved(call, NOT_A_SECRET_ID));
        }
        (Capability::ObjectStream(_), Err(_)) => return Err(ApiError::internal("rpc error: Permission denied")),
        (_, Err(_)) => return Err(denied()),
        (_, Ok(caller)) => caller,
    };
    if caller_may(call, capability, &caller)? { Ok(()) } else { Err(denied()) }
}

/// Error of an agent's own route that could not resolve the token.
fn unresolved<S>(call: &Call<S>, why: impl std::fmt::Display) -> ApiError {
    let before = if RESOLVED.contains(&call.path.as_str()) { "failed to resolve ACL token: " } else { "" };
    ApiError::internal(format!("{before}{why}"))
}

/// Whether the caller has the capability, as far as the request alone tells. True when the handler has to check.
fn caller_may<S>(call: &Call<S>, capability: Capability, caller: &Caller) -> Result<bool, ApiError> {
    let acl = caller.acl();
    let asked = |capabilities: &[NamespaceCapability]| any_of(acl, &namespace(call.query()), capabilities);
    Ok(match capability {
        Capability::Anyone
        | Capability::Possession
        | Capability::AgentLate(_)
        | Capability::Filtered
        | Capability::Object(_)
        | Capability::ObjectStream(_)
        | Capability::Variables(_)
        | Capability::Topics => true,
        // The agent accepts ACL tokens only. Workload identities are refused by `admit`.
        Capability::Agent(_) | Capability::AgentNamespace(_) if caller.is_node() => return Err(token_not_found()),
        Capability::Agent(access) | Capability::Servers(access) => acl.agent(access),
        Capability::AgentNamespace(capabilities) | Capability::Namespace(capabilities) => asked(capabilities),
        Capability::OrNode(other) => caller.is_node() || caller_may(call, *other, caller)?,
        Capability::OrWorkload(other) => caller.is_workload() || caller_may(call, *other, caller)?,
        Capability::Late(other) => caller_may(call, *other, caller)?,
        Capability::Node(access) => acl.node(access),
        // The body alone may name the pool of a write; then the handler checks it.
        Capability::NodePool(capability) => call.id().is_empty() || acl.node_pool(call.id(), capability),
        Capability::Plugin(access) => acl.plugin(access),
        Capability::Operator(access) => acl.operator(access),
        Capability::Quota(access) => acl.quota(access),
        Capability::Management => acl.is_management(),
    })
}

/// Whether one of these capabilities is granted in a namespace.
pub(super) fn any_of(acl: &Acl, namespace: &str, capabilities: &[NamespaceCapability]) -> bool {
    capabilities.iter().any(|capability| acl.namespace(namespace, *capability))
}

impl<S> Call<S> {
    /// The caller. An invalid token is refused.
    pub fn caller(&self) -> Result<Caller, ApiError> {
        self.authenticated().map_err(|_| denied())
    }

    /// The caller, or the authentication failure, for the few routes that report it.
    pub fn authenticated(&self) -> Result<Caller, AuthError> {
        self.credentials.caller()
    }

    /// The request's token; empty when there is none.
    pub fn token(&self) -> &str {
        token_of(&self.headers)
    }

    /// The request's token, for calls on the caller's behalf.
    pub fn secret(&self) -> Secret {
        Secret::new(self.token())
    }

    /// Refuses a caller unless `may` accepts its rights.
    pub fn require(&self, may: impl FnOnce(&Acl) -> bool) -> Result<(), ApiError> {
        if may(self.caller()?.acl()) { Ok(()) } else { Err(denied()) }
    }

    /// Refuses a caller that has none of these capabilities in a namespace.
    pub fn require_in(&self, namespace: &str, capabilities: &[NamespaceCapability]) -> Result<(), ApiError> {
        self.require(|acl| any_of(acl, namespace, capabilities))
    }
}

impl<S: Agent> Call<S> {
    /// Refuses a caller without the route's capability if that is checked late. Else the gate has checked it.
    pub fn demand(&self) -> Result<(), ApiError> {
        let is_late = matches!(self.credentials.capability(), Capability::Late(_));
        if is_late { admit(self, self.authenticated()) } else { Ok(()) }
    }

    /// Refuses a request about ACLs on a server without them. As in the reference, a wrong path or body is told first,
    /// so each handler asks when it has read them, and before it looks at the state.
    pub fn with_acls(&self) -> Result<(), ApiError> {
        if self.server.info().acl.enabled { Ok(()) } else { Err(ApiError::bad_request("ACL support disabled")) }
    }
}

impl<S: Reads> Call<S> {
    /// Authenticates another token that came with the request.
    pub fn authenticate(&self, token: &str) -> Result<Caller, AuthError> {
        self.credentials.authenticate(&*self.server, token)
    }

    /// Authenticates and checks the caller of a waiting request again.
    pub(super) fn recheck(&self) -> Result<(), ApiError> {
        admit(self, self.authenticate(self.token()))
    }
}
