/* Holds up one read of a message by the program under test. Loaded with LD_PRELOAD.
 *
 * In: HELD_FILE, whose first octet says when: at `h` the next pread from a segment of the spool waits until another octet stands there,
 * and all others go on, as does what the program reads of itself in /proc at any moment. Out: HELD_FILE with `.now` behind it, once a
 * read waits. The file is read anew each time, so that the test arms it from outside. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_held;

static int is_armed(void) {
  const char *file = getenv("HELD_FILE");
  char armed = 0;
  int fd = file ? (int)syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return 0;
  if (syscall(SYS_read, fd, &armed, 1) != 1) armed = 0;
  syscall(SYS_close, fd);
  return armed == 'h';
}

static void tell(void) {
  char name[4096];
  snprintf(name, sizeof name, "%s.now", getenv("HELD_FILE"));
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

static void wait_if_armed(int fd) {
  if (!is_armed() || !is_segment(fd) || __atomic_exchange_n(&is_held, 1, __ATOMIC_SEQ_CST)) return;
  tell();
  while (is_armed()) usleep(2000);
}

ssize_t pread64(int fd, void *into, size_t length, off64_t at) {
  wait_if_armed(fd);
  return syscall(SYS_pread64, fd, into, length, at);
}

ssize_t pread(int fd, void *into, size_t length, off_t at) { return pread64(fd, into, length, at); }
