//! Schedule of the node's registration and heartbeats. The shell makes the calls.

use songline_model::{Dur, Time};

use super::jitter::Jitter;

const REGISTER_RETRY: Dur = Dur::from_secs(15);
const FIRST_WITHIN: Dur = Dur::from_secs(10);
const CHANGE_WAIT: Dur = Dur::from_secs(5);
const SECOND: Dur = Dur::from_secs(1);

/// The next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextCall {
    /// `Node.Register`.
    Register,
    /// `Node.UpdateStatus`.
    Heartbeat,
}

/// The schedule of registration and heartbeats.
#[derive(Debug)]
pub struct Heartbeats {
    /// In dev mode delays are short: there is one server, in the same process.
    dev: bool,
    next: NextCall,
    at: Time,
    last_ok: Option<Time>,
    ttl: Dur,
    change_due: Option<Time>,
    jitter: Jitter,
}

impl Heartbeats {
    /// Creates a schedule that registers at once.
    pub fn new(now: Time, dev: bool, jitter: Jitter) -> Self {
        Self { dev, next: NextCall::Register, at: now, last_ok: None, ttl: Dur::ZERO, change_due: None, jitter }
    }

    /// The next call and its time.
    pub fn next(&self) -> (NextCall, Time) {
        match self.change_due {
            Some(due) if due < self.at => (NextCall::Register, due),
            _ => (self.next, self.at),
        }
    }

    /// Time at which the servers last answered the node.
    pub fn heard_at(&self) -> Option<Time> {
        self.last_ok
    }

    /// The node's description has changed: registers again soon, with all changes until then.
    pub fn on_change(&mut self, now: Time) {
        let wait = if self.dev { Dur::ZERO } else { self.jitter.stretched(CHANGE_WAIT) };
        self.change_due.get_or_insert(now.plus(wait));
    }

    /// The servers require the node to register again.
    pub fn register_again(&mut self, now: Time) {
        self.next = NextCall::Register;
        self.at = now;
    }

    /// Registration succeeded.
    pub fn on_registered(&mut self, now: Time, ttl: Dur) {
        let first = self.last_ok.is_none();
        self.change_due = None;
        self.ttl = ttl;
        self.last_ok = Some(now);
        self.next = NextCall::Heartbeat;
        // A node that registers again after a change keeps its heartbeat interval, but sends one soon.
        self.at = match (self.dev, first) {
            (true, _) => now,
            (false, _) => now.plus(self.jitter.below(FIRST_WITHIN)),
        };
    }

    /// Registration failed.
    pub fn on_register_failed(&mut self, now: Time, no_servers: bool) {
        self.change_due = None;
        let base = if self.dev || no_servers { SECOND } else { REGISTER_RETRY };
        self.next = NextCall::Register;
        self.at = now.plus(if self.dev { SECOND } else { self.jitter.stretched(base) });
    }

    /// A heartbeat succeeded; the next one is due within `ttl`.
    pub fn on_heartbeat(&mut self, now: Time, ttl: Dur) {
        self.last_ok = Some(now);
        self.ttl = ttl;
        self.next = NextCall::Heartbeat;
        self.at = now.plus(if ttl > Dur::ZERO { ttl } else { SECOND });
    }

    /// A heartbeat failed.
    pub fn on_heartbeat_failed(&mut self, now: Time, no_leader: bool) {
        self.next = NextCall::Heartbeat;
        let wait = match (self.dev, self.last_ok) {
            (true, _) => SECOND,
            (false, Some(last)) if !no_leader => self.late(last.plus(self.ttl).since(now)),
            (false, _) => self.jitter.stretched(REGISTER_RETRY),
        };
        self.at = now.plus(wait);
    }

    /// Delay after a failure, with `left` remaining until the servers mark the node as down.
    fn late(&mut self, left: Dur) -> Dur {
        let bound = if left < Dur::from_secs(-30) {
            Dur(left.nanos().saturating_abs())
        } else if left < Dur::ZERO {
            return self.jitter.stretched(SECOND);
        } else {
            left
        };
        let wait = self.jitter.below(bound);
        if wait < SECOND {
            self.jitter.stretched(SECOND)
        } else if wait > Dur::from_secs(30) {
            Dur(Dur::from_secs(25).nanos() + self.jitter.below(Dur::from_secs(5)).nanos())
        } else {
            wait
        }
    }
}
