//! Access control and logins.

pub(crate) mod acl;
mod login;

use crate::Entry;

pub(crate) const COMMANDS: &[Entry] = &[
    Entry::group("acl", "Interact with ACL policies, roles and tokens"),
    Entry::command::<acl::Bootstrap>("acl bootstrap", "Make the first management token")
        .arity("This command takes up to one argument"),
    Entry::group("acl auth-method", "Interact with ACL auth methods"),
    Entry::command::<acl::method::Create>("acl auth-method create", "Make an auth method")
        .arity("This command takes no arguments"),
    Entry::command::<acl::method::Delete>("acl auth-method delete", "Delete an auth method")
        .arity("This command takes one argument: <acl_auth_method_name>"),
    Entry::command::<acl::method::Info>("acl auth-method info", "Show an auth method")
        .arity("This command takes one argument: <acl_auth_method_name>"),
    Entry::command::<acl::method::List>("acl auth-method list", "Show all auth methods")
        .arity("This command takes no arguments"),
    Entry::command::<acl::method::Update>("acl auth-method update", "Change an auth method")
        .arity("This command takes one argument: <acl_auth_method_name>"),
    Entry::group("acl binding-rule", "Interact with ACL binding rules"),
    Entry::command::<acl::rule::Create>("acl binding-rule create", "Make a binding rule")
        .arity("This command takes no arguments"),
    Entry::command::<acl::rule::Delete>("acl binding-rule delete", "Delete a binding rule")
        .arity("This command takes one argument: <acl_binding_rule_id>"),
    Entry::command::<acl::rule::Info>("acl binding-rule info", "Show a binding rule")
        .arity("This command takes one argument: <acl_binding_rule_id>"),
    Entry::command::<acl::rule::List>("acl binding-rule list", "Show all binding rules")
        .arity("This command takes no arguments"),
    Entry::command::<acl::rule::Update>("acl binding-rule update", "Change a binding rule")
        .arity("This command takes one argument: <acl_binding_rule_id>"),
    Entry::group("acl policy", "Interact with ACL policies"),
    Entry::command::<acl::policy::Apply>("acl policy apply", "Make or change a policy")
        .arity("This command takes two arguments: <name> and <path>"),
    Entry::command::<acl::policy::Delete>("acl policy delete", "Delete a policy")
        .arity("This command takes one argument: <name>"),
    Entry::command::<acl::policy::Info>("acl policy info", "Show a policy")
        .arity("This command takes one argument: <name>"),
    Entry::command::<acl::policy::List>("acl policy list", "Show all policies")
        .arity("This command takes no arguments"),
    Entry::group("acl role", "Interact with ACL roles"),
    Entry::command::<acl::role::Create>("acl role create", "Make a role").arity("This command takes no arguments"),
    Entry::command::<acl::role::Delete>("acl role delete", "Delete a role")
        .arity("This command takes one argument: <acl_role_id>"),
    Entry::command::<acl::role::Info>("acl role info", "Show a role")
        .arity("This command takes one argument: <acl_role_id>"),
    Entry::command::<acl::role::List>("acl role list", "Show all roles").arity("This command takes no arguments"),
    Entry::command::<acl::role::Update>("acl role update", "Change a role")
        .arity("This command takes one argument: <acl_role_id>"),
    Entry::group("acl token", "Interact with ACL tokens"),
    Entry::command::<acl::token::Create>("acl token create", "Make a token").arity("This command takes no arguments"),
    Entry::command::<acl::token::Delete>("acl token delete", "Delete a token")
        .arity("This command takes one argument: <token_accessor_id>"),
    Entry::command::<acl::token::Info>("acl token info", "Show a token")
        .arity("This command takes one argument: <token_accessor_id>"),
    Entry::command::<acl::token::List>("acl token list", "Show all tokens").arity("This command takes no arguments"),
    Entry::command::<acl::token::Own>("acl token self", "Show the token whose secret is used")
        .arity("This command takes no arguments"),
    Entry::command::<acl::token::Update>("acl token update", "Change a token")
        .arity("This command takes one argument: <token_accessor_id>"),
    Entry::command::<login::Login>("login", "Log in with an auth method").arity("This command takes no arguments"),
];
