//! Three servers in one process, of which one leaves.

use std::time::Duration;

use songline_api::Leader;

use crate::testing::{Settings, TestServer};

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let looked = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), looked)
        .await
        .unwrap_or_else(|_| panic!("{what}: not within a minute"));
}

fn members(server: &TestServer) -> usize {
    server.core.log().members().borrow().addresses.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaving_leader_is_replaced_and_removed_from_the_members() {
    let (mut servers, mut dirs): (Vec<TestServer>, Vec<tempfile::TempDir>) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings { data_dir: Some(dir.path().to_owned()), ..Settings::next_of(3, &servers) };
        servers.push(TestServer::start(settings).await.unwrap());
        dirs.push(dir);
    }
    let leads = |server: &TestServer| server.core.leader() == Leader::Here && server.core.term().is_some();
    until("somebody leads", || servers.iter().any(leads)).await;
    until("all are members", || servers.iter().all(|server| members(server) == 3)).await;
    let leader = servers.iter().position(leads).unwrap();
    let leaver = servers.remove(leader);
    leaver.core.leave().await;
    until("another leads", || servers.iter().any(leads)).await;
    until("there are two", || servers.iter().all(|server| members(server) == 2)).await;
    let dir = dirs[leader].path().join("server");
    assert!(dir.join(super::LEFT).exists());
    // A server with configured addresses to join may rejoin; others stay away.
    let told = !leaver.core.facts.config.join.addresses().is_empty();
    assert_eq!(leaver.core.stays_away(), !told);
    leaver.core.come_back();
    assert!(!leaver.core.stays_away());
    leaver.stop().await;
    for server in servers {
        server.stop().await;
    }
}
