//! The gate before every handler: does the caller have what the route names? What only an object tells, its handler asks for.

use std::sync::Arc;

use parking_lot::Mutex;
use songline_lang::acl::{Acl, NamespaceCapability};
use songline_model::{Secret, Time};

use crate::caller::{AuthError, Caller, Callers, denied, token_not_found, token_of};
use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::mux::Capability;
use crate::http::params::namespace;
use crate::http::rates;
use crate::server::Server;

/// What a request showed, and who that is. A query that waits asks again.
#[derive(Clone)]
pub struct Credentials {
    callers: Arc<Callers>,
    capability: Capability,
    caller: Arc<Mutex<Result<Caller, AuthError>>>,
}

impl Credentials {
    /// Nobody has been asked yet who he is.
    pub(super) fn new(callers: Arc<Callers>, capability: Capability) -> Self {
        Self { callers, capability, caller: Arc::new(Mutex::new(Err(AuthError::Unknown))) }
    }
}

/// Routes of the agent that say what they were doing when they could not make out a token.
const RESOLVED: [&str; 3] = ["/v1/agent/self", "/v1/agent/host", "/v1/jobs/parse"];

/// Lets a request through to its handler, or refuses it.
pub(super) fn check<S: Server>(call: &Call<S>) -> Result<(), ApiError> {
    let caller = call.credentials.authenticate(&*call.server, token_of(&call.headers));
    rates::count(call, &caller);
    admit(call, caller)
}

fn admit<S: Server>(call: &Call<S>, caller: Result<Caller, AuthError>) -> Result<(), ApiError> {
    *call.credentials.caller.lock() = caller.clone();
    if !call.server.info().acl.enabled {
        let of_acls = call.path.starts_with("/v1/acl/");
        return if of_acls { Err(ApiError::bad_request("ACL support disabled")) } else { Ok(()) };
    }
    let capability = call.credentials.capability;
    let caller = match (capability, caller) {
        (Capability::Anyone | Capability::Possession | Capability::AgentLate(_), _) => return Ok(()),
        (Capability::Agent(_) | Capability::AgentNamespace(_), Err(AuthError::Unknown)) => return Err(token_not_found()),
        (Capability::Agent(_) | Capability::AgentNamespace(_), Err(error)) => {
            let before = if RESOLVED.contains(&call.path.as_str()) { "failed to resolve ACL token: " } else { "" };
            return Err(ApiError::internal(format!("{before}{error}")));
        }
        (Capability::ObjectStream(_), Err(_)) => return Err(ApiError::internal("rpc error: Permission denied")),
        (_, Err(_)) => return Err(denied()),
        (_, Ok(caller)) => caller,
    };
    if caller_may(call, capability, &caller)? { Ok(()) } else { Err(denied()) }
}

/// Whether the request alone says that the caller may, or leaves it to the handler.
fn caller_may<S: Server>(call: &Call<S>, capability: Capability, caller: &Caller) -> Result<bool, ApiError> {
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
        // An agent knows tokens and tasks; the secret of a node is neither.
        Capability::Agent(_) | Capability::AgentNamespace(_) if caller.is_node() => return Err(token_not_found()),
        Capability::Agent(access) | Capability::Servers(access) => acl.agent(access),
        Capability::AgentNamespace(capabilities) | Capability::Namespace(capabilities) => asked(capabilities),
        Capability::OrNode(other) => caller.is_node() || caller_may(call, *other, caller)?,
        Capability::OrWorkload(other) => caller.is_workload() || caller_may(call, *other, caller)?,
        Capability::Node(access) => acl.node(access),
        // A pool that is written may be named in the body alone.
        Capability::NodePool(capability) => call.id().is_empty() || acl.node_pool(call.id(), capability),
        Capability::Plugin(access) => acl.plugin(access),
        Capability::Operator(access) => acl.operator(access),
        Capability::Management => acl.is_management(),
    })
}

/// Whether one of these is allowed in a namespace.
pub(super) fn any_of(acl: &Acl, namespace: &str, capabilities: &[NamespaceCapability]) -> bool {
    capabilities.iter().any(|capability| acl.namespace(namespace, *capability))
}

impl Credentials {
    /// When the token expires that the request was let in with.
    pub(super) fn expires(&self) -> Option<Time> {
        self.caller.lock().as_ref().ok().and_then(|caller| caller.token()?.expiration_time)
    }

    /// Who a token is now.
    pub(super) fn authenticate<S: Server>(&self, server: &S, token: &str) -> Result<Caller, AuthError> {
        self.callers.authenticate(server, token)
    }
}

impl<S: Server> Call<S> {
    /// Who asks; a token that is none is refused.
    pub fn caller(&self) -> Result<Caller, ApiError> {
        self.authenticated().map_err(|_| denied())
    }

    /// Who asks, or why that is not known: for the few routes that tell.
    pub fn authenticated(&self) -> Result<Caller, AuthError> {
        self.credentials.caller.lock().clone()
    }

    /// Who another token is that came with the request.
    pub fn authenticate(&self, token: &str) -> Result<Caller, AuthError> {
        self.credentials.authenticate(&*self.server, token)
    }

    /// The token that the request showed; empty when there is none.
    pub fn token(&self) -> &str {
        token_of(&self.headers)
    }

    /// The same, to be passed on.
    pub fn secret(&self) -> Secret {
        Secret::new(self.token())
    }

    /// Refuses a caller for whom `may` is not true.
    pub fn require(&self, may: impl FnOnce(&Acl) -> bool) -> Result<(), ApiError> {
        if may(self.caller()?.acl()) { Ok(()) } else { Err(denied()) }
    }

    /// Refuses a caller who has none of these capabilities in a namespace.
    pub fn require_in(&self, namespace: &str, capabilities: &[NamespaceCapability]) -> Result<(), ApiError> {
        self.require(|acl| any_of(acl, namespace, capabilities))
    }

    /// Asks again who waits here, and whether he still may.
    pub(super) fn recheck(&self) -> Result<(), ApiError> {
        admit(self, self.authenticate(self.token()))
    }
}
