//! Attacks of a hostile `exec` task on its host, its node's agent and its neighbours, and their results. Each test
//! runs a real attack in an agent with root rights; without root the test is skipped with a message, and fails where
//! `CI` is set.

use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags};
use serde_json::{Map, Value, json};
use songline_client::ClientConfig;
use songline_client::cgroup::hierarchy::Hierarchy;
use songline_model::{
    AllocId, Allocation, ClientHostVolumeConfig, JobType, RestartPolicy, Task, VolumeMount, VolumeRequest,
};
use songline_rpc::{ExecCommand, ExecOutput, NodeAgent, Origin};

use crate::escapes::may_run;
use crate::fake::{Stage, alloc, is_running, messages, shell, task};

/// Script that prints the privileges of the task that runs it.
const PRIVILEGES: &str = "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -s '\\t\\n' ' '";

/// Whether this machine can isolate and limit tasks.
pub fn can_isolate() -> bool {
    let can = rustix::process::geteuid().is_root() && Hierarchy::find("").is_some_and(|found| found.lacks().is_none());
    may_run("root and cgroups", can)
}

fn exec(script: &str) -> Task {
    task("exec", json!({ "command": "/bin/sh", "args": ["-c", script] }))
}

fn exec_with(script: &str, more: Value) -> Task {
    let mut config = json!({ "command": "/bin/sh", "args": ["-c", script] });
    config.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    task("exec", config)
}

fn as_user(user: &str, task: Task) -> Task {
    Task { user: user.into(), ..task }
}

/// An agent that lets `exec` tasks run as root.
async fn lenient() -> Stage {
    Stage::with(|config| drop(config.options.insert("user.denylist".into(), "nobody-is-denied".into()))).await
}

fn plugin(config: &mut ClientConfig, option: &str, value: Value) {
    config.plugins.insert("exec".into(), Map::from_iter([(option.to_owned(), value)]));
}

/// Runs a task to its end. Returns its standard output, or the messages of its events when the output is empty.
async fn output(stage: &Stage, task: Task) -> String {
    output_of(stage, alloc(JobType::Batch, vec![task])).await
}

async fn output_of(stage: &Stage, alloc: Allocation) -> String {
    let id = stage.servers.place(alloc);
    let update = stage.until("the end", id, |update| update.client_status.is_terminal()).await;
    match stage.logs(id, "stdout", 0, Origin::Start).await {
        Ok(text) if !text.is_empty() => text,
        Ok(_) | Err(_) => messages(&update).join("\n"),
    }
}

/// An alloc whose task mounts the host volume `vol`.
fn with_volume(mut task: Task, destination: &str, read_only: bool) -> Allocation {
    let mount =
        VolumeMount { volume: "v".into(), destination: destination.into(), read_only, ..VolumeMount::default() };
    task.volume_mounts = Some(vec![mount]);
    let mut alloc = alloc(JobType::Batch, vec![task]);
    let job = std::sync::Arc::make_mut(alloc.job.as_mut().expect("has one"));
    let group = &mut job.task_groups.as_mut().expect("has one")[0];
    let request =
        VolumeRequest { name: "v".into(), kind: "host".into(), source: "vol".into(), ..VolumeRequest::default() };
    group.volumes = Some([("v".into(), request)].into());
    alloc
}

/// A directory of this test run that agents offer as the volume `vol`.
fn volume(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("songline-attack-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("makes");
    dir
}

fn offer(config: &mut ClientConfig, name: &str) {
    let path = volume(name).display().to_string();
    let offered =
        ClientHostVolumeConfig { name: "vol".into(), path: path.as_str().into(), ..ClientHostVolumeConfig::default() };
    config.host_volumes.insert("vol".into(), offered);
}

#[tokio::test(flavor = "multi_thread")]
async fn task_of_user_nobody_holds_only_capabilities_that_its_job_adds() {
    if !can_isolate() {
        return;
    }
    let stage = Stage::new().await;
    let none = "CapInh: 0000000000000000 CapPrm: 0000000000000000 CapEff: 0000000000000000 CapBnd: 00000000a80405fb \
                CapAmb: 0000000000000000 NoNewPrivs: 1 Seccomp: 2 ";
    assert_eq!(output(&stage, exec(PRIVILEGES)).await, none);
    let asked = exec_with(PRIVILEGES, json!({"cap_drop": ["all"], "cap_add": ["chown", "CAP_KILL"]}));
    let two = "CapInh: 0000000000000021 CapPrm: 0000000000000021 CapEff: 0000000000000021 CapBnd: 0000000000000021 \
               CapAmb: 0000000000000021 NoNewPrivs: 1 Seccomp: 2 ";
    assert_eq!(output(&stage, asked).await, two);
    let told = output(&stage, exec_with("true", json!({"cap_add": ["sys_time", "net_raw"]}))).await;
    assert!(told.contains("driver does not allow the following capabilities: net_raw, sys_time"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn task_of_root_is_denied_or_holds_only_the_default_capabilities() {
    if !can_isolate() {
        return;
    }
    let stage = Stage::new().await;
    for user in ["root", "0"] {
        let told = output(&stage, as_user(user, exec("id"))).await;
        assert!(told.contains(&format!("validate: running as user \"{user}\" is disallowed")), "{told}");
    }
    let stage = lenient().await;
    let default = "CapInh: 0000000000000000 CapPrm: 00000000a80405fb CapEff: 00000000a80405fb CapBnd: 00000000a80405fb \
                   CapAmb: 0000000000000000 NoNewPrivs: 1 Seccomp: 2 ";
    assert_eq!(output(&stage, as_user("root", exec(PRIVILEGES))).await, default);
    let script = "unshare -m true && echo namespace; mount -t tmpfs x /local && echo mount; hostname $(hostname) && echo name; \
                  dmesg > /local/dmesg && echo messages; echo end";
    assert_eq!(output(&stage, as_user("root", exec(script))).await, "end\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn seccomp_option_turns_off_only_the_seccomp_filter() {
    if !can_isolate() {
        return;
    }
    let stage = Stage::with(|config| plugin(config, "seccomp", json!(false))).await;
    let told = output(&stage, exec(PRIVILEGES)).await;
    assert!(told.ends_with("CapAmb: 0000000000000000 NoNewPrivs: 1 Seccomp: 0 "), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_mknod_of_a_block_device_gives_no_disk() {
    if !can_isolate() {
        return;
    }
    let script = "for dir in /local /alloc/data /dev /tmp; do mknod $dir/disk b 7 0 2>/dev/null && echo made $dir; \
                  head -c 1 $dir/disk 2>/dev/null && echo read $dir; done; mkfifo /local/fifo && echo fifo";
    let stage = lenient().await;
    assert_eq!(output(&stage, as_user("root", exec(script))).await, "fifo\n");
    let stage = Stage::with(|config| {
        config.options.insert("user.denylist".into(), "nobody-is-denied".into());
        plugin(config, "seccomp", json!(false));
    })
    .await;
    // The device cgroup refuses the node as well; without that cgroup, the default set lacks the capability.
    assert_eq!(output(&stage, as_user("root", exec(script))).await, "fifo\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_write_to_proc_sys_changes_nothing() {
    if !can_isolate() {
        return;
    }
    let stage = lenient().await;
    // Each file is written with its own value, so that an attack that works does not change the machine.
    let script = "for file in /proc/sys/vm/swappiness /proc/sys/kernel/core_pattern /sys/kernel/mm/transparent_hugepage/enabled; do \
                  value=$(sed 's/.*\\[\\(.*\\)\\].*/\\1/' $file); (echo \"$value\" > $file) 2>/dev/null && echo wrote $file; done; \
                  (echo > /proc/sysrq-trigger) 2>/dev/null && echo sysrq; head -c 1 /proc/kcore | wc -c; ls /sys/firmware | wc -l; \
                  cat /proc/keys | wc -l";
    assert_eq!(output(&stage, as_user("root", exec(script))).await, "0\n0\n0\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_secrets_of_others_and_files_of_root_cannot_be_read() {
    if !can_isolate() {
        return;
    }
    let stage = Stage::new().await;
    let keeper = Task {
        name: "keeper".into(),
        ..exec("umask 077; echo hidden > /secrets/key; echo > /alloc/data/up; exec sleep 86400")
    };
    let script = "while [ ! -e /alloc/data/up ] || [ ! -e /alloc/data/of-root ]; do sleep 0.02; done; \
                  for file in /alloc/../keeper/secrets/key /keeper/secrets/key /proc/*/roo[t]/secrets/key /alloc/data/of-root /etc/shadow; \
                  do cat $file 2>/dev/null && echo read $file; done; echo done";
    let id = stage.servers.place(alloc(JobType::Batch, vec![keeper, exec(script)]));
    crate::fake::until("the directory", || stage.alloc_dir(id).join("alloc/data").is_dir().then_some(())).await;
    of_root(&stage.alloc_dir(id).join("alloc/data/of-root"));
    stage.until("the end", id, |update| update.task("web").is_some_and(|web| web.finished_at.is_some())).await;
    assert_eq!(stage.logs(id, "stdout", 0, Origin::Start).await.expect("logs"), "done\n");
    stage.servers.stop(id);
    stage.until("all of it", id, |update| update.client_status.is_terminal()).await;
}

/// Creates a file of root atomically, which no other user may read.
fn of_root(path: &Path) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, "hidden").expect("writes");
    std::fs::set_permissions(&beside, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("hides");
    std::fs::rename(&beside, path).expect("puts it there");
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_setuid_program_gives_no_privileges() {
    if !can_isolate() {
        return;
    }
    let stage = Stage::new().await;
    let script = "while [ ! -e /alloc/data/id ]; do sleep 0.02; done; /alloc/data/id -u; /alloc/data/id -ru";
    let id = stage.run(exec(script));
    crate::fake::until("the directory", || stage.alloc_dir(id).join("alloc/data").is_dir().then_some(())).await;
    let path = stage.alloc_dir(id).join("alloc/data/id");
    let beside = path.with_extension("new");
    std::fs::copy("/usr/bin/id", &beside).expect("copies");
    std::fs::set_permissions(&beside, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).expect("sets the bit");
    std::fs::rename(&beside, &path).expect("puts it there");
    stage.until("the end", id, |update| update.client_status.is_terminal()).await;
    let nobody = number_of("nobody");
    assert_eq!(stage.logs(id, "stdout", 0, Origin::Start).await.expect("logs"), format!("{nobody}\n{nobody}\n"));
}

fn number_of(name: &str) -> String {
    let said = std::process::Command::new("id").args(["-u", name]).output().expect("runs");
    String::from_utf8_lossy(&said.stdout).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_mount_destination_with_dots_or_through_a_link_is_refused() {
    if !can_isolate() {
        return;
    }
    let stage = Stage::with(|config| offer(config, "dots")).await;
    let target = volume("dots-target");
    let above = format!("/../../../../../..{}", target.join("made").display());
    let told = output_of(&stage, with_volume(exec("true"), &above, false)).await;
    assert!(told.contains("escapes the task's root: \"..\" is not allowed"), "{told}");
    // The task may replace the directory above the destination, and the task is restarted.
    let script = format!("mv /local/a /local/b && ln -s {} /local/a; exit 1", target.display());
    let mut again = with_volume(exec(&script), "/local/a/made", false);
    let job = std::sync::Arc::make_mut(again.job.as_mut().expect("has one"));
    let group = &mut job.task_groups.as_mut().expect("has one")[0];
    let interval = songline_model::Dur::from_mins(10);
    group.restart_policy =
        Some(RestartPolicy { attempts: 1, interval, mode: "fail".into(), ..RestartPolicy::default() });
    let id = stage.servers.place(again);
    let update = stage.until("the end", id, |update| update.client_status.is_terminal()).await;
    assert!(
        messages(&update).iter().any(|text| text.contains("at /local/a/made: Not a directory")),
        "{:?}",
        messages(&update)
    );
    assert!(!target.join("made").exists());
    for dir in [target, volume("dots")] {
        std::fs::remove_dir_all(dir).expect("removes");
    }
}

/// A file system that a test mounts; unmounted on drop.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, UnmountFlags::DETACH);
        let _ = std::fs::remove_dir_all(self.0.parent().unwrap_or(&self.0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_write_through_a_mount_below_a_read_only_volume_is_refused() {
    if !can_isolate() {
        return;
    }
    let below = volume("below").join("other");
    std::fs::create_dir_all(&below).expect("makes");
    rustix::mount::mount("tmpfs", &below, "tmpfs", MountFlags::empty(), c"mode=1777").expect("mounts");
    let _mounted = Mounted(below.clone());
    let stage = Stage::with(|config| offer(config, "below")).await;
    let script =
        "ls /data; for dir in /data /data/other; do touch $dir/x 2>/dev/null && echo wrote $dir; done; echo done";
    assert_eq!(output_of(&stage, with_volume(exec(script), "/data", true)).await, "other\ndone\n");
    assert_eq!(output_of(&stage, with_volume(exec(script), "/data", false)).await, "other\nwrote /data/other\ndone\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn isolated_task_sees_only_standard_devices_and_cannot_change_them() {
    if !can_isolate() {
        return;
    }
    let stage = lenient().await;
    let script = "ls /dev | sort | tr '\\n' ' '; echo; readlink /dev/fd /dev/stdin; echo x > /dev/null && head -c 3 /dev/zero | wc -c; \
                  chmod 600 /dev/null 2>/dev/null && echo changed; rm -f /dev/null 2>/dev/null && echo removed; \
                  stat -c '%a' /dev/null; df -k /dev/shm | tail -1 | awk '{print $2}'; umask; ls /proc/self/fd | wc -l";
    let told = output(&stage, as_user("root", exec(script))).await;
    let expected = "fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero \n/proc/self/fd\n/proc/self/fd/0\n3\n666\n\
                    65536\n0022\n4\n";
    assert_eq!(told, expected);
}

async fn run_beside(stage: &Stage, id: AllocId, script: &str) -> String {
    let command = ["sh", "-c", script].map(str::to_owned).into();
    let asked = ExecCommand { alloc: id, task: "web".into(), command, tty: false };
    let mut session = stage.client.alloc_exec(asked).await.expect("begins");
    let mut printed = Vec::new();
    while let Some(said) = session.output.recv().await {
        if let Ok(ExecOutput::Stdout(bytes) | ExecOutput::Stderr(bytes)) = said {
            printed.extend_from_slice(&bytes);
        }
    }
    String::from_utf8_lossy(&printed).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn command_beside_a_task_has_no_more_privileges_than_the_task() {
    if !can_isolate() {
        return;
    }
    let script = format!(
        "{PRIVILEGES}; id -u; echo $PATH $HOME; mknod /local/disk b 7 0 2>&1 | grep -c permitted; ls /proc/self/fd | wc -l"
    );
    let stage = lenient().await;
    for user in ["root", "nobody"] {
        let id = stage.run(as_user(
            user,
            exec(&format!("{{ {script}; }} > /local/said 2>&1; echo > /local/done; exec sleep 86400")),
        ));
        stage.until("running", id, is_running).await;
        let task_dir = stage.alloc_dir(id).join("web/local");
        crate::fake::until("its words", || task_dir.join("done").exists().then_some(())).await;
        let own = std::fs::read_to_string(task_dir.join("said")).expect("is there");
        assert!(own.contains("NoNewPrivs: 1 Seccomp: 2"), "{own}");
        assert_eq!(run_beside(&stage, id, &script).await, own);
        stage.servers.stop(id);
        stage.until("the end", id, |update| update.client_status.is_terminal()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_have_all_groups_of_their_user() {
    if !can_isolate() {
        return;
    }
    let groups = |name: &str| {
        let said = std::process::Command::new("id").args(["-G", name]).output().expect("runs");
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    };
    let users = std::fs::read_to_string("/etc/passwd").expect("is there");
    let names = users.lines().filter_map(|line| line.split(':').next()).filter(|name| *name != "root");
    let user = names.max_by_key(|name| groups(name).split(' ').count()).expect("there are users");
    let stage = Stage::new().await;
    let sorted = |text: &str| {
        let mut numbers: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
        numbers.sort();
        numbers
    };
    for task in [exec("id -G"), shell("id -G")] {
        assert_eq!(sorted(&output(&stage, as_user(user, task)).await), sorted(&groups(user)), "{user}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_task_start_has_the_error_text_of_nomad() {
    if !can_isolate() {
        return;
    }
    let stage = Stage::new().await;
    let told = output(&stage, task("exec", json!({"command": "no-such"}))).await;
    assert!(told.contains("executor: rpc error: code = Unknown desc = file no-such not found under path\n"), "{told}");
    let told = output(&stage, task("exec", json!({"command": "/no/such"}))).await;
    assert!(told.contains("desc = file /no/such not found under path /") && told.contains("/web\n"), "{told}");
    let told = output(&stage, as_user("no-such-user", exec("true"))).await;
    assert!(
        told.contains("unable to setup user: unable to find user no-such-user: no matching entries in passwd file"),
        "{told}"
    );
    let told = output(&stage, exec_with("true", json!({"pid_mode": "x"}))).await;
    assert!(
        told.contains("failed driver config validation: pid_mode must be \"private\" or \"host\", got \"x\""),
        "{told}"
    );
}
