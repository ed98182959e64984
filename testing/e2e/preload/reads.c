/* Holds up a read of a message by the program under test, or fails all of them. Loaded with LD_PRELOAD.
 *
 * In: READS_FILE, whose first octet says when: at `h` the next pread from a segment of the spool waits until another octet stands there,
 * and all others go on; at `f` each ends with EIO. What the program reads of itself in /proc goes on at any moment. Out: READS_FILE with
 * `.now` behind it, once a read waits. The file is read anew each time, so that the test arms it from outside. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_held;

static char armed(void) {
  const char *file = getenv("READS_FILE");
  char octet = 0;
  int fd = file ? (int)syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return 0;
  if (syscall(SYS_read, fd, &octet, 1) != 1) octet = 0;
  syscall(SYS_close, fd);
  return octet;
}

static void tell(void) {
  char name[4096];
  snprintf(name, sizeof name, "%s.now", getenv("READS_FILE"));
  int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd >= 0) syscall(SYS_close, fd);
}

static int is_segment(int fd) {
  char link[64], name[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, name, sizeof name - 1);
  if (length < 0) return 0;
  name[length] = 0;
  return strstr(name, "/seg-") != NULL;
}

static void wait_once(void) {
  if (__atomic_exchange_n(&is_held, 1, __ATOMIC_SEQ_CST)) return;
  tell();
  while (armed() == 'h') usleep(2000);
}

ssize_t pread64(int fd, void *into, size_t length, off64_t at) {
  char octet = armed();
  if (octet == 'h' && is_segment(fd)) wait_once();
  if (octet == 'f' && is_segment(fd)) {
    errno = EIO;
    return -1;
  }
  return syscall(SYS_pread64, fd, into, length, at);
}

ssize_t pread(int fd, void *into, size_t length, off_t at) { return pread64(fd, into, length, at); }
