//! Gauges and counts of the node in this process among the metrics of its agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::Time;
use songline_rpc::{Count, Gauge};

use super::family::{Family, Labels, Rows};
use super::series::Measurement;
use super::{INTERVAL_SECONDS, json, process, prometheus, timestamp};

/// Adds the gauges, those of one name together.
pub(super) fn tell(gauges: &[Gauge], out: &mut Vec<Family>) {
    let mut by_name: BTreeMap<&'static str, Vec<&Gauge>> = BTreeMap::new();
    for gauge in gauges {
        by_name.entry(gauge.name).or_default().push(gauge);
    }
    out.extend(by_name.into_iter().map(|(name, gauges)| {
        let help = gauges.first().map_or("", |gauge| gauge.help);
        Family::gauges(name, help, gauges.into_iter().map(|gauge| (labels(&gauge.labels), gauge.value)).collect())
    }));
}

/// Adds the counts, those of one name together.
pub(super) fn tell_counts(counts: &[Count], out: &mut Vec<Family>) {
    let mut by_name: BTreeMap<&'static str, Vec<&Count>> = BTreeMap::new();
    for count in counts {
        by_name.entry(count.name).or_default().push(count);
    }
    out.extend(by_name.into_iter().map(|(name, counts)| {
        let help = counts.first().map_or("", |count| count.help);
        let row = |count: &Count| (labels(&count.labels), Measurement::counted(count.total, count.during));
        let rows = Rows::Counters(counts.into_iter().map(row).collect());
        Family { name: name.into(), help: help.into(), rows }
    }));
}

fn labels(of: &[(&'static str, String)]) -> Arc<Labels> {
    let pairs: Vec<(&str, &str)> = of.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Labels::new(&pairs)
}

/// The metrics of an agent without a server, in Prometheus' text form or in the reference's JSON form: those of its node
/// and of its process.
pub fn metrics_of_node(gauges: &[Gauge], counts: &[Count], is_text: bool, now: Time) -> String {
    let mut families = Vec::new();
    process::tell(&mut families);
    tell(gauges, &mut families);
    tell_counts(counts, &mut families);
    families.sort_by(|a, b| a.name.cmp(&b.name));
    if is_text {
        prometheus::text(&families)
    } else {
        json::object(&families, &timestamp(now), INTERVAL_SECONDS as f64)
    }
}
