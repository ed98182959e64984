/* Kills the program under test beside the moment at which a list of orders takes the place of the last one, or when it is about
 * to answer a request of HTTP. Loaded with LD_PRELOAD.
 *
 * In: KILLED_FILE, of which the first octet says when: `b` before a file gets the name `orders.json`, so that the order is
 * nowhere; `a` after it did and before anybody can hear of it, so that the order is on disk and not answered; `w`
 * before the first octets of an answer are written, so that all is done and nobody hears of it; anything else: never. The
 * file is read anew each time, so that the test arms it from outside.
 * Calls are made with syscall(2), so that nothing here depends on which names the C library gives them. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static const char name[] = "/orders.json";

static int is_list(const char *path) {
  size_t length = strlen(path), end = sizeof name - 1;
  return length >= end && strcmp(path + length - end, name) == 0;
}

static char armed_for(void) {
  const char *file = getenv("KILLED_FILE");
  char armed = 0;
  int fd = file ? (int)syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return 0;
  if (syscall(SYS_read, fd, &armed, 1) != 1) armed = 0;
  syscall(SYS_close, fd);
  return armed;
}

static void die_if(int is_now) {
  if (is_now) {
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    /* Nothing of this thread goes on while the kill is on its way. */
    for (;;) pause();
  }
}

static int named(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
  int listed = is_list(to), done;
  /* Once for both: who sees the list in its place and arms this for what comes next is not to end this one. */
  char armed = listed ? armed_for() : 0;
  die_if(armed == 'b');
  done = (int)syscall(SYS_renameat2, from_at, from, to_at, to, flags);
  die_if(armed == 'a' && done == 0);
  return done;
}

int rename(const char *from, const char *to) { return named(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int from_at, const char *from, int to_at, const char *to) { return named(from_at, from, to_at, to, 0); }
int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
  return named(from_at, from, to_at, to, flags);
}

static void before_answer(const void *octets, size_t length) {
  static const char first[] = "HTTP/1.1 ";
  if (length >= sizeof first - 1 && memcmp(octets, first, sizeof first - 1) == 0) die_if(armed_for() == 'w');
}

ssize_t write(int fd, const void *octets, size_t length) {
  before_answer(octets, length);
  return syscall(SYS_write, fd, octets, length);
}
ssize_t send(int fd, const void *octets, size_t length, int flags) {
  before_answer(octets, length);
  return syscall(SYS_sendto, fd, octets, length, flags, NULL, 0);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
  if (count > 0) before_answer(parts[0].iov_base, parts[0].iov_len);
  return syscall(SYS_writev, fd, parts, count);
}
ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
  if (message->msg_iovlen > 0) before_answer(message->msg_iov[0].iov_base, message->msg_iov[0].iov_len);
  return syscall(SYS_sendmsg, fd, message, flags);
}
