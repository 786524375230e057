//! Methods that are answered by the handlers of HTTP: each has the request of a route, and the field of its answer.
//! `forwarded` makes the request. Rights are those of the route.

use axum::http::Method;

use Body::{Empty, Fields, Job, Part};

/// A method and its route.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route {
    /// Name of the method: `Service.Method`.
    pub(super) method: &'static str,
    /// HTTP method, path and query. `{A.B}` stands for a field of the request; a parameter without a value is left out.
    /// `{A?B}` is the field `B` if the field `A` is true.
    pub(super) http: &'static str,
    /// Body of the HTTP request.
    pub(super) body: Body,
    /// Place of HTTP's answer in the answer.
    pub(super) answer: Answer,
}

/// Body of an HTTP request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// No body.
    Empty,
    /// An object of these fields.
    Fields(&'static [&'static str]),
    /// One part of the request, such as the only element of a list.
    Part(&'static str),
    /// The job, with these other fields.
    Job(&'static [&'static str]),
}

/// Place of HTTP's answer in the answer of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is the whole answer. An index that it lacks is added.
    Whole,
    /// It is this field.
    Field(&'static str),
    /// It is the only element of this field.
    One(&'static str),
    /// It is this field, a volume, whose claims name their allocations.
    Volume(&'static str),
}

impl Route {
    /// HTTP method, path, and the parameters with their values.
    pub(super) fn parts(&self) -> (Method, &'static str, Vec<(&'static str, &'static str)>) {
        let (verb, rest) = self.http.split_once(' ').unwrap_or(("GET", self.http));
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        (Method::from_bytes(verb.as_bytes()).unwrap_or(Method::GET), path, pairs.collect())
    }

    /// Whether the request is a read of HTTP, with its parameters.
    pub(super) fn is_get(&self) -> bool {
        self.http.starts_with("GET ")
    }

    /// Whether the method changes nothing.
    pub(super) fn is_read(&self) -> bool {
        self.is_get() || self.method.starts_with("Search.") || matches!(self.method, "Job.Plan" | "Job.Validate")
    }
}

/// The route of a method.
pub(super) fn find(method: &str) -> Option<&'static Route> {
    ROUTES.iter().find(|route| route.method == method)
}

/// The method that asks for the token of its field `SecretID`, for any caller.
pub(super) const RESOLVE_TOKEN: &str = "ACL.ResolveToken";

const fn read(method: &'static str, http: &'static str, field: &'static str) -> Route {
    Route { method, http, body: Empty, answer: Answer::Field(field) }
}

const fn write(method: &'static str, http: &'static str, body: Body) -> Route {
    Route { method, http, body, answer: Answer::Whole }
}

/// A read whose answer is that of HTTP.
const fn whole(method: &'static str, http: &'static str) -> Route {
    write(method, http, Empty)
}

/// A write that answers with the object, in a list.
const fn made(method: &'static str, http: &'static str, body: Body, field: &'static str) -> Route {
    Route { method, http, body, answer: Answer::One(field) }
}

/// All of these methods. Fields `Meta`, `Resources` and `OS` ask for more fields of a list.
pub(super) const ROUTES: &[Route] = &[
    // Jobs.
    read("Job.Summary", "GET /v1/job/{JobID}/summary", "JobSummary"),
    read("Job.Allocations", "GET /v1/job/{JobID}/allocations?all={All}", "Allocations"),
    read("Job.Deployments", "GET /v1/job/{JobID}/deployments?all={All}", "Deployments"),
    read("Job.LatestDeployment", "GET /v1/job/{JobID}/deployment", "Deployment"),
    read("Job.ScaleStatus", "GET /v1/job/{JobID}/scale", "JobScaleStatus"),
    read("Job.GetServiceRegistrations", "GET /v1/job/{JobID}/services", "Services"),
    read("Job.GetJobSubmission", "GET /v1/job/{JobID}/submission?version={Version}", "Submission"),
    whole("Job.GetJobVersions", "GET /v1/job/{JobID}/versions?diffs={Diffs}"),
    write("Job.Plan", "PUT /v1/job/{Job.ID}/plan", Job(&["Diff", "PolicyOverride"])),
    write("Job.Validate", "PUT /v1/validate/job", Job(&[])),
    write(
        "Job.Deregister",
        "DELETE /v1/job/{JobID}?purge={Purge}&global={Global}&eval_priority={EvalPriority}\
         &no_shutdown_delay={NoShutdownDelay}",
        Empty,
    ),
    write("Job.Evaluate", "PUT /v1/job/{JobID}/evaluate", Fields(&["JobID", "EvalOptions"])),
    write(
        "Job.Revert",
        "PUT /v1/job/{JobID}/revert",
        Fields(&["JobID", "JobVersion", "EnforcePriorVersion", "ConsulToken", "VaultToken"]),
    ),
    write("Job.Stable", "PUT /v1/job/{JobID}/stable", Fields(&["JobID", "JobVersion", "Stable"])),
    write(
        "Job.Dispatch",
        "PUT /v1/job/{JobID}/dispatch?idempotency_token={IdempotencyToken}",
        Fields(&["JobID", "Payload", "Meta", "IdPrefixTemplate"]),
    ),
    write(
        "Job.Scale",
        "PUT /v1/job/{JobID}/scale",
        Fields(&["Target", "Count", "Message", "Error", "Meta", "PolicyOverride"]),
    ),
    write("Periodic.Force", "PUT /v1/job/{JobID}/periodic/force", Empty),
    // Allocations, evaluations, deployments.
    read(
        "Alloc.List",
        "GET /v1/allocations?resources={Fields.Resources}&task_states={Fields.TaskStates}",
        "Allocations",
    ),
    read("Alloc.GetServiceRegistrations", "GET /v1/allocation/{AllocID}/services", "Services"),
    write("Alloc.Stop", "PUT /v1/allocation/{AllocID}/stop?no_shutdown_delay={NoShutdownDelay}", Empty),
    read("Eval.List", "GET /v1/evaluations?job={FilterJobID}&status={FilterEvalStatus}", "Evaluations"),
    read("Eval.GetEval", "GET /v1/evaluation/{EvalID}?related={IncludeRelated}", "Eval"),
    read("Eval.Allocations", "GET /v1/evaluation/{EvalID}/allocations", "Allocations"),
    whole("Eval.Count", "GET /v1/evaluations/count"),
    write("Eval.Delete", "DELETE /v1/evaluations", Fields(&["EvalIDs", "Filter"])),
    read("Deployment.List", "GET /v1/deployments", "Deployments"),
    read("Deployment.GetDeployment", "GET /v1/deployment/{DeploymentID}", "Deployment"),
    read("Deployment.Allocations", "GET /v1/deployment/allocations/{DeploymentID}", "Allocations"),
    write("Deployment.Fail", "PUT /v1/deployment/fail/{DeploymentID}", Empty),
    write("Deployment.Pause", "PUT /v1/deployment/pause/{DeploymentID}", Fields(&["DeploymentID", "Pause"])),
    write(
        "Deployment.Promote",
        "PUT /v1/deployment/promote/{DeploymentID}",
        Fields(&["DeploymentID", "All", "Groups"]),
    ),
    write("Deployment.Unblock", "PUT /v1/deployment/unblock/{DeploymentID}", Fields(&["DeploymentID"])),
    write(
        "Deployment.SetAllocHealth",
        "PUT /v1/deployment/allocation-health/{DeploymentID}",
        Fields(&["DeploymentID", "HealthyAllocationIDs", "UnhealthyAllocationIDs"]),
    ),
    // Nodes and node pools.
    read("Node.List", "GET /v1/nodes?resources={Fields.Resources}&os={Fields.OS}", "Nodes"),
    read("Node.GetAllocs", "GET /v1/node/{NodeID}/allocations", "Allocs"),
    write(
        "Node.UpdateEligibility",
        "PUT /v1/node/{NodeID}/eligibility",
        Fields(&["NodeID", "Eligibility", "NodeEvent"]),
    ),
    write("Node.Evaluate", "PUT /v1/node/{NodeID}/evaluate", Empty),
    write("Node.Deregister", "PUT /v1/node/{NodeID}/purge", Empty),
    read("NodePool.List", "GET /v1/node/pools", "NodePools"),
    read("NodePool.GetNodePool", "GET /v1/node/pool/{Name}", "NodePool"),
    read("NodePool.ListNodes", "GET /v1/node/pool/{Name}/nodes?resources={Fields.Resources}&os={Fields.OS}", "Nodes"),
    read("NodePool.ListJobs", "GET /v1/node/pool/{Name}/jobs?meta={Fields.Meta}", "Jobs"),
    write("NodePool.UpsertNodePools", "PUT /v1/node/pools", Part("NodePools.0")),
    write("NodePool.DeleteNodePools", "DELETE /v1/node/pool/{Names.0}", Empty),
    // Namespaces.
    read("Namespace.ListNamespaces", "GET /v1/namespaces", "Namespaces"),
    read("Namespace.GetNamespace", "GET /v1/namespace/{Name}", "Namespace"),
    write("Namespace.UpsertNamespaces", "PUT /v1/namespace", Part("Namespaces.0")),
    write("Namespace.DeleteNamespaces", "DELETE /v1/namespace/{Namespaces.0}", Empty),
    // Rights.
    read("ACL.ListPolicies", "GET /v1/acl/policies", "Policies"),
    read("ACL.GetPolicy", "GET /v1/acl/policy/{Name}", "Policy"),
    write("ACL.UpsertPolicies", "PUT /v1/acl/policy/{Policies.0.Name}", Part("Policies.0")),
    write("ACL.DeletePolicies", "DELETE /v1/acl/policy/{Names.0}", Empty),
    read("ACL.ListTokens", "GET /v1/acl/tokens", "Tokens"),
    read("ACL.GetToken", "GET /v1/acl/token/{AccessorID}", "Token"),
    read(RESOLVE_TOKEN, "GET /v1/acl/token/self", "Token"),
    made("ACL.UpsertTokens", "PUT /v1/acl/token", Part("Tokens.0"), "Tokens"),
    made("ACL.Bootstrap", "PUT /v1/acl/bootstrap", Fields(&["BootstrapSecret"]), "Tokens"),
    write("ACL.DeleteTokens", "DELETE /v1/acl/token/{AccessorIDs.0}", Empty),
    write("ACL.UpsertOneTimeToken", "PUT /v1/acl/token/onetime", Empty),
    write("ACL.ExchangeOneTimeToken", "PUT /v1/acl/token/onetime/exchange", Fields(&["OneTimeSecretID"])),
    read("ACL.ListRoles", "GET /v1/acl/roles", "ACLRoles"),
    read("ACL.GetRoleByID", "GET /v1/acl/role/{RoleID}", "ACLRole"),
    read("ACL.GetRoleByName", "GET /v1/acl/role/name/{RoleName}", "ACLRole"),
    made("ACL.UpsertRoles", "PUT /v1/acl/role", Part("ACLRoles.0"), "ACLRoles"),
    write("ACL.DeleteRolesByID", "DELETE /v1/acl/role/{ACLRoleIDs.0}", Empty),
    read("ACL.ListAuthMethods", "GET /v1/acl/auth-methods", "AuthMethods"),
    read("ACL.GetAuthMethod", "GET /v1/acl/auth-method/{MethodName}", "AuthMethod"),
    made("ACL.UpsertAuthMethods", "PUT /v1/acl/auth-method", Part("AuthMethods.0"), "AuthMethods"),
    write("ACL.DeleteAuthMethods", "DELETE /v1/acl/auth-method/{Names.0}", Empty),
    read("ACL.ListBindingRules", "GET /v1/acl/binding-rules", "ACLBindingRules"),
    read("ACL.GetBindingRule", "GET /v1/acl/binding-rule/{ACLBindingRuleID}", "ACLBindingRule"),
    made("ACL.UpsertBindingRules", "PUT /v1/acl/binding-rule", Part("ACLBindingRules.0"), "ACLBindingRules"),
    write("ACL.DeleteBindingRules", "DELETE /v1/acl/binding-rule/{ACLBindingRuleIDs.0}", Empty),
    Route {
        method: "ACL.Login",
        http: "PUT /v1/acl/login",
        body: Fields(&["AuthMethodName", "LoginToken"]),
        answer: Answer::Field("ACLToken"),
    },
    write("ACL.OIDCAuthURL", "PUT /v1/acl/oidc/auth-url", Fields(&["AuthMethodName", "RedirectURI", "ClientNonce"])),
    Route {
        method: "ACL.OIDCCompleteAuth",
        http: "PUT /v1/acl/oidc/complete-auth",
        body: Fields(&["AuthMethodName", "RedirectURI", "ClientNonce", "State", "Code"]),
        answer: Answer::Field("ACLToken"),
    },
    // Volumes, services, scaling.
    read("CSIVolume.List", "GET /v1/volumes?type=csi&plugin_id={PluginID}&node_id={NodeID}", "Volumes"),
    Route { method: "CSIVolume.Get", http: "GET /v1/volume/csi/{ID}", body: Empty, answer: Answer::Volume("Volume") },
    write("CSIVolume.Register", "PUT /v1/volumes", Fields(&["Volumes"])),
    write("CSIVolume.Deregister", "DELETE /v1/volume/csi/{VolumeIDs.0}?force={Force}", Empty),
    read("CSIPlugin.List", "GET /v1/plugins?type=csi", "Plugins"),
    read("CSIPlugin.Get", "GET /v1/plugin/csi/{ID}", "Plugin"),
    read("ServiceRegistration.List", "GET /v1/services", "Services"),
    read("Scaling.ListPolicies", "GET /v1/scaling/policies?job={Job}&type={Type}", "Policies"),
    read("Scaling.GetPolicy", "GET /v1/scaling/policy/{ID}", "Policy"),
    // The cluster.
    write("Search.PrefixSearch", "PUT /v1/search", Fields(&["Prefix", "Context"])),
    write("Search.FuzzySearch", "PUT /v1/search/fuzzy", Fields(&["Text", "Context"])),
    whole("Region.List", "GET /v1/regions"),
    write("System.GarbageCollect", "PUT /v1/system/gc", Empty),
    write("System.ReconcileJobSummaries", "PUT /v1/system/reconcile/summaries", Empty),
    whole("Operator.SchedulerGetConfiguration", "GET /v1/operator/scheduler/configuration"),
    write(
        "Operator.SchedulerSetConfiguration",
        "PUT /v1/operator/scheduler/configuration?cas={CAS?Config.ModifyIndex}",
        Part("Config"),
    ),
    whole("Operator.RaftGetConfiguration", "GET /v1/operator/raft/configuration"),
    write("Operator.RaftRemovePeerByID", "DELETE /v1/operator/raft/peer?id={ID}", Empty),
    write("Operator.RaftRemovePeerByAddress", "DELETE /v1/operator/raft/peer?address={Address}", Empty),
    read("Keyring.List", "GET /v1/operator/keyring/keys", "Keys"),
    write("Keyring.Rotate", "PUT /v1/operator/keyring/rotate?full={Full?Full}", Empty),
    write("Keyring.Delete", "DELETE /v1/operator/keyring/key/{KeyID}", Empty),
];
