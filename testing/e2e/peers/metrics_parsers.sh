#!/usr/bin/env bash
# Fetches what reads metrics without us: Prometheus' own client library for Python, OpenTelemetry's messages for protobuf, and promtool
# out of Debian's package prometheus.
#
# Nothing is installed (see fetch.sh): the package is downloaded with `apt-get download` and unpacked under DIR/metrics.
#
# usage: metrics_parsers.sh [DIR]     default DIR: ${XDG_CACHE_HOME:-$HOME/.cache}/postrider/peers
#
# DIR/metrics/venv       a Python environment
# DIR/metrics/promtool   the program
# DIR/metrics/stamp      what was fetched; a second run compares it, runs all of it, and is done
set -euo pipefail
# shellcheck source=debs.sh
. "$(dirname "${BASH_SOURCE[0]}")/debs.sh"

# Pinned, so that what was read today is read by the same code tomorrow.
WANTED=(prometheus_client==0.26.0 opentelemetry-proto==1.45.2 protobuf==7.36.2)

main() {
    peers=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/postrider/peers}/metrics
    mkdir -p "$peers"
    peers=$(cd "$peers" && pwd)
    once
}

build() {
    refresh_lists_if_missing
    # Only this one program of it is used, and that needs the C library alone: what else the package depends on is of no use here.
    if ! download prometheus; then
        say "download failed; the package lists may be stale"
        refresh_lists
        download prometheus || die "cannot download: prometheus"
    fi
    dpkg -x "$temp"/debs/*.deb "$temp/root"
    mv -f "$temp/root/usr/bin/promtool" "$peers/promtool"
    (cd "$temp/debs" && ls) >"$temp/versions"
    rm -rf "$peers/venv"
    python3 -m venv "$peers/venv" || die "python3 with venv is needed: apt-get install python3-venv"
    say "installing ${WANTED[*]} into $peers/venv"
    "$peers/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps "${WANTED[@]}" >&2
}

wanted_line() {
    echo "os=$(. /etc/os-release && echo "${ID:-unknown}-${VERSION_ID:-unstable}") arch=$(dpkg --print-architecture) pip=${WANTED[*]}"
}

# Runs all of it. $1: quiet or loud.
works() {
    local output modules='import prometheus_client.parser; from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2'
    output=$({ "$peers/promtool" --version && "$peers/venv/bin/python" -c "$modules"; } 2>&1) && return
    [ "$1" = quiet ] || printf '%s\n' "$output" >&2
    return 1
}

main "$@"
