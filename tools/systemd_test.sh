#!/usr/bin/env bash
# The units of the package under a real systemd: process 1 of a clean root in namespaces of its own, with a network of its own.
#
# usage: tools/systemd_test.sh FOLDER_TO_KEEP FOLDER OLD_PACKAGE NEW_PACKAGE
#
# Part of package_test.sh, which gives it a mount namespace and takes away what it made. Ends with 77, and says why, on a machine
# on which systemd cannot be process 1 of anything. PACKAGE_TEST_WATCHDOG=0 has the watchdog wait as long as the unit says.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/tools/clean_root.sh"

main() {
  keep=${1:?a folder to keep} work=${2:?a folder} old=${3:?a package} new=${4:?another}
  root="$work/systemd"
  # A story that is broken is no fault of the machine.
  bash -n "$here/tools/systemd_story.sh" || die "systemd_story.sh is broken"
  root_with "$keep" "$root" systemd systemd-sysv dbus
  units
  the_system
  local code=0
  boot || code=$?
  if [ "$code" -ne 0 ]; then
    [ -e "$root/began" ] || [ "$code" -ne 137 ] || not_tested "systemd as process 1 did not come to the story within $STORY_S seconds"
    [ -e "$root/began" ] || not_tested "systemd does not start as process 1 here: $(tail -n 1 "$work/boot" "$work/console" | tr '\n' ' ')"
    grep -v "^  " "$work/console" | tail -n 40 >&2 || true
    [ "$code" -ne 137 ] || die "cut off after $STORY_S seconds, at:$(grep '^  ' "$work/console" | tail -n 1)"
    die "under systemd, the package does not do as it should"
  fi
  [ "$(cat "$root/ended")" = whole ] || die "the story broke off"
}

# What systemd thinks of the units: that they are sound, and how much is closed to them.
units() {
  local unit said most tree="$work/units"
  cp -a --reflink=auto "$root" "$tree" && cp "$new" "$tree/new.deb"
  said=$(in_root "$tree" dpkg --unpack /new.deb 2>&1) || die "dpkg --unpack: $said"
  for unit in postrider postrider-tsa postrider-hot-restart; do
    # It may also complain of what the clean root lacks.
    said=$(in_root "$tree" systemd-analyze verify "$unit.service" 2>&1) || die "$unit.service: $said"
    if grep "$unit" <<<"$said"; then die "$unit.service is not sound"; fi
  done
  # The third runs systemctl, as root, and ends.
  for unit in postrider postrider-tsa; do
    most=${EXPOSURE_MAX[$unit]}
    # What another systemd counts, and how much, is another sum.
    [[ "$(in_root "$tree" systemd-analyze --version)" == "systemd 252 "* ]] || most=$((most + 3))
    said=$(in_root "$tree" systemd-analyze --offline=true --threshold="$most" security "$unit.service" | tail -n 1) ||
      die "$unit.service is open to more than it was: $said"
    echo "  ${said#→ }"
  done
  rm -rf --one-file-system "$tree"
}

# A system that starts, plays the story and ends with its exit code.
the_system() {
  cp "$old" "$root/old.deb" && cp "$new" "$root/new.deb"
  cp "$here/tools/systemd_story.sh" "$root/story.sh"
  echo mta1.test >"$root/etc/hostname"
  # There is nobody to ask for names.
  : >"$root/etc/resolv.conf"
  # It is not its first start.
  tr -d - </proc/sys/kernel/random/uuid >"$root/etc/machine-id"
  local unit
  # Nobody logs in, and the kernel is the host's.
  for unit in console-getty getty@ systemd-logind systemd-modules-load systemd-sysctl systemd-udevd; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit.service"
  done
  cat >"$root/etc/systemd/system/story.service" <<TEXT
[Unit]
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Environment=WATCHDOG=${PACKAGE_TEST_WATCHDOG:-6}
# Its own bound, which has it say where it was, comes before the system's.
ExecStart=/usr/bin/timeout -k 25 $((STORY_S - 40)) /bin/bash /story.sh
StandardOutput=append:/dev/console
StandardError=append:/dev/console
TEXT
  mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
  ln -s ../story.service "$root/etc/systemd/system/multi-user.target.wants/story.service"
}

# Starts it. The cgroup it is in has no controllers: none of the unit's options needs one.
boot() {
  local code=0 pid
  : >"$work/console"
  cgroup=
  trap 'no_cgroup "$cgroup" || true' EXIT
  cgroup_of_its_own "$work/cgroup" || not_tested "no cgroup can be made here"
  export -f mounts process_1
  # A child first, that is in that cgroup: the namespace begins where it is.
  # unshare waits out any gentler signal.
  timeout -s KILL "$STORY_S" bash -c 'echo $BASHPID >"$1/cgroup.procs" && exec unshare --cgroup --net --pid --ipc --uts --mount \
    --fork --kill-child bash -c "process_1 \"\$@\"" bash "$2" "$3"' bash "$cgroup" "$root" "$work/console" </dev/null >"$work/boot" 2>&1 &
  pid=$!
  # What it says as it says it.
  tail --pid="$pid" -s 0.2 -n +1 -f "$work/console" | grep --line-buffered '^  ' || true
  wait "$pid" || code=$?
  return "$code"
}

process_1() { # root, console
  set -e
  mounts "$1"
  touch "$1/dev/console" && mount --bind "$2" "$1/dev/console"
  # By this, and by the variable, it knows that the kernel is not its own.
  mkdir "$1/run/host" && echo postrider-test >"$1/run/host/container-manager"
  ip link set lo up
  # The host's files are out of its reach, and of its services' view.
  cd "$1" && pivot_root . . && umount -l .
  # Nothing it does is to reach the kernel's modules, clock, ports or log.
  exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=postrider-test chroot . setpriv \
    --bounding-set=-sys_module,-sys_rawio,-sys_time,-syslog,-mac_admin,-mac_override,-wake_alarm /sbin/init
}

# Tenths of what systemd-analyze security gives: 0 is nothing open, 100 everything.
declare -A EXPOSURE_MAX=([postrider]=17 [postrider-tsa]=15)
# Some seventy seconds are enough; a machine may be four times slower. The watchdog's own minute, and its signs, come on top.
STORY_S=360
[ "${PACKAGE_TEST_WATCHDOG:-6}" != 0 ] || STORY_S=400
STORY_S=${PACKAGE_TEST_STORY_S:-$STORY_S}

main "$@"
