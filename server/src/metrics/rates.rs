//! Counters of requests by endpoint, operation and caller.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;
use songline_api::{RateOp, Served};

use super::family::{Family, Labels, Rows};
use super::series::{Counter, Shown};

/// Largest number of pairs of endpoint and caller with counters of their own. Further callers are counted without
/// their names.
const CALLERS_MAX: usize = 4096;

/// Counters of all endpoints. A request takes a read lock of its own endpoint.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    endpoints: RwLock<BTreeMap<(&'static str, RateOp), Arc<Endpoint>>>,
    callers: AtomicUsize,
}

#[derive(Debug, Default)]
struct Endpoint {
    unnamed: Counter,
    by_caller: RwLock<BTreeMap<String, (Arc<Labels>, Counter)>>,
}

impl Rates {
    /// Counts a request.
    pub(super) fn count(&self, served: Served) {
        let endpoint = self.endpoint(served.endpoint, served.op);
        let Some(identity) = served.identity else { return endpoint.unnamed.add_one() };
        if let Some((_, counter)) = endpoint.by_caller.read().get(&identity) {
            return counter.add_one();
        }
        if self.callers.fetch_add(1, Ordering::Relaxed) >= CALLERS_MAX {
            self.callers.fetch_sub(1, Ordering::Relaxed);
            return endpoint.unnamed.add_one();
        }
        let mut callers = endpoint.by_caller.write();
        let before = callers.len();
        let labels = Labels::new(&[("identity", &identity)]);
        let (_, counter) = callers.entry(identity).or_insert_with(|| (labels, Counter::default()));
        counter.add_one();
        if callers.len() == before {
            // Another request of the same caller inserted the counter first.
            self.callers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn endpoint(&self, name: &'static str, op: RateOp) -> Arc<Endpoint> {
        if let Some(endpoint) = self.endpoints.read().get(&(name, op)) {
            return Arc::clone(endpoint);
        }
        Arc::clone(self.endpoints.write().entry((name, op)).or_default())
    }

    /// Ends the interval.
    pub(super) fn rotate(&self) {
        for endpoint in self.endpoints.read().values() {
            endpoint.unnamed.rotate();
            endpoint.by_caller.read().values().for_each(|(_, counter)| counter.rotate());
        }
    }

    /// Adds one family for each endpoint and operation.
    pub(super) fn tell(&self, shown: Shown, out: &mut Vec<Family>) {
        let endpoints: Vec<_> =
            self.endpoints.read().iter().map(|(key, endpoint)| (*key, Arc::clone(endpoint))).collect();
        for ((name, op), endpoint) in endpoints {
            let unnamed = endpoint.unnamed.read(shown);
            let mut rows = Vec::new();
            if unnamed.count > 0 {
                rows.push((Labels::none(), unnamed));
            }
            rows.extend(
                endpoint.by_caller.read().values().map(|(labels, counter)| (Arc::clone(labels), counter.read(shown))),
            );
            out.push(Family {
                name: format!("nomad.nomad.rpc.{name}.{op}").into(),
                help: format!("Calls of `{name}` that {op}, whatever came of them.").into(),
                rows: Rows::Counters(rows),
            });
        }
    }
}
