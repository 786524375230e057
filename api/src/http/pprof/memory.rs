//! The memory of this process that is resident, by mapping. The allocator keeps no account of who allocated.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::proto::{Profile, Unit};
use crate::error::ApiError;

/// Resident memory of the mappings of one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Resident {
    mappings: u64,
    bytes: u64,
}

/// Resident memory by the name of its mappings. Reads `/proc` on a thread that may block.
pub(super) async fn now() -> Result<BTreeMap<String, Resident>, ApiError> {
    let read = tokio::task::spawn_blocking(|| std::fs::read_to_string("/proc/self/smaps")).await;
    let text = read.map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(parsed(&text.map_err(|error| ApiError::internal(format!("/proc/self/smaps: {error}")))?))
}

/// The content of `/proc/PID/smaps`: each mapping is a line with its range and name, then lines with its sizes.
fn parsed(smaps: &str) -> BTreeMap<String, Resident> {
    let mut all: BTreeMap<String, Resident> = BTreeMap::new();
    let mut name = String::new();
    for line in smaps.lines() {
        if let Some(size) = line.strip_prefix("Rss:") {
            let kibibytes: u64 = size.trim().trim_end_matches("kB").trim().parse().unwrap_or(0);
            let resident = all.entry(name.clone()).or_default();
            resident.mappings += 1;
            resident.bytes += kibibytes * 1024;
        } else if let Some(range) = line.split(' ').next().filter(|word| word.contains('-')) {
            let path = line[range.len()..].split_ascii_whitespace().skip(4).collect::<Vec<_>>().join(" ");
            name = if path.is_empty() { "[anonymous]".to_owned() } else { path };
        }
    }
    all.retain(|_, resident| resident.bytes > 0);
    all
}

/// A text with a line for each name: bytes, mappings, name.
pub(super) fn shown(all: &BTreeMap<String, Resident>) -> String {
    let mut shown = format!("resident: {}\n", all.values().map(|resident| resident.bytes).sum::<u64>());
    for (name, Resident { mappings, bytes }) in all {
        let _ = writeln!(shown, "{bytes:>12} {mappings:>6} {name}");
    }
    shown
}

/// A profile of the resident memory by name.
pub(super) fn profile(all: &BTreeMap<String, Resident>) -> Vec<u8> {
    let units = vec![Unit { kind: "inuse_objects", unit: "count" }, Unit { kind: "inuse_space", unit: "bytes" }];
    let mut profile = Profile::new(units);
    for (name, resident) in all {
        profile.add(name, vec![resident.mappings, resident.bytes]);
    }
    profile.encoded()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_summed_by_the_name_of_the_mapping() {
        let smaps = "\
            7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n\
            Size:                132 kB\n\
            Rss:                   8 kB\n\
            7f0000100000-7f0000121000 rw-p 00000000 00:00 0 \n\
            Rss:                   4 kB\n\
            55d0c0000000-55d0c0021000 r-xp 00000000 08:01 131 /usr/bin/a program\n\
            Rss:                  16 kB\n\
            7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]\n\
            Rss:                   0 kB\n";
        let all = parsed(smaps);
        let expected = [
            ("/usr/bin/a program", Resident { mappings: 1, bytes: 16 * 1024 }),
            ("[anonymous]", Resident { mappings: 2, bytes: 12 * 1024 }),
        ];
        assert_eq!(all, expected.map(|(name, resident)| (name.to_owned(), resident)).into());
        assert!(shown(&all).starts_with("resident: 28672\n"), "{}", shown(&all));
    }
}
