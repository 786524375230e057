//! Agents are killed repeatedly while tasks start, run and end: no task is lost, none runs twice.

use songline_model::{AllocClientStatus, AllocId, Task};

use crate::fake::{Stage, is_alive, shell, until};

/// Records each start with its directory, and runs until it is signalled to end.
fn counted() -> Task {
    shell("echo $$ >> $NOMAD_ALLOC_DIR/data/starts; while [ ! -e $NOMAD_ALLOC_DIR/data/go ]; do sleep 0.02; done")
}

fn starts(stage: &Stage, id: AllocId) -> Vec<i32> {
    let text = std::fs::read_to_string(stage.alloc_dir(id).join("alloc/data/starts")).unwrap_or_default();
    text.lines().map(|line| line.parse().expect("a process id")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_task_starts_once_however_often_its_agent_dies() {
    let mut stage = Stage::new().await;
    let mut ids = Vec::new();
    for round in 0..6 {
        ids.extend([stage.run(counted()), stage.run(counted())]);
        // Each round kills the agent at another moment: at once, when directories exist, when the process runs.
        let newest = ids[ids.len() - 1];
        match round % 3 {
            0 => {}
            1 => until("a directory", || stage.alloc_dir(newest).exists().then_some(())).await,
            _ => until("a process", || (!starts(&stage, newest).is_empty()).then_some(())).await,
        }
        stage = stage.crash().await;
    }
    for id in &ids {
        stage.until_status(*id, AllocClientStatus::Running).await;
        let pids = until("its start", || Some(starts(&stage, *id)).filter(|pids| !pids.is_empty())).await;
        assert_eq!(pids.len(), 1, "{id} was started more than once");
        assert!(is_alive(pids[0]), "{id} is lost");
    }
    for id in &ids {
        std::fs::write(stage.alloc_dir(*id).join("alloc/data/go"), "").expect("writes");
    }
    stage = stage.crash().await;
    for id in &ids {
        stage.until_status(*id, AllocClientStatus::Complete).await;
        assert_eq!(starts(&stage, *id).len(), 1);
    }
}
