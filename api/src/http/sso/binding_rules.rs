//! Binding rules: list, read, write, delete.

use axum::response::Response;
use songline_commands::{DeleteAclBindingRules, UpsertAclBindingRules};
use songline_events::watch::WatchKey;
use songline_lang::bexpr::Filter;
use songline_model::{AclBindingRule, BindingRuleId};
use songline_projections::{Rejected, State, Table};
use songline_wire::sso::{BindingRuleBody, BindingRuleStub};

use crate::error::ApiError;
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta, empty_written};
use crate::server::{Reads, Writes};

const KEYS: [WatchKey; 1] = [WatchKey::Table(Table::AclBindingRules)];

pub(super) async fn list<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    call.with_acls()?;
    let params = call.read_params()?;
    let found = blocking::run(&call, &params, &KEYS, |view| {
        let rows: Vec<_> = view.acl_binding_rules().cloned().collect();
        Ok(At { index: view.table_index(Table::AclBindingRules).max(1), value: rows })
    })
    .await?;
    let stubs: Vec<_> = found.value.iter().map(|row| BindingRuleStub::new(row)).collect();
    call.read(&Meta::at(found.index), &stubs)
}

pub(super) async fn read<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let asked = required_id(&call)?;
    call.with_acls()?;
    let params = call.read_params()?;
    let found = blocking::run(&call, &params, &KEYS, |view| {
        let row = known(view, &asked).cloned();
        let index =
            row.as_ref().map_or_else(|| view.table_index(Table::AclBindingRules).max(1), |row| row.modify_index);
        Ok(At { index, value: row })
    })
    .await?;
    match found.value {
        Some(row) => call.read(&Meta::at(found.index), &*row),
        None => Err(ApiError::missing("ACL binding rule not found", found.index)),
    }
}

pub(super) async fn create<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let body: BindingRuleBody = call.json().await?;
    call.with_acls()?;
    write(&call, body).await
}

pub(super) async fn update<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let asked = required_id(&call)?;
    let mut body: BindingRuleBody = call.json().await?;
    if body.id.is_empty() {
        body.id.clone_from(&asked);
    }
    if body.id != asked {
        return Err(ApiError::bad_request("ACL binding rule ID does not match request path"));
    }
    call.with_acls()?;
    write(&call, body).await
}

pub(super) async fn delete<S: Writes>(call: Call<S>) -> Result<Response, ApiError> {
    let asked = required_id(&call)?;
    call.with_acls()?;
    call.write_namespace()?;
    // A malformed id names no rule, and is not worth an entry in the log.
    let id = parse(&asked).ok_or(Rejected::AclBindingRuleNotFound)?;
    let written = call.propose(DeleteAclBindingRules { ids: vec![id] }).await?;
    Ok(empty_written(written.index))
}

async fn write<S: Writes>(call: &Call<S>, body: BindingRuleBody) -> Result<Response, ApiError> {
    call.write_namespace()?;
    let view = call.view();
    let mut rule = AclBindingRule {
        description: body.description,
        auth_method: body.auth_method,
        selector: body.selector,
        bind_kind: body.bind_kind.as_str().into(),
        bind_name: body.bind_name,
        ..AclBindingRule::default()
    };
    if body.id.is_empty() {
        rule.id = call.fresh_uuid().into();
    } else {
        let stored = known(&view, &body.id)
            .ok_or_else(|| ApiError::bad_request(format!("cannot find binding rule {}", body.id)))?;
        rule = over(rule, stored)?;
    }
    let selector = if rule.selector.is_empty() { Ok(()) } else { Filter::parse(&rule.selector).map(drop) };
    let valid = rule.validate(selector.map_err(|error| error.to_string()));
    valid.map_err(|errors| ApiError::bad_request(format!("binding rule 0 invalid: {errors}")))?;
    if view.acl_auth_method(&rule.auth_method).is_none() {
        return Err(ApiError::bad_request(format!("ACL auth method {} not found", rule.auth_method)));
    }
    let (id, now) = (rule.id, call.server.now());
    rule.create_time = now;
    rule.modify_time = now;
    rule.hash = Some(rule.compute_hash());
    let command = UpsertAclBindingRules { binding_rules: vec![rule], allow_missing_auth_methods: false };
    let written = call.propose(command).await?;
    let view = call.view_after(written.index).await;
    let row = view.acl_binding_rule(id).ok_or(Rejected::AclBindingRuleNotFound)?;
    call.written(written.index, &**row)
}

/// Merges an update: auth method and binding are kept when missing; missing selector and description become empty.
fn over(mut rule: AclBindingRule, stored: &AclBindingRule) -> Result<AclBindingRule, ApiError> {
    rule.id = stored.id;
    if rule.auth_method.is_empty() {
        rule.auth_method = stored.auth_method.clone();
    }
    if rule.auth_method != stored.auth_method {
        return Err(ApiError::bad_request("cannot update auth method for binding rule, create a new rule instead"));
    }
    if rule.bind_kind.as_str().is_empty() {
        rule.bind_kind = stored.bind_kind.clone();
    }
    if rule.bind_name.is_empty() {
        rule.bind_name = stored.bind_name.clone();
    }
    Ok(rule)
}

fn known<'a>(view: &'a State, id: &str) -> Option<&'a std::sync::Arc<AclBindingRule>> {
    view.acl_binding_rule(parse(id)?)
}

/// Parses a rule id in canonical form: the reference stores rule ids as strings, so only the exact text matches.
fn parse(id: &str) -> Option<BindingRuleId> {
    id.parse().ok().filter(|parsed: &BindingRuleId| !parsed.is_nil() && parsed.to_string() == id)
}

fn required_id<S>(call: &Call<S>) -> Result<String, ApiError> {
    match call.id() {
        "" => Err(ApiError::bad_request("missing ACL binding rule ID")),
        id => Ok(id.to_owned()),
    }
}
