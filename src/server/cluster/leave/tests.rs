//! Three servers in one process, of which one leaves.

use std::sync::Arc;
use std::time::Duration;

use songline_api::Leader;

use crate::agent::Agent;
use crate::config::AgentConfig;
use crate::server::Core;

fn core(agent: &Agent) -> &Arc<Core> {
    agent.server().expect("each has a server")
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let looked = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), looked).await.unwrap_or_else(|_| panic!("{what}: not within a minute"));
}

fn members(agent: &Agent) -> usize {
    core(agent).log().members().borrow().addresses.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_leaves_lets_another_lead_and_is_no_member_any_more() {
    let (mut agents, mut dirs): (Vec<Agent>, Vec<tempfile::TempDir>) = (Vec::new(), Vec::new());
    for n in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        let mut config = AgentConfig {
            name: format!("server-{n}"),
            data_dir: Some(dir.path().to_owned()),
            http_port: 0,
            rpc_port: 0,
            serf_port: 0,
            client: None,
            ..AgentConfig::dev()
        };
        let server = config.server.as_mut().unwrap();
        server.bootstrap_expect = 3;
        server.join.retry_join = agents.iter().map(|agent| core(agent).cluster().address().to_owned()).collect();
        agents.push(Agent::start(config).await.unwrap());
        dirs.push(dir);
    }
    let leads = |agent: &Agent| core(agent).leader() == Leader::Here && core(agent).reign().is_some();
    until("somebody leads", || agents.iter().any(leads)).await;
    until("all are members", || agents.iter().all(|agent| members(agent) == 3)).await;
    let leader = agents.iter().position(leads).unwrap();
    let leaver = agents.remove(leader);
    leaver.leave().await;
    until("another leads", || agents.iter().any(leads)).await;
    until("there are two", || agents.iter().all(|agent| members(agent) == 2)).await;
    let dir = dirs[leader].path().join("server");
    assert!(super::has_left(&dir).unwrap());
    // A server with configured addresses to join may rejoin; others stay away.
    let told = !core(&leaver).config.join.addresses().is_empty();
    assert_eq!(core(&leaver).stays_away(), !told);
    core(&leaver).come_back();
    assert!(!core(&leaver).stays_away());
    leaver.stop().await;
    for agent in agents {
        agent.stop().await;
    }
}
