# shellcheck shell=bash
# Clean roots of Debian for what package_test.sh tries, to be read by bash (`. clean_root.sh`). Folders are the caller's; what is
# fetched is kept in FOLDER_TO_KEEP between runs and unpacked nowhere but in those folders.

# How a part of the proof ends that this machine has no place for.
NOT_TESTED=77

# A Debian of the host's release, as small as it comes, never configured for anything: base.tar in the folder to keep.
base_system() { # folder to keep
  local release mirror
  release=$(. /etc/os-release && echo "${VERSION_CODENAME:?}")
  # A new machine knows of no packages.
  apt-cache show debootstrap >/dev/null 2>&1 || new_lists || not_tested "there is no list of Debian's packages"
  # What the package needs beyond the smallest system.
  local needs=libssl3
  apt-cache show "$needs" >/dev/null 2>&1 || needs=libssl3t64
  if [ -f "$1/base.tar" ] && [ "$(cat "$1/base.release")" = "$release $needs" ]; then return; fi
  echo "fetching a base system of $release"
  rm -rf --one-file-system "$1"/{debootstrap,base,packages.*} && mkdir -p "$1/debootstrap" "$1/base"
  # Unpacked, not installed.
  fetch_debootstrap "$1/debootstrap" || { new_lists && fetch_debootstrap "$1/debootstrap"; } || not_tested "debootstrap cannot be fetched"
  dpkg-deb -x "$1"/debootstrap/debootstrap_*.deb "$1/debootstrap/root"
  # From where the host has its own; else from where debootstrap knows.
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(ORIGIN)' 2>/dev/null | awk -v release="$release" '$2 == release && $3 == "Debian" && !uri {uri = $1} END {print uri}') || true
  debootstrap "$1" "$needs" "$release" $mirror || { [ -n "$mirror" ] && debootstrap "$1" "$needs" "$release"; } ||
    not_tested "no base system: $(tail -n 3 "$1/debootstrap/log" | tr '\n' ' ')"
  tar -C "$1/base" -cpf "$1/base.tar.new" --one-file-system .
  mv "$1/base.tar.new" "$1/base.tar" && echo "$release $needs" >"$1/base.release"
  rm -rf --one-file-system "$1/base" "$1/debootstrap"
}

fetch_debootstrap() { # folder
  (cd "$1" && timeout -k 5 120 apt-get -qq -o APT::Sandbox::User=root download debootstrap)
}

debootstrap() { # folder to keep, packages more, release, mirror
  local at="$1/debootstrap/root"
  rm -rf --one-file-system "$1/base" && mkdir "$1/base"
  DEBOOTSTRAP_DIR="$at/usr/share/debootstrap" timeout -k 5 300 \
    bash "$at/usr/sbin/debootstrap" --variant=minbase --include="$2" "$3" "$1/base" "${@:4}" >"$1/debootstrap/log" 2>&1
}

# Of a host whose lists are old, which ask for files that are gone.
new_lists() {
  timeout -k 5 120 apt-get -qq update
}

# How the host reaches Debian's packages is how a root does: names are asked for alike, and proxies are the same.
reaches_as_host() { # root
  rm -f "$1/etc/resolv.conf" && cp -L /etc/resolv.conf "$1/etc/resolv.conf" || : >"$1/etc/resolv.conf"
  {
    echo 'Acquire::Retries "3"; Acquire::http::Timeout "20"; Acquire::https::Timeout "20";'
    apt-config dump | grep -E '^Acquire::https?::Proxy(::[^ ]*)? "' || true
    [ -z "${http_proxy:-}" ] || echo "Acquire::http::Proxy \"$http_proxy\";"
    [ -z "${https_proxy:-}" ] || echo "Acquire::https::Proxy \"$https_proxy\";"
  } >"$1/etc/apt/apt.conf.d/99as-host"
}

# A root with packages of the host's own sources in it, beyond the base system.
root_with() { # folder to keep, root, packages...
  local keep=$1 root=$2 files said
  shift 2
  files="$keep/packages.$1"
  mkdir -p "$root" && tar -C "$root" -xpf "$keep/base.tar"
  if [ ! -e "$files/fetched" ] || [ "$(cat "$files/fetched")" != "$*" ]; then
    rm -rf "$files" && mkdir -p "$files/partial"
    # What the base system lacks of them.
    said=$(fetch "$root" "$files" "$@" 2>&1) || { new_lists && said=$(fetch "$root" "$files" "$@" 2>&1); } ||
      not_tested "Debian's $* cannot be fetched: $(tail -n 1 <<<"$said")"
    echo "$*" >"$files/fetched"
  fi
  mkdir "$root/packages" && cp "$files"/*.deb "$root/packages/"
  in_root "$root" sh -c 'apt-get -y -o APT::Sandbox::User=root --no-install-recommends install /packages/*.deb' >"$root/said" 2>&1 ||
    die "$*: $(tail -n 3 "$root/said")"
  rm -r "$root/packages" "$root/said"
}

fetch() { # root, folder, packages...
  local root=$1 files=$2
  shift 2
  timeout -k 5 300 apt-get -y -o APT::Sandbox::User=root -o Debug::NoLocking=1 -o Dir::State::status="$root/var/lib/dpkg/status" \
    -o Dir::Cache::archives="$files" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= --no-install-recommends --download-only install "$@"
}

in_root() { # root, command...: nothing of this environment goes along
  local root=$1
  shift
  timeout -k 5 300 env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 \
    chroot "$root" "$@"
}

# What a system finds around its root. In a mount namespace of its own, with whose end all of it is gone.
mounts() { # root
  local node
  mount --bind "$1" "$1"
  mount -t proc -o nosuid,noexec,nodev proc "$1/proc"
  # The kernel's settings are the host's.
  mount --bind "$1/proc/sys" "$1/proc/sys" && mount -o remount,bind,ro,nosuid,noexec,nodev "$1/proc/sys"
  mount -t sysfs -o ro,nosuid,noexec,nodev sysfs "$1/sys"
  mount -t cgroup2 -o nosuid,noexec,nodev cgroup2 "$1/sys/fs/cgroup"
  mount -t tmpfs -o mode=755,nosuid,size=16m tmpfs "$1/dev"
  for node in null zero full random urandom tty; do
    touch "$1/dev/$node" && mount --bind "/dev/$node" "$1/dev/$node"
  done
  mkdir "$1"/dev/{pts,shm,mqueue}
  mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts "$1/dev/pts"
  mount -t tmpfs -o mode=1777,nosuid,nodev,size=64m tmpfs "$1/dev/shm"
  ln -s pts/ptmx "$1/dev/ptmx"
  ln -s /proc/self/fd "$1/dev/fd"
  mount -t tmpfs -o mode=755,nosuid,nodev,size=256m tmpfs "$1/run"
}

# A cgroup below our own, for a system's process 1: $cgroup. Mounts what shows it, and is gone with `no_cgroup`.
cgroup_of_its_own() { # folder to mount at
  local ours
  cgroup=
  mkdir -p "$1" && mount -t cgroup2 -o nosuid,noexec,nodev cgroup2 "$1" || return
  ours=$(sed -n 's/^0:://p' /proc/self/cgroup)
  # Outside of what this namespace shows.
  [[ "$ours" != *..* ]] || ours=
  cgroup="$1${ours%/}/postrider-package-test"
  no_cgroup "$cgroup" && mkdir "$cgroup"
}

# Takes it away once its processes have ended.
no_cgroup() { # cgroup; none is none
  local _
  [ -n "$1" ] || return 0
  for _ in $(seq 50); do
    [ -d "$1" ] || return 0
    find "$1" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
  done
  [ ! -d "$1" ]
}

not_tested() {
  echo "$*" >&2
  exit "$NOT_TESTED"
}

die() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}
