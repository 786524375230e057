//! The search for an order. Calls and returns are one list by time; every call before the first remaining return is a
//! candidate for the next place. A failed attempt is remembered as the set of ordered operations and the resulting
//! state.

use std::collections::BTreeSet;

use super::Call;
use super::register::State;

/// Progress of a failed search.
#[derive(Debug)]
pub(super) struct Stuck {
    /// Number of operations in the longest order.
    pub explained: usize,
    /// The operation that had to be next, and the other candidates.
    pub around: Vec<usize>,
}

/// One end of an operation in time.
#[derive(Debug, Clone, Copy)]
struct End {
    call: usize,
    returns: bool,
}

/// Ends by time, doubly linked so that an operation is removed and restored in constant time.
struct List {
    ends: Vec<End>,
    next: Vec<usize>,
    before: Vec<usize>,
    /// Positions of each operation's call and return.
    places: Vec<(usize, Option<usize>)>,
}

/// The list's head, before all ends.
const HEAD: usize = 0;

impl List {
    fn new(calls: &[&Call]) -> Self {
        // At the same time, calls come before returns: such operations were concurrent.
        let mut times: Vec<(u64, bool, usize)> = Vec::new();
        for (at, call) in calls.iter().enumerate() {
            times.push((call.called, false, at));
            times.extend(call.returned.as_ref().map(|(returned, _)| (*returned, true, at)));
        }
        times.sort_unstable();
        let mut list = Self {
            ends: vec![End { call: usize::MAX, returns: false }],
            next: Vec::new(),
            before: Vec::new(),
            places: vec![(0, None); calls.len()],
        };
        for (_, returns, call) in times {
            let at = list.ends.len();
            if returns {
                list.places[call].1 = Some(at)
            } else {
                list.places[call].0 = at
            }
            list.ends.push(End { call, returns });
        }
        let count = list.ends.len();
        list.next = (1..=count).collect();
        list.before = (0..count).map(|at| at.saturating_sub(1)).collect();
        list
    }

    fn end(&self, at: usize) -> Option<End> {
        self.ends.get(at).copied()
    }

    fn take_end(&mut self, at: usize) {
        let (before, next) = (self.before[at], self.next[at]);
        self.next[before] = next;
        if let Some(back) = self.before.get_mut(next) {
            *back = before;
        }
    }

    fn put_end(&mut self, at: usize) {
        let (before, next) = (self.before[at], self.next[at]);
        self.next[before] = at;
        if let Some(back) = self.before.get_mut(next) {
            *back = at;
        }
    }

    fn take(&mut self, call: usize) {
        let (called, returned) = self.places[call];
        self.take_end(called);
        if let Some(returned) = returned {
            self.take_end(returned);
        }
    }

    /// Restores the operation that was removed last.
    fn put(&mut self, call: usize) {
        let (called, returned) = self.places[call];
        if let Some(returned) = returned {
            self.put_end(returned);
        }
        self.put_end(called);
    }
}

/// A set of ordered operations.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Done {
    /// All operations below this index are ordered: a history is long, but only few of its operations are open at a
    /// time.
    from: usize,
    bits: Vec<u64>,
}

impl Done {
    fn with(&self, call: usize) -> Self {
        let mut done = self.clone();
        done.insert(call);
        done
    }

    fn insert(&mut self, call: usize) {
        let at = call - self.from;
        if self.bits.len() <= at / 64 {
            self.bits.resize(at / 64 + 1, 0);
        }
        self.bits[at / 64] |= 1 << (at % 64);
        while self.bits.first() == Some(&u64::MAX) {
            self.bits.remove(0);
            self.from += 64;
        }
    }
}

/// One operation of the order so far, and the state before it.
struct Step {
    call: usize,
    done: Done,
    state: State,
}

/// Searches an order of all operations that returned.
pub(super) fn search(calls: &[&Call]) -> Result<(), Stuck> {
    let mut calls_by_time: Vec<usize> = (0..calls.len()).collect();
    calls_by_time.sort_by_key(|at| (calls[*at].called, *at));
    let sorted: Vec<&Call> = calls_by_time.iter().map(|at| calls[*at]).collect();
    search_sorted(&sorted)
        .map_err(|stuck| Stuck { around: stuck.around.into_iter().map(|at| calls_by_time[at]).collect(), ..stuck })
}

fn search_sorted(calls: &[&Call]) -> Result<(), Stuck> {
    let mut list = List::new(calls);
    let mut open = calls.iter().filter(|call| call.returned.is_some()).count();
    let mut tried: BTreeSet<(Done, State)> = BTreeSet::new();
    let mut order: Vec<Step> = Vec::new();
    let mut done = Done { from: 0, bits: Vec::new() };
    let mut state = State::default();
    let mut stuck = Stuck { explained: 0, around: Vec::new() };
    let mut at = list.next[HEAD];
    while open > 0 {
        let end = list.end(at);
        match end {
            Some(End { call, returns: false }) => {
                let answer = calls[call].returned.as_ref().map(|(_, answer)| answer);
                let next = state.after(&calls[call].operation, answer);
                // An operation of unknown outcome without an effect need not be placed.
                let next = next.filter(|next| answer.is_some() || *next != state);
                let fresh = next.is_some_and(|next| tried.insert((done.with(call), next)));
                if let Some(next) = next.filter(|_| fresh) {
                    order.push(Step { call, done: done.clone(), state });
                    done.insert(call);
                    state = next;
                    open -= usize::from(answer.is_some());
                    list.take(call);
                    at = list.next[HEAD];
                } else {
                    at = list.next[at];
                }
            }
            // The next end is a return: its operation has to come before it and did not fit. Or the list is
            // exhausted.
            Some(End { returns: true, .. }) | None => {
                if order.len() > stuck.explained || stuck.around.is_empty() {
                    stuck = Stuck { explained: order.len(), around: candidates(&list) };
                }
                let Some(step) = order.pop() else { return Err(stuck) };
                open += usize::from(calls[step.call].returned.is_some());
                list.put(step.call);
                (done, state) = (step.done, step.state);
                at = list.next[list.places[step.call].0];
            }
        }
    }
    Ok(())
}

/// The calls before the first return.
fn candidates(list: &List) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = list.next[HEAD];
    while let Some(End { call, returns: false }) = list.end(at) {
        found.push(call);
        at = list.next[at];
    }
    found
}
