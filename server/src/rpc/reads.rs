//! Reads by nodes of data that is not theirs alone. HTTP authorizes and answers them: each becomes the same HTTP
//! request.

use std::net::IpAddr;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use songline_api::caller::Identity;
use songline_api::{Agent as _, Cluster as _, Counted, Member, Status as _};
use songline_lang::acl::Access;
use songline_model::{AclPolicy, Blob, Node, Time};
use songline_rpc::RpcError;
use songline_rpc::message::{
    AclGetPolicies, AclGetRolesById, AclPolicies, AclRoles, AclWhoAmIAnswer, AllocGetAlloc, AllocGetAllocAnswer,
    AuthenticatedIdentity, NodeGetNode, NodeGetNodeAnswer, RequestMeta, ServerMember, ServiceGet, ServiceGetAnswer,
    StatusHasNodeConn, StatusHasNodeConnAnswer, StatusMembersAnswer, StatusPing, StatusRaftStatsAnswer, VariablesList,
    VariablesListAnswer, VariablesRead, VariablesReadAnswer, WireAlloc, WireClaims, WireToken,
};
use songline_rpc::msgpack::{from_slice, to_vec};
use songline_rpc::net::{Caller, Refusal};

use super::dispatch::NodeRpc;

/// Longest HTTP answer that is returned, in bytes.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// HTTP's answer to a read.
pub(super) struct Found {
    pub(super) index: u64,
    pub(super) next: String,
    /// `None` when the object does not exist.
    pub(super) body: Option<Bytes>,
}

impl NodeRpc {
    /// Answers calls that any server can answer.
    pub(super) fn asked(
        &self,
        method: &str,
        body: &[u8],
        meta: &RequestMeta,
        caller: &Caller,
    ) -> Result<Bytes, Refusal> {
        let core = &self.core;
        self.may_ask(method, meta, caller)?;
        match method {
            "Status.Leader" => encode(&core.leader_addr()),
            "Status.Peers" => encode(&core.peer_addrs()),
            "Status.Members" => {
                let info = core.info();
                encode(&StatusMembersAnswer {
                    members: Some(
                        core.members().into_iter().filter(|member| !member.name.is_empty()).map(shown).collect(),
                    ),
                    server_name: info.name.rsplit_once('.').map_or(info.name.as_str(), |(host, _)| host).into(),
                    server_region: info.region.as_str().into(),
                    server_dc: info.datacenter.as_str().into(),
                })
            }
            "Status.HasNodeConn" => {
                let ask: StatusHasNodeConn = from_slice(body)?;
                let local = core.connections.local_nodes().contains_key(&ask.node_id).then(|| core.stable_since());
                let since = core.connections.sessions.newest(ask.node_id).map(|(_, since)| since).or(local);
                // Without a connection the time is the wire's zero time.
                let connected = since.is_some();
                encode(&StatusHasNodeConnAnswer {
                    connected,
                    established: Some(since.unwrap_or(Time::from_nanos(i64::MIN))),
                    ..StatusHasNodeConnAnswer::default()
                })
            }
            "Status.RaftStats" => {
                let log = core.log();
                let last_contact = match log.last_contact() {
                    Some(ago) if !log.is_leader() => format!("{}ms", ago.as_millis()),
                    Some(_) | None => "0".to_owned(),
                };
                let (term, index) =
                    (log.leadership().borrow().term, log.applied().map_or(0, |at| at.index) + log.unapplied());
                encode(&StatusRaftStatsAnswer { last_contact: last_contact.into(), last_term: term, last_index: index })
            }
            _ => {
                let _: StatusPing = from_slice(body)?;
                Ok(Bytes::from_static(&[0x80]))
            }
        }
    }

    /// Refuses reads about servers to callers without the right that HTTP requires. Other servers may read.
    fn may_ask(&self, method: &str, meta: &RequestMeta, caller: &Caller) -> Result<(), RpcError> {
        if caller.is_server || !matches!(method, "Status.Members" | "Status.HasNodeConn" | "Status.RaftStats") {
            return Ok(());
        }
        let known = self.callers.authenticate(&*self.core, meta.auth_token.reveal());
        let may = known.is_ok_and(|known| match method {
            "Status.RaftStats" => known.acl().operator(Access::Read),
            _ => known.acl().node(Access::Read),
        });
        if may { Ok(()) } else { Err(RpcError::remote("Permission denied")) }
    }

    /// Answers a read.
    pub(super) async fn read(
        &self,
        method: &str,
        body: &[u8],
        meta: &RequestMeta,
        caller: &Caller,
    ) -> Result<Bytes, Refusal> {
        tokio::select! {
            answer = self.read_now(method, body, meta, caller) => answer,
            () = caller.gone() => Err(RpcError::Lost("the caller has gone".into()).into()),
        }
    }

    async fn read_now(&self, method: &str, body: &[u8], meta: &RequestMeta, caller: &Caller) -> Result<Bytes, Refusal> {
        match method {
            "Node.GetNode" => {
                let ask: NodeGetNode = from_slice(body)?;
                let found = self.ask(&format!("/v1/node/{}", ask.node_id), &[], meta).await?;
                let row = found.body.and_then(|_| self.core.view().node(ask.node_id).cloned());
                let node = row.map(|row| Node { secret_id: Default::default(), ..Node::clone(&row) });
                encode(&NodeGetNodeAnswer {
                    node,
                    index: found.index,
                    known_leader: true,
                    ..NodeGetNodeAnswer::default()
                })
            }
            "Alloc.GetAlloc" => {
                let ask: AllocGetAlloc = from_slice(body)?;
                let found = self.ask(&format!("/v1/allocation/{}", ask.alloc_id), &[], meta).await?;
                let alloc = found.body.and_then(|_| self.core.view().alloc(ask.alloc_id).cloned()).map(WireAlloc);
                encode(&AllocGetAllocAnswer {
                    alloc,
                    index: found.index,
                    known_leader: true,
                    ..AllocGetAllocAnswer::default()
                })
            }
            "ServiceRegistration.GetService" => {
                let ask: ServiceGet = from_slice(body)?;
                let path = format!("/v1/service/{}", escape(&ask.service_name));
                let found = self.ask(&path, &[("choose", &ask.choose), ("filter", &ask.filter)], meta).await?;
                let services = Some(read(&found)?);
                encode(&ServiceGetAnswer {
                    services,
                    index: found.index,
                    known_leader: true,
                    ..ServiceGetAnswer::default()
                })
            }
            "Variables.Read" => {
                let ask: VariablesRead = from_slice(body)?;
                let found = self.ask(&format!("/v1/var/{}", escape(&ask.path)), &[], meta).await?;
                let data = found.body.is_some().then(|| read(&found)).transpose()?;
                encode(&VariablesReadAnswer {
                    data,
                    index: found.index,
                    known_leader: true,
                    ..VariablesReadAnswer::default()
                })
            }
            "Variables.List" => {
                let ask: VariablesList = from_slice(body)?;
                let per_page = ask.per_page.to_string();
                let query = [
                    ("prefix", &*ask.prefix),
                    ("filter", &*ask.filter),
                    ("per_page", &*per_page),
                    ("next_token", &*ask.next_token),
                ];
                let found = self.ask("/v1/vars", &query, meta).await?;
                let (data, next_token) = (Some(read(&found)?), found.next.as_str().into());
                encode(&VariablesListAnswer {
                    data,
                    index: found.index,
                    known_leader: true,
                    next_token,
                    ..VariablesListAnswer::default()
                })
            }
            "ACL.WhoAmI" => self.who_am_i(meta, caller),
            "Job.GetJob" | "Job.Evaluations" | "Job.List" => self.of_jobs(method, body, meta).await,
            _ => self.of_caller(method, body, meta),
        }
    }

    fn who_am_i(&self, meta: &RequestMeta, caller: &Caller) -> Result<Bytes, Refusal> {
        let known = self.callers.authenticate(&*self.core, meta.auth_token.reveal());
        let known = known.map_err(|error| RpcError::remote(error.to_string()))?;
        let remote_ip = Some(Blob(octets(caller.from.ip())));
        let tls_name = caller
            .names
            .iter()
            .flat_map(|names| names.first())
            .next()
            .map(|name| name.as_str().into())
            .unwrap_or_default();
        let identity = match known.identity() {
            Identity::AclsOff => AuthenticatedIdentity::default(),
            Identity::Anonymous => AuthenticatedIdentity {
                acl_token: Some(WireToken::anonymous()),
                tls_name,
                remote_ip,
                ..AuthenticatedIdentity::default()
            },
            Identity::Token(token) => {
                AuthenticatedIdentity { acl_token: Some(WireToken::from(&**token)), ..AuthenticatedIdentity::default() }
            }
            Identity::Workload(workload) => {
                let claims = &workload.claims;
                let claims = WireClaims {
                    namespace: claims.namespace.clone(),
                    job_id: claims.job_id.clone(),
                    allocation_id: claims.alloc_id,
                    task_name: claims.task.clone(),
                    ..WireClaims::default()
                };
                AuthenticatedIdentity { claims: Some(claims), ..AuthenticatedIdentity::default() }
            }
            Identity::Node(node) => {
                AuthenticatedIdentity { client_id: Some(*node), ..AuthenticatedIdentity::default() }
            }
        };
        let index = self.core.view().applied_index();
        encode(&AclWhoAmIAnswer { identity: Some(identity), index, known_leader: true, ..AclWhoAmIAnswer::default() })
    }

    /// Policies and roles, as far as they are the caller's own. A management token may read all of them.
    fn of_caller(&self, method: &str, body: &[u8], meta: &RequestMeta) -> Result<Bytes, Refusal> {
        if !self.core.info().acl.enabled {
            return Err(RpcError::Coded { code: 400, text: "ACL support disabled".into() }.into());
        }
        let denied = || RpcError::remote("Permission denied");
        let known = self.callers.authenticate(&*self.core, meta.auth_token.reveal()).map_err(|_| denied())?;
        let view = self.core.view();
        let index = view.applied_index();
        let token = known.token();
        let by_name = |policies: Vec<std::sync::Arc<AclPolicy>>| {
            let policies =
                policies.into_iter().map(|policy| (policy.name.clone(), AclPolicy::clone(&policy))).collect();
            AclPolicies { policies: Some(policies), index, known_leader: true, ..AclPolicies::default() }
        };
        match method {
            "ACL.GetPolicies" => {
                let ask: AclGetPolicies = from_slice(body)?;
                let names = ask.names.unwrap_or_default();
                let own = token.map(|token| view.acl_policies_of_token(token)).unwrap_or_default();
                let anonymous = matches!(known.identity(), Identity::Anonymous);
                let may = |name: &str| {
                    known.acl().is_management()
                        || own.iter().any(|policy| policy.name == name)
                        // A deleted policy still belongs to the caller; it is left out of the answer.
                        || token.iter().flat_map(|token| token.policies.iter().flatten()).any(|own| own == name)
                        || (anonymous && name == songline_api::caller::ANONYMOUS_POLICY)
                };
                if !names.iter().all(|name| may(name)) {
                    return Err(denied().into());
                }
                encode(&by_name(names.iter().filter_map(|name| view.acl_policy(name).cloned()).collect()))
            }
            "ACL.GetClaimPolicies" => {
                let Identity::Workload(workload) = known.identity() else { return Err(denied().into()) };
                let (claims, alloc) = (&workload.claims, &workload.alloc);
                encode(&by_name(view.acl_policies_of_workload(
                    &claims.namespace,
                    &claims.job_id,
                    &alloc.task_group,
                    &claims.task,
                )))
            }
            _ => {
                let ask: AclGetRolesById = from_slice(body)?;
                let ids = ask.acl_role_ids.unwrap_or_default();
                let own: Vec<_> =
                    token.iter().flat_map(|token| token.roles.iter().flatten()).map(|link| link.id).collect();
                if !known.acl().is_management() && !ids.iter().all(|id| own.contains(id)) {
                    return Err(denied().into());
                }
                let roles = ids.iter().filter_map(|id| Some((*id, view.acl_role(*id)?.as_ref().clone()))).collect();
                encode(&AclRoles { acl_roles: Some(roles), index, known_leader: true, ..AclRoles::default() })
            }
        }
    }

    /// Sends the HTTP request with the caller's token and timeout.
    pub(super) async fn ask(&self, path: &str, query: &[(&str, &str)], meta: &RequestMeta) -> Result<Found, RpcError> {
        let mut uri = format!("{path}?");
        let namespace = if meta.namespace.is_empty() { "default" } else { meta.namespace.as_str() };
        let (index, wait) =
            (meta.min_query_index.to_string(), format!("{}ms", meta.max_query_time.nanos() / 1_000_000));
        let mut put = |name: &str, value: &str| {
            if !value.is_empty() {
                uri.push_str(&format!("{name}={}&", escape(value)));
            }
        };
        put("namespace", namespace);
        query.iter().for_each(|(name, value)| put(name, value));
        if meta.min_query_index > 0 {
            put("index", &index);
            if meta.max_query_time.nanos() > 0 {
                put("wait", &wait);
            }
        }
        if meta.allow_stale {
            put("stale", "true");
        }
        let failed = |error: &dyn std::fmt::Display| RpcError::remote(error.to_string());
        let request = Request::builder()
            .uri(uri.trim_end_matches('&'))
            .header("x-nomad-token", meta.auth_token.reveal())
            .extension(Counted);
        let response = self.api.answer(request.body(Body::empty()).map_err(|error| failed(&error))?).await;
        let (parts, body) = response.into_parts();
        let header =
            |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        let (index, next) = (header("x-nomad-index").parse().unwrap_or_default(), header("x-nomad-nexttoken"));
        let body = to_bytes(body, ANSWER_BYTES_MAX).await.map_err(|error| failed(&error))?;
        let text = || String::from_utf8_lossy(&body).into_owned();
        match parts.status {
            StatusCode::OK => Ok(Found { index, next, body: Some(body) }),
            StatusCode::NOT_FOUND => Ok(Found { index, next, body: None }),
            StatusCode::FORBIDDEN | StatusCode::INTERNAL_SERVER_ERROR => Err(RpcError::remote(text())),
            other => Err(RpcError::Coded { code: other.as_u16(), text: text() }),
        }
    }
}

/// A server as the reference's gossip describes it.
fn shown(member: Member) -> ServerMember {
    let addr = member.host().parse().ok().map(|ip| Blob(octets(ip)));
    ServerMember {
        addr,
        port: member.serf_port,
        tags: Some(member.tags.into_iter().map(|(name, value)| (name.into(), value.into())).collect()),
        status: if member.alive { "alive" } else { "failed" }.into(),
        name: member.name.into(),
        protocol_min: 1,
        protocol_max: 5,
        protocol_cur: 2,
        delegate_min: 2,
        delegate_max: 5,
        delegate_cur: 4,
    }
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// Decodes a row of HTTP; a missing one is the zero value.
pub(super) fn read<T: DeserializeOwned + Default>(found: &Found) -> Result<T, RpcError> {
    let Some(body) = &found.body else { return Ok(T::default()) };
    serde_json::from_slice(body).map_err(|error| RpcError::remote(error.to_string()))
}

pub(super) fn encode<T: Serialize + ?Sized>(answer: &T) -> Result<Bytes, Refusal> {
    to_vec(answer).map(Bytes::from).map_err(|error| RpcError::remote(error.to_string()).into())
}

/// Escapes a part of a path or query. Slashes stay.
pub(super) fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
