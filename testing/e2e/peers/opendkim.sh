#!/usr/bin/env bash
# Fetches libopendkim, by which tests of crates/sender-check hold signatures: the Debian package, and the libraries it needs that
# the host lacks.
#
# Nothing is installed (see fetch.sh): packages are downloaded with `apt-get download` and unpacked under DIR/opendkim.
#
# usage: opendkim.sh [DIR]     default DIR: ${XDG_CACHE_HOME:-$HOME/.cache}/postrider/peers; fetch.sh must have been there
#
# DIR/opendkim/libopendkim.so    the library
# DIR/opendkim/stamp             what was fetched; a second run compares it, loads the library, and is done
set -euo pipefail
# shellcheck source=debs.sh
. "$(dirname "${BASH_SOURCE[0]}")/debs.sh"

main() {
    peers=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/postrider/peers}
    python=$peers/bin/python
    [ -x "$python" ] || python=python3
    peers=$peers/opendkim
    mkdir -p "$peers"
    peers=$(cd "$peers" && pwd)
    need apt-cache
    # Its name has a number that goes up with Debian.
    local found
    found=$(apt-cache pkgnames libopendkim | grep -E '^libopendkim[0-9]+(t64)?$' | sort -V | tail -n 1) || true
    DEB_WANTED=("${found:-libopendkim11}")
    once
}

build() {
    fetch_debs
    local -a library=("$peers/root/usr/lib/$(triplet)"/libopendkim.so.*.*.*)
    ln -sfn "${library[0]}" "$peers/libopendkim.so"
}

wanted_line() {
    echo "os=$(. /etc/os-release && echo "${ID:-unknown}-${VERSION_ID:-unstable}") arch=$(dpkg --print-architecture) debs=${DEB_WANTED[*]}"
}

# Loads it. $1: quiet or loud.
works() {
    local output
    output=$(LD_LIBRARY_PATH=$peers/root/usr/lib/$(triplet) "$python" -c "import ctypes, sys; ctypes.CDLL(sys.argv[1]).dkim_init" "$peers/libopendkim.so" 2>&1) && return
    [ "$1" = quiet ] || printf '%s\n' "$output" >&2
    return 1
}

main "$@"
