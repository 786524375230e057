//! Tasks with namespaces and a root of their own, started by the executor itself: the isolation of `exec`, without
//! limits.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use songline_client::executor::place::{Bind, Isolation, LogSpec, Place, Propagation, Spec};

use crate::escapes::may_run;
use crate::fake::until;

pub fn read_only(path: &str) -> Bind {
    Bind { from: path.into(), to: path.into(), read_only: true, propagation: Propagation::Private }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_isolated_task_sees_its_own_root_and_its_own_processes() {
    if !may_run("root: namespaces", rustix::process::geteuid().is_root()) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (root, logs) = (dir.path().join("root"), dir.path().join("logs"));
    for made in [&root.join("local"), &logs] {
        std::fs::create_dir_all(made).expect("makes");
    }
    let host = ["/bin", "/lib", "/lib64", "/usr"].into_iter().filter(|path| Path::new(path).exists());
    let spec = Spec {
        command: "sh".into(),
        args: ["-c", "echo pid $$; id -u; ls -d /local /etc 2>&1; touch /usr/x 2>&1; echo $GREETING; kill -9 $$"]
            .map(str::to_owned)
            .into(),
        env: BTreeMap::from([
            ("GREETING".to_owned(), "hello".to_owned()),
            ("PATH".to_owned(), "/bin:/usr/bin".to_owned()),
        ]),
        dir: "/".into(),
        user: "nobody".into(),
        logs: Some(LogSpec {
            dir: logs.clone(),
            alloc_dir: None,
            stdout: "out".into(),
            stderr: "err".into(),
            files_max: 1,
            file_bytes_max: 1 << 20,
        }),
        network: None,
        cgroups: None,
        isolation: Some(Isolation {
            root,
            binds: host.map(read_only).collect(),
            own_pids: true,
            own_ipc: true,
            init: vec![env!("CARGO_BIN_EXE_songline-executor").into()],
            ..Isolation::default()
        }),
    };
    let place = Place::new(dir.path().join("run"));
    let lock = place.prepare(&spec).expect("prepares");
    let mut executor = Command::new(env!("CARGO_BIN_EXE_songline-executor"))
        .arg("run")
        .arg(place.dir())
        .stdin(Stdio::from(lock))
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    let exit = until("the exit code", || place.read_exit().expect("readable")).await;
    executor.wait().expect("ends");
    let read = |name: &str| std::fs::read_to_string(logs.join(name)).expect("is there");
    assert_eq!(read("err.0"), "");
    let said = read("out.0");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "pid 1", "{said}");
    assert_ne!(lines[1], "0", "{said}");
    assert!(said.contains("/local\n") && !said.contains("\n/etc\n"), "{said}");
    assert!(said.contains("Read-only file system"), "{said}");
    assert_eq!(lines.last(), Some(&"hello"));
    // The first process of a PID namespace cannot be killed from inside.
    assert_eq!((exit.code, exit.signal), (0, 0), "{said}");
    assert!(!place.is_held());
}
