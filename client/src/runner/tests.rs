//! A runner on its own: orders that arrive before its first step.

use songline_model::{
    CsiVolumeClaim, CsiVolumeKey, Job, JobType, NamespaceName, NodeId, ServiceRegistration, TaskGroup,
};
use songline_rpc::world::Machine;
use songline_rpc::{ClaimedVolume, RpcError};

use super::*;
use crate::core::AllocRunnerConfig;
use crate::driver::Boxed;
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

#[tokio::test]
async fn runner_dropped_before_its_first_step_still_destroys_its_alloc() {
    let dir = tempfile::tempdir().expect("a directory");
    let (state, _, thread) = StateDb::open(&dir.path().join("state")).expect("it opens");
    let group = TaskGroup { name: "group".into(), tasks: Some(Vec::new()), ..TaskGroup::default() };
    let job = Job { kind: JobType::Batch, task_groups: Some(vec![group]), ..Job::default() };
    let alloc = Arc::new(Allocation { task_group: "group".into(), job: Some(Arc::new(job)), ..Allocation::default() });
    let clock = Clock::start(Arc::new(Machine::default()));
    let (news, _inbox) = mpsc::unbounded_channel();
    let shared = Arc::new(Shared {
        consul: None,
        vault: None,
        config: ClientConfig::dev(dir.path().to_owned()),
        clock: clock.clone(),
        drivers: BTreeMap::new(),
        state: state.clone(),
        node: Arc::default(),
        cancel: CancellationToken::new(),
        tracker: TaskTracker::new(),
        news,
        earlier: Arc::new(Nowhere),
        registrar: Arc::new(Nowhere),
        volumes: Arc::new(csi::Volumes::new(Arc::default(), clock.clone(), drop)),
        claims: Arc::new(Nowhere),
        checks: crate::checks::Runs::default(),
        networks: Networks::new(&ClientConfig::default(), &BTreeMap::new()),
        sessions: Arc::new(Semaphore::new(1)),
        counts: Counts::new(clock.now()),
        waits: Waits::default(),
    });
    let config = AllocRunnerConfig { kill_timeout_max: Dur::from_secs(1), seed: 1 };
    let machine = AllocRunner::new(Arc::clone(&alloc), config, shared.clock.now()).expect("a machine");
    let left = AllocDir::new(&shared.config.alloc_dir(), &alloc.id);
    left.build().expect("builds");

    // No other task runs on this thread before the first await.
    let begin = Begin::Restore(Box::default());
    let runner = Runner::spawn(shared, machine, begin);
    runner.tell(Input::Destroy);
    let mut view = runner.view.clone();
    drop(runner);
    assert!(view.wait_for(|view| view.destroyed).await.is_ok(), "it ended without having heard the order");
    assert!(!left.root().exists());
    state.close();
    thread.join().expect("it ends");
}
