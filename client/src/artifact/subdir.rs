//! The directory of an archive or repository that is wanted (`SOURCE//DIR`), whose parts may be patterns.

use std::path::PathBuf;

use rustix::fs::FileType;

use super::child::STAGED;
use super::{ArtifactError, doing};
use crate::beneath::Dir;

/// Finds the one directory below the staged one that `wanted` matches. Returns its path, with no patterns.
pub(super) fn find(staging: &Dir, wanted: &str) -> Result<String, ArtifactError> {
    let mut found = vec![PathBuf::new()];
    for part in wanted.split('/').filter(|part| !part.is_empty() && *part != ".") {
        let mut below = Vec::new();
        for path in found {
            let dir = staging.dir(PathBuf::from(STAGED).join(&path)).map_err(doing("reading what was fetched"))?;
            if !part.contains(['*', '?', '[']) {
                below.extend((dir.kind(part).ok() == Some(Some(FileType::Directory))).then(|| path.join(part)));
                continue;
            }
            for name in dir.names().map_err(doing("reading what was fetched"))? {
                let is_dir = dir.kind(&name).ok() == Some(Some(FileType::Directory));
                if is_dir && name.to_str().is_some_and(|name| matches(part.as_bytes(), name.as_bytes())) {
                    below.push(path.join(name));
                }
            }
        }
        found = below;
    }
    match found.as_slice() {
        [only] => Ok(only.to_string_lossy().into_owned()),
        [] => Err(ArtifactError::Invalid(format!("the archive has no directory {wanted:?}"))),
        several => Err(ArtifactError::Invalid(format!("{wanted:?} matches {} directories", several.len()))),
    }
}

/// Whether a name matches a pattern of `*`, `?` and `[a-z]`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let Some((first, rest)) = pattern.split_first() else { return name.is_empty() };
    match first {
        b'*' => (0..=name.len()).any(|taken| matches(rest, &name[taken..])),
        b'?' => !name.is_empty() && matches(rest, &name[1..]),
        b'[' => {
            let Some(end) = rest.iter().position(|byte| *byte == b']') else { return false };
            let Some((letter, others)) = name.split_first() else { return false };
            is_in(&rest[..end], *letter) && matches(&rest[end + 1..], others)
        }
        byte => name.first() == Some(byte) && matches(rest, &name[1..]),
    }
}

/// Whether a class such as `a-z_` or `^0-9` has a letter.
fn is_in(class: &[u8], letter: u8) -> bool {
    let (negated, class) = match class.split_first() {
        Some((b'^' | b'!', rest)) => (true, rest),
        _ => (false, class),
    };
    let mut found = false;
    let mut at = 0;
    while at < class.len() {
        if class.get(at + 1) == Some(&b'-') && at + 2 < class.len() {
            found |= (class[at]..=class[at + 2]).contains(&letter);
            at += 3;
        } else {
            found |= class[at] == letter;
            at += 1;
        }
    }
    found != negated
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_names() {
        let pairs = ["tool-* tool-1.2", "*x* box", "?-[0-9] a-7", "[^a]b ab", "[a-c]* bee", "a* b", "*.d c.d.e"];
        let found = pairs.map(|pair| {
            let (pattern, name) = pair.split_once(' ').expect("a pair");
            matches(pattern.as_bytes(), name.as_bytes())
        });
        assert_eq!(found, [true, true, true, false, true, false, false]);
    }
}
