//! `ACL`: identity and permissions of a caller, as nodes ask for requests to their own HTTP.

use std::collections::BTreeMap;

use songline_model::{
    AccessorId, AclPolicy, AclRole, AclTokenKind, AclTokenRoleLink, AllocId, Blob, Dur, JobId, NamespaceName, NodeId,
    RoleId, Secret, Str, Time,
};

use super::message;
use crate::msgpack::RawValue;

message! {
    /// Asks for the caller's identity.
    read AclWhoAmI ("ACL.WhoAmI" -> AclWhoAmIAnswer) {}
}
message! {
    /// The caller's identity.
    answer AclWhoAmIAnswer {
        identity: Option<AuthenticatedIdentity>,
    }
}
message! {
    /// Identity of a caller; one field is set.
    plain AuthenticatedIdentity {
        /// A token, possibly the anonymous one.
        #[serde(rename = "ACLToken")]
        acl_token: Option<WireToken>,
        /// A task, by its workload identity.
        claims: Option<WireClaims>,
        /// A node.
        #[serde(rename = "ClientID")]
        client_id: Option<NodeId>,
        /// A server, by the name in its certificate.
        #[serde(rename = "TLSName")]
        tls_name: Str,
        /// IP address, 4 or 16 bytes.
        #[serde(rename = "RemoteIP")]
        remote_ip: Option<Blob>,
    }
}
message! {
    /// A token as on the wire, with its secret.
    plain WireToken {
        /// Accessor id; the text `anonymous` for the anonymous token.
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
    /// Claims of a workload identity.
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
    /// Asks for the policies of the calling task.
    read AclGetClaimPolicies ("ACL.GetClaimPolicies" -> AclPolicies) {}
}
message! {
    /// Policies by name; unknown names are left out.
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
    /// Roles by id; unknown ids are left out.
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
    /// The role, if it exists.
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
    /// The token, if it exists.
    answer AclTokenAnswer {
        token: Option<WireToken>,
    }
}
message! {
    /// Asks for an auth method.
    read AclGetAuthMethod ("ACL.GetAuthMethod" -> AclAuthMethodAnswer) {
        method_name: Str,
    }
}
message! {
    /// The auth method, if it exists. Nodes do not ask for it, only users do.
    answer AclAuthMethodAnswer {
        auth_method: RawValue,
    }
}
message! {
    /// Logs in with an auth method.
    write AclLogin ("ACL.Login" -> AclLoginAnswer) {
        auth_method_name: Str,
        login_token: Secret,
    }
}
message! {
    /// The token made for the login.
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

    /// The accessor as an id; `None` for the anonymous token.
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
