/* A disk that fails when it is told to. Loaded into the program under test with LD_PRELOAD.
 *
 * In: FAULTS_FOLDER, below which calls may fail; FAULTS_FILE, one slot of four little-endian 32-bit numbers for each
 * kind of call, mapped shared, so that the test arms and watches it from outside:
 *   error  0 for none; an errno; 1000 for a write that does only a part; 1000 + errno for a part first, the errno next
 *   skip   calls to let by first
 *   left   calls to fail then; -1 for all
 *   hits   calls that failed so far
 * Calls are made with syscall(2), so that nothing here depends on which names the C library gives them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { SYNC, WRITE, OPEN, NAME, SIZE, KINDS };
struct slot { _Atomic int32_t error, skip, left, hits; };
enum { PART = 1000, SECTOR = 512 };

static struct slot *slots;
static char folder[PATH_MAX];

__attribute__((constructor)) static void begin(void) {
  const char *file = getenv("FAULTS_FILE"), *below = getenv("FAULTS_FOLDER");
  int fd = file && below ? (int)syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) return;
  snprintf(folder, sizeof folder, "%s", below);
  void *map = mmap(NULL, KINDS * sizeof(struct slot), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map != MAP_FAILED) slots = map;
  syscall(SYS_close, fd);
}

static int is_below(const char *path) {
  size_t length = strlen(folder);
  return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static int fd_is_below(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return is_below(path);
}

static int armed(enum kind kind) { return slots && atomic_load(&slots[kind].error) != 0; }

/* The error this call is to have; 0 for none, PART to do a part of it. */
static int fault(enum kind kind) {
  struct slot *slot = &slots[kind];
  int32_t error = atomic_load(&slot->error), skip = atomic_load(&slot->skip), left;
  while (skip > 0)
    if (atomic_compare_exchange_weak(&slot->skip, &skip, skip - 1)) return 0;
  left = atomic_load(&slot->left);
  do
    if (left == 0) return 0;
  while (left > 0 && !atomic_compare_exchange_weak(&slot->left, &left, left - 1));
  int32_t hit = atomic_fetch_add(&slot->hits, 1);
  if (error > PART) return hit % 2 ? error - PART : PART;
  return error;
}

#define FAIL_FD(kind, fd) \
  do { \
    if (armed(kind) && fd_is_below(fd)) { int error = fault(kind); if (error) { errno = error; return -1; } } \
  } while (0)
#define FAIL_PATH(kind, path) \
  do { \
    if (armed(kind) && is_below(path)) { int error = fault(kind); if (error) { errno = error; return -1; } } \
  } while (0)

int fsync(int fd) { FAIL_FD(SYNC, fd); return (int)syscall(SYS_fsync, fd); }
int fdatasync(int fd) { FAIL_FD(SYNC, fd); return (int)syscall(SYS_fdatasync, fd); }

/* How many octets of a write to do; -1 with errno for none. */
static ssize_t part(int fd, size_t count) {
  if (!armed(WRITE) || !fd_is_below(fd)) return (ssize_t)count;
  int error = fault(WRITE);
  if (error == PART) return count > SECTOR ? (ssize_t)(count / 2 / SECTOR * SECTOR ?: SECTOR) : (ssize_t)count;
  if (error == 0) return (ssize_t)count;
  errno = error;
  return -1;
}

ssize_t write(int fd, const void *data, size_t count) {
  ssize_t size = part(fd, count);
  return size < 0 ? -1 : syscall(SYS_write, fd, data, (size_t)size);
}
ssize_t pwrite64(int fd, const void *data, size_t count, off64_t at) {
  ssize_t size = part(fd, count);
  return size < 0 ? -1 : syscall(SYS_pwrite64, fd, data, (size_t)size, at);
}
ssize_t pwrite(int fd, const void *data, size_t count, off_t at) { return pwrite64(fd, data, count, at); }

/* Vectors are shortened to their first piece. */
ssize_t writev(int fd, const struct iovec *vector, int count) {
  if (count <= 0 || !armed(WRITE)) return syscall(SYS_writev, fd, vector, count);
  ssize_t size = part(fd, vector[0].iov_len);
  if (size == (ssize_t)vector[0].iov_len) return syscall(SYS_writev, fd, vector, count);
  return size < 0 ? -1 : syscall(SYS_write, fd, vector[0].iov_base, (size_t)size);
}
ssize_t pwritev64(int fd, const struct iovec *vector, int count, off64_t at) {
  if (count <= 0 || !armed(WRITE)) return syscall(SYS_pwritev, fd, vector, count, at, 0);
  ssize_t size = part(fd, vector[0].iov_len);
  if (size == (ssize_t)vector[0].iov_len) return syscall(SYS_pwritev, fd, vector, count, at, 0);
  return size < 0 ? -1 : syscall(SYS_pwrite64, fd, vector[0].iov_base, (size_t)size, at);
}
ssize_t pwritev(int fd, const struct iovec *vector, int count, off_t at) { return pwritev64(fd, vector, count, at); }

static int open_any(int at, const char *path, int flags, unsigned mode) {
  if (flags & (O_CREAT | O_WRONLY | O_RDWR)) FAIL_PATH(OPEN, path);
  return (int)syscall(SYS_openat, at, path, flags, mode);
}
#define MODE(flags) \
  unsigned mode = 0; \
  if (flags & (O_CREAT | O_TMPFILE)) { va_list list; va_start(list, flags); mode = va_arg(list, unsigned); va_end(list); }
int open(const char *path, int flags, ...) { MODE(flags) return open_any(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return open_any(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return open_any(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return open_any(at, path, flags, mode); }

int rename(const char *from, const char *to) {
  FAIL_PATH(NAME, to);
  return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}
int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
  FAIL_PATH(NAME, to);
  return (int)syscall(SYS_renameat2, from_at, from, to_at, to, flags);
}
int link(const char *from, const char *to) {
  FAIL_PATH(NAME, to);
  return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}
int unlink(const char *path) { FAIL_PATH(NAME, path); return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0); }
int mkdir(const char *path, mode_t mode) { FAIL_PATH(NAME, path); return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode); }

int ftruncate64(int fd, off64_t size) { FAIL_FD(SIZE, fd); return (int)syscall(SYS_ftruncate, fd, size); }
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }
int fallocate64(int fd, int mode, off64_t at, off64_t size) {
  FAIL_FD(SIZE, fd);
  return (int)syscall(SYS_fallocate, fd, mode, at, size);
}
int fallocate(int fd, int mode, off_t at, off_t size) { return fallocate64(fd, mode, at, size); }
int posix_fallocate64(int fd, off64_t at, off64_t size) { return fallocate64(fd, 0, at, size) ? errno : 0; }
int posix_fallocate(int fd, off_t at, off_t size) { return posix_fallocate64(fd, at, size); }
