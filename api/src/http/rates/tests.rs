//! Every route is counted under one name, or excluded with a reason.

use std::collections::BTreeSet;

use super::identity_label;
use crate::caller::AuthError;
use crate::http::rate::RateOp;
use crate::http::route::Route;
use crate::http::route::table::MEASURED;

/// Routes that the rate counters exclude, with reasons. They still count in `songline.http.request`.
const LEFT_OUT: &[(&str, &str, &str)] = &[
    ("/ui/{}", "*", "pages for people"),
    ("/v1/acl/auth-methods", "GET", "the reference does not measure what comes before a login"),
    ("/v1/acl/login", "PUT,POST", "the reference does not measure logins"),
    ("/v1/acl/oidc/auth-url", "PUT,POST", "the reference does not measure logins"),
    ("/v1/acl/oidc/complete-auth", "PUT,POST", "the reference does not measure logins"),
    ("/v1/acl/token/onetime", "PUT,POST", "the reference does not measure one-time tokens"),
    ("/v1/acl/token/onetime/exchange", "PUT,POST", "the reference does not measure one-time tokens"),
    ("/v1/agent/health", "GET", "the agent answers by itself"),
    ("/v1/agent/join", "PUT,POST", "the agent answers by itself"),
    ("/v1/agent/keyring/install{}", "*", "the agent answers by itself"),
    ("/v1/agent/keyring/list{}", "*", "the agent answers by itself"),
    ("/v1/agent/keyring/remove{}", "*", "the agent answers by itself"),
    ("/v1/agent/keyring/use{}", "*", "the agent answers by itself"),
    ("/v1/agent/keyring/{}", "*", "always an error"),
    ("/v1/allocation/{}", "*", "always an error"),
    ("/v1/agent/schedulers", "GET", "the agent answers by itself"),
    ("/v1/agent/schedulers/config", "GET", "the agent answers by itself"),
    ("/v1/agent/schedulers/config", "PUT,POST", "the agent answers by itself"),
    ("/v1/agent/self", "GET", "the agent answers by itself"),
    ("/v1/agent/servers", "GET", "the agent answers by itself"),
    ("/v1/agent/servers", "PUT,POST", "the agent answers by itself"),
    ("/v1/client/allocation/{}", "*", "always an error"),
    ("/v1/client/fs/{}", "*", "always an error"),
    ("/v1/jobs/parse", "PUT,POST", "the agent answers by itself"),
    ("/v1/jwks.json", "GET", "public keys, for programs that know nothing else of the servers"),
    ("/v1/metrics", "GET", "the agent answers by itself"),
    ("/v1/openapi.json", "GET", "the agent answers by itself"),
    ("/v1/operator/autopilot/configuration", "*", "always an error"),
    ("/v1/operator/autopilot/health", "*", "always an error"),
    ("/v1/operator/keyring/{}", "*", "always an error"),
    ("/v1/operator/license", "GET", "always an error"),
    ("/v1/operator/license", "PUT", "always an error"),
    ("/v1/operator/raft/{}", "*", "always an error"),
    ("/v1/recommendation", "*", "always an error"),
    ("/v1/recommendation/{}", "*", "always an error"),
    ("/v1/recommendations", "*", "always an error"),
    ("/v1/recommendations/apply", "*", "always an error"),
    ("/v1/sentinel/policies", "*", "always an error"),
    ("/v1/sentinel/policy/{}", "*", "always an error"),
    ("/v1/var/{}", "*", "always an error"),
    ("/v1/volume/csi/{}/create", "*", "always an error"),
    ("/v1/volume/csi/{}/delete", "*", "always an error"),
    ("/v1/volume/csi/{}/detach", "*", "always an error"),
];

#[test]
fn unknown_token_is_labelled_by_the_address_of_its_caller() {
    let label = |error, peer| identity_label(&Err(error), peer);
    let peer = Some([10, 0, 0, 1].into());
    assert_eq!(label(AuthError::Unknown, peer).as_deref(), Some(":10.0.0.1"));
    assert_eq!(label(AuthError::Unknown, None).as_deref(), Some("unauthenticated"));
    assert_eq!(label(AuthError::Expired, peer), None);
}

#[test]
fn every_route_is_measured_or_left_out_with_a_reason() {
    let text = include_str!("../../../routes.txt");
    let mut routes: Vec<(&str, &str)> = text
        .lines()
        .map(|line| {
            let mut words = line.split(' ');
            (words.next().unwrap(), words.next().unwrap())
        })
        .collect();
    let measured = MEASURED.iter().map(|row| (row.0, row.1));
    let left_out = LEFT_OUT.iter().map(|row| (row.0, row.1));
    let mut told: Vec<_> = measured.chain(left_out).collect();
    routes.sort_unstable();
    told.sort_unstable();
    assert_eq!(told, routes);
}

#[test]
fn every_reference_endpoint_reachable_over_http_is_measured() {
    // `client_csi` is counted at calls of a controller, `plan` when a scheduler submits one.
    let known = "acl agent alloc client_allocations client_stats csi_plugin csi_volume deployment eval event file_system job job_submission \
                 keyring namespace node node_meta node_pool operator periodic region scaling search service_registration status system \
                 variables";
    let ours = "audit explain history quota";
    let expected: BTreeSet<&str> = known.split_whitespace().chain(ours.split_whitespace()).collect();
    assert_eq!(MEASURED.iter().map(|row| row.2).collect::<BTreeSet<_>>(), expected);
}

#[test]
fn http_routes_are_measured_as_their_reference_rpc_endpoint() {
    for (path, methods, expected) in [
        ("/v1/jobs", "GET", Some(("job", RateOp::List))),
        ("/v1/jobs", "PUT,POST", Some(("job", RateOp::Write))),
        ("/v1/job/{}", "GET", Some(("job", RateOp::Read))),
        ("/v1/job/{}/periodic/force", "PUT,POST", Some(("periodic", RateOp::Write))),
        ("/v1/job/{}/submission", "*", Some(("job_submission", RateOp::Read))),
        ("/v1/jobs/parse", "PUT,POST", None),
        ("/v1/validate/job", "PUT,POST", Some(("job", RateOp::Read))),
        ("/v1/node/pool/{}", "GET", Some(("node_pool", RateOp::Read))),
        ("/v1/search", "PUT,POST", Some(("search", RateOp::Read))),
        ("/v1/acl/tokens", "GET", Some(("acl", RateOp::List))),
        ("/v1/acl/login", "PUT,POST", None),
        ("/v1/metrics", "GET", None),
    ] {
        let rate = Route::of(path, "", methods).rate.map(|rate| (rate.endpoint, rate.op));
        assert_eq!(rate, expected, "{methods} {path}");
    }
}
