#!/usr/bin/env bash
# The life of the package in a clean root: installed, started, upgraded, removed, purged. The host is not touched: the root is a
# folder, processes and network are of a namespace of their own (nothing leaves it, port 25 in it is nobody else's), and all of
# it is gone at the end.
#
# usage: POSTRIDER_BIN=FILE tools/package_test.sh FOLDER PACKAGE
#
# PACKAGE is what tools/package.sh made of the program. FOLDER keeps the downloaded base system between runs. Needs root.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)

main() {
  keep=$(mkdir -p "${1:?a folder}" && cd "$1" && pwd)
  new=${2:?the package}
  [ "$(id -u)" -eq 0 ] || die "needs root, for a root of its own"
  for tool in unshare ip chroot dpkg-deb apt-get; do command -v "$tool" >/dev/null || die "$tool is missing"; done
  base_system
  work=$(mktemp -d "$keep/run.XXXXXX")
  trap 'rm -rf --one-file-system "$work"' EXIT
  export PACKAGE_COMPRESSION="-Zgzip -z1"
  old=$(PACKAGE_VERSION=0.0.1 "$here/tools/package.sh" "$work/packages")
  again=$(PACKAGE_VERSION=0.0.1 "$here/tools/package.sh" "$work/again")
  cmp "$old" "$again" || die "the same program gave two packages that differ"
  mkdir "$work/root" && tar -C "$work/root" -xpf "$keep/base.tar"
  cp "$old" "$work/root/old.deb" && cp "$new" "$work/root/new.deb"
  cp "$here/tools/package_story.sh" "$work/root/story.sh"
  units
  # Whatever is started in there ends with it, and knows nothing of this environment.
  unshare --net --pid --ipc --uts --mount --fork --kill-child --mount-proc="$work/root/proc" \
    sh -c 'ip link set lo up && exec env -i PATH="$PATH" chroot "$1" /bin/bash /story.sh' sh "$work/root"
  echo "package_test.sh: $(basename "$new"): installed, started, upgraded, removed, purged"
}

# A Debian of the host's release, as small as it comes, never configured for anything.
base_system() {
  local release packages
  release=$(. /etc/os-release && echo "${VERSION_CODENAME:?}")
  # What the package needs beyond the smallest system.
  local needs=libssl3
  apt-cache show "$needs" >/dev/null 2>&1 || needs=libssl3t64
  if [ -f "$keep/base.tar" ] && [ "$(cat "$keep/base.release")" = "$release $needs" ]; then return; fi
  echo "package_test.sh: fetching a base system of $release"
  rm -rf "$keep/debootstrap" "$keep/base" && mkdir -p "$keep/debootstrap" "$keep/base"
  # Unpacked, not installed.
  packages=$(apt-get --print-uris download debootstrap | awk '{print $2}')
  (cd "$keep/debootstrap" && apt-get -qq -o APT::Sandbox::User=root download debootstrap)
  dpkg-deb -x "$keep/debootstrap/$packages" "$keep/debootstrap/root"
  DEBOOTSTRAP_DIR="$keep/debootstrap/root/usr/share/debootstrap" \
    bash "$keep/debootstrap/root/usr/sbin/debootstrap" --variant=minbase --include="$needs" "$release" "$keep/base" >"$keep/debootstrap/log" ||
    die "no base system: $(tail -n 3 "$keep/debootstrap/log")"
  tar -C "$keep/base" -cpf "$keep/base.tar.new" --one-file-system .
  mv "$keep/base.tar.new" "$keep/base.tar" && echo "$release $needs" >"$keep/base.release"
  rm -rf --one-file-system "$keep/base" "$keep/debootstrap"
}

# What systemd thinks of the units, where there is one to ask: that they are sound, and how much is closed to them.
units() {
  if ! command -v systemd-analyze >/dev/null; then
    echo "package_test.sh: no systemd-analyze: units were not judged"
    return
  fi
  local tree="$work/units" unit said
  dpkg-deb -x "$new" "$tree"
  # What units name: targets, the shell that reloads, and systemctl.
  cp /lib/systemd/system/*.target "$tree/lib/systemd/system"
  mkdir -p "$tree/bin" "$tree/usr/bin" && touch "$tree/bin/sh" "$tree/usr/bin/systemctl" && chmod 755 "$tree/bin/sh" "$tree/usr/bin/systemctl"
  for unit in postrider postrider-tsa postrider-hot-restart; do
    said=$(systemd-analyze --root="$tree" verify "$unit.service" 2>&1 | grep "$unit" || true)
    [ -z "$said" ] || die "$unit.service: $said"
  done
  # The third runs systemctl, as root, and ends.
  for unit in postrider postrider-tsa; do
    systemd-analyze --root="$tree" --offline=true --threshold="$EXPOSURE_MAX" security "$unit.service" >"$work/exposure" ||
      die "$unit.service is open to more than it was: $(tail -n 1 "$work/exposure")"
  done
}

die() {
  echo "package_test.sh: $*" >&2
  exit 1
}

# Tenths of what systemd-analyze security gives: 0 is nothing open, 100 everything.
EXPOSURE_MAX=20

main "$@"
