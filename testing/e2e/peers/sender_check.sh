#!/usr/bin/env bash
# Fetches what the tests of crates/sender-check hold it against, besides what fetch.sh brings: the test suite of RFC 7208
# (SPF), which is in the source package of pyspf, and authres, without which dkimpy seals no ARC sets. Nothing outside
# DIR/sender-check is touched.
#
# usage: sender_check.sh [DIR]     default DIR: ${XDG_CACHE_HOME:-$HOME/.cache}/postrider/peers; fetch.sh must have been there
#
# DIR/sender-check/rfc7208-tests.yml        the suite
# DIR/sender-check/rfc7208-tests.LICENSE    its licence
# DIR/sender-check/python                   authres
# DIR/sender-check/stamp                    what was fetched; a second run compares it and is done
set -euo pipefail

# Pinned, so that a test that passed today passes with the same suite tomorrow.
SUITE=pyspf==2.0.14
SHA256=57a7ef01bda090173aafb6af0106251686ed73f03db4e911fcd34c57fc347186
AUTHRES=authres==1.2.0

main() {
    peers=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/postrider/peers}
    place=$peers/sender-check
    mkdir -p "$place"
    # Two test runs may start at once; the second waits and then finds everything done.
    exec 9>"$place/lock"
    flock 9
    if [ "$(cat "$place/stamp" 2>/dev/null)" = "$(wanted_line)" ] && works; then
        say "already in $place"
        return
    fi
    rm -rf "$place/stamp" "$place/python"
    temp=$(mktemp -d "$place/fetch.XXXXXX")
    trap 'rm -rf "$temp"' EXIT
    # The one fetch.sh made, where there is one: Debian's own comes without pip.
    python=$peers/venv/bin/python
    [ -x "$python" ] || python=python3

    say "downloading $SUITE and $AUTHRES"
    pip download --no-binary :all: --dest "$temp" "$SUITE" || die "cannot download $SUITE"
    local -a package=("$temp"/pyspf-*.tar.gz)
    echo "$SHA256  ${package[0]}" | sha256sum --check --quiet - >&2 || die "$SUITE is not the package it was"
    tar -xzf "${package[0]}" -C "$temp"
    cp "$temp"/pyspf-*/test/rfc7208-tests.{yml,LICENSE} "$place/"
    pip install --target "$place/python" "$AUTHRES" || die "cannot install $AUTHRES"
    works || die "what was fetched cannot be used"
    wanted_line >"$place/stamp"
    say "ready in $place"
}

pip() {
    local verb=$1
    shift
    "$python" -m pip "$verb" --quiet --disable-pip-version-check --no-input --no-deps "$@" >&2
}

wanted_line() { echo "$SUITE $SHA256 $AUTHRES"; }

works() { [ -f "$place/rfc7208-tests.yml" ] && [ -f "$place/python/authres/__init__.py" ]; }

say() { echo "sender-check peers: $*" >&2; }
die() { say "error: $*"; exit 1; }

main "$@"
