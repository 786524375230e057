//! Refused requests and their texts: bodies, parameters and filters of routes that recorded conversations test with
//! other values. Not here: hostile requests.

use std::time::Instant;

use anyhow::{Context, Result};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::agent::{Agent, Setup};
use crate::http::{self, Request};
use crate::story::WITHIN;

/// An agent with ACLs, and its management token.
struct Guarded {
    agent: Agent,
    token: String,
}

impl Guarded {
    fn begin() -> Result<Guarded> {
        let agent = Agent::start(&Setup { acl: true, ..Setup::dev() })?;
        let request = Request::new("POST", "/v1/acl/bootstrap");
        let made: Value = http::call(agent.http, &request, Instant::now() + WITHIN)?.json()?;
        let token = made["SecretID"].as_str().context("the first token has a secret")?.to_owned();
        Ok(Guarded { agent, token })
    }

    /// Sends requests one after another, and compares a line for each with the status and the text of its answer.
    fn check(&self, requests: &[(&str, &str, &str)], expected: &Expect) -> Result<()> {
        let mut out = String::new();
        for (method, target, body) in requests {
            let mut request = Request::new(method, target).header("X-Nomad-Token", &self.token);
            if !body.is_empty() {
                request = request.json(&serde_json::from_str(body).with_context(|| format!("{body} is JSON"))?);
            }
            let answer = http::call(self.agent.http, &request, Instant::now() + WITHIN)?;
            let text = if answer.head.status == 200 { String::new() } else { format!(" {}", answer.text()) };
            let asked = format!("{method} {target} {body}");
            let told = format!("{}{text}", answer.head.status);
            out.push_str(&format!("{}\n    {}\n", asked.trim_end(), told.trim_end()));
        }
        expected.assert_eq(&out);
        Ok(())
    }

    fn json(&self, method: &str, target: &str, body: &Value) -> Result<Value> {
        let request = Request::new(method, target).header("X-Nomad-Token", &self.token).json(body);
        Ok(http::call(self.agent.http, &request, Instant::now() + WITHIN)?.json()?)
    }
}

#[test]
fn body_fields_of_the_wrong_type_are_refused_with_go_errors() -> Result<()> {
    let story = Guarded::begin()?;
    story.check(
        &[
            ("POST", "/v1/acl/token", "[]"),
            ("POST", "/v1/acl/token", r#"{"CreateIndex": "x"}"#),
            ("POST", "/v1/acl/token", r#"{"Hash": "%"}"#),
            ("POST", "/v1/acl/token", r#"{"ExpirationTime": "2020-01-01"}"#),
            ("POST", "/v1/acl/token", r#"{"ExpirationTime": 5}"#),
            ("POST", "/v1/acl/role", r#"{"ModifyIndex": "x"}"#),
            ("POST", "/v1/acl/auth-method", "[]"),
            ("POST", "/v1/acl/auth-method", r#"{"CreateTime": "2020-13-01T00:00:00Z"}"#),
            ("POST", "/v1/acl/auth-method", r#"{"Config": {"ClockSkewLeeway": {"a": [1, null, "x"]}}}"#),
            ("POST", "/v1/acl/binding-rule", r#"{"CreateTime": "x"}"#),
            ("PUT", "/v1/operator/autopilot/configuration", "[]"),
            ("PUT", "/v1/operator/autopilot/configuration", r#"{"MinQuorum": 1.5}"#),
            ("PUT", "/v1/operator/autopilot/configuration?cas=", "{}"),
            ("PUT", "/v1/operator/scheduler/configuration?cas=18446744073709551616", "{}"),
            ("PUT", "/v1/operator/scheduler/configuration", r#"{"SchedulerAlgorithm": 1}"#),
            ("PUT", "/v1/namespace", r#"{"Name": "a", "Hash": "ab"}"#),
            ("PUT", "/v1/var/a", r#"{"Items": []}"#),
            ("PUT", "/v1/var/a", r#"{"CreateTime": "x"}"#),
        ],
        &expect![[r#"
            POST /v1/acl/token []
                400 json: cannot unmarshal array into Go value of type struct { ExpirationTTL interface {}; *structs.Alias }
            POST /v1/acl/token {"CreateIndex": "x"}
                400 json: cannot unmarshal string into Go struct field .Alias.CreateIndex of type uint64
            POST /v1/acl/token {"Hash": "%"}
                400 illegal base64 data at input byte 0
            POST /v1/acl/token {"ExpirationTime": "2020-01-01"}
                400 parsing time "2020-01-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T"
            POST /v1/acl/token {"ExpirationTime": 5}
                400 Time.UnmarshalJSON: input is not a JSON string
            POST /v1/acl/role {"ModifyIndex": "x"}
                400 json: cannot unmarshal string into Go struct field ACLRole.ModifyIndex of type uint64
            POST /v1/acl/auth-method []
                400 json: cannot unmarshal array into Go value of type struct { MaxTokenTTL interface {}; *structs.Alias }
            POST /v1/acl/auth-method {"CreateTime": "2020-13-01T00:00:00Z"}
                400 parsing time "2020-13-01T00:00:00Z": month out of range
            POST /v1/acl/auth-method {"Config": {"ClockSkewLeeway": {"a": [1, null, "x"]}}}
                400 unexpected ClockSkewLeeway type: map[a:[1 <nil> x]]
            POST /v1/acl/binding-rule {"CreateTime": "x"}
                400 parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"
            PUT /v1/operator/autopilot/configuration []
                400 Error parsing autopilot config: json: cannot unmarshal array into Go value of type struct { LastContactThreshold string; ServerStabilizationTime string; *api.Alias }
            PUT /v1/operator/autopilot/configuration {"MinQuorum": 1.5}
                400 Error parsing autopilot config: json: cannot unmarshal number 1.5 into Go struct field .Alias.MinQuorum of type uint
            PUT /v1/operator/autopilot/configuration?cas= {}
                400 Error parsing cas value: strconv.ParseUint: parsing "": invalid syntax
            PUT /v1/operator/scheduler/configuration?cas=18446744073709551616 {}
                400 Error parsing cas value: strconv.ParseUint: parsing "18446744073709551616": value out of range
            PUT /v1/operator/scheduler/configuration {"SchedulerAlgorithm": 1}
                400 Error parsing scheduler config: json: cannot unmarshal number into Go struct field SchedulerConfiguration.SchedulerAlgorithm of type api.SchedulerAlgorithm
            PUT /v1/namespace {"Name": "a", "Hash": "ab"}
                400 illegal base64 data at input byte 0
            PUT /v1/var/a {"Items": []}
                400 json: cannot unmarshal array into Go struct field VariableDecrypted.Items of type structs.VariableItems
            PUT /v1/var/a {"CreateTime": "x"}
                400 json: cannot unmarshal string into Go struct field VariableDecrypted.VariableMetadata.CreateTime of type int64
        "#]],
    )
}

#[test]
fn parameters_of_variables_and_streams_are_refused_as_the_reference_does() -> Result<()> {
    let story = Guarded::begin()?;
    story.check(
        &[
            ("GET", "/v1/vars?index=x", ""),
            ("GET", "/v1/vars?wait=5", ""),
            ("GET", "/v1/var/a?index=-1", ""),
            ("GET", "/v1/event/stream?index=x&topic=a:b:c", ""),
            ("GET", "/v1/event/stream?index=99999999999999999999", ""),
            ("GET", "/v1/event/stream?topic=a:b:c", ""),
        ],
        &expect![[r#"
            GET /v1/vars?index=x
                400 Invalid indexfailed to parse parameters
            GET /v1/vars?wait=5
                400 Invalid wait timefailed to parse parameters
            GET /v1/var/a?index=-1
                400 Invalid indexfailed to parse parameters
            GET /v1/event/stream?index=x&topic=a:b:c
                400 Unable to parse index: strconv.Atoi: parsing "x": invalid syntax
            GET /v1/event/stream?index=99999999999999999999
                400 Unable to parse index: strconv.Atoi: parsing "99999999999999999999": value out of range
            GET /v1/event/stream?topic=a:b:c
                400 Invalid topic query: error parsing topics: Invalid key value pair for topic, topic: a:b:c
        "#]],
    )
}

#[test]
fn role_ids_and_prefixes_are_compared_as_text() -> Result<()> {
    let story = Guarded::begin()?;
    let put = Request::new("PUT", "/v1/acl/policy/p").header("X-Nomad-Token", &story.token).json(&json!({"Name": "p"}));
    http::call(story.agent.http, &put, Instant::now() + WITHIN)?;
    let role = story.json("POST", "/v1/acl/role", &json!({"Name": "r", "Policies": [{"Name": "p"}]}))?;
    let id = role["ID"].as_str().context("a role has an id")?;
    let found = |prefix: &str| -> Result<usize> {
        let list = story.json("GET", &format!("/v1/acl/roles?prefix={prefix}"), &Value::Null)?;
        Ok(list.as_array().context("roles are a list")?.len())
    };
    assert_eq!((found(&id[..7])?, found(&id[..8])?, found("zz")?), (1, 1, 0));
    let token = json!({"Type": "client", "Roles": [{"ID": "0"}]}).to_string();
    story.check(
        &[("GET", "/v1/acl/role/ABC", ""), ("POST", "/v1/acl/token", &token)],
        &expect![[r#"
        GET /v1/acl/role/ABC
            404 ACL role not found
        POST /v1/acl/token {"Type":"client","Roles":[{"ID":"0"}]}
            400 cannot find role 0
    "#]],
    )
}
