//! Reading facts about processes and the machine from /proc. Nothing here writes.

use std::collections::BTreeMap;
use std::fs;

/// Clock ticks per second in which /proc counts processor time: fixed in the kernel's interface on all supported
/// platforms.
pub const TICKS_PER_SECOND: u64 = 100;
/// Size in bytes of a page, in which /proc counts memory.
pub const PAGE_BYTES: u64 = 4096;

/// One process as /proc shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    /// Start time in ticks after boot. Together with the process id it identifies a process for good.
    pub start_ticks: u64,
    /// Process group.
    pub group: i32,
    /// Session id.
    pub session: i32,
    /// Parent process id.
    pub parent: i32,
    /// Whether the process has ended and is not reaped yet.
    pub zombie: bool,
    /// Processor time in user mode, in ticks.
    pub user_ticks: u64,
    /// Processor time in the kernel, in ticks.
    pub system_ticks: u64,
    /// Resident memory, in pages.
    pub rss_pages: u64,
}

/// The process with this id, if it exists.
pub fn process(pid: i32) -> Option<ProcessStat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(text: &str) -> Option<ProcessStat> {
    // The name is in parentheses and may hold anything, parentheses too: fields are counted after the last one.
    let fields: Vec<&str> = text.get(text.rfind(')')? + 2..)?.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    Some(ProcessStat {
        zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        user_ticks: number(11)?,
        system_ticks: number(12)?,
        start_ticks: number(19)?,
        rss_pages: number(21)?,
    })
}

/// Whether the process with this id still runs and is the one that started at `start_ticks`.
pub fn is_alive(pid: i32, start_ticks: u64) -> bool {
    process(pid).is_some_and(|stat| stat.start_ticks == start_ticks && !stat.zombie)
}

/// The processes with these ids that run.
pub fn those(pids: impl IntoIterator<Item = i32>) -> BTreeMap<i32, ProcessStat> {
    let found = pids.into_iter().filter_map(|pid| Some((pid, process(pid)?)));
    found.filter(|(_, stat)| !stat.zombie).collect()
}

/// All processes of this group.
pub fn in_group(group: i32) -> BTreeMap<i32, ProcessStat> {
    all_where(|stat| stat.group == group)
}

/// All processes of this session.
pub fn in_session(session: i32) -> BTreeMap<i32, ProcessStat> {
    all_where(|stat| stat.session == session)
}

fn all_where(is_so: impl Fn(&ProcessStat) -> bool) -> BTreeMap<i32, ProcessStat> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| Some((pid, process(pid)?)))
        .filter(|(_, stat)| is_so(stat) && !stat.zombie)
        .collect()
}

/// `/proc/meminfo`, in bytes.
pub fn memory() -> BTreeMap<String, u64> {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let (name, rest) = line.split_once(':')?;
            let kib: u64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
            Some((name.to_owned(), kib * 1024))
        })
        .collect()
}

/// Seconds since the machine started.
pub fn uptime_secs() -> u64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    text.split('.').next().and_then(|secs| secs.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_name_with_parentheses_does_not_shift_the_stat_fields() {
        let text = "42 (a) b) S 1 7 7 0 -1 4194304 10 0 0 0 5 6 0 0 20 0 1 0 1234 1000 99 0";
        let stat = parse_stat(text).expect("parses");
        assert_eq!((stat.parent, stat.group, stat.user_ticks, stat.system_ticks), (1, 7, 5, 6));
        assert_eq!((stat.start_ticks, stat.rss_pages, stat.zombie), (1234, 99, false));
    }

    #[test]
    fn process_with_another_start_time_is_not_alive() {
        let pid = i32::try_from(std::process::id()).expect("pids are small");
        let stat = process(pid).expect("we run");
        assert!(is_alive(pid, stat.start_ticks));
        assert!(!is_alive(pid, stat.start_ticks + 1));
    }
}
