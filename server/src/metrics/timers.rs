//! Timers named by the measured operation: calls of the reference, routes of HTTP, messages of the log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use songline_api::Route;
use songline_commands::Kind;

use super::family::{Family, Labels, Rows};
use super::series::{Shown, Timer};

/// The two parts of a route's path, and its methods.
type RouteKey = [&'static str; 3];

/// The timers. Those of calls and routes are created on first use.
#[derive(Debug)]
pub(crate) struct Timers {
    calls: RwLock<BTreeMap<&'static str, Timer>>,
    /// Timers of routes, each with its labels, which are encoded once.
    routes: RwLock<BTreeMap<RouteKey, (Arc<Labels>, Timer)>>,
    messages: BTreeMap<Kind, Timer>,
}

impl Default for Timers {
    fn default() -> Self {
        let messages = Kind::ALL.iter().map(|kind| (*kind, Timer::default())).collect();
        Self { calls: RwLock::default(), routes: RwLock::default(), messages }
    }
}

impl Timers {
    /// Records a call, by the part of its timer's name after `nomad.nomad.`.
    pub(super) fn call(&self, name: &'static str, took: Duration) {
        if let Some(timer) = self.calls.read().get(name) {
            return timer.record(took);
        }
        self.calls.write().entry(name).or_default().record(took);
    }

    /// Records the answer to an HTTP request.
    pub(super) fn route(&self, route: Route, took: Duration) {
        let key = [route.root, route.tail, route.methods];
        if let Some((_, timer)) = self.routes.read().get(&key) {
            return timer.record(took);
        }
        let labels = Labels::new(&[("route", &route.path()), ("methods", route.methods)]);
        self.routes.write().entry(key).or_insert_with(|| (labels, Timer::default())).1.record(took);
    }

    /// Records that an entry was applied.
    pub(super) fn message(&self, kind: Kind, took: Duration) {
        if let Some(timer) = self.messages.get(&kind) {
            timer.record(took);
        }
    }

    /// Ends the interval.
    pub(super) fn rotate(&self) {
        self.calls.read().values().for_each(Timer::rotate);
        self.routes.read().values().for_each(|(_, timer)| timer.rotate());
        self.messages.values().for_each(Timer::rotate);
    }

    /// Adds one family for each call and each message, and one for all routes.
    pub(super) fn tell(&self, shown: Shown, out: &mut Vec<Family>) {
        for (name, timer) in self.calls.read().iter() {
            let help = format!("Time of a call `{name}`, in milliseconds; of one that waits, with its wait.");
            out.push(Family::summary(format!("nomad.nomad.{name}"), help, timer.read(shown)));
        }
        let routes =
            self.routes.read().values().map(|(labels, timer)| (Arc::clone(labels), timer.read(shown))).collect();
        out.push(Family {
            name: "songline.http.request".into(),
            help: "Time until the answer to a request of HTTP that this server answered, in milliseconds.".into(),
            rows: Rows::Summaries(routes),
        });
        for (kind, timer) in &self.messages {
            let told = timer.read(shown);
            if told.count > 0 {
                let help = format!("Time of applying an entry `{}`, in milliseconds.", kind.name());
                out.push(Family::summary(format!("nomad.nomad.fsm.{}", kind.timer()), help, told));
            }
        }
    }
}
