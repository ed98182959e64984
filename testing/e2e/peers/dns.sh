#!/usr/bin/env bash
# Unpacks a real DNS server (Debian's unbound) with a set of zones for mail routing tests, and the tools that sign zones
# (Debian's ldnsutils), and prints the path of a program that runs the server. Nothing is installed, no daemon is left behind, nothing outside loopback is ever asked.
#
# usage: dns.sh [DIR]     default DIR: ${XDG_CACHE_HOME:-$HOME/.cache}/postrider/peers
#
# DIR/dns/bin/dns-server  run it as `PORT=5300 dns-server`: unbound in the foreground on 127.0.0.1:5300, UDP and TCP. It
#                         execs, so its process id is unbound's. stderr says `start of service` once it answers.
#                         With arguments it is unbound with those arguments.
# DIR/dns/bin/ldns-keygen, DIR/dns/bin/ldns-signzone
#                         make keys of zones, and sign zones with them
# DIR/dns/root            unpacked packages (of what the host has not itself)
# DIR/dns/run/PORT        the configuration a run was started with
#
# The names it serves, all below .test (RFC 6761); tests rely on them, so add rather than change:
#
#   two-prefs.test      MX 10 b.mx and a.mx.two-prefs.test, 20 c.mx.two-prefs.test (mixed case), A 127.0.0.2-4; a.mx also AAAA ::1
#   implicit.test       no MX, A 127.0.0.5
#   null.test           null MX
#   nx.test             NXDOMAIN (as is every name not listed)
#   mx-to-cname.test    MX 10 alias.mx-to-cname.test, a CNAME of a.mx.two-prefs.test
#   chain.test          CNAME of chain2.test, of chain3.test, of two-prefs.test
#   dangling.test       CNAME of a name that does not exist
#   loop.test           CNAME of loop2.test, a CNAME of loop.test
#   mx-to-loop.test     MX 10 loop.test
#   loopback.test       MX 10 mx.loopback.test, A 127.0.0.1
#   failover.test       MX 10 dead.failover.test (A 127.0.0.254), 20 mx.loopback.test
#   *.sink.test         MX 10 mx.sink.test, A 127.0.0.1
#   many.test           20 MX hosts mx01 to mx20.many.test, preferences 10 to 29, A 127.0.1.1-20
#   big.test            50 MX hosts with long names: more than a UDP answer holds, so the client must turn to TCP
#   no-address.test     MX 10 mx.no-address.test, which has a TXT record only
#   v6.test             MX 10 mx.v6.test, AAAA 2001:db8::25 only
#   mapped.test         MX 10 mx.mapped.test, AAAA ::ffff:127.0.0.1
#   servfail.test       SERVFAIL
#   refused.test        REFUSED
#   timeout.test        the question is dropped: no answer at all
#   mx-to-timeout.test  MX 10 mx.timeout.test, 20 mx.loopback.test
set -euo pipefail
# shellcheck source=debs.sh
. "$(dirname "${BASH_SOURCE[0]}")/debs.sh"

# Raise this when anything below changes, so that an older tree is replaced.
LAYOUT=2

main() {
    local peers=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/postrider/peers}
    mkdir -p "$peers"
    peers=$(cd "$peers" && pwd)
    dns=$peers/dns
    # Two test runs may start at once; the second waits and then finds everything done.
    exec 8>"$peers/dns.lock"
    flock 8
    if [ "$(cat "$dns/stamp" 2>/dev/null)" != "$LAYOUT" ] || ! works; then
        rm -rf "$dns"
        mkdir -p "$dns/bin" "$dns/run"
        command -v unbound >/dev/null || [ -x /usr/sbin/unbound ] || fetch unbound usr/sbin/unbound
        command -v ldns-signzone >/dev/null || fetch ldnsutils usr/bin/ldns-signzone
        write_zone >"$dns/test.zone"
        write_config >"$dns/unbound.conf.in"
        write_launcher >"$dns/bin/dns-server"
        write_tool_launcher >"$dns/bin/ldns-keygen"
        write_tool_launcher >"$dns/bin/ldns-signzone"
        chmod 755 "$dns"/bin/*
        works || die "ldns-signzone or unbound under $dns does not run: $(PORT=5300 "$dns/bin/dns-server" -V 2>&1 | tail -n 3)"
        echo "$LAYOUT" >"$dns/stamp"
    fi
    echo "$dns/bin/dns-server"
}

# Downloads a package and unpacks it: fetch NAME PROGRAM. Then, if the loader misses libraries, every library package below
# it that the host lacks.
fetch() {
    local -a names=("$1")
    has_candidate "$1" || refresh_lists
    has_candidate "$1" || die "apt knows no package $1: is this Debian with its main archive?"
    download "${names[@]}" || { refresh_lists && download "${names[@]}"; } || die "cannot download ${names[*]}"
    # Captured, as below.
    local needs
    needs=$(ldd "$dns/root/$2")
    if [[ $needs == *'not found'* ]]; then
        mapfile -t names < <(apt-cache depends --recurse --important "$1" | grep -E '^lib[a-z0-9.+-]+$' | sort -u |
            while read -r name; do is_installed "$name" || echo "$name"; done)
        download "${names[@]}" || die "cannot download ${names[*]}"
    fi
    rm -rf "$dns/debs"
}

download() {
    say "downloading $*"
    rm -rf "$dns/debs"
    mkdir "$dns/debs"
    # As root apt would drop to the user _apt, who cannot write here and need not.
    local -a sandbox=()
    [ "$(id -u)" -ne 0 ] || sandbox=(-o APT::Sandbox::User=root)
    (cd "$dns/debs" && apt-get -q -q "${sandbox[@]}" download "$@" </dev/null >&2) || return 1
    local deb
    for deb in "$dns"/debs/*.deb; do dpkg -x "$deb" "$dns/root"; done
}

works() { PORT=5300 "$dns/bin/dns-server" -V >/dev/null 2>&1 && "$dns/bin/ldns-signzone" -v >/dev/null 2>&1; }

write_tool_launcher() {
    cat <<'RUN'
#!/usr/bin/env bash
# Runs the program of the same name, the host's or the unpacked one. Written by dns.sh.
set -euo pipefail
dns=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)
program=$dns/root/usr/bin/${0##*/}
if [ ! -x "$program" ]; then exec "/usr/bin/${0##*/}" "$@"; fi
for libs in "$dns"/root/usr/lib/*-linux-gnu* "$dns"/root/lib/*-linux-gnu*; do
    if [ -d "$libs" ]; then LD_LIBRARY_PATH=$libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; fi
done
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
exec "$program" "$@"
RUN
}

write_launcher() {
    cat <<'RUN'
#!/usr/bin/env bash
# Runs unbound with the test zones in the foreground: PORT=5300 dns-server. Written by dns.sh.
set -euo pipefail
: "${PORT:?set PORT to the port to listen on, on 127.0.0.1}"
dns=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)
program=$(command -v unbound || echo /usr/sbin/unbound)
if [ -d "$dns/root" ]; then
    program=$dns/root/usr/sbin/unbound
    for libs in "$dns"/root/usr/lib/*-linux-gnu* "$dns"/root/lib/*-linux-gnu*; do
        if [ -d "$libs" ]; then LD_LIBRARY_PATH=$libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; fi
    done
    export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
fi
if [ $# -gt 0 ]; then exec "$program" "$@"; fi
mkdir -p "$dns/run/$PORT"
sed -e "s|@PORT@|$PORT|" -e "s|@DNS@|$dns|" "$dns/unbound.conf.in" >"$dns/run/$PORT/unbound.conf"
exec "$program" -d -p -c "$dns/run/$PORT/unbound.conf"
RUN
}

# "." is static, so whatever is not below .test is NXDOMAIN at once and no root server is ever asked. Nobody listens on
# port 1, from which servfail.test would be fetched; a zone that is not there is a SERVFAIL.
write_config() {
    cat <<'CONF'
server:
    interface: 127.0.0.1@@PORT@
    access-control: 127.0.0.0/8 allow
    do-ip6: no
    do-daemonize: no
    chroot: ""
    username: ""
    directory: "@DNS@"
    use-syslog: no
    log-time-ascii: yes
    verbosity: 1
    num-threads: 1
    module-config: "iterator"
    do-not-query-localhost: no
    local-zone: "." static
    local-zone: "test." transparent
    local-zone: "timeout.test." deny
    local-zone: "refused.test." refuse
remote-control:
    control-enable: no
auth-zone:
    name: "test."
    for-downstream: no
    for-upstream: yes
    fallback-enabled: no
    zonefile: "@DNS@/test.zone"
auth-zone:
    name: "servfail.test."
    for-downstream: no
    for-upstream: yes
    fallback-enabled: no
    primary: 127.0.0.1@1
CONF
}

write_zone() {
    cat <<'ZONE'
$ORIGIN test.
$TTL 300
@               SOA   ns.test. hostmaster.test. 1 3600 600 86400 60
@               NS    ns.test.
ns              A     127.0.0.1
two-prefs       MX    20 C.mx.Two-Prefs.test.
two-prefs       MX    10 B.mx.two-prefs.test.
two-prefs       MX    10 a.mx.two-prefs.test.
a.mx.two-prefs  A     127.0.0.2
a.mx.two-prefs  AAAA  ::1
b.mx.two-prefs  A     127.0.0.3
c.mx.two-prefs  A     127.0.0.4
implicit        A     127.0.0.5
null            MX    0 .
mx-to-cname     MX    10 alias.mx-to-cname.test.
alias.mx-to-cname CNAME a.mx.two-prefs.test.
chain           CNAME chain2.test.
chain2          CNAME chain3.test.
chain3          CNAME two-prefs.test.
dangling        CNAME nowhere.test.
loop            CNAME loop2.test.
loop2           CNAME loop.test.
mx-to-loop      MX    10 loop.test.
loopback        MX    10 mx.loopback.test.
mx.loopback     A     127.0.0.1
failover        MX    10 dead.failover.test.
failover        MX    20 mx.loopback.test.
dead.failover   A     127.0.0.254
*.sink          MX    10 mx.sink.test.
mx.sink         A     127.0.0.1
no-address      MX    10 mx.no-address.test.
mx.no-address   TXT   "no address here"
v6              MX    10 mx.v6.test.
mx.v6           AAAA  2001:db8::25
mapped          MX    10 mx.mapped.test.
mx.mapped       AAAA  ::ffff:127.0.0.1
mx-to-timeout   MX    10 mx.timeout.test.
mx-to-timeout   MX    20 mx.loopback.test.
ZONE
    local i long=a-long-label-so-that-the-answer-grows
    for i in $(seq -w 1 20); do
        echo "many MX $((9 + 10#$i)) mx$i.many.test."
        echo "mx$i.many A 127.0.1.$((10#$i))"
    done
    for i in $(seq -w 1 50); do
        echo "big MX 10 mx$i-$long.big.test."
        echo "mx$i-$long.big A 127.0.2.$((10#$i))"
    done
}

say() { echo "dns: $*" >&2; }

main "$@"
