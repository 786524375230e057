//! `qemu` with a real virtual machine, whose image is one sector that the test writes byte by byte. Needs
//! `qemu-system-x86_64`; elsewhere the tests pass with a message, or fail where the environment variable `CI` is set.

use serde_json::{Value, json};
use songline_model::{AllocClientStatus, AllocId, Dur, Task};
use songline_rpc::Origin;

use crate::artifacts::{serve, wants};
use crate::escapes::may_run;
use crate::fake::{Stage, is_running, messages, task, until};

/// A boot sector that says `up` on the serial line, waits for the power button, says `down` and turns the machine off.
fn image() -> Vec<u8> {
    let say = |text: &str| {
        // mov dx, 0x3f8; for each letter: mov al, letter; out dx, al
        let letters = text.bytes().flat_map(|letter| [0xb0, letter, 0xee]);
        [0xba, 0xf8, 0x03].into_iter().chain(letters).collect::<Vec<u8>>()
    };
    let code = [
        // cli
        vec![0xfa],
        say("up\n"),
        // Enables the power button in the register of events: mov dx, 0x602; mov ax, 0x100; out dx, ax
        vec![0xba, 0x02, 0x06, 0xb8, 0x00, 0x01, 0xef],
        // Waits for it: mov dx, 0x600; in ax, dx; test ah, 1; jz back to `in`
        vec![0xba, 0x00, 0x06, 0xed, 0xf6, 0xc4, 0x01, 0x74, 0xfa],
        say("down\n"),
        // Soft off: mov dx, 0x604; mov ax, 0x2000; out dx, ax; hlt
        vec![0xba, 0x04, 0x06, 0xb8, 0x00, 0x20, 0xef, 0xf4],
    ];
    let mut image = code.concat();
    image.resize(510, 0);
    image.extend([0x55, 0xaa]);
    image.resize(1 << 20, 0);
    image
}

fn machine(more: Value) -> Task {
    let mut config = json!({"image_path": "local/a.img", "args": ["-boot", "c"]});
    config.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let task = wants(serve(image(), || {}) + "/a.img", "local/", task("qemu", config));
    Task { kill_timeout: Dur::from_secs(30), ..task }
}

async fn is_there(stage: &Stage) -> bool {
    let node = until("the node", || stage.servers.node()).await;
    let driver = node.drivers.as_ref().and_then(|drivers| drivers.get("qemu").cloned()).expect("is listed");
    assert_eq!(driver.detected, node.attribute("driver.qemu.version").is_some(), "{driver:?}");
    may_run("qemu-system-x86_64", driver.detected)
}

async fn until_up(stage: &Stage, id: AllocId) {
    stage.until("running", id, |update| is_running(update) || update.client_status.is_terminal()).await;
    let log = stage.alloc_dir(id).with_extension("logs").join("web.stdout.0");
    until("the machine", || std::fs::read_to_string(&log).ok().filter(|said| said.contains("up\n"))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn machine_turns_itself_off_when_its_task_stops_also_after_a_restart_of_the_agent() {
    let mut stage = Stage::new().await;
    if !is_there(&stage).await {
        return;
    }
    for restarts in [false, true] {
        let id = stage.run(machine(json!({"graceful_shutdown": true, "guest_agent": true})));
        until_up(&stage, id).await;
        if restarts {
            stage = stage.crash().await;
            stage.until("running", id, is_running).await;
        }
        let agent = stage.alloc_dir(id).join("web/qa.sock");
        assert!(std::fs::symlink_metadata(agent).is_ok(), "the guest's agent has a socket");
        stage.servers.stop(id);
        let update = stage.until("the end", id, |update| update.client_status.is_terminal()).await;
        assert_eq!(update.client_status, AllocClientStatus::Complete, "{:?}", messages(&update));
        assert!(messages(&update).contains(&"Exit Code: 0".to_owned()), "{:?}", messages(&update));
        let said = stage.logs(id, "stdout", 0, Origin::Start).await.unwrap();
        assert!(said.contains("down\n"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn machine_without_graceful_shutdown_is_ended_by_the_signal() {
    let stage = Stage::new().await;
    if !is_there(&stage).await {
        return;
    }
    let id = stage.run(machine(json!({})));
    until_up(&stage, id).await;
    stage.servers.stop(id);
    stage.until("the end", id, |update| update.client_status.is_terminal()).await;
    let said = stage.logs(id, "stdout", 0, Origin::Start).await.unwrap();
    assert!(!said.contains("down\n"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn image_outside_of_the_allocation_needs_a_directory_of_the_node() {
    let images = tempfile::tempdir().expect("a directory");
    let image_of = |name: &str| images.path().join(name).display().to_string();
    std::fs::write(image_of("a.img"), image()).expect("writes");
    let stage = Stage::new().await;
    if !is_there(&stage).await {
        return;
    }
    let run = |path: String| task("qemu", json!({"image_path": path, "args": ["-snapshot"]}));
    for path in [image_of("a.img"), "../../../../../../../etc/passwd".to_owned()] {
        let id = stage.run(run(path));
        let update = stage.until_status(id, AllocClientStatus::Failed).await;
        let told = messages(&update).join("\n");
        assert!(
            told.contains("is neither in the allocation's directory nor in one of the node's image_paths"),
            "{told}"
        );
    }
    let paths = json!([images.path()]);
    let stage = Stage::with(move |config| {
        let options = serde_json::Map::from_iter([("image_paths".to_owned(), paths.clone())]);
        config.plugins.insert("qemu".into(), options);
    })
    .await;
    let id = stage.run(run(image_of("a.img")));
    until_up(&stage, id).await;
    stage.servers.stop(id);
    stage.until("the end", id, |update| update.client_status.is_terminal()).await;
}
