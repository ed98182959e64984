#!/usr/bin/env bash
# The container file of the package, built by buildah on a base made here (no registry is asked), and what it is as a container:
# tools/container_story.sh, in a clean root with a cgroup namespace and mounts of its own.
#
# usage: tools/container_test.sh FOLDER_TO_KEEP FOLDER PACKAGE
#
# Part of package_test.sh, which gives it a mount namespace and takes away what it made. Ends with 77, and says why, where no image
# can be built: without namespaces, or where a clean root does not reach Debian's packages, which the container file asks for.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/tools/clean_root.sh"

main() {
  keep=${1:?a folder to keep} work=${2:?a folder} new=${3:?a package}
  root="$work/container"
  # A story that is broken is no fault of the machine.
  bash -n "$here/tools/container_story.sh" || die "container_story.sh is broken"
  root_with "$keep" "$root" buildah crun
  mkdir "$root/context" && cp "$new" "$root/context/"
  cp "$here/packaging/Containerfile" "$here/tools/container_story.sh" "$root/"
  ln "$keep/base.tar" "$root/base.tar" 2>/dev/null || cp "$keep/base.tar" "$root/base.tar"
  # The build's image has both of this one.
  reaches_as_host "$root"
  export STORY_S
  export -f process_1 mounts
  local code=0
  timeout -s KILL "$STORY_S" unshare --cgroup --pid --ipc --uts --mount --fork --kill-child \
    bash -c 'process_1 "$@"' bash "$root" </dev/null || code=$?
  [ "$code" -ne "$NOT_TESTED" ] || exit "$code"
  [ -e "$root/began" ] || [ "$code" -ne 137 ] || not_tested "a clean root did not come to the story within $STORY_S seconds"
  [ -e "$root/began" ] || not_tested "a clean root does not start here"
  [ "$code" -ne 137 ] || die "cut off after $STORY_S seconds"
  [ "$code" -eq 0 ] && [ "$(cat "$root/ended")" = whole ] || die "the container does not do as it should"
}

process_1() { # root
  set -e
  mounts "$1"
  cd "$1" && pivot_root . . && umount -l .
  exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/var/lib LC_ALL=C.UTF-8 chroot . \
    timeout -k 25 $((STORY_S - 40)) bash /container_story.sh
}

# Half a minute is enough; a machine or a mirror may be slow. The story's own bound, which has it say where it was, comes before.
STORY_S=${PACKAGE_TEST_STORY_S:-480}

main "$@"
