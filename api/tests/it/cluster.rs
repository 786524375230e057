//! Requests about an agent and a cluster, as far as a single server can answer them.

use expect_test::expect;

use crate::server::{Memory, check};

#[tokio::test]
async fn single_server_has_one_raft_peer_that_cannot_be_removed() {
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
        expect![[r#"
            GET /v1/operator/raft/configuration
                200 {"Servers":[{"ID":"00000000-0000-0001-0000-000000000001","Node":"host.global","Address":"127.0.0.1:4647","Leader":true,"Voter":true,"RaftProtocol":"unknown"}],"Index":0}
            GET /v1/operator/raft/configurationX?stale
                200 {"Servers":[{"ID":"00000000-0000-0001-0000-000000000001","Node":"host.global","Address":"127.0.0.1:4647","Leader":true,"Voter":true,"RaftProtocol":"unknown"}],"Index":0}
            PUT /v1/operator/raft/configuration
                405 
            DELETE /v1/operator/raft/peer
                400 Must specify either ?id with the server's ID or ?address with IP:port of peer to remove
            DELETE /v1/operator/raft/peer?id=a&address=b
                400 Must specify only one of ?id or ?address
            DELETE /v1/operator/raft/peer?id=
                500 id "" was not found in the Raft configuration
            DELETE /v1/operator/raft/peerX?id=nope
                500 id "nope" was not found in the Raft configuration
            DELETE /v1/operator/raft/peer?address=nonsense
                500 address "nonsense" was not found in the Raft configuration
            DELETE /v1/operator/raft/peer?address=127.0.0.1:4647
                500 need at least one voter in configuration
            GET /v1/operator/raft/peer
                404 Invalid method
            GET /v1/operator/raft/nothing
                404 Invalid method
        "#]],
    )
    .await;
}

#[tokio::test]
async fn single_server_joins_no_unreachable_server_and_has_no_gossip_keyring() {
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
        expect![[r#"
            PUT /v1/agent/join
                400 missing address to join
            PUT /v1/agent/join?address=127.0.0.1:1&address=127.0.0.1:2
                200 {"num_joined":0,"error":"2 errors occurred:\n\t* Failed to join 127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused\n\t* Failed to join 127.0.0.1:2: dial tcp 127.0.0.1:2: connect: connection refused\n\n"}
            PUT /v1/agent/force-leave?node=
                400 missing node to force leave
            PUT /v1/agent/force-leave?node=nope&prune=x
                400 invalid prune value
            POST /v1/agent/force-leave?node=nope&prune=true
                200 
            GET /v1/agent/keyring
                301 -> /v1/agent/keyring/ <a href="/v1/agent/keyring/">Moved Permanently</a>.
            GET /v1/agent/keyring/list
                500 1/1 nodes reported failure
            GET /v1/agent/keyring/nope
                404 resource not found
            PUT /v1/agent/keyring/install {
                400 unexpected EOF
            PUT /v1/agent/keyring/install {"Key": "short"}
                500 illegal base64 data at input byte 4
            PUT /v1/agent/keyring/use {"Key": "5K9OtfP7efFrNKe5WCQvXvnaXJ5cWP0SvXiwe0kkjM4="}
                500 1/1 nodes reported failure
        "#]],
    )
    .await;
}

#[tokio::test]
async fn agent_reports_itself_its_members_and_its_health() {
    check(
        &Memory::new(),
        "GET /v1/agent/self
        GET /v1/agent/members
        GET /v1/agent/health
        GET /v1/agent/health?type=client
        GET /v1/agent/health?type=nope
        GET /v1/agent/servers
        GET /v1/agent/host?node_id=a&server_id=b
        GET /v1/agent/host?server_id=nope
        GET /v1/agent/host?node_id=nope
        GET /v1/agent/host?node_id=11111111-2222-3333-4444-555555555555
        GET /v1/status/leader
        GET /v1/status/peers
        GET /v1/regions
        GET /v1/metrics
        PUT /v1/operator/snapshot this is no archive
        DELETE /v1/operator/snapshot
        POST /v1/system/gc
        PUT /v1/system/gc
        PUT /v1/system/reconcile/summaries",
        expect![[r#"
            GET /v1/agent/self
                200 {"config":null,"member":{"Name":"host.global","Addr":"127.0.0.1","Port":4648,"Tags":{},"Status":"alive","ProtocolMin":1,"ProtocolMax":5,"ProtocolCur":2,"DelegateMin":2,"DelegateMax":5,"DelegateCur":4},"stats":{}}
            GET /v1/agent/members
                200 {"ServerName":"host","ServerRegion":"global","ServerDC":"dc1","Members":[{"Name":"host.global","Addr":"127.0.0.1","Port":4648,"Tags":{},"Status":"alive","ProtocolMin":1,"ProtocolMax":5,"ProtocolCur":2,"DelegateMin":2,"DelegateMax":5,"DelegateCur":4}]}
            GET /v1/agent/health
                200 {"server":{"ok":true,"message":"ok"}}
            GET /v1/agent/health?type=client
                500 {"client":{"ok":false,"message":"client not enabled"}}
            GET /v1/agent/health?type=nope
                200 {}
            GET /v1/agent/servers
                501 Invalid method
            GET /v1/agent/host?node_id=a&server_id=b
                400 Can only forward to either client node or server
            GET /v1/agent/host?server_id=nope
                500 unknown Nomad server nope
            GET /v1/agent/host?node_id=nope
                500 node lookup failed: index error: UUID must be 36 characters
            GET /v1/agent/host?node_id=11111111-2222-3333-4444-555555555555
                404 Unknown node "11111111-2222-3333-4444-555555555555"
            GET /v1/status/leader
                200 "127.0.0.1:4647"
            GET /v1/status/peers
                200 ["127.0.0.1:4647"]
            GET /v1/regions
                200 ["global"]
            GET /v1/metrics
                200 {"Timestamp":"","Gauges":[],"Points":[],"Counters":[],"Samples":[]}
            PUT /v1/operator/snapshot this is no archive
                500 failed to restore from snapshot: gzip: invalid header
            DELETE /v1/operator/snapshot
                405 Invalid method
            POST /v1/system/gc
                405 Invalid method
            PUT /v1/system/gc
                200 
            PUT /v1/system/reconcile/summaries
                200 
        "#]],
    )
    .await;
}

#[tokio::test]
async fn scheduler_configuration_is_replaced_whole_or_by_compare_and_set() {
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
        expect![[r#"
            GET /v1/operator/scheduler/configuration
                200 @1 {"SchedulerConfig":{"SchedulerAlgorithm":"binpack","PreemptionConfig":{"SystemSchedulerEnabled":false,"SysBatchSchedulerEnabled":false,"BatchSchedulerEnabled":false,"ServiceSchedulerEnabled":false},"MemoryOversubscriptionEnabled":false,"RejectJobRegistration":false,"PauseEvalBroker":false,"CreateIndex":0,"ModifyIndex":0},"Index":1,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/operator/scheduler/configuration {"SchedulerAlgorithm": "spread", "PreemptionConfig": {"Syst
                200 @2 {"Updated":true,"Index":2}
            PUT /v1/operator/scheduler/configuration?cas=1 {}
                200 @3 {"Updated":false,"Index":3}
            GET /v1/operator/scheduler/configuration
                200 @2 {"SchedulerConfig":{"SchedulerAlgorithm":"spread","PreemptionConfig":{"SystemSchedulerEnabled":true,"SysBatchSchedulerEnabled":false,"BatchSchedulerEnabled":false,"ServiceSchedulerEnabled":false},"MemoryOversubscriptionEnabled":false,"RejectJobRegistration":false,"PauseEvalBroker":false,"CreateIndex":2,"ModifyIndex":2},"Index":2,"LastContact":0,"KnownLeader":true,"NextToken":""}
            POST /v1/operator/scheduler/configuration {}
                200 @4 {"Updated":true,"Index":4}
            GET /v1/operator/scheduler/configuration?stale
                200 @4 {"SchedulerConfig":{"SchedulerAlgorithm":"binpack","PreemptionConfig":{"SystemSchedulerEnabled":false,"SysBatchSchedulerEnabled":false,"BatchSchedulerEnabled":false,"ServiceSchedulerEnabled":false},"MemoryOversubscriptionEnabled":false,"RejectJobRegistration":false,"PauseEvalBroker":false,"CreateIndex":2,"ModifyIndex":4},"Index":4,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/operator/scheduler/configuration
                400 Error parsing scheduler config: Request body is empty
            PUT /v1/operator/scheduler/configuration {"SchedulerAlgorithm": "magic"}
                400 invalid scheduler algorithm: magic
            PUT /v1/operator/scheduler/configuration {"SchedulerAlgorithm": 1}
                400 Error parsing scheduler config: json: cannot unmarshal number into Go struct field SchedulerConfiguration.SchedulerAlgorithm of type api.SchedulerAlgorithm
            PUT /v1/operator/scheduler/configuration?cas=x {}
                400 Error parsing cas value: strconv.ParseUint: parsing "x": invalid syntax
        "#]],
    )
    .await;
}

#[tokio::test]
async fn client_routes_of_unknown_allocs_and_nodes_answer_an_error_text() {
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
            PUT /v1/client/allocation/{none}/restart 7
            PUT /v1/client/allocation/{none}/restart {{"TaskName": 1}}
            PUT /v1/client/allocation/{none}/restart
            PUT /v1/client/allocation/{none}/signal
            PUT /v1/client/allocation/{none}/signal 7
            PUT /v1/client/allocation/{none}/signal null
            GET /v1/client/allocation/{none}/gc
            GET /v1/allocation/{none}/services
            GET /v1/client/stats
            GET /v1/client/stats?node_id=x
            GET /v1/client/gc?node_id={none}"#
        ),
        expect![[r#"
            GET /v1/client/fs/ls/11111111-2222-3333-4444-555555555555
                404 Unknown allocation "11111111-2222-3333-4444-555555555555"
            GET /v1/client/fs/ls/zz
                500 alloc lookup failed: index error: UUID must be 36 characters
            GET /v1/client/fs/ls/
                400 must provide a valid alloc id
            GET /v1/client/fs/ls
                404 Invalid method
            GET /v1/client/fs/cat/11111111-2222-3333-4444-555555555555?path=/
                200 Unknown allocation "11111111-2222-3333-4444-555555555555"
            GET /v1/client/fs/cat/
                400 must provide a file name
            GET /v1/client/fs/readat/11111111-2222-3333-4444-555555555555?path=/&offset=x
                400 error parsing offset: strconv.ParseInt: parsing "x": invalid syntax
            GET /v1/client/fs/stream/11111111-2222-3333-4444-555555555555?path=/
                404 Unknown allocation "11111111-2222-3333-4444-555555555555"
            GET /v1/client/fs/stream/11111111-2222-3333-4444-555555555555?path=/&offset=x
                500 error parsing offset: strconv.ParseInt: parsing "x": invalid syntax
            GET /v1/client/fs/logs/11111111-2222-3333-4444-555555555555?task=t&type=stdout
                404 Unknown allocation "11111111-2222-3333-4444-555555555555"
            GET /v1/client/fs/logs/11111111-2222-3333-4444-555555555555?task=t
                400 must provide log type (stdout/stderr)
            GET /v1/client/allocation/11111111-2222-3333-4444-555555555555/stats
                404 Unknown allocation "11111111-2222-3333-4444-555555555555"
            GET /v1/client/allocation/11111111-2222-3333-4444-555555555555/stats/more
                404 resource not found
            PUT /v1/client/allocation/11111111-2222-3333-4444-555555555555/restart {
                500 unexpected EOF
            PUT /v1/client/allocation/11111111-2222-3333-4444-555555555555/restart 7
                500 json: cannot unmarshal number into Go value of type struct { TaskName string; AllTasks bool }
            PUT /v1/client/allocation/11111111-2222-3333-4444-555555555555/restart {"TaskName": 1}
                500 json: cannot unmarshal number into Go struct field .TaskName of type string
            PUT /v1/client/allocation/11111111-2222-3333-4444-555555555555/restart
                404 Unknown allocation "11111111-2222-3333-4444-555555555555"
            PUT /v1/client/allocation/11111111-2222-3333-4444-555555555555/signal
                400 Failed to decode body: Request body is empty
            PUT /v1/client/allocation/11111111-2222-3333-4444-555555555555/signal 7
                400 Failed to decode body: json: cannot unmarshal number into Go value of type structs.AllocSignalRequest
            PUT /v1/client/allocation/11111111-2222-3333-4444-555555555555/signal null
                404 Unknown allocation "11111111-2222-3333-4444-555555555555"
            GET /v1/client/allocation/11111111-2222-3333-4444-555555555555/gc
                404 Unknown allocation "11111111-2222-3333-4444-555555555555"
            GET /v1/allocation/11111111-2222-3333-4444-555555555555/services
                404 allocation not found
            GET /v1/client/stats
                400 No local Node and node_id not provided
            GET /v1/client/stats?node_id=x
                500 node lookup failed: index error: UUID must be 36 characters
            GET /v1/client/gc?node_id=11111111-2222-3333-4444-555555555555
                500 Unknown node 11111111-2222-3333-4444-555555555555
        "#]],
    )
    .await;
}
