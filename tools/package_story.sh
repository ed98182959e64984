#!/bin/bash
# What package_test.sh plays in the clean root: the first word of each step is said before it, and the first that is not as it
# should be ends it. A stand-in for systemctl writes down what maintainer scripts ask of it.
set -euo pipefail
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

POLICY=/opt/kumomta/etc/policy/init.lua
# As the unit has it: kumod's, with one right of root's and no way to more.
AS_KUMOD=(setpriv --reuid kumod --regid kumod --init-groups --inh-caps=-all,+net_bind_service --ambient-caps=-all,+net_bind_service
  --bounding-set=-all,+net_bind_service --no-new-privs)

main() {
  # From `timeout`, which ends what is in hand too.
  trap 'trap - TERM; fail "not done in time: at \"$STEP\""' TERM
  hostname mta1.test
  printf '#!/bin/sh\necho "$@" >>/asked\n' >/usr/local/bin/systemctl && chmod 755 /usr/local/bin/systemctl
  mkdir -p /run/systemd/system && : >/asked
  installed
  configured
  started
  upgraded
  removed
  purged
}

installed() {
  step "installed"
  dpkg -i /old.deb >/said || fail "dpkg -i: $(cat /said)"
  grep -q 'nothing was started' /said || fail "the operator is not told what to do"
  is_asked "daemon-reload"
  getent passwd kumod | grep -q ':/usr/sbin/nologin$' || fail "no user kumod without a shell"
  for folder in /var/spool/kumomta /var/log/kumomta /opt/kumomta/etc/dkim; do
    [ "$(stat -c '%U:%G %a' "$folder")" = "kumod:kumod 2770" ] || fail "$folder: $(stat -c '%U:%G %a' "$folder")"
  done
  [ ! -e "$POLICY" ] || fail "the package brings a policy"
  for name in postrider kumod tsa-daemon kcli tailer traffic-gen smtp-sink validate-bounces /opt/kumomta/sbin/kumod; do
    "$name" --help >/dev/null 2>&1 || fail "$name does not run"
  done
  [ "$(dpkg-query -W -f '${Version}' postrider)" = 0.0.1 ] || fail "another version"
  # A minimal base system leaves documents out; what is there is as dpkg knows it.
  dpkg --verify postrider | grep -v ' /usr/share/\(man\|doc\|locale\)/' >/said || true
  [ ! -s /said ] || fail "files that are not as packaged: $(cat /said)"
  dpkg-deb -c /old.deb >/said
  # Postfix has a manual page of that name.
  if grep -q "man1/smtp-sink" /said; then fail "the package has a file of Postfix's"; fi
  for name in postrider kumod tsa-daemon kcli tailer traffic-gen smtp-sink validate-bounces; do
    for file in "man/man1/${name/#smtp-sink/postrider-smtp-sink}.1.gz" "bash-completion/completions/$name" "zsh/vendor-completions/_$name" "fish/vendor_completions.d/$name.fish"; do
      grep -qF "usr/share/$file" /said || fail "the package lacks usr/share/$file"
    done
  done
  # Verbs have pages of their own.
  for file in man/man1/{postrider-{doctor,init,try,spool-list},kcli-{queue-summary,why,check-readiness}}.1.gz postrider/60-postrider.conf doc/postrider/copyright; do
    grep -q "usr/share/$file$" /said || fail "the package lacks usr/share/$file"
  done
  if grep -q ' \./etc/sysctl.d/' /said; then fail "sysctl settings are in force unasked"; fi
}

configured() {
  step "configured"
  # Without a policy it says what is missing, and opens nothing.
  if "${AS_KUMOD[@]}" kumod >/said 2>&1; then fail "it serves without a policy"; fi
  grep -q "$POLICY" /said || fail "the missing policy is not named: $(cat /said)"
  postrider init --yes --user kumod --hostname mta1.test --domains from.test >/said
  "${AS_KUMOD[@]}" postrider check >/said || fail "check: $(cat /said)"
  sed -i 's/^#KUMOD_LOG=info$/KUMOD_LOG=warn/' /etc/default/postrider
}

started() {
  step "started"
  start
  traffic-gen --target 127.0.0.1:25 --concurrency 2 --message-count 10 --body-size 1000 >/said 2>&1 || fail "$(cat /said)"
  kcli queue-summary >/said || fail "kcli: $(cat /said)"
  [ "$(awk '/^Uid:/ {print $2, $3, $4, $5}' "/proc/$server/status" | tr ' ' '\n' | sort -u)" = "$(id -u kumod)" ] || fail "it is not kumod's"
  # A process that asks its kernel for more gets it not.
  [ "$(sed -n 's/^CapBnd:\t0*//p' "/proc/$server/status")" = 400 ] || fail "it may do more than open low ports"
  stop
  [ "$(kept)" = 10 ] || fail "$(kept) of 10 messages are kept"
}

upgraded() {
  step "upgraded"
  start
  : >/asked
  local id
  id=$(cat /var/spool/kumomta/data/.nodeid)
  dpkg -i /new.deb >/said 2>&1 || fail "dpkg -i: $(cat /said)"
  is_asked "daemon-reload" "try-restart postrider.service" "try-restart postrider-tsa.service"
  # It runs on until systemd starts it anew.
  kill -0 "$server" || fail "the upgrade ended the server"
  kcli queue-summary >/dev/null || fail "the upgrade broke the server that runs"
  stop
  grep -q '^KUMOD_LOG=warn$' /etc/default/postrider || fail "the operator's settings are gone"
  start
  within "the mail of the old version" '[ "$(kept)" = 10 ]'
  [ "$(cat /var/spool/kumomta/data/.nodeid)" = "$id" ] || fail "it is another node"
  traffic-gen --target 127.0.0.1:25 --concurrency 2 --message-count 5 --body-size 1000 >/said 2>&1 || fail "$(cat /said)"
  stop
  [ "$(kept)" = 15 ] || fail "$(kept) of 15 messages are kept"
}

removed() {
  step "removed"
  : >/asked
  dpkg -r postrider >/said 2>&1 || fail "dpkg -r: $(cat /said)"
  is_asked "stop postrider.service postrider-tsa.service" "disable postrider.service postrider-tsa.service" "daemon-reload"
  for gone in /usr/sbin/postrider /usr/bin/kcli /opt/kumomta/sbin /opt/kumomta/share /lib/systemd/system/postrider.service; do
    if [ -e "$gone" ] || [ -L "$gone" ]; then fail "$gone is left"; fi
  done
  for kept in /etc/default/postrider "$POLICY" /opt/kumomta/etc/policy/dkim/from.test.s1.key /var/spool/kumomta/data; do
    [ -e "$kept" ] || fail "$kept is gone"
  done
}

purged() {
  step "purged"
  dpkg -P postrider >/said 2>&1 || fail "dpkg -P: $(cat /said)"
  grep -q '/var/spool/kumomta is not empty and stays' /said || fail "what stays is not named: $(cat /said)"
  [ ! -e /etc/default/postrider ] || fail "/etc/default/postrider is left"
  [ -e /var/spool/kumomta/data ] || fail "mail is gone"
  # All of it again, and the mail is still there.
  dpkg -i /new.deb >/said 2>&1 || fail "dpkg -i: $(cat /said)"
  [ "$(kept)" = 15 ] || fail "$(kept) of 15 messages are kept"
  dpkg -P postrider >/said 2>&1 || fail "$(cat /said)"
  # An operator who throws everything away.
  find /var/spool/kumomta /var/log/kumomta /opt/kumomta/etc/policy -mindepth 1 -delete
  dpkg -i /new.deb >/said 2>&1 && dpkg -P postrider >/said 2>&1 || fail "$(cat /said)"
  for gone in /var/spool/kumomta /var/log/kumomta /opt/kumomta; do [ ! -e "$gone" ] || fail "$gone is left, empty as it is"; done
}

# Starts the server, which tells systemd's stand-in, this shell, that it is ready.
start() {
  "${AS_KUMOD[@]}" kumod --policy "$POLICY" 2>/log &
  server=$!
  within "a server that serves" 'grep -q "initialization complete" /log'
}

stop() {
  kill -TERM "$server"
  wait "$server" || fail "it ended with $?: $(tail -n 5 /log)"
}

kept() {
  postrider spool list --spool /var/spool/kumomta/data --json | grep -c '"id"' || true
}

is_asked() { # what systemctl must have been asked, in this order
  printf '%s\n' "$@" >/expected
  sed 's/^--no-reload //' /asked | diff - /expected >/difference || fail "systemctl was asked: $(cat /difference)"
}

STEP=
within() { # what, condition; a minute
  local until=$((SECONDS + 60))
  while [ "$SECONDS" -lt "$until" ]; do
    if eval "$2"; then return; fi
    sleep 0.05
  done
  fail "$1: not within a minute: $(tail -n 5 /log)"
}

step() {
  STEP=$1
  echo "  $1"
}

fail() {
  echo "package_story.sh: $*" >&2
  exit 1
}

main
