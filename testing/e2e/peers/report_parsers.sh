#!/usr/bin/env bash
# Fetches parsedmarc, which reads reports about DMARC and TLS, with what it needs to do so from files. Nothing outside
# DIR/reports is touched.
#
# usage: report_parsers.sh [DIR]     default DIR: ${XDG_CACHE_HOME:-$HOME/.cache}/postrider/peers
#
# DIR/reports/venv      a Python environment
# DIR/reports/stamp     what was fetched; a second run compares it and is done
set -euo pipefail

# Pinned with everything they depend on, so that a report that was read today is read by the same code tomorrow.
WANTED=(parsedmarc==11.1.0 anyio==4.16.0 authres==1.2.0 certifi==2026.10.19.post1 dkimpy==1.1.8 dnspython==2.9.2 expiringdict==1.2.2
    h11==0.16.0 h2==4.4.1 hpack==4.2.0 html2text==2025.4.15 httpcore==1.0.9 httpcore2==2.16.2 httpx==0.28.1 httpx2==2.16.2 hyperframe==6.1.0 idna==3.20
    IMAPClient==4.1.0 lxml==6.1.3 mail-parser==4.8.0 mailsuite==2.3.3 maxminddb==3.2.0 publicsuffix2==2.20191221 publicsuffixlist==1.1.2.20261023
    python-dateutil==4.0.0 PyYAML==6.0.4 tqdm==4.70.1 truststore==0.10.5 typing_extensions==4.16.0 tzdata==2026.6 xmltodict==1.0.4
    cryptography==50.0.2 cffi==2.1.1 pycparser==3.12)

main() {
    peers=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/postrider/peers}
    place=$peers/reports
    mkdir -p "$place"
    # Two test runs may start at once; the second waits and then finds everything done.
    exec 9>"$place/lock"
    flock 9
    if [ "$(cat "$place/stamp" 2>/dev/null)" = "${WANTED[*]}" ] && works; then
        say "already in $place"
        return
    fi
    rm -rf "$place/stamp" "$place/venv"
    python3 -m venv "$place/venv" || die "python3 with venv is needed: apt-get install python3-venv"
    say "installing ${WANTED[0]} and what it needs into $place/venv"
    "$place/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps "${WANTED[@]}" >&2
    works || die "what was fetched cannot be used"
    echo "${WANTED[*]}" >"$place/stamp"
    say "ready in $place"
}

works() { [ -x "$place/venv/bin/python" ] && "$place/venv/bin/python" -c 'import parsedmarc' 2>/dev/null; }

say() { echo "report parsers: $*" >&2; }
die() { say "error: $*"; exit 1; }

main "$@"
