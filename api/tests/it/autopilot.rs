//! How the servers look after themselves: reading and replacing the configuration, and how well they are.

use expect_test::expect;

use crate::server::{Memory, check};

#[tokio::test]
async fn the_configuration_is_replaced_as_a_whole_and_by_compare_and_set() {
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
        expect![[r#""#]],
    )
    .await;
}

#[tokio::test]
async fn a_server_alone_is_well_and_may_not_fail() {
    check(
        &Memory::new(),
        "GET /v1/operator/autopilot/health
        PUT /v1/operator/autopilot/health",
        expect![[r#""#]],
    )
    .await;
}
