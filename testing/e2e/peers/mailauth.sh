#!/usr/bin/env bash
# Fetches mailauth, by which tests of crates/sender-check hold signatures: a package for Node.js, and those it needs, as
# mailauth/package-lock.json has them. Their installation scripts do not run. Nothing outside DIR/mailauth is touched.
#
# usage: mailauth.sh [DIR]     default DIR: ${XDG_CACHE_HOME:-$HOME/.cache}/postrider/peers
#
# DIR/mailauth/node_modules    the packages
# DIR/mailauth/stamp           what was fetched; a second run compares it and is done
set -euo pipefail

main() {
    here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/mailauth
    place=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/postrider/peers}/mailauth
    mkdir -p "$place"
    # Two test runs may start at once; the second waits and then finds everything done.
    exec 9>"$place/lock"
    flock 9
    if cmp -s "$here/package-lock.json" "$place/stamp" && works; then
        say "already in $place"
        return
    fi
    rm -f "$place/stamp"
    cp "$here/package.json" "$here/package-lock.json" "$place/"
    npm ci --prefix "$place" --ignore-scripts --no-audit --no-fund --loglevel=error >&2 || die "cannot install mailauth"
    works || die "what was fetched cannot be used"
    cp "$here/package-lock.json" "$place/stamp"
    say "ready in $place"
}

works() { NODE_PATH=$place/node_modules node -e "require('mailauth/lib/dkim/verify')" 2>/dev/null; }

say() { echo "mailauth peer: $*" >&2; }
die() { say "error: $*"; exit 1; }

main "$@"
