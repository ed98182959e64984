# Debian packages unpacked, not installed: what the scripts here that fetch some have in common. To be sourced.
#
# For fetch_debs the caller has set DEB_WANTED, the packages, $peers, the folder that all goes below, and $temp, one that goes when it
# is done.

# Has `build` make what belongs below $peers, unless what is there is as `wanted_line` says, and `works`: the caller's functions.
once() {
    need apt-get apt-cache dpkg dpkg-query flock
    # Two test runs may start at once; the second waits and then finds everything done.
    exec 9>"$peers/lock"
    flock 9
    if [ -f "$peers/stamp" ] && [ "$(head -n 1 "$peers/stamp")" = "$(wanted_line)" ] && works quiet; then
        say "already in $peers"
        return
    fi
    rm -f "$peers/stamp"
    temp=$(mktemp -d "$peers/fetch.XXXXXX")
    trap 'rm -rf "$temp"' EXIT
    build
    works loud || die "what is in $peers does not run (see above)"
    { wanted_line; cat "$temp/versions"; } >"$temp/stamp"
    mv "$temp/stamp" "$peers/stamp"
    say "ready in $peers"
}

fetch_debs() {
    refresh_lists_if_missing
    local -a names
    mapfile -t names < <(closure "${DEB_WANTED[@]}")
    say "downloading ${names[*]}"
    if ! download "${names[@]}"; then
        # A list older than the archive names files that are gone from it.
        say "download failed; the package lists may be stale"
        refresh_lists
        mapfile -t names < <(closure "${DEB_WANTED[@]}")
        download "${names[@]}" || die "cannot download: ${names[*]}"
    fi
    mkdir "$temp/root"
    local deb
    for deb in "$temp"/debs/*.deb; do
        dpkg -x "$deb" "$temp/root"
        basename "$deb" .deb >>"$temp/versions"
    done
    rm -rf "$peers/root"
    mv "$temp/root" "$peers/root"
}

download() {
    rm -rf "$temp/debs"
    mkdir "$temp/debs"
    # As root apt would drop to the user _apt, who cannot write here and need not.
    local -a sandbox=()
    [ "$(id -u)" -ne 0 ] || sandbox=(-o APT::Sandbox::User=root)
    (cd "$temp/debs" && apt-get -q -q "${sandbox[@]}" download "$@" </dev/null >&2)
}

# The given packages and every perl or library package they need that the host does not have. Other dependencies
# (adduser, debconf, ...) serve installation scripts, which never run here.
closure() {
    local -a todo=("$@")
    local -A seen=()
    local name missing
    while [ ${#todo[@]} -gt 0 ]; do
        name=${todo[0]}
        todo=("${todo[@]:1}")
        [ -z "${seen[$name]:-}" ] || continue
        seen[$name]=1
        echo "$name"
        while read -r missing; do
            todo+=("$missing")
        done < <(missing_of "$name")
    done
}

# The libraries and perl packages a package depends on that the host lacks; of alternatives, the first there is.
missing_of() {
    local line name chosen='' met=''
    while read -r line; do
        name=${line##*Depends: }
        if [ -z "$met" ] && is_installed "$name"; then
            met=1
        elif [ -z "$chosen" ] && [[ $name =~ ^(lib|perl)[a-z0-9.+-]*$ ]] && has_candidate "$name"; then
            chosen=$name
        fi
        # apt-cache marks every alternative but the last with a bar.
        if [[ $line != '|'* ]]; then
            [ -n "$met" ] || [ -z "$chosen" ] || echo "$chosen"
            met='' chosen=''
        fi
    done < <(apt-cache depends --important "$1" | grep 'Depends: ' || true)
}

is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | head -n 1)" = installed ]
}

has_candidate() {
    # Captured, not piped: `grep -q` hangs up early and pipefail would call that a failure.
    local policy
    policy=$(apt-cache policy "$1" 2>/dev/null) && grep -q '^  Candidate: [^(]' <<<"$policy"
}

refresh_lists_if_missing() {
    local name
    for name in "${DEB_WANTED[@]}"; do
        if ! has_candidate "$name"; then
            say "apt knows no package $name yet"
            refresh_lists
            has_candidate "$name" || die "apt knows no package $name: is this Debian with its main archive?"
            return
        fi
    done
}

refresh_lists() {
    local -a as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "package lists must be refreshed: run 'apt-get update' as root"
        as_root=(sudo)
    fi
    say "running ${as_root[*]:+sudo }apt-get update"
    "${as_root[@]}" apt-get -q -q update </dev/null >&2
}

wrapper() {
    {
        echo '#!/usr/bin/env bash'
        # shellcheck disable=SC2016
        echo 'peers=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)'
        cat
    } >"$temp/wrapper"
    chmod 755 "$temp/wrapper"
    mv "$temp/wrapper" "$peers/bin/$1"
}

triplet() {
    case $(dpkg --print-architecture) in
        amd64) echo x86_64-linux-gnu ;;
        i386) echo i386-linux-gnu ;;
        armhf) echo arm-linux-gnueabihf ;;
        arm64) echo aarch64-linux-gnu ;;
        ppc64el) echo powerpc64le-linux-gnu ;;
        *) echo "$(uname -m)-linux-gnu" ;;
    esac
}

need() {
    local name
    for name in "$@"; do
        command -v "$name" >/dev/null || die "$name is needed (this script unpacks Debian packages)"
    done
}

say() { echo "peers: $*" >&2; }
die() { say "error: $*"; exit 1; }
