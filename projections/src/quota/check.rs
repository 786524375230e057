//! For tests: what namespaces and quotas use, recounted from the allocs and variables.

use std::collections::BTreeMap;

use songline_model::{NamespaceName, QuotaUsed};

use crate::State;

/// Panics when a kept amount differs from a recount.
pub(crate) fn consistent(state: &State) {
    let mut used: BTreeMap<NamespaceName, QuotaUsed> = BTreeMap::new();
    for alloc in state.allocs() {
        used.entry(alloc.namespace.clone()).or_default().add(&QuotaUsed::of(alloc));
    }
    used.retain(|_, used| !used.is_zero());
    assert!(
        used.iter().eq(state.by.used_by_namespace.iter()),
        "the use of namespaces is that of their live allocs: {used:?} and not {:?}",
        state.by.used_by_namespace
    );
    for variable in state.variables() {
        let variables_bytes = variable.encrypted.data.len() as i64;
        let of_variable = QuotaUsed { variables_bytes, ..QuotaUsed::default() };
        used.entry(variable.meta.namespace.clone()).or_default().add(&of_variable);
    }
    for spec in state.quota_specs() {
        let mut again = QuotaUsed::default();
        for namespace in state.namespaces().filter(|namespace| namespace.quota == spec.name) {
            again.add(used.get(&namespace.name).unwrap_or(&QuotaUsed::default()));
        }
        let usage = state.quota_usage(&spec.name).expect("a quota has a usage row");
        assert_eq!(usage.used, again, "{}: the usage row is the sum over its namespaces", spec.name);
    }
    assert_eq!(state.quota_specs().count(), state.quota_usages().count(), "only quotas have a usage row");
    for namespace in state.namespaces().filter(|namespace| !namespace.quota.is_empty()) {
        assert!(state.quota_spec(&namespace.quota).is_some(), "{}: its quota exists", namespace.name);
    }
}
