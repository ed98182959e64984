#!/bin/bash
# What container_test.sh plays in a clean root with buildah and crun: each step is said before it, and the first thing that is not
# as docs/install.md has it ends it. Nothing is started that outlives this, and the image never leaves the folder.
touch /began
set -euo pipefail
export BUILDAH_ISOLATION=chroot BUILDAH_FORMAT=docker
# Layers upon layers where the kernel has that; else each is a copy.
STORAGE_DRIVER=vfs
if grep -qw overlay /proc/filesystems; then STORAGE_DRIVER=overlay; fi
export STORAGE_DRIVER

IMAGE=localhost/postrider
BASE=localhost/debian
RUNS=0
SINKS=0
SENDS=0

main() {
  # From `timeout`, which ends what is in hand too: all of its process group, in which those below must stay (--foreground).
  trap 'trap - TERM; fail "not done in time: at \"$STEP\"${WAITING:+, waiting for $WAITING}"' TERM
  base
  built
  configured
  served
  stopped
  went_on
  echo whole >/ended
}

# The base that the container file names, from Debian's packages.
base() {
  step "base"
  local container folder
  if ! { container=$(buildah from scratch 2>/said) && folder=$(buildah mount "$container" 2>/said); }; then
    # A kernel that has overlays may not have them on this file system.
    rm -rf /var/lib/containers/storage
    STORAGE_DRIVER=vfs
    { container=$(buildah from scratch 2>/said) && folder=$(buildah mount "$container" 2>/said); } || not_tested "buildah makes no container here: $(tail -n 1 /said)"
  fi
  tar -C "$folder" --exclude='./dev/*' -xpf /base.tar && rm /base.tar
  # The container file asks Debian for one package more: as this root would.
  rm -f "$folder/etc/resolv.conf" && cp /etc/resolv.conf "$folder/etc/resolv.conf"
  cp /etc/apt/apt.conf.d/99as-host "$folder/etc/apt/apt.conf.d/"
  if ! timeout --foreground -k 5 120 chroot "$folder" apt-get -qq -o APT::Sandbox::User=root -o APT::Update::Error-Mode=any update >/said 2>&1; then
    not_tested "a clean root does not reach Debian's packages: $(tail -n 1 /said)"
  fi
  find "$folder/var/lib/apt/lists" -type f -delete
  buildah umount "$container" >/said
  buildah commit --quiet --rm "$container" "$BASE" >/said 2>&1 || fail "$(cat /said)"
}

built() {
  step "built"
  local package
  package=$(basename /context/*.deb)
  local code=0
  timeout --foreground -k 5 240 buildah build --layers=false --tag "$IMAGE" --file /Containerfile --build-arg "BASE=$BASE" --build-arg "DEB=$package" /context >/said 2>&1 ||
    code=$?
  # A mirror that fails in the middle is no fault of the container file.
  if [ "$code" -ne 0 ] && grep -Eq '(Failed to|Unable to|Cannot) fetch|Temporary failure|Could not (resolve|connect|get|handshake|wait)|Connection (failed|timed out)' /said; then
    not_tested "the build lost Debian's packages: $(grep -E 'fetch|Temporary failure|Could not|Connection' /said | tail -n 1)"
  fi
  [ "$code" -ne 124 ] || not_tested "the build had not ended after 240 seconds, at: $(tail -n 1 /said)"
  [ "$code" -eq 0 ] || fail "$(tail -n 20 /said)"
  is "$(of User)" kumod
  is "$(of StopSignal)" SIGTERM
  is "$(of WorkingDir)" /var/spool/kumomta
  is "$(each Cmd)" "kumod --policy /opt/kumomta/etc/policy/init.lua"
  is "$(each Healthcheck.Test)" "CMD kcli check-readiness"
  is "$(of Volumes)" "map[/opt/kumomta/etc:{} /var/log/kumomta:{} /var/spool/kumomta:{}]"
  # Of one container more, which is the file system of all that are run.
  rootfs=$(buildah mount "$(buildah from --pull-never "$IMAGE")")
  if [ -e "$rootfs/tmp/postrider.deb" ] || [ -n "$(find "$rootfs/var/lib/apt/lists" -type f)" ]; then fail "what it was built of is left in it"; fi
  echo "    an image of $(du -sm "$rootfs" | cut -f 1) MB"
}

# `podman run -it --rm -v etc:... postrider postrider init`
configured() {
  step "configured"
  # crun sets what counts in the container's own network; until here nothing sets any.
  umount /proc/sys
  # As engines do: a volume has at first what the image has there, owner and rights too.
  local each
  for each in $(volumes); do
    mkdir -p "/volumes$each" && cp -a "$rootfs$each/." "/volumes$each/" && chown --reference="$rootfs$each" "/volumes$each" && chmod --reference="$rootfs$each" "/volumes$each"
  done
  run postrider init --yes --hostname mta1.test --domains from.test >/said
  local policy=/volumes/opt/kumomta/etc/policy
  cat >>"$policy/queues.toml" <<'TEXT'

[queue."sink.test"]
retry_interval = "1s"
protocol = { smtp = { mx_list = ["[127.0.0.1]:2525"] } }
TEXT
  printf '\n["sink.test"]\nmx_rollup = false\nprohibited_hosts = []\n' >>"$policy/shaping.toml"
}

served() {
  step "served"
  begin
  within "the health check" 'healthy'
  # Nothing of root's: neither the user nor a right.
  local pid
  pid=$(crun state mta | sed -n 's/^ *"pid": \([0-9]*\),$/\1/p')
  is "$(awk '/^(Uid|Cap(Prm|Eff|Bnd))/ {print $2}' "/proc/$pid/status" | sort -u | tr '\n' ' ')" "0000000000000000 $(user 3) "
  sink
  send 20
  within "all 20 at the sink" '[ "$(arrived)" = 20 ]'
  # One that serves nobody is not healthy.
  if inside env KUMO_KCLI_ENDPOINT=http://127.0.0.1:1 kcli check-readiness >/dev/null 2>&1; then fail "it is healthy whatever happens"; fi
}

# With mail that has nowhere to go. Whoever is inside ends with it.
stopped() {
  step "stopped"
  local from spent code=0
  no_sink
  send 10
  from=$(date +%s%N)
  crun kill mta "$(of StopSignal)"
  wait "$main" || code=$?
  spent=$((($(date +%s%N) - from) / 1000000))
  is "$code" 0
  [ "$spent" -lt 40000 ] || fail "it took $spent ms to end"
  echo "    in $spent ms"
}

# The volumes have it all.
went_on() {
  step "went on"
  begin
  within "the health check" 'healthy'
  sink
  within "all 30 at the sink" '[ "$(arrived)" = 30 ]'
  crun kill mta "$(of StopSignal)"
  wait "$main" || fail "it ended with $?"
}

# A container of the image with these volumes; ends with it.
run() { # command...
  RUNS=$((RUNS + 1))
  mkdir -p "/bundles/$RUNS"
  spec "$@" >"/bundles/$RUNS/config.json"
  crun --cgroup-manager=disabled run --bundle "/bundles/$RUNS" mta
}

# The image's own command, which is awaited as $main.
begin() {
  # shellcheck disable=SC2046
  run $(each Cmd) >"/log.$RUNS" 2>&1 &
  main=$!
  RUNS=$((RUNS + 1))
}

# What an engine makes of the image: its user, folder and volumes, no rights of root's, and a network in which port 25 is anybody's.
spec() { # command...
  local args volume binds=""
  args=$(printf ',"%s"' "$@")
  for volume in $(volumes); do
    binds+=",{\"destination\":\"$volume\",\"type\":\"bind\",\"source\":\"/volumes$volume\",\"options\":[\"rbind\",\"nosuid\",\"nodev\"]}"
  done
  cat <<TEXT
{"ociVersion": "1.0.2", "hostname": "mta1.test", "root": {"path": "$rootfs"},
 "process": {"args": [${args#,}], "cwd": "$(of WorkingDir)", "env": ["$(of Env | tr -d '[]')"], "noNewPrivileges": true,
  "user": {"uid": $(user 3), "gid": $(user 4)}, "capabilities": {}},
 "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"},
  {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
  {"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666"]},
  {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777", "size=64m"]}$binds],
 "linux": {"sysctl": {"net.ipv4.ip_unprivileged_port_start": "0"},
  "namespaces": [{"type": "pid"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}, {"type": "network"}]}}
TEXT
}

# As the user that all in it is.
inside() { # command...
  crun --cgroup-manager=disabled exec --user "$(user 3):$(user 4)" mta "$@"
}

# As an engine asks.
healthy() {
  # shellcheck disable=SC2046
  inside $(each Healthcheck.Test | sed 's/^CMD //') >/said 2>&1
}

sink() {
  SINKS=$((SINKS + 1))
  inside smtp-sink --listen 127.0.0.1:2525 --ledger "/var/log/kumomta/taken.$SINKS" >/log.sink 2>&1 &
  within "a sink" 'inside bash -c ": >/dev/tcp/127.0.0.1/2525" >/said 2>&1'
}

no_sink() {
  local each
  for each in /proc/[0-9]*; do
    if [ "$(cat "$each/comm" 2>/dev/null)" = smtp-sink ]; then kill "${each#/proc/}" 2>/dev/null || true; fi
  done
  within "no sink" '! inside bash -c ": >/dev/tcp/127.0.0.1/2525" 2>/dev/null'
}

# Messages that must be acknowledged.
send() { # how many
  SENDS=$((SENDS + 1))
  inside traffic-gen --target 127.0.0.1:25 --domain sink.test --domain-suffix "" --sender a@from.test --concurrency 2 --message-count "$1" \
    --body-size 1000 --ledger "/var/log/kumomta/sent.$SENDS" --quiet >/said 2>&1 || fail "traffic-gen: $(cat /said)"
}

# Of the acknowledged messages, those that have reached the sink whole.
arrived() {
  local logs=/volumes/var/log/kumomta
  cat "$logs"/sent.? | sort -u | comm -12 - <(awk '$2 == "ok" {print $1}' "$logs"/taken.? | sort -u) | grep -c . || true
}

of() { # what the image says of a container
  buildah inspect --type image --format "{{.Docker.Config.$1}}" "$IMAGE"
}

each() { # likewise, of a list
  of "$1" | tr -d '[]'
}

volumes() {
  of Volumes | tr -d '[]' | sed 's/^map//; s/:{}//g'
}

user() { # field of its entry
  awk -F: -v field="$1" -v name="$(of User)" '$1 == name {print $field}' "$rootfs/etc/passwd"
}

is() { # what is, what should be
  [ "$1" = "$2" ] || fail "$1, where $2 should be"
}

STEP=
WAITING=
within() { # what, condition; a minute
  local until=$((SECONDS + 60))
  WAITING=$1
  while [ "$SECONDS" -lt "$until" ]; do
    if eval "$2"; then
      WAITING=
      return
    fi
    sleep 0.1
  done
  fail "$1: not within a minute: $(cat /said)"
}

step() {
  STEP=$1
  echo "  $1"
}

not_tested() {
  echo "$*" >&2
  exit 77
}

fail() {
  tail -n 15 /log.* >&2 || true
  echo "container_story.sh: $*" >&2
  exit 1
}

main "$@"
