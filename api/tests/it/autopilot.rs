//! Autopilot: reading and replacing the configuration, and the health of the servers.

use expect_test::expect;

use crate::server::{Memory, check};

#[tokio::test]
async fn autopilot_configuration_is_replaced_whole_or_by_compare_and_set() {
    check(
        &Memory::new(),
        r#"GET /v1/operator/autopilot/configuration
        PUT /v1/operator/autopilot/configuration?cas=0 {"MaxTrailingLogs": 1}
        PUT /v1/operator/autopilot/configuration {"lastContactThreshold": "1m30s", "MaxTrailingLogs": 7, "ServerStabilizationTime": "1h", "MinQuorum": 3}
        GET /v1/operator/autopilot/configuration
        PUT /v1/operator/autopilot/configuration?cas=2 {"CleanupDeadServers": true}
        PUT /v1/operator/autopilot/configuration?cas=3 {"CleanupDeadServers": true}
        GET /v1/operator/autopilot/configuration?stale
        PUT /v1/operator/autopilot/configuration?cas=x {}
        PUT /v1/operator/autopilot/configuration {"ServerStabilizationTime": "soon"}
        PUT /v1/operator/autopilot/configuration {"MinQuorum": -1}
        PUT /v1/operator/autopilot/configuration []
        POST /v1/operator/autopilot/configuration {}
        GET /v1/operator/autopilot/nope"#,
        expect![[r#"
            GET /v1/operator/autopilot/configuration
                200 {"LastContactThreshold":"200ms","ServerStabilizationTime":"10s","CleanupDeadServers":true,"MaxTrailingLogs":250,"MinQuorum":0,"EnableRedundancyZones":false,"DisableUpgradeMigration":false,"EnableCustomUpgrades":false,"CreateIndex":0,"ModifyIndex":0}
            PUT /v1/operator/autopilot/configuration?cas=0 {"MaxTrailingLogs": 1}
                200 false
            PUT /v1/operator/autopilot/configuration {"lastContactThreshold": "1m30s", "MaxTrailingLogs": 7, "Se
                200 true
            GET /v1/operator/autopilot/configuration
                200 {"LastContactThreshold":"1m30s","ServerStabilizationTime":"1h0m0s","CleanupDeadServers":false,"MaxTrailingLogs":7,"MinQuorum":3,"EnableRedundancyZones":false,"DisableUpgradeMigration":false,"EnableCustomUpgrades":false,"CreateIndex":3,"ModifyIndex":3}
            PUT /v1/operator/autopilot/configuration?cas=2 {"CleanupDeadServers": true}
                200 false
            PUT /v1/operator/autopilot/configuration?cas=3 {"CleanupDeadServers": true}
                200 true
            GET /v1/operator/autopilot/configuration?stale
                200 {"LastContactThreshold":"0s","ServerStabilizationTime":"0s","CleanupDeadServers":true,"MaxTrailingLogs":0,"MinQuorum":0,"EnableRedundancyZones":false,"DisableUpgradeMigration":false,"EnableCustomUpgrades":false,"CreateIndex":3,"ModifyIndex":5}
            PUT /v1/operator/autopilot/configuration?cas=x {}
                400 Error parsing cas value: strconv.ParseUint: parsing "x": invalid syntax
            PUT /v1/operator/autopilot/configuration {"ServerStabilizationTime": "soon"}
                400 Error parsing autopilot config: time: invalid duration "soon"
            PUT /v1/operator/autopilot/configuration {"MinQuorum": -1}
                400 Error parsing autopilot config: json: cannot unmarshal number -1 into Go struct field .Alias.MinQuorum of type uint
            PUT /v1/operator/autopilot/configuration []
                400 Error parsing autopilot config: json: cannot unmarshal array into Go value of type struct { LastContactThreshold string; ServerStabilizationTime string; *api.Alias }
            POST /v1/operator/autopilot/configuration {}
                404 Invalid method
            GET /v1/operator/autopilot/nope
                404 
        "#]],
    )
    .await;
}

#[tokio::test]
async fn single_server_is_healthy_with_failure_tolerance_zero() {
    check(
        &Memory::new(),
        "GET /v1/operator/autopilot/health
        PUT /v1/operator/autopilot/health",
        expect![[r#"
            GET /v1/operator/autopilot/health
                200 {"FailureTolerance":0,"Healthy":true,"Servers":[{"LastContact":"0s","ID":"00000000-0000-0001-0000-000000000001","Name":"host.global","Address":"127.0.0.1:4647","SerfStatus":"alive","Version":"1.6.5","Leader":true,"LastTerm":0,"LastIndex":0,"Healthy":true,"Voter":true,"StableSince":"2023-11-14T22:13:20Z"}]}
            PUT /v1/operator/autopilot/health
                404 Invalid method
        "#]],
    )
    .await;
}
