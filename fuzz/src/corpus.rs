//! Playing a corpus through its target, on any toolchain. Ordinary tests of the crates concerned include this file.

use std::fs;
use std::io::Read as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// The stack of a replay: a worker thread of the server has as much.
const STACK_BYTES: usize = 2 << 20;

/// Plays all inputs of `fuzz/corpus/NAME.tar`; names those that panic.
///
/// # Panics
/// When one of them does, or when there are none.
pub fn replay(name: &str, target: fn(&[u8])) {
    let inputs = inputs(name);
    assert!(inputs.len() > 10, "{name}.tar holds the corpus");
    assert!(inputs.is_sorted(), "fuzz/corpus.sh wrote {name}.tar");
    let play = move || {
        let fails = |(_, input): &(String, Vec<u8>)| catch_unwind(AssertUnwindSafe(|| target(input))).is_err();
        inputs.into_iter().filter(fails).map(|(input, _)| input).collect::<Vec<_>>()
    };
    let played = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(play).expect("a thread starts");
    let failed = played.join().expect("panics are caught");
    assert!(failed.is_empty(), "these inputs break {name}:\n{}", failed.join("\n"));
}

/// The inputs of a corpus with their names, unpacked in memory.
fn inputs(name: &str) -> Vec<(String, Vec<u8>)> {
    // The crate that plays may be the root of the tree or one folder below it.
    let mut roots = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folder = roots
        .find_map(|root| Some(root.join("fuzz/corpus")).filter(|found| found.is_dir()))
        .expect("the tree has corpora");
    let archive = fs::read(folder.join(name).with_extension("tar")).expect("the corpus is in the tree");
    let mut archive = tar::Archive::new(archive.as_slice());
    let read = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
        let mut entry = entry.expect("the archive is whole");
        let name = entry.path().expect("an input has a name").display().to_string();
        let mut input = Vec::new();
        entry.read_to_end(&mut input).expect("the archive is whole");
        (name, input)
    };
    archive.entries().expect("the archive is whole").map(read).collect()
}
