//! Stories of slice sizes.

use songline_commands::{
    Actor, Command, DeleteEvals, Envelope, EvalChoice, SetSchedulerConfig, Slice, StopWork, WorkId,
};
use songline_model::{EvalId, SchedulerConfiguration, Time};

use super::*;

fn state_with_work(pieces: usize) -> State {
    let mut state = State::new();
    let config = SchedulerConfiguration { pause_eval_broker: true, ..SchedulerConfiguration::default() };
    run(&mut state, SetSchedulerConfig { config, cas: None });
    for _ in 0..pieces {
        let choice = EvalChoice::Ids(vec![EvalId::from_bytes([1; 16]), EvalId::from_bytes([2; 16])]);
        run(&mut state, DeleteEvals { choice, slice: Slice::of_rows(1) });
    }
    state
}

fn run(state: &mut State, command: impl Into<Command>) {
    let raft_index = state.raft_index() + 1;
    let applied =
        songline_projections::apply(state, raft_index, &Envelope::new(Time::from_secs(1), Actor::Anonymous, command));
    assert!(applied.result.is_ok(), "{:?}", applied.result);
}

#[test]
fn work_pacer_proposes_nothing_without_pending_work() {
    assert_eq!(Pacer::new().next(&state_with_work(0)), None);
}

#[test]
fn pieces_of_pending_work_take_turns() {
    let mut state = state_with_work(3);
    let mut pacer = Pacer::new();
    let mut turn = |state: &State| pacer.next(state).map(|next| next.work.0);
    assert_eq!([turn(&state), turn(&state), turn(&state), turn(&state)], [Some(2), Some(3), Some(4), Some(2)]);
    run(&mut state, StopWork { work: WorkId(3) });
    assert_eq!([turn(&state), turn(&state)], [Some(4), Some(2)]);
}

#[test]
fn work_slice_size_follows_its_apply_time() {
    let state = state_with_work(1);
    let mut pacer = Pacer::new();
    let settle = |pacer: &mut Pacer, nanos_per_row: u32| {
        for _ in 0..100 {
            let rows = pacer.next(&state).expect("is under way").slice.rows_max;
            pacer.on_applied(Duration::from_nanos(u64::from(rows) * u64::from(nanos_per_row)));
        }
        pacer.next(&state).expect("is under way").slice.rows_max
    };
    // Time per row when this many rows fill a slice.
    let filling = |rows: u32| u32::try_from(SLICE_TIME.as_nanos()).expect("is short") / rows;
    let close = |rows: u32, wanted: u32| assert!(rows.abs_diff(wanted) <= wanted / 50, "{rows}, wanted {wanted}");
    close(settle(&mut pacer, filling(1000)), 1000);
    close(settle(&mut pacer, filling(100)), 100);
    assert_eq!(settle(&mut pacer, 1), ROWS_MAX);
    assert_eq!(settle(&mut pacer, 1_000_000), ROWS_MIN);
    // One slice that took far too long halves the next, not more.
    pacer.rows = 1000;
    pacer.on_applied(Duration::from_secs(1));
    assert_eq!(pacer.rows, 500);
}
