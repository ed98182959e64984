#!/usr/bin/env bash
# Runs the Postfix that fetch.sh unpacked as a private instance: a relay that listens on 127.0.0.1:PORT and hands every
# message to 127.0.0.1:RELAY_PORT. Configuration, queue, data and log all live under INSTANCE_DIR; no user, group or
# file outside it is made, and a Postfix installed on the host is neither used nor disturbed.
#
# Where this file sets nothing, Postfix's defaults hold, durability above all: it is an opponent in benchmarks too.
#
# usage: postfix.sh start DIR INSTANCE_DIR PORT RELAY_PORT [--cert FILE --key FILE] [KEY=VALUE ...]
#            prints `ready PORT PID` (PID is the master's) once the port answers; KEY=VALUE are further main.cf lines,
#            which win over those written here
#        postfix.sh queued DIR INSTANCE_DIR    prints how many messages are in the queue
#        postfix.sh stop DIR INSTANCE_DIR      stops it and waits until the last of its processes is gone
#
# Must run as root, as Postfix must. Log: INSTANCE_DIR/log/maillog.
set -euo pipefail

# Users and groups that every Debian has. Postfix insists that the owner of its mail, the group of its sockets and the
# user for outside commands (`nobody` by default) are three different ones.
OWNER=mail
SOCKET_GROUP=daemon

START_WAIT_S=20
STOP_WAIT_S=30
POLL_S=0.05

main() {
    [ $# -ge 3 ] || usage
    local verb=$1
    root=$(cd "$2" && pwd)/root
    mkdir -p "$3"
    instance=$(cd "$3" && pwd)
    shift 3
    case $verb in
        start) start "$@" ;;
        stop) stop ;;
        queued) queued ;;
        *) usage ;;
    esac
}

start() {
    [ $# -ge 2 ] || usage
    [ "$(id -u)" -eq 0 ] || die "Postfix starts only as root"
    [ -x "$root/usr/lib/postfix/sbin/master" ] || die "no Postfix under $root: run fetch.sh ${root%/root}"
    [ -z "$(master_pid)" ] || die "an instance already runs in $instance (pid $(master_pid))"
    local port=$1 relay_port=$2
    shift 2
    check_port "$port"
    check_port "$relay_port"
    ! answers "$port" || die "port $port is already in use"
    make_tree
    write_main_cf "$relay_port" "$@"
    write_master_cf "$port"
    launch "$port"
}

# The directories `postfix set-permissions` would make, with its owners and modes.
make_tree() {
    local queue=$instance/queue name
    mkdir -p "$instance"/{conf,log} "$queue"
    for name in active bounce corrupt defer deferred flush hold incoming private saved trace; do
        install -d -m 0700 -o "$OWNER" -g root "$queue/$name"
    done
    install -d -m 0730 -o "$OWNER" -g "$SOCKET_GROUP" "$queue/maildrop"
    install -d -m 0710 -o "$OWNER" -g "$SOCKET_GROUP" "$queue/public"
    install -d -m 0755 -o root -g root "$queue/pid"
    install -d -m 0700 -o "$OWNER" -g root "$instance/data"
    # For Maildirs, if a setting has mail put there.
    install -d -m 0700 -o "$OWNER" -g root "$instance/mail"
    chmod 0755 "$instance" "$instance/conf" "$instance/log" "$queue"
}

write_main_cf() {
    local relay_port=$1 cert='' key='' extra=()
    shift
    while [ $# -gt 0 ]; do
        case $1 in
            --cert) [ $# -ge 2 ] || usage; cert=$(readlink -f "$2"); shift 2 ;;
            --key) [ $# -ge 2 ] || usage; key=$(readlink -f "$2"); shift 2 ;;
            [a-z]*=*) extra+=("${1%%=*} = ${1#*=}"); shift ;;
            *) die "'$1' is neither --cert, --key nor KEY=VALUE" ;;
        esac
    done
    if [ -n "$cert$key" ]; then
        [ -f "$cert" ] && [ -f "$key" ] || die "--cert and --key go together and must be files"
    fi
    {
        cat <<CONF
compatibility_level = 3.6

# The unpacked tree. The loader must find its libraries in every process the master starts.
config_directory = $instance/conf
daemon_directory = $root/usr/lib/postfix/sbin
command_directory = $root/usr/sbin
shlib_directory = $root/usr/lib/postfix
meta_directory = $root/usr/share/postfix
sendmail_path = $root/usr/sbin/sendmail
mailq_path = $root/usr/bin/mailq
newaliases_path = $root/usr/bin/newaliases
import_environment = MAIL_CONFIG MAIL_DEBUG MAIL_LOGTAG TZ LANG=C LD_LIBRARY_PATH=$(libraries)

# This instance's own state.
queue_directory = $instance/queue
# Relative to the queue, where every daemon stands: the owner of the mail opens it, who may be unable to pass
# the directories above INSTANCE_DIR (root's own cache, or a temporary directory of mode 0700).
data_directory = ../data
maillog_file = $instance/log/maillog
maillog_file_prefixes = $instance/log
mail_owner = $OWNER
setgid_group = $SOCKET_GROUP

# A relay on loopback that asks no name server anything.
myhostname = postfix.test
mydomain = test
mydestination =
alias_maps =
alias_database =
local_recipient_maps =
inet_protocols = ipv4
inet_interfaces = 127.0.0.1
mynetworks = 127.0.0.0/8
relayhost = [127.0.0.1]:$relay_port
smtpd_peername_lookup = no
smtp_dns_support_level = disabled
smtp_host_lookup = native
biff = no
CONF
        if [ -n "$cert" ]; then
            printf '\n%s\n' "smtpd_tls_security_level = may" "smtpd_tls_cert_file = $cert" "smtpd_tls_key_file = $key"
        fi
        printf '%s\n' "${extra[@]}"
    } | last_of_each >"$instance/conf/main.cf"
}

# Drops a `name = value` line that a later one overrides; Postfix would warn at every start of every process.
last_of_each() {
    awk '
        { line[NR] = $0 }
        /^[a-z]/ { name[NR] = $1; last[$1] = NR }
        END { for (i = 1; i <= NR; i++) if (!(i in name) || last[name[i]] == i) print line[i] }'
}

# Debian's services at Postfix's own settings; none is chrooted, for there is no chroot to be in.
write_master_cf() {
    cat >"$instance/conf/master.cf" <<CONF
# service   type  private unpriv chroot wakeup maxproc command
127.0.0.1:$1 inet n       -      n      -      -       smtpd
pickup      unix  n       -      n      60     1       pickup
cleanup     unix  n       -      n      -      0       cleanup
qmgr        unix  n       -      n      300    1       qmgr
tlsmgr      unix  -       -      n      1000?  1       tlsmgr
rewrite     unix  -       -      n      -      -       trivial-rewrite
bounce      unix  -       -      n      -      0       bounce
defer       unix  -       -      n      -      0       bounce
trace       unix  -       -      n      -      0       bounce
verify      unix  -       -      n      -      1       verify
flush       unix  n       -      n      1000?  0       flush
proxymap    unix  -       -      n      -      -       proxymap
proxywrite  unix  -       -      n      -      1       proxymap
smtp        unix  -       -      n      -      -       smtp
relay       unix  -       -      n      -      -       smtp
showq       unix  n       -      n      -      -       showq
error       unix  -       -      n      -      -       error
retry       unix  -       -      n      -      -       error
discard     unix  -       -      n      -      -       discard
local       unix  -       n      n      -      -       local
virtual     unix  -       n      n      -      -       virtual
anvil       unix  -       -      n      -      1       anvil
scache      unix  -       -      n      -      1       scache
postlog     unix-dgram n  -      n      -      1       postlogd
CONF
}

launch() {
    local port=$1 pid deadline
    # As `postfix start` does: checks the settings and the queue, and says on stderr what the master, which
    # at that point has no log yet, would take to its grave.
    LD_LIBRARY_PATH=$(libraries) "$root/usr/sbin/postsuper" -c "$instance/conf" || die "Postfix did not start"
    # A session of its own, so that `stop` can see the last child go; -d keeps it in the foreground of that session.
    # Descriptors of the caller (a lock, a pipe someone waits on) must not live on in a daemon: only 0-2 are kept.
    LD_LIBRARY_PATH=$(libraries) setsid "$root/usr/lib/postfix/sbin/master" -c "$instance/conf" -d \
        </dev/null >"$instance/log/master.out" 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- &
    pid=$!
    deadline=$((SECONDS + START_WAIT_S))
    until answers "$port"; do
        if ! kill -0 "$pid" 2>/dev/null; then
            show_logs
            die "Postfix did not start"
        fi
        if [ $SECONDS -ge $deadline ]; then
            show_logs
            stop
            die "Postfix did not answer on port $port within $START_WAIT_S s"
        fi
        sleep "$POLL_S"
    done
    echo "$pid" >"$instance/pid"
    echo "ready $port $pid"
}

stop() {
    local pid deadline
    pid=$(master_pid)
    if [ -z "$pid" ]; then
        rm -f "$instance/pid"
        return 0
    fi
    # The master passes the signal on to its process group.
    kill -TERM "$pid"
    deadline=$((SECONDS + STOP_WAIT_S))
    while [ -n "$(group_members "$pid")" ]; do
        if [ $SECONDS -ge $deadline ]; then
            echo "postfix: still there after $STOP_WAIT_S s, killing process group $pid" >&2
            kill -KILL -- "-$pid" 2>/dev/null || true
            deadline=$((SECONDS + STOP_WAIT_S))
        fi
        sleep "$POLL_S"
    done
    rm -f "$instance/pid"
}

queued() {
    find "$instance/queue"/{maildrop,incoming,active,deferred,hold} -type f | wc -l
}

# The running master's process id, or nothing. Its own pid file is believed only if that process is our master.
master_pid() {
    local pid command
    pid=$({ tr -d ' ' <"$instance/queue/pid/master.pid"; } 2>/dev/null) || return 0
    [ -n "$pid" ] || return 0
    command=$({ tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null) || return 0
    if [[ $command == *"master -c $instance/conf "* ]]; then
        echo "$pid"
    fi
}

# Living members of a process group; a zombie is gone for our purposes. From /proc, as a small machine may have no ps.
group_members() {
    local stat line
    local -a field
    for stat in /proc/[0-9]*/stat; do
        { read -r line <"$stat"; } 2>/dev/null || continue
        # After the command name in parentheses: state, parent, group.
        read -r -a field <<<"${line##*) }"
        if [ "${field[2]}" = "$1" ] && [ "${field[0]}" != Z ]; then echo "${line%% *}"; fi
    done
}

libraries() {
    local joined=$root/usr/lib/postfix dir
    for dir in "$root"/usr/lib/*-linux-gnu*; do
        if [ -d "$dir" ]; then joined+=:$dir; fi
    done
    echo "$joined"
}

# True if a 220 greeting comes from the port.
answers() {
    local greeting=''
    {
        exec 8<>"/dev/tcp/127.0.0.1/$1" && IFS= read -r -t 5 greeting <&8 && printf 'QUIT\r\n' >&8
    } 2>/dev/null || true
    exec 8>&- || true
    [[ $greeting == 220* ]]
}

check_port() {
    [[ $1 =~ ^[0-9]+$ ]] && [ "$1" -ge 1 ] && [ "$1" -le 65535 ] || die "'$1' is not a port (1 to 65535)"
}

show_logs() {
    tail -n 20 "$instance/log/master.out" "$instance/log/maillog" >&2 2>/dev/null || true
}

usage() {
    sed -n '/^# usage:/,/^# Must run/p' "${BASH_SOURCE[0]}" | sed 's/^# \{0,1\}//' >&2
    exit 2
}

die() {
    echo "postfix: error: $*" >&2
    exit 1
}

main "$@"
