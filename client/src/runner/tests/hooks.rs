//! Rules of hooks: which phases come after an error or a stop, and what the users of a task are told. Hooks that note
//! their phases, and fail or hang in one of them, stand after the agent's own.

use std::fmt::Write;

use expect_test::{Expect, expect};

use super::*;
use crate::core::LocalState;
use crate::runner::hooks::alloc::{AllocContext, AllocHook};
use crate::runner::hooks::resources::TaskResources;
use crate::runner::hooks::task::{Stopped, TaskContext, TaskHook};

/// Phases that came, in order, each with the name of the hook.
type Notes = Arc<watch::Sender<Vec<String>>>;

/// A hook of the allocation and of its task that notes its phases.
struct Noting {
    name: &'static str,
    /// `fails`, `hangs` or `may` (fail, and be tried again), and the phase.
    does: Option<(&'static str, &'static str)>,
    notes: Notes,
    aborted: CancellationToken,
}

impl Noting {
    /// Hooks described as `NAME` or `NAME fails|hangs|may PHASE`, with commas between them.
    fn all(text: &'static str, notes: &Notes) -> Vec<Arc<Self>> {
        let hook = |text: &'static str| {
            let mut words = text.split_whitespace();
            let name = words.next().expect("a name");
            let does = words.next().map(|verb| (verb, words.next().expect("a phase")));
            Arc::new(Self { name, does, notes: Arc::clone(notes), aborted: CancellationToken::new() })
        };
        text.split(',').map(hook).collect()
    }

    fn note(&self, phase: &str) {
        self.notes.send_modify(|notes| notes.push(format!("{} {phase}", self.name)));
    }

    fn act(&self, phase: &'static str) -> Boxed<'_, Result<(), String>> {
        Box::pin(async move {
            self.note(phase);
            match self.does {
                Some(("hangs", at)) if at == phase => std::future::pending().await,
                Some((_, at)) if at == phase => Err(format!("{phase} failed successfully")),
                _ => Ok(()),
            }
        })
    }
}

impl AllocHook for Noting {
    fn name(&self) -> &'static str {
        self.name
    }

    fn prerun<'a>(&'a self, _: &'a AllocContext) -> Boxed<'a, Result<(), String>> {
        self.act("prerun")
    }

    fn postrun<'a>(&'a self, _: &'a AllocContext) -> Boxed<'a, Result<(), String>> {
        self.act("postrun")
    }

    fn destroy<'a>(&'a self, _: &'a AllocContext) -> Boxed<'a, Result<(), String>> {
        self.act("destroy")
    }
}

impl TaskHook for Noting {
    fn name(&self) -> &'static str {
        self.name
    }

    fn prestart<'a>(&'a self, _: &'a TaskContext, _: &'a mut TaskResources) -> Boxed<'a, Result<(), Stopped>> {
        Box::pin(async move {
            let done = self.aborted.run_until_cancelled(self.act("prestart")).await;
            let recoverable = matches!(self.does, Some(("may", _)));
            done.ok_or(Stopped::NotWanted)?.map_err(|error| Stopped::Failed { error, recoverable, event: None })
        })
    }

    fn abort(&self) {
        self.note("abort");
        self.aborted.cancel();
    }

    fn poststart<'a>(&'a self, _: &'a TaskContext) -> Boxed<'a, Result<(), String>> {
        self.act("poststart")
    }

    fn exited(&self, _: u64) -> Boxed<'_, Result<(), String>> {
        self.act("exited")
    }

    fn stop(&self) -> Boxed<'_, Result<(), String>> {
        self.act("stop")
    }
}

/// An allocation of one task with hooks after the agent's own.
struct Story {
    agent: Agent,
    alloc: Arc<Allocation>,
    notes: Notes,
    runner: Arc<Runner>,
}

impl Story {
    /// `run_for`: time that the task runs.
    fn begin(hooks: &'static str, run_for: &str) -> Story {
        let (agent, alloc) = (Agent::new(), alloc(vec![task("web", run_for)]));
        Self::with(agent, alloc, hooks, Begin::Start)
    }

    fn with(agent: Agent, alloc: Arc<Allocation>, hooks: &'static str, begin: Begin) -> Story {
        let notes = Arc::new(watch::Sender::new(Vec::new()));
        let all = Noting::all(hooks, &notes);
        let extra = ExtraHooks {
            alloc: all.iter().map(|hook| Arc::clone(hook) as Arc<dyn AllocHook>).collect(),
            task: all.iter().map(|hook| Arc::clone(hook) as Arc<dyn TaskHook>).collect(),
        };
        let machine = machine(&agent.shared, &alloc);
        let runner = Runner::spawn_with(Arc::clone(&agent.shared), machine, begin, extra);
        Story { agent, alloc, notes, runner }
    }

    /// Waits until a phase has come.
    async fn comes(&self, note: &str) {
        let came = |notes: &Vec<String>| notes.iter().any(|one| one == note);
        drop(self.notes.subscribe().wait_for(came).await.expect("the story goes on"));
    }

    /// The servers stop the allocation.
    fn stop(&self) {
        let stopped = Allocation {
            desired_status: AllocDesiredStatus::Stop,
            alloc_modify_index: self.alloc.alloc_modify_index + 1,
            ..Allocation::clone(&self.alloc)
        };
        self.runner.tell(Input::Update(Arc::new(stopped)));
    }

    /// Lets the allocation end and removes it. Compares the phases, the status and the task's events.
    async fn ends(self, expected: Expect) {
        self.runner.wait_for(|view| view.done_at.is_some()).await;
        self.runner.tell(Input::Destroy);
        self.runner.wait_for(|view| view.destroyed).await;
        let update = self.runner.view().update;
        let mut said = by_phase(&self.notes.borrow());
        let _ = writeln!(said, "{:?}", update.client_status);
        for event in update.task("web").and_then(|state| state.events.clone()).unwrap_or_default() {
            let _ = writeln!(said, "{}: {}", event.kind, event.display_message);
        }
        assert!(!self.runner.dir.root().exists(), "something is left of the allocation");
        self.agent.end();
        expected.assert_eq(&said);
    }
}

/// One line for each phase, with its hooks in their order.
fn by_phase(notes: &[String]) -> String {
    let (mut said, mut last) = (String::new(), "");
    for (name, phase) in notes.iter().filter_map(|note| note.split_once(' ')) {
        let _ = if phase == last { write!(said, ", {name}") } else { write!(said, "\n{phase}: {name}") };
        last = phase;
    }
    said.trim_start().to_owned() + "\n"
}

#[tokio::test]
async fn every_phase_runs_all_hooks_in_its_order() {
    Story::begin("one, two", "0s")
        .ends(expect![[r#"
        prerun: one, two
        prestart: one, two
        poststart: one, two
        exited: two, one
        stop: two, one
        postrun: one, two
        destroy: two, one
        Complete
        Received: Task received by client
        Task Setup: Building Task Directory
        Started: Task started by client
        Terminated: Exit Code: 0
    "#]])
        .await;
}

#[tokio::test]
async fn first_error_of_prerun_fails_the_alloc_before_its_tasks_are_set_up() {
    Story::begin("one, two fails prerun, three", "0s")
        .ends(expect![[r#"
        prerun: one, two
        stop: three, two, one
        postrun: one, two, three
        destroy: three, two, one
        Failed
        Received: Task received by client
        Setup Failure: failed to setup alloc: pre-run hook "two" failed: prerun failed successfully
    "#]])
        .await;
}

#[tokio::test]
async fn postrun_ends_at_the_first_error_and_the_alloc_is_removed_all_the_same() {
    Story::begin("one, two fails postrun, three", "0s")
        .ends(expect![[r#"
        prerun: one, two, three
        prestart: one, two, three
        poststart: one, two, three
        exited: three, two, one
        stop: three, two, one
        postrun: one, two
        destroy: three, two, one
        Complete
        Received: Task received by client
        Task Setup: Building Task Directory
        Started: Task started by client
        Terminated: Exit Code: 0
    "#]])
        .await;
}

#[tokio::test]
async fn destroy_runs_all_hooks_after_an_error() {
    Story::begin("one, two fails destroy, three", "0s")
        .ends(expect![[r#"
        prerun: one, two, three
        prestart: one, two, three
        poststart: one, two, three
        exited: three, two, one
        stop: three, two, one
        postrun: one, two, three
        destroy: three, two, one
        Complete
        Received: Task received by client
        Task Setup: Building Task Directory
        Started: Task started by client
        Terminated: Exit Code: 0
    "#]])
        .await;
}

#[tokio::test]
async fn stop_ends_the_set_up_of_an_alloc_in_the_middle() {
    let story = Story::begin("one, two hangs prerun, three", "0s");
    story.comes("two prerun").await;
    story.stop();
    story
        .ends(expect![[r#"
        prerun: one, two
        stop: three, two, one
        postrun: one, two, three
        destroy: three, two, one
        Complete
        Received: Task received by client
        Killing: Sent interrupt
    "#]])
        .await;
}

#[tokio::test]
async fn failed_hook_of_a_task_is_named_in_the_event() {
    Story::begin("one, two fails prestart, three", "0s")
        .ends(expect![[r#"
        prerun: one, two, three
        prestart: one, two
        stop: three, two, one
        postrun: one, two, three
        destroy: three, two, one
        Failed
        Received: Task received by client
        Task Setup: Building Task Directory
        Task hook failed: two: prestart failed successfully
        Not Restarting: Error was unrecoverable
    "#]])
        .await;
}

#[tokio::test]
async fn recoverable_failure_of_a_hook_is_tried_again_as_the_restart_policy_says() {
    Story::begin("one, two may prestart, three", "0s")
        .ends(expect![[r#"
        prerun: one, two, three
        prestart: one, two, one, two
        stop: three, two, one
        postrun: one, two, three
        destroy: three, two, one
        Failed
        Received: Task received by client
        Task Setup: Building Task Directory
        Task hook failed: two: prestart failed successfully
        Restarting: Task restarting in 0s
        Task hook failed: two: prestart failed successfully
        Not Restarting: Exceeded allowed attempts 1 in interval 30m0s and mode is "fail"
    "#]])
        .await;
}

#[tokio::test]
async fn stop_aborts_the_set_up_of_a_task_in_the_middle() {
    let story = Story::begin("one, two hangs prestart, three", "0s");
    story.comes("two prestart").await;
    story.stop();
    story
        .ends(expect![[r#"
        prerun: one, two, three
        prestart: one, two
        abort: one, two, three
        stop: three, two, one
        postrun: one, two, three
        destroy: three, two, one
        Complete
        Received: Task received by client
        Task Setup: Building Task Directory
        Killing: Sent interrupt
    "#]])
        .await;
}

#[tokio::test]
async fn hooks_after_the_start_all_run_and_their_errors_are_events() {
    Story::begin("one fails poststart, two fails exited, three fails stop, four", "0s")
        .ends(expect![[r#"
        prerun: one, two, three, four
        prestart: one, two, three, four
        poststart: one, two, three, four
        exited: four, three, two, one
        stop: four, three, two, one
        postrun: one, two, three, four
        destroy: four, three, two, one
        Complete
        Received: Task received by client
        Task Setup: Building Task Directory
        Started: Task started by client
        Task hook failed: one: poststart failed successfully
        Task hook failed: two: exited failed successfully
        Terminated: Exit Code: 0
        Task hook failed: three: stop failed successfully
    "#]])
        .await;
}

#[tokio::test]
async fn hooks_of_a_task_that_an_agent_leaves_go_on_in_the_next_agent() {
    let story = Story::begin("one", "1h");
    story.comes("one poststart").await;
    story.runner.wait_for(|view| view.was_started("web")).await;
    let handle = story.runner.process("web").expect("it runs").handle();
    let state = story.runner.view().update.task("web").expect("has a state").clone();
    let Story { agent, alloc, notes, .. } = story;
    let agent = agent.again().await;
    assert_eq!(*notes.borrow(), ["one prerun", "one prestart", "one poststart"]);

    let local = LocalState { run: 1, handle: Some(handle), run_complete: false };
    let tasks = BTreeMap::from([(Str::from("web"), TaskRecord { state, local })]);
    let begin = Begin::Restore(Box::new(Restored { tasks, ..Restored::default() }));
    let story = Story::with(agent, alloc, "one", begin);
    story.comes("one prestart").await;
    story.stop();
    story
        .ends(expect![[r#"
            poststart: one
            prerun: one
            prestart: one
            exited: one
            stop: one
            postrun: one
            destroy: one
            Complete
            Received: Task received by client
            Task Setup: Building Task Directory
            Started: Task started by client
            Killing: Sent interrupt
            Terminated: Exit Code: 0
            Killed: Task successfully killed
        "#]])
        .await;
}
