#!/usr/bin/env bash
# Fetches Schemathesis, which asks a server everything that its OpenAPI document allows and much that it does not, into a Python
# environment of its own: nothing is installed on the host, and python3 is all that is needed (pip is unpacked where there is none).
#
# usage: schemathesis.sh [DIR]     default DIR: ${XDG_CACHE_HOME:-$HOME/.cache}/postrider/peers
#
# DIR/schemathesis/bin/st       runs it
# DIR/schemathesis/packages     what it is made of
# DIR/schemathesis/stamp        what was fetched; a second run compares it, tries the program, and is done
set -euo pipefail

# Pinned with everything they depend on, so that the same seed asks the same tomorrow.
WANTED=(schemathesis==4.32.5 anyio==4.16.0 certifi==2026.10.19.post1 charset-normalizer==3.5.3 click==8.5.1 graphql-core==3.3.2
    harfile==0.6.0 hypothesis==6.170.17 hypothesis-graphql==0.13.5 idna==3.20 iniconfig==2.3.1 jsonschema_rs==0.60.3
    markdown-it-py==4.3.0 MarkupSafe==3.0.4 mdurl==0.1.2 packaging==26.4 pluggy==1.7.0 Pygments==2.21.0 pyrate-limiter==4.5.1
    pytest==9.2.0 PyYAML==6.0.4 requests==2.34.2 rich==15.0.0 sortedcontainers==2.4.0 typing_extensions==4.16.0 urllib3==2.8.0
    Werkzeug==3.1.9)
# Raise this when the layout under DIR changes, so that an older tree is replaced.
LAYOUT=1

main() {
    local peers=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/postrider/peers}
    place=$peers/schemathesis
    mkdir -p "$place"
    place=$(cd "$place" && pwd)
    command -v python3 >/dev/null || die "python3 is needed: apt-get install python3"
    # Two test runs may start at once; the second waits and then finds everything done.
    exec 9>"$place/lock"
    flock 9
    if [ "$(cat "$place/stamp" 2>/dev/null)" = "$(wanted_line)" ] && works >/dev/null 2>&1; then
        say "already in $place"
        return
    fi
    rm -rf "$place/stamp" "$place/packages" "$place/bin"
    temp=$(mktemp -d "$place/fetch.XXXXXX")
    trap 'rm -rf "$temp"' EXIT
    find_pip
    say "installing ${WANTED[*]}"
    # Those with C or Rust in them must come built: a compiler is not to be expected.
    "${pip[@]}" install --quiet --disable-pip-version-check --no-input --no-deps --only-binary :all: \
        --target "$place/packages" "${WANTED[@]}" >&2 || die "cannot install it"
    mkdir "$place/bin"
    cat >"$place/bin/st" <<'RUN'
#!/usr/bin/env bash
# Runs Schemathesis; it execs, so its process id is the program's. Written by schemathesis.sh.
place=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)
export PYTHONPATH=$place/packages PYTHONDONTWRITEBYTECODE=1
exec python3 -c 'from schemathesis.cli import schemathesis; schemathesis()' "$@"
RUN
    chmod 755 "$place/bin/st"
    works >&2 || die "what was fetched does not run"
    wanted_line >"$place/stamp"
    say "ready in $place"
}

# The host's, or that of fetch.sh, or one that is only unpacked (Debian's python3 comes without).
find_pip() {
    pip=(python3 -m pip)
    if "${pip[@]}" --version >/dev/null 2>&1; then return; fi
    pip=("$place/../venv/bin/python" -m pip)
    if "${pip[@]}" --version >/dev/null 2>&1; then return; fi
    say "this python3 has no pip; unpacking one"
    # As root apt would drop to the user _apt, who cannot write here and need not.
    local -a sandbox=()
    [ "$(id -u)" -ne 0 ] || sandbox=(-o APT::Sandbox::User=root)
    (cd "$temp" && apt-get -q -q "${sandbox[@]}" download python3-pip-whl </dev/null >&2) ||
        die "cannot download python3-pip-whl; are the package lists there (apt-get update)?"
    dpkg -x "$temp"/python3-pip-whl_*.deb "$temp/pip"
    local -a wheel=("$temp"/pip/usr/share/python-wheels/pip-*.whl)
    pip=(python3 "${wheel[0]}/pip")
}

# The host's release and Python too: what is built for one does not run on another.
wanted_line() {
    echo "layout=$LAYOUT python=$(python3 -c 'import platform; print(platform.python_version(), platform.machine())') ${WANTED[*]}"
}

works() { "$place/bin/st" --version; }

say() { echo "schemathesis peers: $*" >&2; }
die() { say "error: $*"; exit 1; }

main "$@"
