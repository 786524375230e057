//! Gauges of the node in this process among the metrics of its agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::Time;
use songline_rpc::Gauge;

use super::family::{Family, Labels};
use super::{INTERVAL_SECONDS, json, process, prometheus, timestamp};

/// Adds the gauges, those of one name together.
pub(super) fn tell(gauges: &[Gauge], out: &mut Vec<Family>) {
    let mut by_name: BTreeMap<&'static str, Vec<&Gauge>> = BTreeMap::new();
    for gauge in gauges {
        by_name.entry(gauge.name).or_default().push(gauge);
    }
    out.extend(by_name.into_iter().map(|(name, gauges)| {
        let help = gauges.first().map_or("", |gauge| gauge.help);
        Family::gauges(name, help, gauges.into_iter().map(|gauge| (labels(gauge), gauge.value)).collect())
    }));
}

fn labels(gauge: &Gauge) -> Arc<Labels> {
    let pairs: Vec<(&str, &str)> = gauge.labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Labels::new(&pairs)
}

/// The metrics of an agent without a server, in Prometheus' text form or in the reference's JSON form: those of its node
/// and of its process.
pub fn metrics_of_node(gauges: &[Gauge], is_text: bool, now: Time) -> String {
    let mut families = Vec::new();
    process::tell(&mut families);
    tell(gauges, &mut families);
    families.sort_by(|a, b| a.name.cmp(&b.name));
    if is_text {
        prometheus::text(&families)
    } else {
        json::object(&families, &timestamp(now), INTERVAL_SECONDS as f64)
    }
}
