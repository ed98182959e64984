#!/bin/bash
# What systemd_test.sh plays in a clean root whose process 1 is systemd: each step is said before it, and the first thing that is
# not as docs/install.md has it ends it. WATCHDOG are the seconds the watchdog waits here (0: as long as the unit says).
touch /began
set -euo pipefail
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

POLICY=/opt/kumomta/etc/policy
UNIT=postrider.service
SENT=0
SINKS=0

main() {
  # From `timeout`, which ends what is in hand too: all of its process group, in which those below must stay (--foreground).
  trap 'trap - TERM; fail "not done in time: at \"$STEP\"${WAITING:+, waiting for $WAITING}"' TERM
  mkdir /sent /taken
  installed
  configured
  started
  hardened
  delivered
  reloaded
  shaped
  replaced
  outlived
  rescued
  stopped
  upgraded
  removed
  echo whole >/ended
}

installed() {
  step "installed"
  dpkg -i /old.deb >/said 2>&1 || fail "dpkg -i: $(cat /said)"
  is "$(systemctl is-enabled "$UNIT" || true)" disabled
  # Without a policy it is left out, which is no failure.
  systemctl start "$UNIT"
  shows ActiveState=inactive ConditionResult=no Result=success
}

configured() {
  step "configured"
  postrider init --yes --user kumod --hostname mta1.test --domains from.test >/said
  cat >>"$POLICY/queues.toml" <<'TEXT'

[queue."sink.test"]
retry_interval = "1s"
protocol = { smtp = { mx_list = ["[127.0.0.1]:2525"] } }
TEXT
  # The one server there is here is on loopback, which mail does not go to unasked.
  printf '\n["sink.test"]\nmx_rollup = false\nprohibited_hosts = []\n' >>"$POLICY/shaping.toml"
  postrider check "$POLICY/init.lua" >/said || fail "check: $(cat /said)"
  systemctl enable --now "$UNIT" >/said 2>&1 || fail "$(cat /said)"
}

started() {
  step "started: Type=notify, after $(since_start) ms"
  shows Type=notify NotifyAccess=main ActiveState=active SubState=running StatusText=serving NRestarts=0 WatchdogUSec=1min TimeoutStopUSec=1min
  is "$(systemctl is-enabled "$UNIT")" enabled
  is "$(systemctl is-active kumomta.service)" active
  is "$(stat -c %U "/proc/$(of MainPID)")" kumod
  kcli check-readiness >/said || fail "$(cat /said)"
}

# By what systemd says, by what the kernel says of the process, and by trying.
hardened() {
  step "hardened"
  shows User=kumod Group=kumod NoNewPrivileges=yes CapabilityBoundingSet=cap_net_bind_service AmbientCapabilities=cap_net_bind_service \
    ProtectSystem=strict ProtectHome=yes PrivateTmp=yes PrivateDevices=yes PrivateMounts=yes ProtectClock=yes ProtectControlGroups=yes \
    ProtectHostname=yes ProtectKernelLogs=yes ProtectKernelModules=yes ProtectKernelTunables=yes ProtectProc=invisible RemoveIPC=yes \
    LockPersonality=yes MemoryDenyWriteExecute=yes RestrictRealtime=yes RestrictSUIDSGID=yes RestrictNamespaces=yes UMask=0027 \
    SystemCallArchitectures=native SystemCallErrorNumber=1 LimitNOFILE=1048576 KillMode=mixed
  filtered
  local pid status
  pid=$(of MainPID) status=$(cat "/proc/$(of MainPID)/status")
  for line in CapPrm:0000000000000400 CapEff:0000000000000400 CapBnd:0000000000000400 CapAmb:0000000000000400 NoNewPrivs:1 Seccomp:2 Umask:0027; do
    grep -qx "${line%:*}:[[:space:]]*${line#*:}" <<<"$status" || fail "the process has not $line: $status"
  done
  # Where root may not raise limits, it has what process 1 has.
  local files=1048576
  (((16#$(sed -n 's/^CapEff:\t//p' /proc/1/status) >> 24) & 1)) || files=$(awk '/^Max open files/ {print $5}' /proc/1/limits)
  is "$(awk '/^Max open files/ {print $4, $5}' "/proc/$pid/limits")" "$files $files"
  # As its own user, in what it sees of the system.
  for path in / /etc /usr/sbin /opt/kumomta/etc/policy /dev /proc/sys/kernel/hostname; do
    if inside sh -c ': >"$1" || : >"$1/new"' sh "$path" 2>/dev/null; then fail "it may write $path"; fi
  done
  is "$(inside findmnt -no OPTIONS -T /opt/kumomta/etc/policy | grep -o '^r[ow]')" ro
  for path in /var/spool/kumomta /var/log/kumomta /tmp; do
    inside sh -c ': >"$1/new" && rm "$1/new"' sh "$path" || fail "it may not write $path"
  done
  touch /tmp/of-others && if inside test -e /tmp/of-others; then fail "/tmp is not its own"; fi
  if inside test -e /dev/kmsg -o -e "/proc/1/cmdline"; then fail "it sees devices or processes of others"; fi
  echo "    exposure: $(systemd-analyze security --no-pager "$UNIT" | tail -n 1 | sed 's/^[^O]*//')"
}

# Addresses and system calls that are let through, as systemd has read them: it sorts them, and names each call.
filtered() {
  local calls call
  is "$(of RestrictAddressFamilies | tr ' ' '\n' | sort | tr '\n' ' ')" "AF_INET AF_INET6 AF_NETLINK AF_UNIX "
  calls=" $(of SystemCallFilter) "
  for call in read epoll_wait execve; do [[ "$calls" == *" $call "* ]] || fail "$call is not let through:$calls"; done
  for call in '~*' bpf chroot mount ptrace reboot setuid swapon; do if [[ "$calls" == *" $call"* ]]; then fail "$call is let through:$calls"; fi; done
}

delivered() {
  step "delivered"
  sink
  send 50
  arrived
  # What is kept in them and what they are signed with is under the hardening too.
  [ -z "$(find /var/spool/kumomta ! -user kumod)" ] || fail "files of others in the spool"
  within "records of it" '[ "$(tailer --no-follow --type Delivery /var/log/kumomta 2>/dev/null | grep -c .)" = 50 ]'
}

reloaded() {
  step "reloaded"
  local pid
  pid=$(of MainPID)
  # A listener more, at a port that takes a right of root's.
  sed -i "s/^  kumo.start_esmtp_listener {/  kumo.start_esmtp_listener { listen = '0.0.0.0:587', hostname = 'more.test' }\n&/" "$POLICY/init.lua"
  systemctl reload "$UNIT"
  within "the new listener" '[ "$(greeting 587)" = "220 more.test" ]'
  told "configuration was read again: SIGHUP" || fail "not for the reload"
  # A policy that is wrong changes nothing, and the status says why.
  cp -p "$POLICY/init.lua" /init.lua
  echo 'this is no Lua' >>"$POLICY/init.lua"
  systemctl reload "$UNIT"
  within "a word on what is wrong" 'of StatusText | grep -q "configuration stays as it was: .*init.lua"'
  cp -p /init.lua "$POLICY/init.lua"
  systemctl reload "$UNIT"
  within "a policy that is right" '[ "$(of StatusText)" = serving ]'
  shows ActiveState=active SubState=running "MainPID=$pid" NRestarts=0
  send 10 && arrived
}

# The traffic shaping daemon, which has a unit of its own.
shaped() {
  step "the traffic shaping daemon too"
  local UNIT=postrider-tsa.service
  systemctl start "$UNIT"
  shows ActiveState=inactive ConditionResult=no
  cat >"$POLICY/tsa_init.lua" <<'TEXT'
local kumo = require 'kumo'
local tsa = require 'tsa'
kumo.on('tsa_init', function()
  tsa.configure_tsa_db_path '/var/spool/kumomta/tsa.db'
  tsa.start_http_listener { listen = '127.0.0.1:8008', trusted_hosts = { '127.0.0.1' } }
end)
kumo.on('tsa_load_shaping_data', function()
  return kumo.shaping.load { 'postrider:shaping.toml', '/opt/kumomta/etc/policy/shaping.toml' }
end)
TEXT
  systemctl start "$UNIT"
  shows Type=notify ActiveState=active SubState=running NRestarts=0 User=kumod CapabilityBoundingSet= ProtectSystem=strict MemoryDenyWriteExecute=yes KillMode=mixed
  filtered
  local pid
  pid=$(of MainPID)
  is "$(awk '/^(Cap(Prm|Eff|Bnd)|NoNewPrivs|Seccomp):/ {print $2}' "/proc/$pid/status" | tr '\n' ' ')" "0000000000000000 0000000000000000 0000000000000000 1 2 "
  within "an answer" '[ "$(answer 8008 /get_config_v1/shaping.toml)" = 200 ]'
  systemctl reload "$UNIT"
  within "its word" 'told SIGHUP'
  shows ActiveState=active "MainPID=$pid" NRestarts=0
  systemctl stop "$UNIT"
  shows ActiveState=inactive Result=success
}

answer() { # port, path: the code
  (exec 3<>"/dev/tcp/127.0.0.1/$1" && printf 'GET %s HTTP/1.0\r\n\r\n' "$2" >&3 && read -r -t 10 -u 3 _ code _ && echo "$code") 2>/dev/null
}

# A hot restart: the installed program takes the place of the one that runs, and nobody who connects is refused.
replaced() {
  step "replaced while it ran"
  local pid program
  pid=$(of MainPID)
  cp -p /usr/sbin/postrider /usr/sbin/postrider.new && mv /usr/sbin/postrider.new /usr/sbin/postrider
  program=$(stat -L -c %i /usr/sbin/postrider)
  [ "$(stat -L -c %i "/proc/$pid/exe")" != "$program" ] || fail "it is the new program already"
  knock &
  local knocker=$!
  timeout --foreground -k 5 120 traffic-gen --target 127.0.0.1:25 --domain sink.test --domain-suffix "" --sender a@from.test --concurrency 4 --message-count 400 --throttle 100/s \
    --body-size 1000 --messages-per-connection 10 --reconnect-forever --ledger /sent/replaced --quiet >/said 2>&1 &
  local generator=$!
  within "connections before" '[ "$(grep -c . /knocks)" -ge 20 ]'
  systemctl start postrider-hot-restart
  within "the new program" '[ "$(stat -L -c %i /proc/$(of MainPID)/exe)" = '"$program"' ]'
  within "that it serves" '[ "$(of StatusText)" = serving ]'
  local at_new
  at_new=$(grep -c . /knocks)
  within "connections after" '[ "$(grep -c . /knocks)" -ge '"$((at_new + 20))"' ]'
  shows ActiveState=active SubState=running "MainPID=$pid" NRestarts=0
  WAITING="the end of traffic-gen"
  wait "$generator" || fail "traffic-gen ended with $?: $(cat /said)"
  WAITING="the last connection"
  touch /no-more-knocks && wait "$knocker"
  WAITING=
  if grep -qvx '220 mta1.test' /knocks; then fail "of $(grep -c . /knocks) connections: $(sort /knocks | uniq -c | tr '\n' ' ')"; fi
  SENT=$((SENT + 400))
  arrived
  echo "    $(grep -c . /knocks) connections, none refused; 400 messages meanwhile"
}

# One who connects again and again: each greeting, or that there was none.
knock() {
  : >/knocks
  while [ ! -e /no-more-knocks ]; do
    greeting 25 >>/knocks
  done
}

greeting() { # port
  (exec 3<>"/dev/tcp/127.0.0.1/$1" && read -r -t 60 -u 3 code name _ && echo "$code $name") 2>/dev/null || echo none
}

# Longer than a period of the watchdog.
outlived() {
  step "outlived the watchdog"
  install -d -o kumod -g kumod /srv/mail
  if inside touch /srv/mail/new 2>/dev/null; then fail "it may write /srv/mail unasked"; fi
  # As `systemctl edit` does, and with it what docs/install.md says of mail kept elsewhere.
  mkdir -p "/etc/systemd/system/$UNIT.d"
  printf '[Service]\nReadWritePaths=/srv/mail\n' >"/etc/systemd/system/$UNIT.d/override.conf"
  [ "$WATCHDOG" = 0 ] || echo "WatchdogSec=$WATCHDOG" >>"/etc/systemd/system/$UNIT.d/override.conf"
  systemctl daemon-reload
  systemctl restart "$UNIT"
  inside touch /srv/mail/new || fail "it may not write /srv/mail"
  local pid period first before
  pid=$(of MainPID) period=$(usec "$(of WatchdogUSec)") before=$(of WatchdogTimestampMonotonic) first=$before
  WAIT_S=$((period / 1000000 + 60))
  # Signs of life over one and a half periods. A late one is its end, by systemd: below it is the same process.
  while [ $((before - first)) -lt $((period * 5 / 4)) ]; do
    within "a sign of life" '[ "$(of WatchdogTimestampMonotonic)" != '"$before"' ]'
    before=$(of WatchdogTimestampMonotonic)
  done
  shows ActiveState=active "MainPID=$pid" NRestarts=0 Result=success
}

# A server that stands still is killed and started again, with the mail it has acknowledged.
rescued() {
  step "rescued by the watchdog"
  local pid from
  no_sink
  send 20
  pid=$(of MainPID) from=$(date +%s%N)
  kill -STOP "$pid"
  within "another server" '[ "$(of NRestarts)" = 1 ] && [ "$(of ActiveState)" = active ]'
  echo "    it stood still, and served again after $((($(date +%s%N) - from) / 1000000)) ms of a watchdog of $(of WatchdogUSec)"
  [ "$(of MainPID)" != "$pid" ] || fail "it is the same"
  within "the reason in the journal" 'told "Watchdog timeout"'
  sink
  arrived
  WAIT_S=60
}

# With a delivery in hand and a client that says nothing.
stopped() {
  step "stopped"
  local from spent
  no_sink && sink --delay-ms 1500
  exec 4<>/dev/tcp/127.0.0.1/25
  send 5
  within "a delivery in hand" 'ss_established 2525'
  from=$(date +%s%N)
  systemctl stop "$UNIT"
  spent=$((($(date +%s%N) - from) / 1000000))
  exec 4>&-
  shows ActiveState=inactive Result=success ExecMainStatus=0
  # Ten seconds of work in hand, on a machine that is slow.
  [ "$spent" -lt 40000 ] || fail "it took $spent ms"
  if pgrep_kumod; then fail "processes are left"; fi
  echo "    in $spent ms, $(kept) of 5 in the spool"
  # What the sink has not whole is here.
  [ "$(lost | grep -c .)" -le "$(kept)" ] || fail "$(lost | grep -c .) are nowhere, $(kept) in the spool"
  # What does not run is not started by an upgrade.
  dpkg -i /new.deb >/said 2>&1 && dpkg -i --force-downgrade /old.deb >/said 2>&1 || fail "dpkg -i: $(cat /said)"
  shows ActiveState=inactive
  systemctl start "$UNIT"
  arrived
}

upgraded() {
  step "upgraded"
  local pid
  pid=$(of MainPID)
  no_sink
  send 10
  # A policy that the new version refuses leaves the old one where it is.
  cp -p "$POLICY/init.lua" /sound.lua
  echo "error 'not like this'" >>"$POLICY/init.lua"
  dpkg -i /new.deb >/said 2>&1 || fail "dpkg -i: $(cat /said)"
  grep -q "not like this" /said && grep -q "the new version refuses the policy" /said || fail "it does not say so: $(cat /said)"
  shows ActiveState=active SubState=running "MainPID=$pid" NRestarts=0
  cp -p /sound.lua "$POLICY/init.lua"
  dpkg -i /new.deb >/said 2>&1 || fail "dpkg -i: $(cat /said)"
  shows ActiveState=active SubState=running StatusText=serving NRestarts=0
  [ "$(of MainPID)" != "$pid" ] || fail "the old program runs on"
  is "$(stat -L -c %i "/proc/$(of MainPID)/exe")" "$(stat -L -c %i /usr/sbin/postrider)"
  is "$(systemctl is-enabled "$UNIT")" enabled
  is "$(of NeedDaemonReload)" no
  sink
  arrived
}

removed() {
  step "removed"
  dpkg -r postrider >/said 2>&1 || fail "dpkg -r: $(cat /said)"
  shows LoadState=not-found ActiveState=inactive
  if pgrep_kumod; then fail "processes are left"; fi
  [ -z "$(find /etc/systemd/system -lname '*postrider*')" ] || fail "links to the unit are left"
  dpkg -P postrider >/said 2>&1 || fail "dpkg -P: $(cat /said)"
  [ -z "$(systemctl --failed --plain --no-legend | grep postrider)" ] || fail "$(systemctl --failed)"
}

# Messages for the sink, which must be acknowledged.
send() { # how many
  timeout --foreground -k 5 90 traffic-gen --target 127.0.0.1:25 --domain sink.test --domain-suffix "" --sender a@from.test --concurrency 2 --message-count "$1" \
    --body-size 1000 --ledger "/sent/$SENT" --quiet >/said 2>&1 || fail "traffic-gen ended with $?: $(cat /said)"
  SENT=$((SENT + $1))
}

# All that was acknowledged has reached the sink whole, and nothing waits.
arrived() {
  within "all $SENT messages" '[ "$(acknowledged | grep -c .)" = '"$SENT"' ] && [ -z "$(lost)" ]'
  within "an empty spool" '[ "$(kept)" = 0 ]'
}

acknowledged() {
  find /sent -type f ! -name '*.unknown' -exec sort -u {} +
}

lost() {
  acknowledged | comm -23 - <(awk '$2 == "ok" {print $1}' /taken/* | sort -u)
}

kept() {
  postrider spool list --spool /var/spool/kumomta/data --json | grep -c '"id"' || true
}

sink() { # options...
  SINKS=$((SINKS + 1))
  systemd-run --quiet --unit="sink$SINKS" --collect smtp-sink --listen 127.0.0.1:2525 --ledger "/taken/$SINKS" "$@"
  within "a sink" '(exec 3<>/dev/tcp/127.0.0.1/2525) 2>/dev/null'
}

no_sink() {
  systemctl stop "sink$SINKS"
}

told() { # text: by the journal of the unit
  timeout --foreground -k 5 30 journalctl --sync || true
  grep -q "$1" <<<"$(journalctl -u "$UNIT" -b --no-pager)"
}

# In the server's view of the file system, as its user, without more rights than it has.
inside() {
  nsenter --target "$(of MainPID)" --mount -- setpriv --reuid kumod --regid kumod --init-groups --inh-caps=-all --bounding-set=-all \
    --no-new-privs "$@"
}

pgrep_kumod() {
  [ -n "$(find /proc -maxdepth 1 -regex '/proc/[0-9]*' -user kumod)" ]
}

ss_established() { # port: somebody is connected to it
  grep -qi ":$(printf %04X "$1") 01 " /proc/net/tcp
}

since_start() {
  echo $((($(of ActiveEnterTimestampMonotonic) - $(of InactiveExitTimestampMonotonic)) / 1000))
}

usec() { # a time as systemd writes it
  systemd-analyze timespan "$1" | sed -n 's/.*μs: *//p'
}

of() { # property
  systemctl show --value -p "$1" "$UNIT"
}

shows() { # property=value...
  local each
  for each in "$@"; do
    [ "$(systemctl show -p "${each%%=*}" "$UNIT")" = "$each" ] || fail "not $each: $(systemctl show -p "${each%%=*}" "$UNIT")"
  done
}

is() { # what is, what should be
  [ "$1" = "$2" ] || fail "$1, where $2 should be"
}

# Each is bounded, and says what it was.
systemctl() {
  bounded 100 systemctl "$@"
}

dpkg() {
  bounded 150 dpkg "$@"
}

bounded() { # seconds, command...
  local code=0
  WAITING="${*:2}"
  timeout --foreground -k 5 "$@" || code=$?
  WAITING=
  [ "$code" -ne 124 ] || echo "systemd_story.sh: ${*:2}: not within $1 seconds" >&2
  return "$code"
}

STEP=
WAITING=
WAIT_S=60
within() { # what, condition; WAIT_S seconds
  local until=$((SECONDS + WAIT_S))
  WAITING=$1
  while [ "$SECONDS" -lt "$until" ]; do
    if eval "$2"; then
      WAITING=
      return
    fi
    WAITING=$1
    sleep 0.05
  done
  fail "$1: not within $WAIT_S seconds"
}

step() {
  STEP=$1
  echo "  $1"
}

fail() {
  timeout --foreground -k 1 5 systemctl --no-pager --lines=0 status "$UNIT" >&2 || true
  timeout --foreground -k 1 5 journalctl -u "$UNIT" --no-pager -o cat -n 15 >&2 || true
  timeout --foreground -k 1 5 kcli why sink.test >&2 || true
  echo "systemd_story.sh: $*" >&2
  exit 1
}

main "$@"
