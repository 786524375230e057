#!/usr/bin/env bash
# Runs fuzz targets one after another. Usage: fuzz/run.sh SECONDS [TARGET ..]     See docs/fuzzing.md.
# A find lies in fuzz/target/crash/TARGET; what is learned lies in fuzz/target/learned/TARGET; fuzz/target/corpus/TARGET is the unpacked
# corpus. None of them is kept by git.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:?how many seconds for each target}
shift
targets=("$@")
[ $# -gt 0 ] || targets=(bexpr hcl hcl1 acl config json words template jwt paths frames command checkpoint rpc shell http)

for target in "${targets[@]}"; do
    features=()
    case $target in
        command | checkpoint) features=(--features tables) ;;
        frames) features=(--features frames) ;;
        rpc) features=(--features rpc) ;;
        http) features=(--features server) ;;
        shell) features=(--features shell) ;;
    esac
    ./corpus.sh unpack "$target"
    mkdir -p "target/learned/$target" "target/crash/$target"
    cargo +nightly fuzz run --target-dir target "${features[@]}" "$target" "target/learned/$target" "target/corpus/$target" -- \
        -max_total_time="$seconds" -max_len=8192 -rss_limit_mb=1024 -malloc_limit_mb=512 -timeout=10 -print_final_stats=1 \
        -artifact_prefix="target/crash/$target/"
done
