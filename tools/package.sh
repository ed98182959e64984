#!/usr/bin/env bash
# Builds the Debian package of a built program, and puts the container file beside it. Installs nothing.
#
# usage: POSTRIDER_BIN=FILE tools/package.sh FOLDER      prints the path of the package
#
# PACKAGE_VERSION is its version; without it, that of Cargo.toml and of the last commit. The program is stripped; what a debugger
# needs is in FOLDER/postrider.debug. PACKAGE_COMPRESSION are options of dpkg-deb (`-Zgzip -z1`: quick). The same program and the same commit give the same package, octet for octet.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
program=${POSTRIDER_BIN:?the built program}
out=${1:?a folder for the package}
umask 022

main() {
  [ -x "$program" ] || die "$program is no program: make build"
  for tool in dpkg-deb dpkg objcopy readelf gzip; do
    command -v "$tool" >/dev/null || die "$tool is missing: apt-get install dpkg binutils gzip"
  done
  mkdir -p "$out"
  tree=$(mktemp -d "$out/tree.XXXXXX")
  trap 'rm -rf "$tree"' EXIT
  chmod 755 "$tree"
  SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(of_git log -1 --format=%ct || date +%s)}
  export SOURCE_DATE_EPOCH

  programs
  data
  documents
  control
  architecture=$(dpkg --print-architecture)
  package="$out/postrider_$(version)_$architecture.deb"
  find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
  # Every file root's, whoever builds it; zstd would be unknown to older dpkg.
  # shellcheck disable=SC2086
  dpkg-deb --root-owner-group ${PACKAGE_COMPRESSION:--Zxz -z6} --build "$tree" "$package" >/dev/null
  cp "$here/packaging/Containerfile" "$out/Containerfile"
  echo "$package"
}

# One program under the names it is known by, and under KumoMTA's paths too.
programs() {
  install -d "$tree/usr/sbin" "$tree/usr/bin" "$tree/opt/kumomta/sbin"
  objcopy --only-keep-debug "$program" "$out/postrider.debug"
  objcopy --strip-debug --strip-unneeded --add-gnu-debuglink="$out/postrider.debug" "$program" "$tree/usr/sbin/postrider"
  chmod 755 "$tree/usr/sbin/postrider"
  for name in kumod tsa-daemon; do ln -s postrider "$tree/usr/sbin/$name"; done
  for name in kcli tailer traffic-gen smtp-sink validate-bounces; do ln -s ../sbin/postrider "$tree/usr/bin/$name"; done
  for name in kumod tsa-daemon kcli tailer traffic-gen validate-bounces; do
    ln -s /usr/sbin/postrider "$tree/opt/kumomta/sbin/$name"
  done
}

# What the program does not carry itself.
data() {
  install -d "$tree"/usr/share/postrider "$tree"/opt/kumomta/share/{bounce_classifier,community} "$tree"/etc/default "$tree"/lib/systemd/system
  install -m 644 "$here/packaging/60-postrider.conf" "$tree/usr/share/postrider/60-postrider.conf"
  install -m 644 "$here/share/bounce_classifier/iana.toml" "$tree/opt/kumomta/share/bounce_classifier/iana.toml"
  install -m 644 "$here/share/community/bounces.toml" "$tree/opt/kumomta/share/community/bounces.toml"
  install -m 644 "$here/packaging/default" "$tree/etc/default/postrider"
  install -m 644 "$here"/packaging/*.service "$tree/lib/systemd/system"
}

# Manual pages and completions are the program's own words.
documents() {
  local doc="$tree/usr/share/doc/postrider" man="$tree/usr/share/man/man1"
  install -d "$doc/policy-extras" "$man"
  # Where git knows nothing of this folder, whatever is in it.
  local pages
  pages=$(of_git ls-files docs | grep '\.md$') || pages=$(cd "$here" && find docs -name '*.md' | LC_ALL=C sort)
  (cd "$here" && xargs -I{} install -D -m 644 {} "$doc/{}" <<<"$pages")
  install -m 644 "$here/README.md" "$here/LICENSE-MIT" "$here/packaging/debian/copyright" "$here/packaging/Containerfile" "$doc"
  install -m 644 "$here"/share/policy-extras/*.lua "$doc/policy-extras"
  install -m 644 "$here/share/grafana/postrider.json" "$doc/grafana.json"
  printf 'postrider (%s) unstable; urgency=medium\n\n  * See the commits of this version.\n\n -- The Postrider developers <postrider@postrider.invalid>  %s\n' \
    "$(version)" "$(date -R -u -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.gz"
  "$program" man --dir "$man"
  # Postfix has a page of that name, and dpkg lets nobody have two.
  mv "$man/smtp-sink.1" "$man/postrider-smtp-sink.1"
  gzip -9n "$man"/*
  "$program" completions bash --dir "$tree/usr/share/bash-completion/completions"
  "$program" completions zsh --dir "$tree/usr/share/zsh/vendor-completions"
  "$program" completions fish --dir "$tree/usr/share/fish/vendor_completions.d"
}

control() {
  install -d "$tree/DEBIAN"
  local glibc
  glibc=$(readelf -V "$tree/usr/sbin/postrider" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
  sed -e "s/@VERSION@/$(version)/" -e "s/@ARCHITECTURE@/$(dpkg --print-architecture)/" -e "s/@GLIBC@/${glibc#GLIBC_}/" \
    -e "s/@INSTALLED_SIZE@/$(du -sk --exclude=DEBIAN "$tree" | cut -f 1)/" "$here/packaging/debian/control" >"$tree/DEBIAN/control"
  install -m 644 "$here/packaging/debian/conffiles" "$tree/DEBIAN"
  install -m 755 "$here"/packaging/debian/{postinst,prerm,postrm} "$tree/DEBIAN"
  (cd "$tree" && find . -type f -not -path './DEBIAN/*' -not -path './etc/*' -printf '%P\n' | LC_ALL=C sort | xargs md5sum >DEBIAN/md5sums)
}

version() {
  local of_cargo commit
  of_cargo=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/Cargo.toml" | head -n 1)
  commit=$(TZ=UTC of_git log -1 --date=format-local:%Y%m%d%H%M%S --format=%cd.%h || true)
  echo "${PACKAGE_VERSION:-$of_cargo${commit:++$commit}}"
}

# Of a folder that may be anybody's; nothing where there is no git, or no repository.
of_git() {
  [ -e "$here/.git" ] && git -C "$here" -c safe.directory='*' "$@" 2>/dev/null
}

die() {
  echo "package.sh: $*" >&2
  exit 1
}

main
