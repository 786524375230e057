//! Stories of tasks that are plugins, from the start of the task to its end.

use songline_model::{AllocId, CsiNodeInfo, Dur, TaskCsiPluginConfig};
use tokio::sync::mpsc;

use super::super::registry::Registry;
use super::super::supervisor::{Place, Supervision, Told};
use super::*;
use crate::clock::Clock;

fn alloc(n: u8) -> AllocId {
    format!("00000000-0000-0000-0000-0000000000{n:02}").parse().expect("an id")
}

/// The task of a plugin in a folder, with the socket at which it would serve.
struct Task {
    supervision: Option<Supervision>,
    socket: PathBuf,
    told: mpsc::UnboundedReceiver<Told>,
}

impl Task {
    fn new(folder: &tempfile::TempDir, n: u8, config: &TaskCsiPluginConfig, registry: &Arc<Registry>) -> Task {
        let place = Place::of(folder.path(), &alloc(n), config);
        place.make().expect("makes the directories");
        let socket = PathBuf::from(place.endpoint(false).trim_start_matches("unix://"));
        let (tell, told) = mpsc::unbounded_channel();
        let clock = Clock::start(Arc::new(songline_rpc::world::Machine::default()));
        let send = move |one| drop(tell.send(one));
        let supervision = Supervision::new(&alloc(n), place, Arc::clone(registry), clock, send);
        Task { supervision: Some(supervision), socket, told }
    }

    /// Runs the supervision until it tells something.
    async fn tells(&mut self) -> Told {
        let supervision = self.supervision.as_ref().expect("runs");
        tokio::select! {
            told = self.told.recv() => told.expect("something"),
            () = supervision.run() => self.told.recv().await.expect("something"),
        }
    }

    /// The rows that are told next, as one text each: health and part.
    async fn rows(&mut self) -> Vec<String> {
        let Told::Rows(rows) = self.tells().await else { panic!("rows are told") };
        let said = |row: Option<songline_model::CsiInfo>| row.map(|row| format!("{}", row.health_description));
        [
            said(rows.controller).map(|text| format!("controller: {text}")),
            said(rows.node).map(|text| format!("node: {text}")),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

fn config(kind: &str) -> TaskCsiPluginConfig {
    TaskCsiPluginConfig {
        id: "disks".into(),
        kind: kind.into(),
        mount_dir: "/csi".into(),
        stage_publish_base_dir: "/local/csi".into(),
        health_timeout: Dur::from_secs(30),
    }
}

/// Serves a fake plugin at a socket.
fn serve_at(socket: &std::path::Path) -> Arc<Mutex<Script>> {
    let script = Arc::<Mutex<Script>>::default();
    tokio::spawn(serve(UnixListener::bind(socket).expect("a socket"), script.clone()));
    script
}

#[tokio::test]
async fn a_plugin_that_serves_late_is_reported_and_its_end_leaves_rows_that_are_not_healthy() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut task = Task::new(&folder, 1, &config("monolith"), &Arc::default());
    let socket = task.socket.clone();
    tokio::spawn(async move {
        tokio::task::yield_now().await;
        serve_at(&socket);
    });
    assert_eq!(task.rows().await, ["controller: healthy", "node: healthy"]);
    task.supervision.take().expect("runs").ended();
    let Some(Told::Rows(rows)) = task.told.recv().await else { panic!("rows are told") };
    let row = rows.node.expect("a row of the node");
    assert!(!row.healthy && row.requires_controller_plugin && row.node_info == Some(CsiNodeInfo::default()));
    assert_eq!(row.provider, "org.example");
    assert_eq!(
        row.health_description,
        "failed fingerprinting with error: rpc error: code = Canceled desc = context canceled"
    );
    assert!(!task.socket.exists(), "its socket is removed");
}

#[tokio::test]
async fn a_plugin_that_does_not_become_healthy_in_time_is_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let short = TaskCsiPluginConfig { health_timeout: Dur::from_millis(50), ..config("node") };
    let mut task = Task::new(&folder, 1, &short, &Arc::default());
    serve_at(&task.socket).lock().not_ready = true;
    let Told::Failed(event) = task.tells().await else { panic!("the task is stopped") };
    assert_eq!(event.display_message, "CSI plugin did not become healthy before configured 50ms health timeout");
    assert!(event.fails_task);
}

#[tokio::test]
async fn the_newest_instance_of_a_plugin_has_the_rows_until_it_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let registry = Arc::default();
    let (mut first, mut second) =
        (Task::new(&folder, 1, &config("node"), &registry), Task::new(&folder, 2, &config("node"), &registry));
    serve_at(&first.socket);
    serve_at(&second.socket);
    assert_eq!(first.rows().await, ["node: healthy"]);
    assert_eq!(second.rows().await, ["node: healthy"]);
    second.supervision.take().expect("runs").ended();
    let Some(Told::Rows(rows)) = second.told.recv().await else { panic!("rows are told") };
    assert!(rows.node.is_none(), "the first instance still serves");
}

#[test]
fn the_id_of_a_plugin_leads_out_of_no_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    for id in ["../x", "a/b", "..", ""] {
        let place = Place::of(folder.path(), &alloc(1), &TaskCsiPluginConfig { id: id.into(), ..config("node") });
        assert!(place.make().is_err(), "{id:?}");
    }
}

#[test]
fn a_task_with_its_own_root_serves_in_its_mounted_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::of(folder.path(), &alloc(1), &config("node"));
    assert_eq!(place.endpoint(true), "unix:///csi/csi.sock");
    assert_eq!(place.endpoint(false), format!("unix://{}/csi/plugins/{}/csi.sock", folder.path().display(), alloc(1)));
    let to = |own_devices| -> Vec<_> {
        place.mounts(own_devices).into_iter().map(|bind| bind.to.display().to_string()).collect()
    };
    assert_eq!(to(false), ["/csi", "/local/csi", "/dev"]);
    assert_eq!(to(true), ["/csi", "/local/csi"], "the driver makes its own devices");
}
