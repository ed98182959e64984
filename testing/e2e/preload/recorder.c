/* Writes down every change the program under test makes below a folder, and every sync, in the order in which they
 * were done, so that a power cut can be played through afterwards: see src/power_cut.rs, which reads it.
 *
 * In: RECORDER_FOLDER, RECORDER_FILE (appended to), RECORDER_LIE: `files` or `names` to have the syncs of files or of
 * directories succeed unseen and undone, as a lying disk would.
 * Out: records of a fixed head (struct head, little-endian) and two paths and data behind it. A change is written down
 * after it was done, a sync before it is answered: the program cannot act on a sync that is not in the record. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { CREATE = 1, WRITE, ZEROS, SIZE, SYNC, SYNC_NAMES, RENAME, UNLINK, MKDIR, LINK };
struct head {
  uint32_t kind, path, other;   /* lengths of the two paths */
  uint32_t data;                /* length of the data */
  uint64_t inode, at;           /* at: offset, size, or for a sync the records it covers */
  uint64_t length;              /* of zeros */
};

static int log_fd = -1;
static uint64_t records;
static char folder[PATH_MAX];
static const char *lie = "";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void begin(void) {
  const char *file = getenv("RECORDER_FILE"), *below = getenv("RECORDER_FOLDER");
  if (!file || !below) return;
  if (getenv("RECORDER_LIE")) lie = getenv("RECORDER_LIE");
  snprintf(folder, sizeof folder, "%s", below);
  log_fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int is_below(const char *path) {
  size_t length = strlen(folder);
  return log_fd >= 0 && strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

/* The path of a file below the folder; 0 for others. */
static int path_of(int fd, char path[PATH_MAX]) {
  char link[64];
  if (log_fd < 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return is_below(path);
}

static uint64_t inode_of(int fd) {
  struct stat about;
  return fstat(fd, &about) == 0 ? about.st_ino : 0;
}

/* A record half written is no record: the reader stops there. One that cannot be written ends the test. */
static void put(const void *data, size_t length) {
  while (length > 0) {
    ssize_t done = syscall(SYS_write, log_fd, data, length);
    if (done <= 0) abort();
    data = (const char *)data + done, length -= (size_t)done;
  }
}

static void note(struct head head, const char *path, const char *other, const void *data) {
  head.path = (uint32_t)strlen(path), head.other = (uint32_t)strlen(other);
  pthread_mutex_lock(&lock);
  put(&head, sizeof head), put(path, head.path), put(other, head.other), put(data, head.data);
  records++;
  pthread_mutex_unlock(&lock);
}

static void note_name(enum kind kind, const char *path, const char *other) {
  note((struct head){.kind = kind}, path, other, NULL);
}

static void note_write(int fd, const void *data, ssize_t count, uint64_t at) {
  char path[PATH_MAX];
  int saved = errno;
  if (count > 0 && path_of(fd, path)) {
    const char *octets = data;
    struct head head = {.kind = WRITE, .data = (uint32_t)count, .inode = inode_of(fd), .at = at};
    if (octets[0] == 0 && memcmp(octets, octets + 1, (size_t)count - 1) == 0)
      head.kind = ZEROS, head.length = (uint64_t)count, head.data = 0;
    note(head, "", "", data);
  }
  errno = saved;
}

static int sync_any(long call, int fd) {
  char path[PATH_MAX];
  if (!path_of(fd, path)) return (int)syscall(call, fd);
  struct stat about;
  int names = fstat(fd, &about) == 0 && S_ISDIR(about.st_mode);
  if (strcmp(lie, names ? "names" : "files") == 0) return 0;
  pthread_mutex_lock(&lock);
  uint64_t covered = records;
  pthread_mutex_unlock(&lock);
  int result = (int)syscall(call, fd);
  if (result == 0)
    note((struct head){.kind = names ? SYNC_NAMES : SYNC, .inode = about.st_ino, .at = covered}, path, "", NULL);
  return result;
}
int fsync(int fd) { return sync_any(SYS_fsync, fd); }
int fdatasync(int fd) { return sync_any(SYS_fdatasync, fd); }

ssize_t pwrite64(int fd, const void *data, size_t count, off64_t at) {
  ssize_t done = syscall(SYS_pwrite64, fd, data, count, at);
  note_write(fd, data, done, (uint64_t)at);
  return done;
}
ssize_t pwrite(int fd, const void *data, size_t count, off_t at) { return pwrite64(fd, data, count, at); }
ssize_t write(int fd, const void *data, size_t count) {
  ssize_t done = syscall(SYS_write, fd, data, count);
  /* Where it went: O_APPEND or not, the position stands behind it now. */
  if (done > 0) { int saved = errno; note_write(fd, data, done, (uint64_t)(lseek(fd, 0, SEEK_CUR) - done)); errno = saved; }
  return done;
}
ssize_t pwritev64(int fd, const struct iovec *vector, int count, off64_t at) {
  ssize_t all = 0;
  for (int i = 0; i < count; i++) {
    ssize_t done = pwrite64(fd, vector[i].iov_base, vector[i].iov_len, at + all);
    if (done < 0) return all ? all : -1;
    all += done;
    if ((size_t)done < vector[i].iov_len) break;
  }
  return all;
}
ssize_t pwritev(int fd, const struct iovec *vector, int count, off_t at) { return pwritev64(fd, vector, count, at); }
ssize_t writev(int fd, const struct iovec *vector, int count) {
  char path[PATH_MAX];
  if (!path_of(fd, path)) return syscall(SYS_writev, fd, vector, count);
  ssize_t all = 0;
  for (int i = 0; i < count; i++) {
    ssize_t done = write(fd, vector[i].iov_base, vector[i].iov_len);
    if (done < 0) return all ? all : -1;
    all += done;
    if ((size_t)done < vector[i].iov_len) break;
  }
  return all;
}

static int open_any(int at, const char *path, int flags, unsigned mode) {
  struct stat about;
  int watched = (flags & (O_CREAT | O_TRUNC)) && is_below(path);
  int is_new = watched && fstatat(at, path, &about, 0) != 0;
  int fd = (int)syscall(SYS_openat, at, path, flags, mode);
  if (fd >= 0 && watched) {
    struct head head = {.kind = is_new ? CREATE : SIZE, .inode = inode_of(fd)};
    if (is_new || (flags & O_TRUNC)) note(head, path, "", NULL);
  }
  return fd;
}
#define MODE(flags) \
  unsigned mode = 0; \
  if (flags & (O_CREAT | O_TMPFILE)) { va_list list; va_start(list, flags); mode = va_arg(list, unsigned); va_end(list); }
int open(const char *path, int flags, ...) { MODE(flags) return open_any(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return open_any(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return open_any(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return open_any(at, path, flags, mode); }

int rename(const char *from, const char *to) {
  int result = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
  if (result == 0 && is_below(to)) note_name(RENAME, from, to);
  return result;
}
int link(const char *from, const char *to) {
  int result = (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
  if (result == 0 && is_below(to)) note_name(LINK, from, to);
  return result;
}
int unlink(const char *path) {
  int result = (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
  if (result == 0 && is_below(path)) note_name(UNLINK, path, "");
  return result;
}
int mkdir(const char *path, mode_t mode) {
  int result = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
  if (result == 0 && is_below(path)) note_name(MKDIR, path, "");
  return result;
}

static int sized(int fd, int result) {
  struct stat about;
  char path[PATH_MAX];
  if (result == 0 && path_of(fd, path) && fstat(fd, &about) == 0)
    note((struct head){.kind = SIZE, .inode = about.st_ino, .at = (uint64_t)about.st_size}, path, "", NULL);
  return result;
}
int ftruncate64(int fd, off64_t size) { return sized(fd, (int)syscall(SYS_ftruncate, fd, size)); }
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }
int fallocate64(int fd, int mode, off64_t at, off64_t size) {
  return sized(fd, (int)syscall(SYS_fallocate, fd, mode, at, size));
}
int fallocate(int fd, int mode, off_t at, off_t size) { return fallocate64(fd, mode, at, size); }
int posix_fallocate64(int fd, off64_t at, off64_t size) { return fallocate64(fd, 0, at, size) ? errno : 0; }
int posix_fallocate(int fd, off_t at, off_t size) { return posix_fallocate64(fd, at, size); }
