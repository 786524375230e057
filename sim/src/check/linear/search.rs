//! The search for an order. Calls and returns are one list by time; whatever is called before the first return still in
//! the list may come next. What was tried in vain is remembered as the set of operations done and the state they left.

use std::collections::BTreeSet;

use super::Call;
use super::register::State;

/// How far the search came.
#[derive(Debug)]
pub(super) struct Stuck {
    /// How many operations the longest order has.
    pub explained: usize,
    /// The operation that had to be next and those that could have been.
    pub around: Vec<usize>,
}

/// One end of an operation in time.
#[derive(Debug, Clone, Copy)]
struct End {
    call: usize,
    returns: bool,
}

/// Ends by time, linked so that an operation is taken out and put back in constant time.
struct List {
    ends: Vec<End>,
    next: Vec<usize>,
    before: Vec<usize>,
    /// Where each operation's call and return are.
    places: Vec<(usize, Option<usize>)>,
}

/// The list's head, before all ends.
const HEAD: usize = 0;

impl List {
    fn new(calls: &[&Call]) -> Self {
        // At the same moment calls come before returns: such operations were under way together.
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

    /// Puts back what was taken last.
    fn put(&mut self, call: usize) {
        let (called, returned) = self.places[call];
        if let Some(returned) = returned {
            self.put_end(returned);
        }
        self.put_end(called);
    }
}

/// A set of operations that have been put in order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Done {
    /// All below are done; a history is long, but only few of it are ever open.
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

/// One operation of the order so far, and what was before it.
struct Step {
    call: usize,
    done: Done,
    state: State,
}

/// Looks for an order of all operations that returned.
pub(super) fn search(calls: &[&Call]) -> Result<(), Stuck> {
    let mut calls_by_time: Vec<usize> = (0..calls.len()).collect();
    calls_by_time.sort_by_key(|at| (calls[*at].called, *at));
    let sorted: Vec<&Call> = calls_by_time.iter().map(|at| calls[*at]).collect();
    search_sorted(&sorted).map_err(|stuck| Stuck { around: stuck.around.into_iter().map(|at| calls_by_time[at]).collect(), ..stuck })
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
                // What changes nothing and must not happen need not happen.
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
            // Somebody has his answer already, and nothing can come before it; or there is nothing more to try.
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
