//! Metrics of this process from the operating system, under the names that every Prometheus client library uses.

use std::sync::LazyLock;

use super::family::Family;
use super::series::Measurement;

/// Adds the families of the process. A value that `/proc` lacks is left out.
pub(super) fn tell(out: &mut Vec<Family>) {
    if let Some(stat) = std::fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(Stat::of) {
        out.push(Family::gauge(
            "process_resident_memory_bytes",
            "Memory of this process, in bytes.",
            stat.resident_bytes,
        ));
        out.push(Family::gauge(
            "process_virtual_memory_bytes",
            "Address space of this process, in bytes.",
            stat.virtual_bytes,
        ));
        let processor = Measurement::total(stat.processor_seconds);
        out.push(Family::counter(
            "process_cpu_seconds_total",
            "Processor time of this process, in seconds.",
            processor,
        ));
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        out.push(Family::gauge("process_open_fds", "Open file descriptors.", open.count() as f64));
    }
    if let Some(max) = *MAX_FDS {
        out.push(Family::gauge("process_max_fds", "How many file descriptors may be open.", max));
    }
}

/// The limit of open files. Read once: the agent raises it at its start and does not change it later.
static MAX_FDS: LazyLock<Option<f64>> = LazyLock::new(|| {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
});

#[derive(Debug, PartialEq)]
struct Stat {
    processor_seconds: f64,
    virtual_bytes: f64,
    resident_bytes: f64,
}

impl Stat {
    fn of(text: &str) -> Option<Self> {
        // The second field is a name that may have spaces and brackets in it.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |nth: usize| fields.get(nth)?.parse::<f64>().ok();
        let clock = rustix::param::clock_ticks_per_second() as f64;
        Some(Self {
            processor_seconds: (field(11)? + field(12)?) / clock,
            virtual_bytes: field(20)?,
            resident_bytes: field(21)? * rustix::param::page_size() as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_name_with_brackets_is_parsed() {
        let text = format!("7 (a ) b) S {} 300 100 {} 4096 2 0", ["0"; 10].join(" "), ["0"; 7].join(" "));
        let stat = Stat::of(&text).unwrap();
        assert_eq!(stat.virtual_bytes, 4096.0);
        assert_eq!(stat.resident_bytes, 2.0 * rustix::param::page_size() as f64);
        assert_eq!(stat.processor_seconds, 400.0 / rustix::param::clock_ticks_per_second() as f64);
        assert_eq!(Stat::of("nonsense"), None);
    }
}
