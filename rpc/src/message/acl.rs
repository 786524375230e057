//! `ACL`: who a caller is and what it may, as nodes ask it for requests of their own HTTP.

use std::collections::BTreeMap;

use songline_model::{
    AccessorId, AclPolicy, AclRole, AclTokenKind, AclTokenRoleLink, AllocId, Blob, Dur, JobId, NamespaceName, NodeId, RoleId, Secret, Str,
    Time,
};

use super::message;
use crate::msgpack::RawValue;

message! {
    /// Asks who the caller is.
    read AclWhoAmI ("ACL.WhoAmI" -> AclWhoAmIAnswer) {}
}
message! {
    /// Who it is.
    answer AclWhoAmIAnswer {
        identity: Option<AuthenticatedIdentity>,
    }
}
message! {
    /// A caller: one of these.
    plain AuthenticatedIdentity {
        /// Somebody with a token, or the anonymous one.
        #[serde(rename = "ACLToken")]
        acl_token: Option<WireToken>,
        /// A task.
        claims: Option<WireClaims>,
        /// A node.
        #[serde(rename = "ClientID")]
        client_id: Option<NodeId>,
        /// A server, by its certificate.
        #[serde(rename = "TLSName")]
        tls_name: Str,
        /// 4 or 16 bytes.
        #[serde(rename = "RemoteIP")]
        remote_ip: Option<Blob>,
    }
}
message! {
    /// A token as the wire has it: with its secret.
    plain WireToken {
        /// Not an id in the anonymous one, which is `anonymous`.
        #[serde(rename = "AccessorID")]
        accessor_id: Str,
        #[serde(rename = "SecretID")]
        secret_id: Secret,
        name: Str,
        #[serde(rename = "Type")]
        kind: AclTokenKind,
        policies: Option<Vec<Str>>,
        roles: Option<Vec<AclTokenRoleLink>>,
        global: bool,
        hash: Option<Blob>,
        create_time: Option<Time>,
        expiration_time: Option<Time>,
        #[serde(rename = "ExpirationTTL")]
        expiration_ttl: Dur,
        create_index: u64,
        modify_index: u64,
    }
}
message! {
    /// What an identity of a task says.
    plain WireClaims {
        namespace: NamespaceName,
        #[serde(rename = "JobID")]
        job_id: JobId,
        #[serde(rename = "AllocationID")]
        allocation_id: AllocId,
        task_name: Str,
        issuer: Str,
        subject: Str,
        audience: Option<Vec<Str>>,
        expires_at: Option<Time>,
        not_before: Option<Time>,
        issued_at: Option<Time>,
        #[serde(rename = "ID")]
        id: Str,
    }
}
message! {
    /// Asks for policies by name.
    read AclGetPolicies ("ACL.GetPolicies" -> AclPolicies) {
        names: Option<Vec<Str>>,
    }
}
message! {
    /// Asks for the policies of the task that calls.
    read AclGetClaimPolicies ("ACL.GetClaimPolicies" -> AclPolicies) {}
}
message! {
    /// Policies by name; those that are not there are left out.
    answer AclPolicies {
        policies: Option<BTreeMap<Str, AclPolicy>>,
    }
}
message! {
    /// Asks for roles.
    read AclGetRolesById ("ACL.GetRolesByID" -> AclRoles) {
        #[serde(rename = "ACLRoleIDs")]
        acl_role_ids: Option<Vec<RoleId>>,
    }
}
message! {
    /// Roles by id; those that are not there are left out.
    answer AclRoles {
        #[serde(rename = "ACLRoles")]
        acl_roles: Option<BTreeMap<RoleId, AclRole>>,
    }
}
message! {
    /// Asks for a role.
    read AclGetRoleById ("ACL.GetRoleByID" -> AclRoleAnswer) {
        #[serde(rename = "RoleID")]
        role_id: RoleId,
    }
}
message! {
    /// It, if it is there.
    answer AclRoleAnswer {
        #[serde(rename = "ACLRole")]
        acl_role: Option<AclRole>,
    }
}
message! {
    /// Asks for a token by its secret.
    read AclResolveToken ("ACL.ResolveToken" -> AclTokenAnswer) {
        #[serde(rename = "SecretID")]
        secret_id: Secret,
    }
}
message! {
    /// It, if it is there.
    answer AclTokenAnswer {
        token: Option<WireToken>,
    }
}
message! {
    /// Asks for a way to log in.
    read AclGetAuthMethod ("ACL.GetAuthMethod" -> AclAuthMethodAnswer) {
        method_name: Str,
    }
}
message! {
    /// It, if it is there. Nobody but people asks.
    answer AclAuthMethodAnswer {
        auth_method: RawValue,
    }
}
message! {
    /// Logs in.
    write AclLogin ("ACL.Login" -> AclLoginAnswer) {
        auth_method_name: Str,
        login_token: Secret,
    }
}
message! {
    /// A token of one's own.
    written AclLoginAnswer {
        #[serde(rename = "ACLToken")]
        acl_token: Option<WireToken>,
    }
}
message! {
    /// Writes policies.
    write AclUpsertPolicies ("ACL.UpsertPolicies" -> super::Written) {
        policies: Option<Vec<AclPolicy>>,
    }
}

impl WireToken {
    /// The anonymous token.
    pub fn anonymous() -> Self {
        Self {
            accessor_id: "anonymous".into(),
            name: "Anonymous Token".into(),
            policies: Some(vec!["anonymous".into()]),
            ..Self::default()
        }
    }

    /// The accessor as an id; none of the anonymous token.
    pub fn accessor(&self) -> Option<AccessorId> {
        self.accessor_id.parse().ok().filter(|id: &AccessorId| !id.is_nil())
    }
}

impl From<&songline_model::AclToken> for WireToken {
    fn from(row: &songline_model::AclToken) -> Self {
        Self {
            accessor_id: row.accessor_id.to_string().into(),
            secret_id: Secret::new(row.secret_id.reveal()),
            name: row.name.clone(),
            kind: row.kind.clone(),
            policies: row.policies.clone(),
            roles: row.roles.clone(),
            global: row.global,
            hash: row.hash.clone(),
            create_time: Some(row.create_time),
            expiration_time: row.expiration_time,
            expiration_ttl: row.expiration_ttl,
            create_index: row.create_index,
            modify_index: row.modify_index,
        }
    }
}
