#!/usr/bin/env bash
# Prints shell exports for the peers fetch.sh unpacked, to be used as: eval "$(env.sh DIR)"
#
# SMTP_SOURCE, SMTP_SINK, SWAKS and PYTHON are wrappers that need none of the other variables, so a test may also start
# them with an empty environment. PATH gets the wrappers in front of the Postfix commands, never the other way round.
#
# usage: env.sh [DIR]     DIR as given to fetch.sh
set -euo pipefail

peers=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/postrider/peers}
if [ ! -f "$peers/stamp" ]; then
    echo "peers: error: nothing fetched in $peers: run fetch.sh $peers" >&2
    exit 1
fi
peers=$(cd "$peers" && pwd)
root=$peers/root

# The library directory carries the architecture's name; ask the tree which one it has.
libs=$root/usr/lib/postfix
modules=
for dir in "$root"/usr/lib/*-linux-gnu*; do
    if [ -d "$dir" ]; then libs+=:$dir; fi
done
for dir in "$root"/usr/share/perl5 "$root"/usr/lib/*-linux-gnu*/perl5/* "$root"/usr/share/perl/* "$root"/usr/lib/*-linux-gnu*/perl/*; do
    if [ -d "$dir" ]; then modules+=${modules:+:}$dir; fi
done

# Quoted for any shell; what the caller had set stays behind ours.
put() { printf 'export %s=%q%s\n' "$1" "$2" "${3:-}"; }
# shellcheck disable=SC2016
put LD_LIBRARY_PATH "$libs" '${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}'
# shellcheck disable=SC2016
put PERL5LIB "$modules" '${PERL5LIB:+:$PERL5LIB}'
# shellcheck disable=SC2016
put PATH "$peers/bin:$root/usr/sbin" ':$PATH'
put PEERS_DIR "$peers"
put POSTFIX_ROOT "$root"
put SMTP_SOURCE "$peers/bin/smtp-source"
put SMTP_SINK "$peers/bin/smtp-sink"
put SWAKS "$peers/bin/swaks"
put PYTHON "$peers/bin/python"
