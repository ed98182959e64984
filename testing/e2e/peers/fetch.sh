#!/usr/bin/env bash
# Fetches the real programs the end-to-end tests talk to: Postfix (with smtp-source and smtp-sink), swaks, the proxies
# haproxy, dante and microsocks (both SOCKS5), Redis, the message brokers NATS and RabbitMQ (with the Erlang it runs on), and a
# Python with dkimpy, PyNaCl, aiosmtpd, websockets and clients of those brokers. No broker for Kafka is packaged: what stands for
# one is in the Python package confluent-kafka, see kafka_peer.py.
#
# Nothing is installed: installing Postfix would start a daemon and replace the host's MTA. Packages are downloaded with
# `apt-get download`, unpacked with `dpkg -x` under DIR and used from there (see env.sh). Only libraries the host lacks
# are fetched besides. The one thing outside DIR that may be touched is apt's package lists, when a package has no
# candidate in them or they have gone stale.
#
# usage: fetch.sh [DIR]     default DIR: ${XDG_CACHE_HOME:-$HOME/.cache}/postrider/peers
#
# DIR/root        unpacked Debian packages
# DIR/venv        Python environment; DIR/python instead where the host cannot make one
# DIR/bin         wrappers that set up what each program needs: smtp-source smtp-sink swaks haproxy danted microsocks redis-server redis-cli
#                 nats-server rabbitmq-server python
# DIR/stamp       what was fetched; a second run compares it, tries the programs, and is done
set -euo pipefail
# shellcheck source=debs.sh
. "$(dirname "${BASH_SOURCE[0]}")/debs.sh"

DEB_WANTED=(postfix swaks libnet-ssleay-perl libio-socket-ssl-perl libauthen-sasl-perl haproxy dante-server microsocks redis-server redis-tools
    nats-server rabbitmq-server erlang-{base,asn1,crypto,eldap,inets,mnesia,os-mon,parsetools,public-key,runtime-tools,ssl,syntax-tools,tools,xmerl})
# Pinned with everything they depend on, so that a test that passed today verifies with the same code tomorrow.
PIP_WANTED=(dkimpy==1.1.8 dnspython==2.7.0 pynacl==1.6.2 cffi==2.0.0 pycparser==2.23 aiosmtpd==1.4.6 attrs==25.4.0 atpublic==5.1 websockets==15.0.1
    nats-py==2.16.0 pika==1.4.4 confluent-kafka==2.16.1 scramp==1.5.0 asn1crypto==1.5.1)
# Raise this when the layout under DIR changes, so that an older tree is replaced.
LAYOUT=1

main() {
    peers=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/postrider/peers}
    mkdir -p "$peers"
    peers=$(cd "$peers" && pwd)
    need ldd
    once
}

build() {
    fetch_debs
    fetch_python
    write_wrappers
}

# What makes a finished tree out of date: another wish list, another layout, another release of the host.
wanted_line() {
    echo "layout=$LAYOUT os=$(. /etc/os-release && echo "${ID:-unknown}-${VERSION_ID:-unstable}")" \
        "arch=$(dpkg --print-architecture) debs=${DEB_WANTED[*]} pip=${PIP_WANTED[*]}"
}

# A venv where the host can make one; else the packages alone, installed by whatever pip there is, or by a pip that is
# itself only unpacked (Debian's python3 comes without pip and without venv).
fetch_python() {
    command -v python3 >/dev/null || die "python3 is needed: apt-get install python3"
    rm -rf "$peers/venv" "$peers/python"
    # Those with C in them must come built: a compiler and headers are not to be expected. (dkimpy, pure Python, is
    # published as source only, so not everything can be asked for built.)
    local -a pip=(--quiet --disable-pip-version-check --no-input --no-deps --use-pep517 --only-binary pynacl,cffi,confluent-kafka)
    if python3 -m venv "$peers/venv" >"$temp/venv.log" 2>&1; then
        say "installing ${PIP_WANTED[*]} into $peers/venv"
        "$peers/venv/bin/python" -m pip install "${pip[@]}" "${PIP_WANTED[@]}" >&2
        return
    fi
    rm -rf "$peers/venv"
    local -a run=(python3 -m pip)
    if ! python3 -m pip --version >/dev/null 2>&1; then
        say "this python3 has neither venv nor pip; unpacking pip"
        download python3-pip-whl || die "cannot download python3-pip-whl"
        dpkg -x "$temp"/debs/python3-pip-whl_*.deb "$temp/pip"
        local -a wheel=("$temp"/pip/usr/share/python-wheels/pip-*.whl)
        run=(python3 "${wheel[0]}/pip")
    fi
    say "installing ${PIP_WANTED[*]} into $peers/python"
    "${run[@]}" install "${pip[@]}" --target "$peers/python" "${PIP_WANTED[@]}" >&2
}

# The wrappers `exec`, so the caller's process id is the program's.
write_wrappers() {
    mkdir -p "$peers/bin"
    local name as_whom
    for name in smtp-source smtp-sink; do
        # smtp-sink refuses to be root; a -u of the caller's comes later and wins.
        as_whom=''
        # shellcheck disable=SC2016
        [ "$name" = smtp-source ] || as_whom='[ "$EUID" -ne 0 ] || set -- -u nobody "$@"'
        wrapper "$name" <<WRAP
export LD_LIBRARY_PATH="\$peers/root/usr/lib/postfix:\$peers/root/usr/lib/$(triplet)\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
$as_whom
exec "\$peers/root/usr/sbin/$name" "\$@"
WRAP
    done
    for name in sbin/haproxy sbin/danted sbin/nats-server bin/microsocks bin/redis-server bin/redis-cli; do
        wrapper "${name#*/}" <<WRAP
export LD_LIBRARY_PATH="\$peers/root/usr/lib/$(triplet)\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
exec "\$peers/root/usr/$name" "\$@"
WRAP
    done
    rabbitmq_wrapper
    # /usr/bin/perl by name: the unpacked modules are built for Debian's perl, not for another one on the PATH.
    wrapper swaks <<WRAP
export LD_LIBRARY_PATH="\$peers/root/usr/lib/$(triplet)\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
export PERL5LIB="$(perl_dirs '$peers')\${PERL5LIB:+:\$PERL5LIB}"
exec /usr/bin/perl "\$peers/root/usr/bin/swaks" "\$@"
WRAP
    if [ -d "$peers/venv" ]; then
        # shellcheck disable=SC2016
        wrapper python <<<'exec "$peers/venv/bin/python" "$@"'
    else
        # shellcheck disable=SC2016
        wrapper python <<<'export PYTHONPATH="$peers/python${PYTHONPATH:+:$PYTHONPATH}"; exec python3 "$@"'
    fi
}

# Erlang, where it was unpacked, with RabbitMQ in it: what `rabbitmq-server` and `erl` do, which look in /usr/lib. It takes the
# folder of one server, with rabbitmq.conf in it, which keeps all that it writes, and the port its node is found at, which it is
# told so that it needs no epmd: a daemon that would stay.
rabbitmq_wrapper() {
    # shellcheck disable=SC2016
    wrapper rabbitmq-server <<WRAP
folder=\$1 node_port=\$2
export ROOTDIR=\$peers/root/usr/lib/erlang EMU=beam PROGNAME=erl HOME=\$folder
BINDIR=\$(echo "\$ROOTDIR"/erts-*/bin)
RABBITMQ_HOME=\$(echo "\$peers"/root/usr/lib/rabbitmq/lib/rabbitmq_server-*)
export BINDIR RABBITMQ_HOME PATH=\$BINDIR:\$PATH ERL_LIBS=\$RABBITMQ_HOME/plugins RABBITMQ_PLUGINS_DIR=\$RABBITMQ_HOME/plugins
export RABBITMQ_NODENAME=rabbit@localhost RABBITMQ_MNESIA_BASE=\$folder/mnesia RABBITMQ_LOG_BASE=\$folder/log RABBITMQ_LOGS=-
export RABBITMQ_CONFIG_FILE=\$folder/rabbitmq.conf RABBITMQ_ADVANCED_CONFIG_FILE=\$folder/advanced.config
export RABBITMQ_CONF_ENV_FILE=\$folder/rabbitmq-env.conf RABBITMQ_ENABLED_PLUGINS_FILE=\$folder/plugins
export RABBITMQ_GENERATED_CONFIG_DIR=\$folder/generated RABBITMQ_SCHEMA_DIR=\$folder/schema RABBITMQ_PID_FILE=\$folder/pid
export LD_LIBRARY_PATH="\$peers/root/usr/lib/$(triplet)\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
echo '[].' >"\$folder/plugins"
exec "\$BINDIR/erlexec" -noinput -boot start_sasl -s rabbit boot +S 1 +sbwt none -syslog logger '[]' \\
    -syslog syslog_error_logger false -kernel prevent_overlapping_partitions false \\
    -start_epmd false -erl_epmd_port "\$node_port" -kernel inet_dist_use_interface '{127,0,0,1}' \\
    -sname rabbit@localhost -setcookie "\$(od -An -N 16 -tx1 /dev/urandom | tr -d ' \n')" >&2
WRAP
}

# The perl module directories of the unpacked tree, under the given name for DIR.
perl_dirs() {
    local joined='' dir
    for dir in "$peers"/root/usr/share/perl5 "$peers/root/usr/lib/$(triplet)"/perl5/* \
        "$peers"/root/usr/share/perl/* "$peers/root/usr/lib/$(triplet)"/perl/*; do
        [ ! -d "$dir" ] || joined+=${joined:+:}$1${dir#"$peers"}
    done
    echo "$joined"
}

# Tries every program once. The cache may have been carried to a machine with other libraries or another python, so a
# stamp alone is not believed. $1: quiet or loud.
works() {
    local trouble=0 output
    local libs="$peers/root/usr/lib/postfix:$peers/root/usr/lib/$(triplet)"
    output=$(LD_LIBRARY_PATH=$libs ldd "$peers"/root/usr/lib/postfix/sbin/{master,smtpd,smtp,qmgr,cleanup,tlsmgr} \
        "$peers"/root/usr/sbin/{smtp-source,smtp-sink,haproxy,danted} "$peers"/root/usr/bin/{microsocks,redis-cli} 2>&1) || trouble=1
    if grep -q 'not found' <<<"$output"; then trouble=1; fi
    if [ $trouble -eq 1 ] && [ "$1" = loud ]; then
        grep -E 'not found|No such|cannot' <<<"$output" >&2 || true
    fi
    if ! output=$("$peers/bin/haproxy" -v 2>&1); then
        trouble=1
        [ "$1" = quiet ] || printf '%s\n' "$output" >&2
    fi
    if ! output=$("$peers/bin/redis-server" --version 2>&1); then
        trouble=1
        [ "$1" = quiet ] || printf '%s\n' "$output" >&2
    fi
    if ! output=$("$peers/bin/nats-server" --version 2>&1) ||
        ! output=$(LD_LIBRARY_PATH=$libs ldd "$peers"/root/usr/lib/erlang/erts-*/bin/beam.smp 2>&1) ||
        grep -q 'not found' <<<"$output"; then
        trouble=1
        [ "$1" = quiet ] || printf '%s\n' "$output" >&2
    fi
    local swaks_says
    swaks_says=$("$peers/bin/swaks" --support 2>&1) || trouble=1
    if ! grep -q '^=== TLS supported' <<<"$swaks_says"; then
        trouble=1
        [ "$1" = quiet ] || printf '%s\n' "$swaks_says" >&2
    fi
    if ! output=$("$peers/bin/python" -c 'import dkim, nacl.signing, dns, aiosmtpd.controller, nats, pika, confluent_kafka, scramp' 2>&1); then
        trouble=1
        [ "$1" = quiet ] || printf '%s\n' "$output" >&2
    fi
    return $trouble
}

main "$@"
