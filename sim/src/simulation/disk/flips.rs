//! Damage to a disk while its machine is down: flipped bits of synced data, or an empty replacement disk.

use rand::RngExt;

use super::Platter;

/// First bytes of a log group, after the head of its record.
const GROUP: &[u8] = b"SLGROUP1";
/// Size of the record's head, in bytes.
const RECORD_HEAD: usize = 25;

impl Platter {
    /// Replaces the disk by an empty one.
    pub fn renew(&mut self) {
        self.crash();
        self.files.clear();
        self.names.clear();
        self.kept_names.clear();
        self.pending.clear();
    }

    /// Flips `bits` bits, each in another file, and returns their places. The machine is down, so all of its data was
    /// synced.
    ///
    /// The newest groups of the log are spared: there a flipped bit cannot be told from a tail that was torn when the
    /// machine died, as docs/log-format.md says.
    pub fn flip(&mut self, bits: u32) -> Vec<String> {
        let newest = self.names.keys().rfind(|path| path.extension().is_some_and(|kind| kind == "seg")).cloned();
        let mut places = Vec::new();
        for (path, file) in &self.names {
            let Some(content) = self.files.get(file).map(|file| &file.now) else { continue };
            let len = if Some(path) == newest.as_ref() { groups_but_newest(content) } else { content.len() };
            if len > 0 {
                places.push((path.clone(), *file, len));
            }
        }
        let mut said = Vec::new();
        for _ in 0..bits {
            if places.is_empty() {
                break;
            }
            let (path, file, len) = places.swap_remove(self.rng.random_range(0..places.len()));
            let (at, bit) = (self.rng.random_range(0..len), self.rng.random_range(0..8));
            if let Some(file) = self.files.get_mut(&file) {
                file.now[at] ^= 1 << bit;
                file.kept.clone_from(&file.now);
                said.push(format!("bit {bit} of byte {at} of {} was flipped", path.display()));
            }
        }
        said
    }
}

/// Number of bytes of a segment before its last two groups.
fn groups_but_newest(content: &[u8]) -> usize {
    let mut groups = content.windows(GROUP.len()).enumerate().filter(|(_, window)| *window == GROUP).map(|(at, _)| at);
    let last = groups.next_back();
    let before = groups.next_back();
    last.and(before).map_or(0, |at| at.saturating_sub(RECORD_HEAD))
}
