#!/usr/bin/env bash
# Fetches the browser that looks at the console: Chromium without a screen, what it needs that the host lacks, and a font.
#
# Nothing is installed (see fetch.sh): packages are downloaded with `apt-get download` and unpacked under DIR/chromium.
#
# usage: chromium.sh [DIR]     default DIR: ${XDG_CACHE_HOME:-$HOME/.cache}/postrider/peers
#
# DIR/chromium/bin/chromium    runs it as whoever asks, root too
# DIR/chromium/stamp           what was fetched; a second run compares it, tries the program, and is done
set -euo pipefail
# shellcheck source=debs.sh
. "$(dirname "${BASH_SOURCE[0]}")/debs.sh"

# chromium-common has its data.
DEB_WANTED=(chromium-headless-shell chromium-common fonts-dejavu-core)

main() {
    peers=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/postrider/peers}/chromium
    mkdir -p "$peers/bin"
    peers=$(cd "$peers" && pwd)
    once
}

build() {
    fetch_debs
    write_wrapper
}

wanted_line() {
    echo "os=$(. /etc/os-release && echo "${ID:-unknown}-${VERSION_ID:-unstable}") arch=$(dpkg --print-architecture) debs=${DEB_WANTED[*]}"
}

# It looks for fonts where the host has them, which may have none: it is told where ours are. Root has no sandbox to be in.
write_wrapper() {
    wrapper chromium <<WRAP
libs=\$peers/root/usr/lib/$(triplet)
export LD_LIBRARY_PATH="\$libs:\$libs/pulseaudio:\$peers/root/lib/$(triplet)\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}" FONTCONFIG_FILE="\$peers/fonts.conf"
exec "\$peers/root/usr/lib/chromium/chromium-headless-shell" --no-sandbox --disable-gpu --disable-dev-shm-usage \\
    --disable-background-networking --disable-component-update --no-first-run "\$@"
WRAP
    cat >"$peers/fonts.conf" <<CONF
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir prefix="relative">root/usr/share/fonts</dir><cachedir>$peers/fonts-cache</cachedir></fontconfig>
CONF
}

# Tries it: a page it has to lay out. $1: quiet or loud.
works() {
    local output profile
    profile=$(mktemp -d)
    if output=$("$peers/bin/chromium" --user-data-dir="$profile" --dump-dom 'data:text/html,<p>it works' 2>&1) &&
        grep -q '<p>it works</p>' <<<"$output"; then
        rm -rf "$profile"
        return
    fi
    rm -rf "$profile"
    [ "$1" = quiet ] || printf '%s\n' "$output" >&2
    return 1
}

main "$@"
