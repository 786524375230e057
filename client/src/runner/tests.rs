//! A runner on its own: orders that arrive before its first step, failures that end a task, and the rules of hooks.

mod hooks;

use songline_model::{
    AllocDesiredStatus, AllocatedResources, AllocatedTaskResources, CsiVolumeClaim, CsiVolumeKey, Job, JobType,
    NamespaceName, NodeId, RestartPolicy, Service, ServiceRegistration, Task, TaskGroup,
};
use songline_rpc::world::Machine;
use songline_rpc::{ClaimedVolume, RpcError};

use super::*;
use crate::core::AllocRunnerConfig;
use crate::driver::{self, Boxed};
use crate::previous::{Ended, FetchError, Wanted};

/// A registrar without servers, and without earlier allocations.
struct Nowhere;

impl Registrar for Nowhere {
    fn upsert(&self, _rows: Vec<ServiceRegistration>) -> Boxed<'_, Result<u64, RpcError>> {
        Box::pin(async { Ok(0) })
    }

    fn delete(&self, _namespace: NamespaceName, _id: Str) -> Boxed<'_, Result<u64, RpcError>> {
        Box::pin(async { Ok(0) })
    }
}

impl Earlier for Nowhere {
    fn ended(&self, _id: AllocId) -> Boxed<'_, Ended> {
        Box::pin(async { Ended::Gone })
    }

    fn fetch(&self, _wanted: Wanted) -> Boxed<'_, Result<(), FetchError>> {
        Box::pin(async { Ok(()) })
    }
}

impl csi::Claims for Nowhere {
    fn node(&self) -> NodeId {
        NodeId::default()
    }

    fn claim(&self, _: CsiVolumeKey, _: CsiVolumeClaim) -> Boxed<'_, Result<ClaimedVolume, RpcError>> {
        Box::pin(async { Err(RpcError::NoLeader) })
    }

    fn unpublish(&self, _: CsiVolumeKey, _: CsiVolumeClaim) -> Boxed<'_, Result<u64, RpcError>> {
        Box::pin(async { Err(RpcError::NoLeader) })
    }
}

/// An agent without servers, for runners.
struct Agent {
    shared: Arc<Shared>,
    dir: tempfile::TempDir,
    thread: std::thread::JoinHandle<()>,
}

impl Agent {
    fn new() -> Agent {
        Agent::at(tempfile::tempdir().expect("a directory"))
    }

    fn at(dir: tempfile::TempDir) -> Agent {
        let (state, _, thread) = StateDb::open(&dir.path().join("state")).expect("it opens");
        let config = ClientConfig::dev(dir.path().to_owned());
        let clock = Clock::start(Arc::new(Machine::default()));
        let shared = Shared {
            consul: None,
            vault: None,
            drivers: driver::all(&config),
            clock: clock.clone(),
            state,
            node: Arc::default(),
            cancel: CancellationToken::new(),
            tracker: TaskTracker::new(),
            // Nobody reads the messages.
            news: mpsc::unbounded_channel().0,
            earlier: Arc::new(Nowhere),
            registrar: Arc::new(Nowhere),
            volumes: Arc::new(csi::Volumes::new(Arc::default(), clock.clone(), drop)),
            claims: Arc::new(Nowhere),
            checks: crate::checks::Runs::default(),
            networks: Networks::new(&config, &BTreeMap::new()),
            sessions: Arc::new(Semaphore::new(1)),
            counts: Counts::new(clock.now()),
            waits: Waits::default(),
            config,
        };
        Agent { shared: Arc::new(shared), dir, thread }
    }

    /// The next agent, after this one has stopped.
    async fn again(self) -> Agent {
        self.shared.cancel.cancel();
        self.shared.tracker.close();
        self.shared.tracker.wait().await;
        Agent::at(self.end())
    }

    /// Ends the agent; its directory stays.
    fn end(self) -> tempfile::TempDir {
        self.shared.state.close();
        self.thread.join().expect("it ends");
        self.dir
    }
}

/// A task of the mock driver that runs for this time.
fn task(name: &str, run_for: &str) -> Task {
    let config = BTreeMap::from([("run_for".into(), run_for.into())]);
    Task { name: name.into(), driver: "mock_driver".into(), config: Some(config), ..Task::default() }
}

/// An allocation of a batch job whose tasks may restart once.
fn alloc(tasks: Vec<Task>) -> Arc<Allocation> {
    let resources = tasks.iter().map(|task| (task.name.clone(), AllocatedTaskResources::default())).collect();
    let policy =
        RestartPolicy { attempts: 1, interval: Dur::from_mins(30), mode: "fail".into(), ..RestartPolicy::default() };
    let group =
        TaskGroup { name: "group".into(), tasks: Some(tasks), restart_policy: Some(policy), ..TaskGroup::default() };
    let job = Job { kind: JobType::Batch, task_groups: Some(vec![group]), ..Job::default() };
    let resources = AllocatedResources { tasks: Some(resources), ..AllocatedResources::default() };
    Arc::new(Allocation {
        task_group: "group".into(),
        job: Some(Arc::new(job)),
        allocated_resources: Some(Arc::new(resources)),
        ..Allocation::default()
    })
}

fn machine(shared: &Shared, alloc: &Arc<Allocation>) -> AllocRunner {
    let config = AllocRunnerConfig { kill_timeout_max: Dur::from_secs(1), seed: 1 };
    AllocRunner::new(Arc::clone(alloc), config, shared.clock.now()).expect("a machine")
}

#[tokio::test]
async fn runner_dropped_before_its_first_step_still_destroys_its_alloc() {
    let (agent, alloc) = (Agent::new(), alloc(Vec::new()));
    let left = AllocDir::new(&agent.shared.config.alloc_dir(), &alloc.id);
    left.build().expect("builds");

    // No other task runs on this thread before the first await.
    let begin = Begin::Restore(Box::default());
    let runner = Runner::spawn(Arc::clone(&agent.shared), machine(&agent.shared, &alloc), begin);
    runner.tell(Input::Destroy);
    let mut view = runner.view.clone();
    drop(runner);
    assert!(view.wait_for(|view| view.destroyed).await.is_ok(), "it ended without having heard the order");
    assert!(!left.root().exists());
    agent.end();
}

#[tokio::test]
async fn newest_copy_that_came_while_a_runner_waited_for_an_earlier_one_is_started_and_stored() {
    let (agent, first) = (Agent::new(), alloc(vec![task("web", "1h")]));
    let earlier = Runner::spawn(Arc::clone(&agent.shared), machine(&agent.shared, &first), Begin::Start);
    earlier.wait_for(|view| view.status() == AllocClientStatus::Running).await;
    let begin = Begin::After(Arc::clone(&earlier));
    let later = Runner::spawn(Arc::clone(&agent.shared), machine(&agent.shared, &first), begin);
    for (index, desired_status) in [(6, AllocDesiredStatus::Run), (7, AllocDesiredStatus::Stop)] {
        let copy = Allocation { alloc_modify_index: index, desired_status, ..Allocation::clone(&first) };
        later.tell(Input::Update(Arc::new(copy)));
    }
    // The view shows the copy during the wait, so that it is not fetched again.
    later.wait_for(|view| view.alloc.alloc_modify_index == 7).await;
    assert!(!earlier.view().destroyed && later.view().done_at.is_none());

    earlier.tell(Input::Destroy);
    later.wait_for(|view| view.done_at.is_some()).await;
    let view = later.view();
    assert!(earlier.view().destroyed && !view.was_started("web"), "{:?}", view.update);
    agent.shared.cancel.cancel();
    agent.shared.tracker.close();
    agent.shared.tracker.wait().await;
    let dir = agent.end();
    let (state, contents, thread) = StateDb::open(&dir.path().join("state")).expect("it opens");
    let stored: Vec<u64> = contents.allocs.values().map(|left| left.alloc.alloc_modify_index).collect();
    assert_eq!(stored, [7]);
    state.close();
    thread.join().expect("it ends");
}

/// Waits for the end of the allocation and removes it. Returns its status and the events of its task `web`.
async fn ended(agent: Agent, runner: &Runner) -> (AllocClientStatus, Vec<String>) {
    runner.wait_for(|view| view.done_at.is_some()).await;
    runner.tell(Input::Destroy);
    runner.wait_for(|view| view.destroyed).await;
    let update = runner.view().update;
    let events = update.task("web").and_then(|state| state.events.clone()).unwrap_or_default();
    agent.end();
    let shown = events.iter().map(|event| format!("{}: {}", event.kind, event.display_message)).collect();
    (update.client_status, shown)
}

#[tokio::test]
async fn task_that_cannot_be_signalled_for_its_changed_templates_is_stopped_and_failed() {
    let agent = Agent::new();
    let mut web = task("web", "1h");
    web.config.get_or_insert_default().insert("signal_error".into(), "no way".into());
    let alloc = alloc(vec![web]);
    let runner = Runner::spawn(Arc::clone(&agent.shared), machine(&agent.shared, &alloc), Begin::Start);
    runner.wait_for(|view| view.status() == AllocClientStatus::Running).await;
    let signals = vec!["SIGHUP".into(), "SIGUSR1".into()];
    runner.tell(Input::TemplatesChanged { task: "web".into(), restart: false, signals });
    let (status, events) = ended(agent, &runner).await;
    assert_eq!(status, AllocClientStatus::Failed);
    let killing = "Killing: Template failed to send signals [hangup user defined signal 1]: \
                   2 errors occurred:\n\t* no way\n\t* no way\n\n";
    assert_eq!(
        events,
        [
            "Received: Task received by client",
            "Task Setup: Building Task Directory",
            "Started: Task started by client",
            "Signaling: Template re-rendered",
            "Signaling: Template re-rendered",
            killing,
            "Terminated: Exit Code: 0",
            "Killed: Task successfully killed",
        ]
    );
}

#[tokio::test]
async fn task_with_an_invalid_service_name_after_interpolation_is_not_started() {
    let agent = Agent::new();
    let mut web = task("web", "0s");
    web.meta = Some([("bad".into(), "not a_valid!name".into())].into());
    let name = "x-${NOMAD_META_bad}".into();
    web.services = Some(vec![Service { name, provider: "nomad".into(), ..Service::default() }]);
    let alloc = alloc(vec![web]);
    let runner = Runner::spawn(Arc::clone(&agent.shared), machine(&agent.shared, &alloc), Begin::Start);
    let (status, events) = ended(agent, &runner).await;
    assert_eq!(status, AllocClientStatus::Failed);
    let failed = "Task hook failed: validate: service (x-not a_valid!name) failed validation: Service name must be \
                  valid per RFC 1123 and can contain only alphanumeric characters or dashes and must be no longer \
                  than 63 characters: \"x-not a_valid!name\"";
    assert_eq!(events, ["Received: Task received by client", failed, "Not Restarting: Error was unrecoverable"]);
}
