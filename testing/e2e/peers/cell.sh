#!/usr/bin/env bash
# Builds the Redis module redis-cell (CL.THROTTLE) from the source that its makers publish in the registry of Rust's packages.
#
# Nothing is installed: the source is unpacked and built under a temporary folder, and what is kept is one file.
#
# usage: cell.sh [DIR]     default DIR: ${XDG_CACHE_HOME:-$HOME/.cache}/postrider/peers
#
# DIR/cell/libredis_cell.so    for `redis-server --loadmodule`
# DIR/cell/stamp               what it was built from
set -euo pipefail

WANTED=redis-cell=0.2.2

main() {
    peers=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/postrider/peers}
    mkdir -p "$peers/cell"
    peers=$(cd "$peers" && pwd)
    exec 9>"$peers/cell/lock"
    flock 9
    if [ -f "$peers/cell/libredis_cell.so" ] && [ "$(cat "$peers/cell/stamp" 2>/dev/null)" = "$WANTED" ]; then
        echo "cell.sh: already in $peers/cell" >&2
        return
    fi
    temp=$(mktemp -d "$peers/cell/build.XXXXXX")
    trap 'rm -rf "$temp"' EXIT
    mkdir -p "$temp/want/src"
    printf '[package]\nname = "want"\nversion = "0.0.0"\n[workspace]\n[dependencies]\n%s = "=%s"\n' \
        "${WANTED%=*}" "${WANTED#*=}" >"$temp/want/Cargo.toml"
    touch "$temp/want/src/lib.rs"
    # Only the source: it is built as what it is, a module, not as somebody's dependency.
    (cd "$temp/want" && cargo vendor --quiet "$temp/vendor" >/dev/null)
    mkdir "$temp/.cargo"
    printf '[source.crates-io]\nreplace-with = "vendored"\n[source.vendored]\ndirectory = "%s"\n' "$temp/vendor" \
        >"$temp/.cargo/config.toml"
    cp -r "$temp/vendor/${WANTED%=*}" "$temp/module"
    printf '\n[workspace]\n' >>"$temp/module/Cargo.toml"
    echo "cell.sh: building $WANTED" >&2
    (cd "$temp/module" && CARGO_TARGET_DIR="$temp/target" RUSTFLAGS='--cap-lints allow' \
        cargo rustc --quiet --release --offline --lib --crate-type cdylib)
    mv "$temp/target/release/libredis_cell.so" "$peers/cell/"
    echo "$WANTED" >"$peers/cell/stamp"
    echo "cell.sh: ready in $peers/cell" >&2
}

main "$@"
