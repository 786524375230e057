#!/usr/bin/env bash
# The corpora: one archive for each target, corpus/TARGET.tar. See docs/fuzzing.md.
# Usage: fuzz/corpus.sh add TARGET FILE ..   adds inputs to the archive, under their names
#        fuzz/corpus.sh unpack TARGET        unpacks the archive into fuzz/target/corpus/TARGET, which git does not keep
#        fuzz/corpus.sh pack TARGET          makes the archive of what is there
# The same inputs give the same bytes: sorted names, no times, no owners.
set -euo pipefail

unpack() {
    rm -rf "target/corpus/$1"
    mkdir -p "target/corpus/$1"
    [ ! -e "corpus/$1.tar" ] || tar -xf "corpus/$1.tar" -C "target/corpus/$1"
}

pack() {
    find "target/corpus/$1" -mindepth 1 -maxdepth 1 -type f -printf '%f\0' | LC_ALL=C sort -z |
        tar -cf "corpus/$1.tar" -C "target/corpus/$1" --format=ustar --mode=644 --mtime=@0 --owner=0 --group=0 --numeric-owner \
            --no-recursion --null --verbatim-files-from -T -
}

action=${1:?add, unpack or pack}
target=${2:?which target}
shift 2
files=()
for file in "$@"; do files+=("$(realpath -e -- "$file")"); done
cd "$(dirname "$0")"
[ -e "fuzz_targets/$target.rs" ] || { echo "there is no target $target" >&2; exit 2; }
case $action in
    add)
        unpack "$target"
        cp -- "${files[@]:?which files}" "target/corpus/$target/"
        pack "$target"
        ;;
    unpack) unpack "$target" ;;
    pack) pack "$target" ;;
    *) echo "usage: fuzz/corpus.sh add|unpack|pack TARGET [FILE ..]" >&2; exit 2 ;;
esac
