//! Random ACL entries with few names, so that they collide: shared secrets, taken names, missing roles, swaps within
//! an entry.

use songline_commands::*;
use songline_model::*;

use super::Dice;
use crate::State;
use crate::story::id;

impl Dice {
    fn accessor(&mut self) -> AccessorId {
        AccessorId::from_bytes(self.bytes('t', 6))
    }

    fn secret(&mut self) -> SecretId {
        SecretId::from_bytes(self.bytes('s', 9))
    }

    fn role_id(&mut self) -> RoleId {
        RoleId::from_bytes(self.bytes('r', 4))
    }

    fn name(&mut self) -> Str {
        self.pick(&["a", "b", "c", "d"]).into()
    }

    fn names(&mut self) -> Vec<Str> {
        (0..self.below(3)).map(|_| self.name()).collect()
    }

    /// A row's hash; sometimes absent, so that the row is refused.
    fn hash(&mut self, computed: Blob) -> Option<Blob> {
        self.chance(97).then_some(computed)
    }

    fn acl_token(&mut self) -> AclToken {
        let links = (0..self.below(3)).map(|_| AclTokenRoleLink { id: self.role_id(), name: "n".into() }).collect();
        let mut row = AclToken {
            accessor_id: self.accessor(),
            secret_id: self.secret(),
            kind: AclTokenKind::Client,
            policies: self.chance(70).then(|| self.names()),
            roles: self.chance(70).then_some(links),
            global: self.chance(40),
            create_time: Time::from_secs(9),
            expiration_time: self.chance(50).then(|| Time::from_secs(self.below(90).cast_signed())),
            ..AclToken::default()
        };
        row.hash = self.hash(row.compute_hash());
        row
    }

    fn acl_policy(&mut self) -> AclPolicy {
        let job_acl = self.chance(50).then(|| JobAcl {
            namespace: self.pick(&["", "default", "dev"]).into(),
            job_id: self.pick(&["", "j1", "j11"]).into(),
            ..JobAcl::default()
        });
        let mut row = AclPolicy { name: self.name(), job_acl, ..AclPolicy::default() };
        row.hash = self.hash(row.compute_hash());
        row
    }

    fn acl_role(&mut self) -> AclRole {
        let policies = self.names().into_iter().map(|name| AclRolePolicyLink { name }).collect();
        let mut row = AclRole { id: self.role_id(), name: self.name(), policies: Some(policies), ..AclRole::default() };
        row.hash = self.hash(row.compute_hash());
        row
    }

    fn acl_auth_method(&mut self) -> AclAuthMethod {
        let (name, default) = (self.name(), self.chance(40));
        let (create_time, modify_time) = (Time::from_secs(3), Time::from_secs(4));
        let mut row = AclAuthMethod { name, default, create_time, modify_time, ..AclAuthMethod::default() };
        row.hash = self.hash(row.compute_hash());
        row
    }

    fn acl_binding_rule(&mut self) -> AclBindingRule {
        let mut row = AclBindingRule {
            id: BindingRuleId::from_bytes(self.bytes('b', 4)),
            auth_method: self.name(),
            selector: self.name(),
            create_time: Time::from_secs(3),
            modify_time: Time::from_secs(4),
            ..AclBindingRule::default()
        };
        row.hash = self.hash(row.compute_hash());
        row
    }

    pub(super) fn acl_command(&mut self, state: &State) -> Command {
        let some = 1 + self.below(3);
        match self.below(18) {
            0 | 1 => UpsertAclPolicies { policies: (0..some).map(|_| self.acl_policy()).collect() }.into(),
            2 => DeleteAclPolicies { names: self.names() }.into(),
            3 | 4 => UpsertAclTokens { tokens: (0..some).map(|_| self.acl_token()).collect() }.into(),
            5 => DeleteAclTokens { accessor_ids: vec![self.accessor()] }.into(),
            6 => {
                let reset_index =
                    if self.chance(50) { state.acl_bootstrap_index().unwrap_or(0) } else { self.below(3) };
                BootstrapAclToken { token: self.acl_token(), reset_index }.into()
            }
            7 => {
                let config = AutopilotConfig { max_trailing_logs: self.below(9), ..AutopilotConfig::default() };
                SetAutopilotConfig { config, cas: self.chance(50).then(|| self.below(100)) }.into()
            }
            8 => UpsertOneTimeToken {
                token: OneTimeToken {
                    one_time_secret_id: self.secret(),
                    accessor_id: self.accessor(),
                    expires_at: self.chance(90).then(|| Time::from_secs(self.below(90).cast_signed())),
                    ..OneTimeToken::default()
                },
            }
            .into(),
            9 => {
                let accessor_ids = vec![self.accessor()];
                DeleteOneTimeTokens { accessor_ids, exchanged: self.chance(50).then(|| self.below(100)) }.into()
            }
            10 => ExpireOneTimeTokens { timestamp: Time::from_secs(self.below(90).cast_signed()) }.into(),
            11 | 12 => UpsertAclRoles {
                roles: (0..some).map(|_| self.acl_role()).collect(),
                allow_missing_policies: self.chance(40),
            }
            .into(),
            13 => DeleteAclRoles { ids: vec![self.role_id()] }.into(),
            14 => UpsertAclAuthMethods { auth_methods: (0..some).map(|_| self.acl_auth_method()).collect() }.into(),
            15 => DeleteAclAuthMethods { names: self.names() }.into(),
            16 => UpsertAclBindingRules {
                binding_rules: (0..some).map(|_| self.acl_binding_rule()).collect(),
                allow_missing_auth_methods: self.chance(40),
            }
            .into(),
            _ => DeleteAclBindingRules { ids: vec![BindingRuleId::from_bytes(id(&format!("b{}", self.below(4))))] }
                .into(),
        }
    }
}
