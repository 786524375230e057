//! Playing a corpus through its target, on any toolchain. Ordinary tests of the crates concerned include this file.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// The stack of a replay: a worker thread of the server has as much.
const STACK_BYTES: usize = 2 << 20;

/// Plays all inputs of `fuzz/corpus/NAME`; names those that panic.
///
/// # Panics
/// When one of them does, or when there are none.
pub fn replay(name: &str, target: fn(&[u8])) {
    // The crate that plays may be the root of the tree or one folder below it.
    let mut roots = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folder =
        roots.find_map(|root| Some(root.join("fuzz/corpus")).filter(|found| found.is_dir())).expect("the tree has corpora").join(name);
    let mut paths: Vec<_> =
        fs::read_dir(&folder).expect("the corpus is in the tree").map(|entry| entry.expect("is listed").path()).collect();
    paths.sort();
    assert!(paths.len() > 10, "{} holds the corpus", folder.display());
    let play = move || {
        let fails = |path: &std::path::PathBuf| {
            let input = fs::read(path).expect("an input can be read");
            catch_unwind(AssertUnwindSafe(|| target(&input))).is_err()
        };
        paths.into_iter().filter(fails).map(|path| path.display().to_string()).collect::<Vec<_>>()
    };
    let played = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(play).expect("a thread starts");
    let failed = played.join().expect("panics are caught");
    assert!(failed.is_empty(), "these inputs break {name}:\n{}", failed.join("\n"));
}
