#!/usr/bin/env bash
# Installs the Debian packages that building or testing needs and the machine lacks, and says so.
# usage: tools/needs.sh build|test|package
# Only packages that start nothing are installed; mail servers used as test peers are unpacked
# into the build cache by testing/e2e/peers/fetch.sh instead.
set -euo pipefail

declare -a missing=()
want() { # command, package
  command -v "$1" >/dev/null 2>&1 || missing+=("$2")
}

want cc gcc
want c++ g++ # libFuzzer, for the fuzz targets
want make make
want pkg-config pkg-config
want chrt util-linux # the benchmark's, and so the demo's
# librdkafka's TLS
[ -e /usr/include/openssl/ssl.h ] || missing+=(libssl-dev)
case "${1:-build}" in
  build) ;;
  test)
    want openssl openssl
    want python3 python3
    want perl perl
    want curl curl
    want strace strace
    want valgrind valgrind
    want node nodejs
    want npm npm
    ;;
  package) # what makes a clean root
    want ip iproute2
    want setpriv util-linux
    want wget wget # debootstrap's
    want objcopy binutils
    want xz xz-utils
    ;;
  *) echo "usage: $0 build|test|package" >&2; exit 2 ;;
esac

if ! command -v cargo >/dev/null 2>&1; then
  echo "needs.sh: cargo is not on PATH: install a Rust toolchain (rustup.rs), 1.95 or newer" >&2
  exit 1
fi
if [ "${1:-build}" = test ]; then
  for component in fmt clippy; do
    cargo "$component" --version >/dev/null 2>&1 || {
      echo "needs.sh: cargo $component is missing: rustup component add rustfmt clippy" >&2
      exit 1
    }
  done
fi
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
echo "installing with apt: ${missing[*]}"
"${as_root[@]}" timeout -k 5 300 apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 install -y -qq --no-install-recommends "${missing[@]}"
