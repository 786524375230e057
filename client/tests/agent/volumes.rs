//! Host volumes in tasks of `exec`: what a task may write, and which mounts of the machine reach it.

use std::path::PathBuf;

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use songline_client::ClientConfig;
use songline_model::{AllocClientStatus, Allocation, ClientHostVolumeConfig, Job, JobType, VolumeMount, VolumeRequest};
use songline_rpc::Origin;

use crate::attacks::can_isolate;
use crate::fake::{Stage, alloc, shell, until};

/// A shared mount of this machine, which is gone when it is dropped.
struct Shared(PathBuf);

impl Shared {
    fn place() -> PathBuf {
        std::env::temp_dir().join(format!("songline-volume-{}", std::process::id()))
    }

    fn make() -> Self {
        let place = Self::place();
        std::fs::create_dir_all(&place).expect("a directory");
        rustix::mount::mount("none", &place, "tmpfs", MountFlags::empty(), None).expect("mounts");
        rustix::mount::mount_change(&place, MountPropagationFlags::SHARED).expect("is shared");
        Self(place)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, UnmountFlags::DETACH);
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn with_volume(config: &mut ClientConfig) {
    let path = Shared::place().display().to_string().into();
    let volume = ClientHostVolumeConfig { path, ..ClientHostVolumeConfig::default() };
    config.host_volumes.insert("shared".into(), volume);
}

fn mounting(script: &str, propagation_mode: &str) -> Allocation {
    let mut task = shell(script);
    task.driver = "exec".into();
    task.volume_mounts = Some(vec![VolumeMount {
        volume: "v".into(),
        destination: "/v".into(),
        propagation_mode: propagation_mode.into(),
        read_only: false,
    }]);
    let mut placed = alloc(JobType::Batch, vec![task]);
    let mut job = Job::clone(placed.job.as_ref().expect("has a job"));
    let request = VolumeRequest { kind: "host".into(), source: "shared".into(), ..VolumeRequest::default() };
    job.task_groups.as_mut().expect("has groups")[0].volumes = Some([("v".into(), request)].into());
    placed.job = Some(std::sync::Arc::new(job));
    placed
}

#[tokio::test(flavor = "multi_thread")]
async fn mount_of_the_machine_reaches_a_running_task_only_with_propagation() {
    if !can_isolate() {
        return;
    }
    let script = "touch /v/ready; until [ -e /v/over ]; do sleep 0.05; done; [ -e /v/sub/file ] && echo sees; true";
    for (mode, expected) in [("private", ""), ("host-to-task", "sees\n"), ("bidirectional", "sees\n")] {
        let shared = Shared::make();
        std::fs::create_dir(shared.0.join("sub")).expect("a directory");
        rustix::fs::chmod(&shared.0, rustix::fs::Mode::from_raw_mode(0o777)).expect("is writable");
        let stage = Stage::with(with_volume).await;
        let id = stage.servers.place(mounting(script, mode));
        until("the task runs", || shared.0.join("ready").exists().then_some(())).await;
        let below = shared.0.join("sub");
        rustix::mount::mount("none", &below, "tmpfs", MountFlags::empty(), None).expect("mounts");
        std::fs::write(below.join("file"), "").expect("writes");
        std::fs::write(shared.0.join("over"), "").expect("writes");
        stage.until_status(id, AllocClientStatus::Complete).await;
        let told = stage.logs(id, "stdout", 0, Origin::Start).await.expect("has logs");
        rustix::mount::unmount(&below, UnmountFlags::DETACH).expect("unmounts");
        assert_eq!(told, expected, "{mode}");
    }
}
