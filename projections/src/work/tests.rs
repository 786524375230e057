//! Stories of long work, and the same work with a checkpoint in the middle.

use std::sync::Arc;

use expect_test::expect;
use songline_commands::{Actor, ContinueWork, DeleteEvals, EvalChoice, Slice, WorkId};
use songline_commands::{Envelope, UpdateEvals};
use songline_model::{EvalId, Evaluation, Time};

use crate::story::{check, id, state_after};
use crate::{Rejected, State, apply};

#[test]
fn eval_deletion_by_filter_proceeds_in_slices_between_other_entries() {
    check(
        "job register web groups=g
         eval e1 complete job=web
         eval e2 complete job=web
         eval e3 failed job=web
         eval e4 complete job=web
         config set paused
         eval delete status=complete rows=1
         show work 8
         eval e5 complete job=web
         eval e6 pending job=db
         work continue 8 rows=1
         show work 8
         work continue 8 rows=10
         show work 8
         show evals
         work continue 8",
        expect![[r#"
            job register web groups=g: ok [+summary:web +job:web +version:web.0]
            eval e1 complete job=web: ok [+eval:e1 ~job:web]
            eval e2 complete job=web: ok [+eval:e2]
            eval e3 failed job=web: ok [+eval:e3]
            eval e4 complete job=web: ok [+eval:e4]
            config set paused: ok [+config:]
            eval delete status=complete rows=1: ok [-eval:e1 +work:8]
               work 8: 1 of 4 looked at, 1 deleted, under way
            eval e5 complete job=web: ok [+eval:e5]
            eval e6 pending job=db: ok [+eval:e6]
            work continue 8 rows=1: ok [-eval:e2 ~work:8]
               work 8: 2 of 4 looked at, 2 deleted, under way
            work continue 8 rows=10: ok [-eval:e4 ~work:8]
               work 8: 4 of 4 looked at, 3 deleted, ended at 12
               evals: e3 e5 e6
            work continue 8: ok
        "#]],
    );
}

#[test]
fn a_slice_looks_at_no_more_rows_than_it_may() {
    check(
        "config set paused
         eval e1 failed job=web
         eval e2 failed job=web
         eval e3 complete job=web
         eval delete status=complete rows=5 looks=2
         show work 6
         work continue 6 rows=5 looks=2
         show work 6
         show evals",
        expect![[r#"
            config set paused: ok [+config:]
            eval e1 failed job=web: ok [+eval:e1]
            eval e2 failed job=web: ok [+eval:e2]
            eval e3 complete job=web: ok [+eval:e3]
            eval delete status=complete rows=5 looks=2: ok [+work:6]
               work 6: 2 of 3 looked at, 0 deleted, under way
            work continue 6 rows=5 looks=2: ok [-eval:e3 ~work:6]
               work 6: 3 of 3 looked at, 1 deleted, ended at 7
               evals: e1 e2
        "#]],
    );
}

#[test]
fn evals_cannot_be_deleted_manually_while_the_broker_runs() {
    check(
        "eval e1 complete job=web
         eval e2 complete job=web
         eval delete status=complete
         config set paused
         eval delete status=complete rows=1
         config set
         work continue 6
         show work 6
         work continue 6
         show evals",
        expect![[r#"
            eval e1 complete job=web: ok [+eval:e1]
            eval e2 complete job=web: ok [+eval:e2]
            eval delete status=complete: refused: eval broker is enabled; eval broker must be paused to delete evals
            config set paused: ok [+config:]
            eval delete status=complete rows=1: ok [-eval:e1 +work:6]
            config set: ok [~config:]
            work continue 6: ok [~work:6]
               work 6: 1 of 2 looked at, 1 deleted, ended at 8: eval broker is enabled; eval broker must be paused to delete evals
            work continue 6: ok
               evals: e2
        "#]],
    );
}

#[test]
fn pending_work_can_be_stopped_midway() {
    check(
        "config set paused
         eval e1 complete job=web
         eval e2 complete job=web
         eval delete evals=e1,e2 rows=1
         work stop 5
         show work 5
         work stop 5
         show evals",
        expect![[r#"
            config set paused: ok [+config:]
            eval e1 complete job=web: ok [+eval:e1]
            eval e2 complete job=web: ok [+eval:e2]
            eval delete evals=e1,e2 rows=1: ok [-eval:e1 +work:5]
            work stop 5: ok [~work:5]
               work 5: 1 of 2 looked at, 1 deleted, ended at 6: stopped by anonymous
            work stop 5: refused: work 5 is not under way
               evals: e2
        "#]],
    );
}

#[test]
fn two_deletions_side_by_side_count_each_row_once() {
    check(
        "config set paused
         eval e1 complete job=web
         eval e2 complete job=web
         eval e3 failed job=web
         eval e4 complete job=web
         eval delete status=complete rows=1
         eval delete evals=e4,e3,e2,e9 rows=1
         work continue 7 rows=1
         work continue 8 rows=9
         work continue 7 rows=9
         show work 7
         show work 8
         show evals",
        expect![[r#"
            config set paused: ok [+config:]
            eval e1 complete job=web: ok [+eval:e1]
            eval e2 complete job=web: ok [+eval:e2]
            eval e3 failed job=web: ok [+eval:e3]
            eval e4 complete job=web: ok [+eval:e4]
            eval delete status=complete rows=1: ok [-eval:e1 +work:7]
            eval delete evals=e4,e3,e2,e9 rows=1: ok [-eval:e4 +work:8]
            work continue 7 rows=1: ok [-eval:e2 ~work:7]
            work continue 8 rows=9: ok [-eval:e3 ~work:8]
            work continue 7 rows=9: ok [~work:7]
               work 7: 2 of 4 looked at, 2 deleted, ended at 11
               work 8: 4 of 4 looked at, 2 deleted, ended at 10
               evals:
        "#]],
    );
}

#[test]
fn evaluation_needed_by_a_live_job_is_not_deleted() {
    check(
        "node register n1
         node status n1 ready
         job register web groups=g eval=e
         plan job=web create=4 version=0 place=a1@n1:g for=e
         client a1@n1 running
         eval e complete job=web
         eval e2 complete job=web
         config set paused
         eval delete status=complete
         show evals
         job stop web
         eval delete status=complete
         show evals",
        expect![[r#"
            node register n1: ok [+node:n1]
            node status n1 ready: ok [~node:n1]
            job register web groups=g eval=e: ok [+summary:web +job:web +version:web.0 +eval:e]
            plan job=web create=4 version=0 place=a1@n1:g for=e: ok [~eval:e ~summary:web +alloc:a1 ~job:web]
            client a1@n1 running: ok [~summary:web ~alloc:a1 ~node:n1]
            eval e complete job=web: ok [~eval:e]
            eval e2 complete job=web: ok [+eval:e2]
            config set paused: ok [+config:]
            eval delete status=complete: ok [-eval:e2 +work:10]
               evals: e
            job stop web: ok [~job:web +version:web.1]
            eval delete status=complete: ok [-eval:e +work:12]
               evals:
        "#]],
    );
}

#[test]
fn a_job_is_dead_when_its_last_pending_evaluation_is_deleted() {
    check(
        "job register web groups=g eval=e1
         config set paused
         show job web
         eval delete status=pending
         show job web
         show tables",
        expect![[r#"
            job register web groups=g eval=e1: ok [+summary:web +job:web +version:web.0 +eval:e1]
            config set paused: ok [+config:]
               job web: pending version=0 create=2 modify=2 job-modify=2 groups=g:1
            eval delete status=pending: ok [-eval:e1 ~job:web +work:4]
               job web: dead version=0 create=2 modify=4 job-modify=2 groups=g:1
               changed: jobs=4 job_summary=2 job_version=2 evals=4 scheduler_config=3 pending_work=4
        "#]],
    );
}

#[test]
fn invalid_filter_expression_opens_no_pending_work() {
    let mut state = state_after("config set paused");
    let entry = envelope(DeleteEvals { choice: EvalChoice::Filter("Status ==".into()), slice: Slice::of_rows(1) });
    let applied = apply(&mut state, 3, &entry);
    assert!(matches!(applied.result, Err(Rejected::EvalFilterInvalid(_))), "{:?}", applied.result);
    assert_eq!(state.all_work().count(), 0);
}

#[test]
fn slices_use_the_filter_that_the_opening_entry_parsed() {
    let mut state = state_after(
        "config set paused
         eval e1 failed job=web
         eval e2 failed job=web
         eval e3 failed job=web
         eval delete status=failed rows=1",
    );
    let id = WorkId(6);
    let parsed = |state: &State| state.by.work_filters.get(&id).map(|filter| filter.clone().unwrap());
    let opened = parsed(&state).unwrap();
    let next = |rows_max| envelope(ContinueWork { work: id, slice: Slice::of_rows(rows_max) });
    apply(&mut state, 7, &next(1));
    assert!(Arc::ptr_eq(&opened, &parsed(&state).unwrap()));
    crate::check::consistent(&state);
    let restored = read_back(&state);
    assert!(parsed(&restored).is_some(), "a checkpoint has the text, and reading it parses it");
    crate::check::consistent(&restored);
    apply(&mut state, 8, &next(10));
    assert!(state.work(id).unwrap().ended.is_some() && parsed(&state).is_none());
}

#[test]
fn only_the_newest_64_pieces_of_ended_work_are_remembered() {
    let mut state = state_after("config set paused");
    for raft_index in 3..200 {
        let choice = EvalChoice::Ids(vec![EvalId::from_bytes(id("e1"))]);
        let applied = apply(&mut state, raft_index, &envelope(DeleteEvals { choice, slice: Slice::of_rows(1) }));
        assert_eq!(applied.result, Ok(crate::Outcome::Done));
    }
    crate::check::consistent(&state);
    assert_eq!(state.all_work().map(|work| work.id.0).collect::<Vec<_>>(), (136..200).collect::<Vec<_>>());
}

#[test]
fn deletion_restored_from_a_checkpoint_midway_ends_the_same() {
    let mut state = state_after("config set paused");
    let eval = |number: u64| Evaluation {
        id: EvalId::from_bytes(id(&format!("{}-{number}", number * 7919 % 1000))),
        job_id: format!("j{}", number % 7).into(),
        namespace: "default".into(),
        priority: (number % 10).cast_signed(),
        ..Evaluation::default()
    };
    for raft_index in 3..103 {
        let evals = (0..10).map(|n| eval(raft_index * 10 + n)).collect();
        apply(&mut state, raft_index, &envelope(UpdateEvals { evals }));
    }
    let slice = Slice { rows_max: 40, looks_max: 100 };
    apply(&mut state, 103, &envelope(DeleteEvals { choice: EvalChoice::Filter("Priority != 3".into()), slice }));
    let mut others: Vec<State> = vec![state.clone()];
    let mut raft_index = 103;
    while state.work_under_way().next().is_some() {
        raft_index += 1;
        let entry = match raft_index % 3 {
            0 => envelope(UpdateEvals { evals: vec![eval(raft_index * 10)] }),
            _ => envelope(ContinueWork { work: WorkId(103), slice }),
        };
        if raft_index % 5 == 0 {
            others.push(read_back(&state));
        }
        let told = apply(&mut state, raft_index, &entry);
        for other in &mut others {
            assert_eq!(apply(other, raft_index, &entry), told);
        }
    }
    crate::check::consistent(&state);
    assert!(others.len() > 3);
    assert!(others.iter().all(|other| other.table_digests() == state.table_digests()));
    let work = state.work(WorkId(103)).expect("is remembered");
    assert_eq!((work.total, work.looked, work.deleted), (1000, 1000, 900));
    assert!(state.evals().all(|eval| eval.priority == 3 || eval.create_index > 103), "all that was there is gone");
}

fn envelope(command: impl Into<songline_commands::Command>) -> Envelope {
    Envelope::new(Time::from_secs(9), Actor::Leader("test".into()), command)
}

fn read_back(state: &State) -> State {
    let mut bytes = Vec::new();
    state.write_checkpoint(&mut bytes).expect("writes");
    State::read_checkpoint(&mut bytes.as_slice()).expect("reads")
}
