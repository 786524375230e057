//! Real attacks of tasks on the agent's work below an allocation's directory: links, pipes and devices in place of
//! logs, directories and files that are being read. Most tasks run as `nobody` beside an agent of root; that needs
//! root.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::json;
use songline_model::{
    AllocClientStatus, AllocId, Dur, JobType, LogConfig, RestartPolicy, RootKeyId, SIGNATURE_BYTES, Signature, Task,
    TaskIdentity, WorkloadIdentity,
};
use songline_rpc::{NodeAgent, Origin, ReadFile, RpcError, StreamFrame};
use tokio::sync::mpsc::Receiver;

use crate::attacks::can_isolate;
use crate::fake::{Stage, TIMEOUT, alloc, is_running, shell, task, until, web};

/// Content that no task may read.
const OUTSIDE: &str = "this stands outside of every allocation, and is longer than what tasks write";

/// An agent whose tasks can reach their directories as any user, and a directory of root outside of them.
struct Scene {
    stage: Stage,
    outside: PathBuf,
}

impl Scene {
    /// `None`, with a message, when this process is not root. In CI that is a failure.
    async fn new() -> Option<Self> {
        if !may_run("root", rustix::process::geteuid().is_root()) {
            return None;
        }
        let stage = Stage::new().await;
        let data = stage
            .alloc_dir(AllocId::from_bytes([1; 16]))
            .parent()
            .and_then(Path::parent)
            .expect("is in the agent's directory")
            .to_owned();
        std::fs::set_permissions(&data, Permissions::from_mode(0o711)).expect("opens");
        let outside = data.join("outside");
        std::fs::create_dir(&outside).expect("makes");
        std::fs::set_permissions(&outside, Permissions::from_mode(0o700)).expect("closes");
        std::fs::write(outside.join("file"), OUTSIDE).expect("writes");
        std::fs::set_permissions(outside.join("file"), Permissions::from_mode(0o600)).expect("closes");
        Some(Self { stage, outside })
    }

    /// Places a script that runs as `nobody`. `$OUT` is the outside directory; the script continues once its `local`
    /// has a file `go`.
    fn attack(&self, script: &str) -> AllocId {
        self.stage.run(attacker(&self.outside, script))
    }

    async fn attacked(&self, id: AllocId) {
        let ready = self.stage.alloc_dir(id).join("web/local/ready");
        until("the attack", || ready.exists().then_some(())).await;
    }

    fn go_on(&self, id: AllocId) {
        std::fs::write(self.stage.alloc_dir(id).join("web/local/go"), "").expect("writes");
    }

    async fn read(
        &self,
        id: AllocId,
        path: &str,
        follow: bool,
    ) -> Result<Receiver<Result<StreamFrame, RpcError>>, RpcError> {
        self.stage
            .client
            .fs_read(ReadFile { alloc: id, path: path.into(), offset: 0, limit: 0, origin: Origin::Start, follow })
            .await
    }

    /// Asserts that everything outside is unchanged.
    fn assert_untouched(&self) {
        let names: Vec<_> = std::fs::read_dir(&self.outside)
            .expect("lists")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert_eq!(names, ["file"], "something was made outside");
        assert_eq!(std::fs::read_to_string(self.outside.join("file")).expect("reads"), OUTSIDE);
        let modes = [&self.outside, &self.outside.join("file")].map(|path| std::fs::metadata(path).expect("is there"));
        assert_eq!(
            modes.each_ref().map(|meta| (meta.mode() & 0o7777, meta.uid())),
            [(0o700, 0), (0o600, 0)],
            "modes and owners outside"
        );
    }
}

fn attacker(outside: &Path, script: &str) -> Task {
    let script =
        format!("OUT={}; {script}; touch local/ready; while [ ! -e local/go ]; do sleep 0.02; done", outside.display());
    Task { user: "nobody".into(), ..shell(&script) }
}

/// Whether a test with requirements on the machine can run. In CI, where it must run, an unmet requirement is a
/// failure.
pub fn may_run(needs: &str, there: bool) -> bool {
    if !there {
        eprintln!("skipped: needs {needs}");
        let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
        assert!(!in_ci, "this test needs {needs}, and in CI it must run");
    }
    there
}

/// Reads to the end; an error becomes part of the text.
async fn all(frames: Result<Receiver<Result<StreamFrame, RpcError>>, RpcError>) -> String {
    let reading = async {
        let mut frames = match frames {
            Ok(frames) => frames,
            Err(error) => return error.to_string(),
        };
        let mut text = String::new();
        while let Some(frame) = frames.recv().await {
            match frame {
                Ok(frame) => text.push_str(&String::from_utf8_lossy(&frame.data)),
                Err(error) => text.push_str(&error.to_string()),
            }
        }
        text
    };
    tokio::time::timeout(TIMEOUT, reading).await.expect("an answer in time")
}

#[tokio::test(flavor = "multi_thread")]
async fn task_log_replaced_by_a_link_still_reads_as_the_log() {
    let Some(scene) = Scene::new().await else { return };
    let id = scene.attack("echo mine; rm -f ../alloc/logs/web.stdout.0; ln -s $OUT/file ../alloc/logs/web.stdout.0");
    scene.attacked(id).await;
    scene.stage.until("running", id, is_running).await;
    assert_eq!(scene.stage.logs(id, "stdout", 0, Origin::Start).await.expect("answers"), "mine\n");
    let read = all(scene.read(id, "alloc/logs/web.stdout.0", false).await).await;
    assert!(!read.contains(OUTSIDE), "{read}");
    let stat = scene.stage.client.fs_stat(id, "alloc/logs/web.stdout.0").await;
    assert!(stat.is_err(), "{stat:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn log_rotation_ignores_links_planted_by_a_task() {
    let Some(scene) = Scene::new().await else { return };
    let links =
        "cd ../alloc/logs; for n in 0 1 2 3; do rm -f web.stdout.$n; ln -s $OUT/file web.stdout.$n; done; cd ../../web";
    let script = format!("{links}; head -c 2500000 /dev/zero | tr '\\0' x; {links}; echo end");
    let log_config = Some(LogConfig { max_files: 2, max_file_size_mb: 1, disabled: false });
    let noisy = Task { log_config, ..attacker(&scene.outside, &script) };
    let id = scene.stage.run(noisy);
    scene.attacked(id).await;
    scene.go_on(id);
    scene.stage.until_status(id, AllocClientStatus::Complete).await;
    scene.assert_untouched();
    let log = scene.stage.logs(id, "stdout", 0, Origin::Start).await.expect("answers");
    assert!(log.ends_with("xxend\n") && log.len() == 2_500_004 - (1 << 20), "{} bytes", log.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn log_directory_swapped_by_a_task_is_not_used_by_the_agent() {
    let Some(scene) = Scene::new().await else { return };
    let swap =
        "mv ../alloc/logs ../alloc/old; ln -s $OUT ../alloc/logs; head -c 1500000 /dev/zero | tr '\\0' x; echo end";
    let log_config = Some(LogConfig { max_files: 1, max_file_size_mb: 1, disabled: false });
    let id = scene.stage.run(Task { log_config, ..attacker(&scene.outside, swap) });
    scene.attacked(id).await;
    scene.go_on(id);
    scene.stage.until_status(id, AllocClientStatus::Complete).await;
    scene.assert_untouched();
    assert!(scene.stage.logs(id, "stdout", 0, Origin::Start).await.expect("answers").ends_with("xxend\n"));
    let listed = scene.stage.client.fs_list(id, "alloc/logs").await;
    assert!(listed.is_err(), "{listed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_replaced_by_links_before_a_restart_are_made_anew() {
    let Some(scene) = Scene::new().await else { return };
    let script =
        "if [ ! -e local/go ]; then rm -rf ../alloc/tmp secrets; ln -s $OUT ../alloc/tmp; ln -s $OUT secrets; fi";
    let mut attacker = attacker(&scene.outside, &format!("{script}; stat -c '%n %A %U' secrets ../alloc/tmp"));
    let config = attacker.config.as_mut().and_then(|config| config.get_mut("args")?.get_mut(1)).expect("a script");
    *config =
        json!(format!("{}; [ -e local/again ] || {{ touch local/again; exit 1; }}", config.as_str().expect("text")));
    let policy = RestartPolicy {
        attempts: 1,
        interval: Dur::from_mins(5),
        delay: Dur::from_millis(10),
        mode: "fail".into(),
        ..RestartPolicy::default()
    };
    attacker.restart_policy = Some(policy);
    attacker.identity = Some(WorkloadIdentity { env: false, file: true });
    let mut placed = alloc(JobType::Batch, vec![attacker]);
    placed.signing_key_id = Some(RootKeyId::from_bytes([1; 16]));
    placed.signed_identities =
        Some([TaskIdentity { task: "web".into(), signature: Signature([2; SIGNATURE_BYTES]) }].into());
    let id = scene.stage.servers.place(placed);
    scene.attacked(id).await;
    scene.stage.until("running", id, is_running).await;
    let Scene { stage, outside } = scene;
    // The agent creates the directories again, then the task ends and is set up again.
    let scene = Scene { stage: stage.restart().await, outside };
    scene.stage.until("running", id, is_running).await;
    scene.go_on(id);
    let update = scene.stage.until_status(id, AllocClientStatus::Complete).await;
    assert_eq!(web(&update).restarts, 1);
    scene.assert_untouched();
    let dir = scene.stage.alloc_dir(id);
    let shape = |path: &str| {
        let meta = std::fs::symlink_metadata(dir.join(path)).expect("is there");
        (meta.is_dir(), meta.mode() & 0o7777)
    };
    assert_eq!((shape("alloc/tmp"), shape("web/secrets")), ((true, 0o777), (true, 0o700)));
    assert!(
        std::fs::read_to_string(dir.join("web/secrets/nomad_token")).is_ok_and(|token| token.split('.').count() == 3)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn file_stream_does_not_follow_a_link_swapped_in_after_its_check() {
    let Some(scene) = Scene::new().await else { return };
    let id = scene.attack("echo one > ../alloc/data/f; touch local/written; while [ ! -e local/swap ]; do sleep 0.02; done; ln -s $OUT/file l; mv l ../alloc/data/f");
    let local = scene.stage.alloc_dir(id).join("web/local");
    until("a file", || local.join("written").exists().then_some(())).await;
    let mut frames = scene.read(id, "alloc/data/f", true).await.expect("is there");
    let first = frames.recv().await.expect("a frame").expect("of data");
    assert_eq!(&first.data[..], b"one\n");
    std::fs::write(local.join("swap"), "").expect("writes");
    scene.attacked(id).await;
    let rest = async {
        let mut events = Vec::new();
        while let Some(frame) = frames.recv().await {
            let frame = frame.expect("a frame");
            assert!(frame.data.is_empty(), "{:?}", frame.data);
            events.extend(Some(frame.file_event.to_string()).filter(|event| !event.is_empty()));
        }
        events
    };
    assert_eq!(tokio::time::timeout(TIMEOUT, rest).await.expect("an end"), ["file deleted"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn alloc_snapshot_of_linked_data_reports_the_failure() {
    let Some(scene) = Scene::new().await else { return };
    let id = scene.attack(
        "rmdir ../alloc/data; ln -s $OUT ../alloc/data; rm -rf local; ln -s $OUT local; mv local link; mkdir local",
    );
    scene.attacked(id).await;
    let mut pieces = scene.stage.client.alloc_snapshot(id).await.expect("answers");
    let mut bytes = Vec::new();
    while let Some(piece) = pieces.recv().await {
        bytes.extend_from_slice(&piece.expect("a piece"));
    }
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains(OUTSIDE), "the snapshot has what is outside");
    assert!(text.contains(&format!("NOMAD-{id}-ERROR.log")), "the reader is not told");
}

#[tokio::test(flavor = "multi_thread")]
async fn pipes_and_devices_are_refused_and_block_nothing() {
    let Some(scene) = Scene::new().await else { return };
    let id =
        scene.attack("echo mine; cd ../alloc/logs; rm -f web.stdout.0; mkfifo web.stdout.0 ../data/pipe; cd ../../web; mkfifo local/pipe");
    scene.attacked(id).await;
    scene.stage.until("running", id, is_running).await;
    let device = rustix::fs::makedev(1, 3);
    let device_at = |path: &Path| {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path,
            rustix::fs::FileType::CharacterDevice,
            rustix::fs::Mode::RUSR,
            device,
        )
        .expect("makes")
    };
    device_at(&scene.stage.alloc_dir(id).join("alloc/data/device"));
    for path in ["alloc/logs/web.stdout.0", "alloc/data/pipe", "alloc/data/device"] {
        let said = all(scene.read(id, path, true).await).await;
        assert_eq!(said, format!("file {path:?} is not a regular file"));
    }
    assert_eq!(scene.stage.logs(id, "stdout", 0, Origin::Start).await.expect("answers"), "mine\n");
    // Only root can change the agent's own logs; even there only regular files are read.
    device_at(&scene.stage.alloc_dir(id).with_extension("logs").join("web.stderr.1"));
    let refused = scene.stage.logs(id, "stderr", 0, Origin::Start).await.expect_err("is refused");
    assert_eq!(refused.to_string(), "file \"alloc/logs/web.stderr.1\" is not a regular file");
    let mut pieces = scene.stage.client.alloc_snapshot(id).await.expect("answers");
    let whole = async { while pieces.recv().await.is_some() {} };
    tokio::time::timeout(TIMEOUT, whole).await.expect("the snapshot ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn program_that_is_a_link_out_of_the_task_is_not_made_executable() {
    let Some(scene) = Scene::new().await else { return };
    let script = format!(
        "[ -e local/again ] || {{ touch local/again; ln -s {}/file local/sh; exit 1; }}",
        scene.outside.display()
    );
    let policy = RestartPolicy {
        attempts: 1,
        interval: Dur::from_mins(5),
        delay: Dur::from_millis(10),
        ..RestartPolicy::default()
    };
    let shadowed = task("raw_exec", json!({ "command": "sh", "args": ["-c", script] }));
    let id = scene.stage.run(Task { user: "nobody".into(), restart_policy: Some(policy), ..shadowed });
    scene.stage.until_status(id, AllocClientStatus::Complete).await;
    scene.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn isolated_task_finds_its_logs_and_cannot_change_them() {
    if !can_isolate() {
        return;
    }
    let Some(scene) = Scene::new().await else { return };
    let script = "echo mine; while ! grep -q mine /alloc/logs/web.stdout.0; do sleep 0.02; done; cd /alloc/logs; \
        (echo x > own; mv web.stdout.0 y; rm web.stdout.0; ln -s /etc/shadow web.stdout.1; echo x >> web.stdout.0; mv /alloc/logs /alloc/z) 2>/dev/null; \
        mv /alloc/logs /alloc/old; ln -s /etc /alloc/logs; ls /alloc/logs; echo $?";
    let id = scene.stage.run(task("exec", json!({ "command": "/bin/sh", "args": ["-c", script] })));
    scene.stage.until_status(id, AllocClientStatus::Complete).await;
    assert_eq!(
        scene.stage.logs(id, "stdout", 0, Origin::Start).await.expect("answers"),
        "mine\nweb.stderr.0\nweb.stdout.0\n0\n"
    );
}
