#!/usr/bin/env bash
# What `make package` makes, tried in clean roots: the package installed, started, upgraded, removed and purged; its units under a
# real systemd; the container file built, and the image run. Roots are folders in memory, processes, mounts and networks of
# namespaces of their own (the container's build has the host's network), gone at the end, whichever end it is. What a host is left
# with: packages that needs.sh installs, apt's lists, FOLDER, and after a SIGKILL an empty cgroup until the next run.
#
# usage: POSTRIDER_BIN=FILE tools/package_test.sh FOLDER
#
# FOLDER keeps downloaded packages between runs, and nothing else. What a machine has no place for is NOT TESTED: the last lines
# tell, and with PACKAGE_TEST_STRICT=1 it is a failure.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/tools/clean_root.sh"

main() {
  keep=$(mkdir -p "${1:?a folder}" && cd "$1" && pwd)
  : "${POSTRIDER_BIN:?the built program}"
  if [ "$(id -u)" -ne 0 ]; then
    verdicts "package, systemd, container: NOT TESTED: not root, who alone makes clean roots"
    return
  fi
  if ! timeout -k 5 600 "$here/tools/needs.sh" package; then
    verdicts "package, systemd, container: NOT TESTED: what makes a clean root is missing, and cannot be installed (see above)"
    return
  fi
  exec 9>"$keep/lock"
  flock -w 600 9 || die "another run goes on in $keep"
  local said code=0
  if ! said=$(unshare --mount --pid --fork --mount-proc true 2>&1); then
    verdicts "package, systemd, container: NOT TESTED: no namespaces here: $said"
    return
  fi
  # With this ends the first process in there, and with that whatever it started; with the last one, all mounts.
  setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc bash "$0" --within "$keep" &
  inner=$!
  trap 'ended' EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  wait "$inner" || code=$?
  inner=
  case "$code" in
    0) ;;
    "$NOT_TESTED") verdicts "package, systemd, container: NOT TESTED: there is nothing to make a clean root of (see above)" ;;
    *) die "failed" ;;
  esac
}

# Nothing stays, whichever end it was.
ended() {
  if [ -n "$inner" ]; then
    kill -KILL "$inner" 2>/dev/null || true
    wait "$inner" 2>/dev/null || true
  fi
  # A system that was cut off could not take its cgroups away.
  unshare --mount bash -c '. "$1" && cgroup_of_its_own "$2/run" && no_cgroup "$cgroup"' bash "$here/tools/clean_root.sh" "$keep" 2>/dev/null || true
  rm -rf --one-file-system "$keep/run"
}

# The first process of the namespace.
within() { # folder to keep
  keep=$1 work="$1/run"
  mkdir -p "$work"
  # Of a run that was killed on a machine with little memory.
  rm -rf --one-file-system "${work:?}"/*
  # Whatever is written is in memory, where there is enough for it, and gone with its mount.
  if [ "$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)" -ge $((MEMORY_KIB * 2)) ]; then
    mount -t tmpfs -o size="${MEMORY_KIB}k" tmpfs "$work"
  fi
  base_system "$keep"
  packages
  said=() failed=0
  export keep work old new
  part "package" "$0" --story
  part "systemd" "$here/tools/systemd_test.sh" "$keep" "$work/part" "$old" "$new"
  part "container" "$here/tools/container_test.sh" "$keep" "$work/part" "$new"
  echo "package_test.sh: $(basename "$new")"
  verdicts "${said[@]}"
  return "$failed"
}

# The package; one that is older, of the same program; and the same again.
packages() {
  # One time for all, whether git gives it or the clock.
  SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$here" -c safe.directory='*' log -1 --format=%ct 2>/dev/null || date +%s)}
  export SOURCE_DATE_EPOCH
  new=$("$here/tools/package.sh" "$work/packages")
  export PACKAGE_COMPRESSION="-Zgzip -z1"
  old=$(PACKAGE_VERSION=0.0.1 "$here/tools/package.sh" "$work/packages")
  local again
  again=$(PACKAGE_VERSION=0.0.1 "$here/tools/package.sh" "$work/again")
  cmp "$old" "$again" || die "the same program gave two packages that differ"
  rm -r "$work/again" "$work/packages/postrider.debug"
}

part() { # name, command...
  local name=$1 code=0 began=$SECONDS
  shift
  mkdir "$work/part"
  echo "$name:"
  # In a mount namespace of its own: what one leaves is in nobody's way.
  unshare --mount bash "$@" 2>"$work/why" || code=$?
  [ ! -s "$work/why" ] || cat "$work/why" >&2
  case "$code" in
    0) said+=("$name: tested, in $((SECONDS - began)) s") ;;
    "$NOT_TESTED") said+=("$name: NOT TESTED: $(tail -n 1 "$work/why")") ;;
    *) said+=("$name: FAILED") failed=1 ;;
  esac
  rm -rf --one-file-system "$work/part" "$work/why"
}

# The package in a root that has no systemd, with a stand-in for systemctl.
story() {
  local root="$work/part/root"
  mkdir "$root" && tar -C "$root" -xpf "$keep/base.tar"
  cp "$old" "$root/old.deb" && cp "$new" "$root/new.deb"
  cp "$here/tools/package_story.sh" "$root/story.sh"
  # Whatever is started in there ends with it, and knows nothing of this environment.
  timeout -s KILL 260 unshare --net --pid --ipc --uts --mount --fork --kill-child --mount-proc="$root/proc" \
    sh -c 'ip link set lo up && exec env -i PATH="$PATH" chroot "$1" timeout -k 10 240 /bin/bash /story.sh' sh "$root"
}

# What was tested, and loudly what was not.
verdicts() { # line...
  local line
  for line in "$@"; do echo "  $line"; done
  if [[ "$*" == *"NOT TESTED"* ]]; then
    echo "  !! package-test is not whole: see NOT TESTED above"
    [ -z "${PACKAGE_TEST_STRICT:-}" ] || die "not all of it was tested, as PACKAGE_TEST_STRICT wants"
  fi
}

# What roots, images and mail take at most.
MEMORY_KIB=$((3 * 1024 * 1024))

case "${1:-}" in
  --within) within "$2" ;;
  --story) story ;;
  *) main "$@" ;;
esac
