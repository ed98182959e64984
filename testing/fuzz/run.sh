#!/usr/bin/env bash
# Runs the fuzz targets: testing/fuzz/run.sh SECONDS [TARGET...]
#
# Each target runs for SECONDS with its corpus in the build cache, beginning with the seeds in
# testing/fuzz/seeds/TARGET; as many at once as there are cores, what one says is shown when it ends. Exits 1 when a target crashed, ran out of memory or hung; the
# input that did it is named. cargo-fuzz is installed into the build cache when it is missing.
# Coverage counters need a flag of the compiler that is not stable; RUSTC_BOOTSTRAP lets the
# pinned stable compiler take it, so that no second toolchain is needed.
set -euo pipefail

CARGO_FUZZ_VERSION=0.13.2
# A decoder of a few KB of input has no use for more.
MEMORY_MB_MAX=1024
# One input; the slowest seen takes milliseconds.
INPUT_SECONDS_MAX=20

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/postrider
tools=$cache/tools

usage() {
    echo "usage: $0 SECONDS [TARGET...]" >&2
    echo "targets: $(targets | tr '\n' ' ')" >&2
    exit 2
}

targets() {
    for file in "$here"/fuzz_targets/*.rs; do basename "$file" .rs; done
}

install_cargo_fuzz() {
    local installed
    installed=$("$tools/bin/cargo-fuzz" --version 2>/dev/null || true)
    if [ "$installed" != "cargo-fuzz $CARGO_FUZZ_VERSION" ]; then
        echo "installing cargo-fuzz $CARGO_FUZZ_VERSION into $tools"
        CARGO_TARGET_DIR=$cache/target-tools \
            cargo install cargo-fuzz --version "=$CARGO_FUZZ_VERSION" --locked --force --root "$tools"
    fi
}

build_target() {
    (cd "$here" && "$tools/bin/cargo-fuzz" fuzz build --fuzz-dir "$here" --sanitizer none "$1")
}

# Marks it clean when it is.
run_and_show() {
    if run_target "$1" "$2" >"$said/$1.log" 2>&1; then touch "$said/$1.clean"; fi
    { echo "== $1 for $2 s"; cat "$said/$1.log"; } | flock "$said" cat
}

run_target() {
    local target=$1 seconds=$2
    local corpus=$cache/fuzz/$target/corpus found=$cache/fuzz/$target/found
    mkdir -p "$corpus" "$found"
    (cd "$here" && "$tools/bin/cargo-fuzz" fuzz run --fuzz-dir "$here" --sanitizer none "$target" \
        "$corpus" "$here/seeds/$target" -- \
        -max_total_time="$seconds" -rss_limit_mb=$MEMORY_MB_MAX -timeout=$INPUT_SECONDS_MAX \
        -artifact_prefix="$found/" -print_final_stats=1)
}

[[ "${1:-}" =~ ^[0-9]+$ ]] || usage
seconds=$1
shift
known=$(targets)
[ $# -gt 0 ] || set -- $known
for target in "$@"; do
    grep -qx "$target" <<<"$known" || { echo "no target named $target" >&2; usage; }
done

# Its own, for the flags differ from those of every other build.
export CARGO_TARGET_DIR=$cache/target-fuzz
export RUSTC_BOOTSTRAP=1
install_cargo_fuzz
for target in "$@"; do build_target "$target"; done
said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT
# A group of processes for each target: what runs in the background does not hear an interrupt by itself.
set -m
trap 'for group in $(jobs -p); do kill -- "-$group"; done; exit 130' INT TERM
for target in "$@"; do
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
    run_and_show "$target" "$seconds" &
done
while [ -n "$(jobs -rp)" ]; do wait -n || true; done
failed=()
for target in "$@"; do
    [ -e "$said/$target.clean" ] || failed+=("$target")
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "FAILED: ${failed[*]}; inputs are in $cache/fuzz/TARGET/found" >&2
    exit 1
fi
echo "clean: $*"
