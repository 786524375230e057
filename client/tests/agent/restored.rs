//! The servers go back to an earlier state: an archive was restored. What the node runs follows.

use std::path::Path;

use songline_model::{AllocClientStatus, Allocation, JobType, Task};

use crate::fake::{Stage, alloc, is_alive, is_running, kinds, shell, until};

/// A task that writes its process id, and takes some time to stop.
fn slow_to_stop() -> Task {
    shell("trap 'touch local/stopping; sleep 2; exit 0' INT; echo $$ > local/pid; while :; do sleep 0.02; done")
}

/// The process id in a file, once it is another one than `before`.
async fn other_process(file: &Path, before: i32) -> i32 {
    until("another process", || {
        let pid = std::fs::read_to_string(file).ok()?.strip_suffix('\n')?.parse().ok()?;
        (pid != before).then_some(pid)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_alloc_that_the_servers_want_again_gets_another_process() {
    let stage = Stage::new().await;
    let id = stage.run(slow_to_stop());
    let first = stage.number_in(id, "web/local/pid").await;
    let then = stage.until("running", id, is_running).await;
    stage.servers.stop(id);
    stage.until_status(id, AllocClientStatus::Complete).await;
    stage.servers.want_again(id, &then);
    let second = other_process(&stage.alloc_dir(id).join("web/local/pid"), first).await;
    stage.until("running again", id, is_running).await;
    assert!(is_alive(second) && !is_alive(first));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alloc_that_is_wanted_again_while_it_stops_is_not_told_as_complete() {
    let stage = Stage::new().await;
    let id = stage.run(slow_to_stop());
    let first = stage.number_in(id, "web/local/pid").await;
    let then = stage.until("running", id, is_running).await;
    stage.servers.stop(id);
    until("its stop", || stage.alloc_dir(id).join("web/local/stopping").exists().then_some(())).await;
    stage.servers.want_again(id, &then);
    let second = other_process(&stage.alloc_dir(id).join("web/local/pid"), first).await;
    stage.until("running again", id, |update| is_running(update) && !kinds(update).contains(&"Killing".into())).await;
    assert!(is_alive(second) && !is_alive(first));
    let told: Vec<_> = stage.servers.updates_of(id).iter().map(|update| update.client_status).collect();
    assert!(!told.contains(&AllocClientStatus::Complete), "{told:?}");
    // The next agent finds the new process.
    let stage = stage.restart().await;
    stage.until("running", id, is_running).await;
    assert!(is_alive(second));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purged_alloc_comes_back_and_a_later_one_goes() {
    let stage = Stage::new().await;
    let job = alloc(JobType::Batch, vec![slow_to_stop()]);
    let x = stage.servers.place(job.clone());
    let first = stage.number_in(x, "web/local/pid").await;
    let then = stage.until("running", x, is_running).await;
    stage.servers.forget(x);
    until("the end of its process", || (!is_alive(first)).then_some(())).await;
    let y = stage.run(slow_to_stop());
    let of_y = stage.number_in(y, "web/local/pid").await;
    stage.until("running", y, is_running).await;
    stage.servers.forget(y);
    let client_status = AllocClientStatus::Running;
    stage.servers.place(Allocation { id: x, client_status, task_states: then.task_states.clone(), ..job });
    let second = other_process(&stage.alloc_dir(x).join("web/local/pid"), first).await;
    until("the end of the other's process", || (!is_alive(of_y)).then_some(())).await;
    assert!(is_alive(second));
}
