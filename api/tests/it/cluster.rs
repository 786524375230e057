//! What is asked of an agent and of a cluster, as far as a server that is alone can answer.

use expect_test::expect;

use crate::server::{Memory, check};

#[tokio::test]
async fn a_server_that_is_alone_has_one_peer_that_stays() {
    check(
        &Memory::new(),
        "GET /v1/operator/raft/configuration
        GET /v1/operator/raft/configurationX?stale
        PUT /v1/operator/raft/configuration
        DELETE /v1/operator/raft/peer
        DELETE /v1/operator/raft/peer?id=a&address=b
        DELETE /v1/operator/raft/peer?id=
        DELETE /v1/operator/raft/peerX?id=nope
        DELETE /v1/operator/raft/peer?address=nonsense
        DELETE /v1/operator/raft/peer?address=127.0.0.1:4647
        GET /v1/operator/raft/peer
        GET /v1/operator/raft/nothing",
        expect![[""]],
    )
    .await;
}

#[tokio::test]
async fn nobody_else_is_a_member() {
    check(
        &Memory::new(),
        r#"PUT /v1/agent/join
        PUT /v1/agent/join?address=127.0.0.1:1&address=127.0.0.1:2
        PUT /v1/agent/force-leave?node=
        PUT /v1/agent/force-leave?node=nope&prune=x
        POST /v1/agent/force-leave?node=nope&prune=true
        GET /v1/agent/keyring
        GET /v1/agent/keyring/list
        GET /v1/agent/keyring/nope
        PUT /v1/agent/keyring/install {
        PUT /v1/agent/keyring/install {"Key": "short"}
        PUT /v1/agent/keyring/use {"Key": "5K9OtfP7efFrNKe5WCQvXvnaXJ5cWP0SvXiwe0kkjM4="}"#,
        expect![[""]],
    )
    .await;
}

#[tokio::test]
async fn an_agent_tells_of_itself() {
    check(
        &Memory::new(),
        "GET /v1/agent/self
        GET /v1/agent/members
        GET /v1/agent/health
        GET /v1/agent/health?type=client
        GET /v1/agent/health?type=nope
        GET /v1/agent/servers
        GET /v1/status/leader
        GET /v1/status/peers
        GET /v1/regions
        GET /v1/metrics
        PUT /v1/operator/snapshot this is no archive
        DELETE /v1/operator/snapshot
        POST /v1/system/gc
        PUT /v1/system/gc
        PUT /v1/system/reconcile/summaries",
        expect![[""]],
    )
    .await;
}

#[tokio::test]
async fn the_scheduler_is_configured_and_only_on_the_expected_index() {
    check(
        &Memory::new(),
        r#"GET /v1/operator/scheduler/configuration
        PUT /v1/operator/scheduler/configuration {"SchedulerAlgorithm": "spread", "PreemptionConfig": {"SystemSchedulerEnabled": true}}
        PUT /v1/operator/scheduler/configuration?cas=1 {}
        GET /v1/operator/scheduler/configuration
        POST /v1/operator/scheduler/configuration {}
        GET /v1/operator/scheduler/configuration?stale
        PUT /v1/operator/scheduler/configuration
        PUT /v1/operator/scheduler/configuration {"SchedulerAlgorithm": "magic"}
        PUT /v1/operator/scheduler/configuration {"SchedulerAlgorithm": 1}
        PUT /v1/operator/scheduler/configuration?cas=x {}"#,
        expect![[""]],
    )
    .await;
}

#[tokio::test]
async fn allocations_that_are_none_have_no_node_to_ask() {
    let none = "11111111-2222-3333-4444-555555555555";
    check(
        &Memory::new(),
        &format!(
            r#"GET /v1/client/fs/ls/{none}
            GET /v1/client/fs/ls/zz
            GET /v1/client/fs/ls/
            GET /v1/client/fs/ls
            GET /v1/client/fs/cat/{none}?path=/
            GET /v1/client/fs/cat/
            GET /v1/client/fs/readat/{none}?path=/&offset=x
            GET /v1/client/fs/stream/{none}?path=/
            GET /v1/client/fs/stream/{none}?path=/&offset=x
            GET /v1/client/fs/logs/{none}?task=t&type=stdout
            GET /v1/client/fs/logs/{none}?task=t
            GET /v1/client/allocation/{none}/stats
            GET /v1/client/allocation/{none}/stats/more
            PUT /v1/client/allocation/{none}/restart {{
            PUT /v1/client/allocation/{none}/restart []
            PUT /v1/client/allocation/{none}/restart {{"TaskName": 1}}
            PUT /v1/client/allocation/{none}/restart
            PUT /v1/client/allocation/{none}/signal
            PUT /v1/client/allocation/{none}/signal []
            PUT /v1/client/allocation/{none}/signal null
            GET /v1/client/allocation/{none}/gc
            GET /v1/allocation/{none}/services
            GET /v1/client/stats
            GET /v1/client/stats?node_id=x
            GET /v1/client/gc?node_id={none}"#
        ),
        expect![[""]],
    )
    .await;
}
